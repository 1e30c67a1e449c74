import pytest


@pytest.fixture
def written(tmp_path):
    """Writes a file, and gives its path."""

    def write(content, name="file.yaml"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write
