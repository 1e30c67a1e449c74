"""The examples that the demo runs: the files that users find in `examples/`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import trnsim
from trnsim.errors import BadInput

# Beside the sources in a checkout, inside the package in a wheel.
_FOLDERS = (
    Path(trnsim.__file__).parents[2] / "examples",
    Path(trnsim.__file__).parent / "examples",
)


def path(name: str) -> Path:
    """The path of the example file `name`.

    Raises:
        BadInput: no folder of examples has it.
    """
    for folder in _FOLDERS:
        if (folder / name).is_file():
            return folder / name
    raise BadInput(
        f"the example {name} is in none of {', '.join(map(str, _FOLDERS))}",
        fix="install trnsim again",
    )


def module(name: str) -> Any:
    """The module of the example `name` (without .py), run anew.

    Raises:
        BadInput: no folder of examples has it.
    """
    file = path(f"{name}.py")
    specification = importlib.util.spec_from_file_location(f"trnsim_example_{name}", file)
    if specification is None or specification.loader is None:
        raise BadInput(f"{file} cannot be imported", fix="install trnsim again")
    example = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(example)
    return example


def short_path(file: str | Path) -> str:
    """The path of a file: relative for a file below the current folder, else unchanged."""
    folder, path_ = Path.cwd(), Path(file)
    return str(path_.relative_to(folder)) if path_.is_relative_to(folder) else str(path_)
