"""Public kernels, unmodified, from clones that a variable points to; nothing of theirs is here."""

import importlib.util
import os
from pathlib import Path

import pytest

VARIABLE = "TRNSIM_UPSTREAM"


@pytest.fixture
def load_upstream():
    """A function that imports a file of a clone below $TRNSIM_UPSTREAM as a module."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        pytest.skip(f"${VARIABLE} does not name a folder with clones of the public suites")

    def load(path: str):
        file = Path(folder, path)
        assert file.is_file(), f"{file} is missing; clone its repository into {folder}"
        spec = importlib.util.spec_from_file_location(file.stem, file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load
