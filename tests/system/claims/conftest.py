"""Stored rows of the catalogue, which a test may edit; helpers of this folder can be imported."""

import sys
from pathlib import Path

import pytest

from trnsim.arch.catalogue import read_rows

for folder in (Path(__file__).parent, Path(__file__).parents[3] / "bench" / "system"):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


@pytest.fixture
def rows():
    return read_rows()
