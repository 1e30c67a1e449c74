"""Modules beside these tests are imported by their names; short runs where a test wants them."""

import sys
from pathlib import Path

import pytest

from trnsim.system.serve import capacity

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(scope="module")
def short_runs():
    """Capacities of shorter runs than users get, for tests of what follows from them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(capacity, "LONG_RUN", 256)
        patch.setattr(capacity, "LONGEST_RUN", 256)
        yield
