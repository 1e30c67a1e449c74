"""Tests of algorithms, which follow chunks by hand (`plans`)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # modules by their names
