"""Stored rows of the catalogue, which a test may edit; helpers of this folder can be imported."""

import sys
from pathlib import Path

import pytest

from trnsim.arch.catalogue import read_rows

if str(Path(__file__).parent) not in sys.path:
    sys.path.append(str(Path(__file__).parent))


@pytest.fixture
def rows():
    return read_rows()
