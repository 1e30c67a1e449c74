"""Public suites, unmodified, from clones that a variable points to; nothing of theirs is here."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

# The modules beside this file are scripts' and plugins', found as `make upstream` finds them.
sys.path.append(str(Path(__file__).parent))

VARIABLE = "TRNSIM_UPSTREAM"
MISSING = f"${VARIABLE} does not name a folder with clones of the public suites"


@pytest.fixture(scope="session")
def upstream():
    """The folder with the clones."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        pytest.skip(MISSING)
    return Path(folder)


@pytest.fixture
def load_upstream(upstream):
    """A function that imports a file of a clone as a module."""

    def load(path):
        file = upstream / path
        assert file.is_file(), f"{file} is missing; clone its repository into {upstream}"
        spec = importlib.util.spec_from_file_location(file.stem.replace("-", "_"), file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load
