"""Folders of this room's tests: pytest's own take a millisecond each, and most tests have one."""

from itertools import count

import pytest

_NUMBERS = count()


@pytest.fixture(scope="session")
def _folders(tmp_path_factory):
    return tmp_path_factory.mktemp("jobs")


@pytest.fixture
def tmp_path(_folders):
    """An empty folder of the test."""
    path = _folders / str(next(_NUMBERS))
    path.mkdir()
    return path
