"""The version of this package, known without an installed distribution."""

VERSION = "0.1.0"
