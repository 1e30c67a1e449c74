"""Files of a test's own; modules beside these tests are imported by their names."""

import sys
from pathlib import Path

import pytest

DECIDE = Path(__file__).parents[1] / "decide"
ROOMS = (DECIDE, DECIDE / "pilot", DECIDE / "guard", DECIDE / "inventory")
sys.path += map(str, (Path(__file__).parent, DECIDE.parent / "site", *ROOMS))


@pytest.fixture
def written(tmp_path):
    """Writes a file, and gives its path."""

    def write(content, name="file.yaml"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write
