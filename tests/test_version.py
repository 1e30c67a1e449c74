"""The version of the package is that of the distribution."""

from importlib.metadata import version

import trnsim
from trnsim.version import VERSION


def test_the_version_is_that_of_the_distribution():
    assert trnsim.__version__ == VERSION == version("trnsim")
