"""Arrays on the command line: files that become a kernel's arguments, results that become files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from trnsim import files
from trnsim.dtypes import BFLOAT16, Array
from trnsim.errors import BadInput


def load(path: Path) -> Array:
    """The array in a file, as a kernel takes it.

    Raises:
        BadInput: the file cannot be read, or holds no array.
    """
    array = files.read_array(path)
    # numpy writes bfloat16, which it does not know, as two raw bytes.
    return array.view(BFLOAT16.dtype) if array.dtype == np.dtype("V2") else array


def save(path: Path, outputs: Any) -> list[Path]:
    """Every array of `outputs` in a file, and where they lie.

    One goes to `path`; of a tuple or list the second goes to path-1, the third to path-2; each
    value of a dict goes to path-KEY.

    Raises:
        BadInput: there is no array, or one cannot be written.
    """
    named = [(path.with_stem(path.stem + suffix), a) for suffix, a in _named(outputs)]
    if not named:
        raise BadInput(
            f"--output {path}: the kernel returned nothing", fix="return a tensor from the kernel"
        )
    if len({file for file, _ in named}) < len(named):
        raise BadInput(
            f"--output {path}: two results would have the same file",
            fix="return a dict whose keys differ in their letters and digits",
        )
    for file, values in named:
        with files.Draft(file) as unfinished, unfinished.open("wb") as stream:
            np.save(stream, _saved(values, path), allow_pickle=False)
    return [file for file, _ in named]


def leaves(outputs: Any) -> list[Any]:
    """What a kernel returned, out of its tuples, lists and dicts."""
    return [values for _, values in _named(outputs)]


def _named(outputs: Any) -> Iterator[tuple[str, Any]]:
    """What a kernel returned, each with what is added to the name of its file."""
    if isinstance(outputs, dict):
        for key, item in outputs.items():
            name = re.sub(r"[^\w.]+", "_", str(key))
            yield from ((f"-{name}{suffix}", values) for suffix, values in _named(item))
    elif isinstance(outputs, tuple | list):
        for number, item in enumerate(outputs):
            own = f"-{number}" if number else ""
            yield from ((f"{own}{suffix}", values) for suffix, values in _named(item))
    elif outputs is not None:
        yield "", outputs


def _saved(values: Any, path: Path) -> Array:
    """`values` as numpy saves them.

    Raises:
        BadInput: they are no numbers.
    """
    try:
        array = np.asarray(_from_torch(values) if hasattr(values, "detach") else values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise _refusal(path, values) from error
    if array.dtype.hasobject:
        raise _refusal(path, values)
    return array


def _from_torch(tensor: Any) -> Array:
    """A tensor of PyTorch's, from whatever device, as an array."""
    torch, host = import_module("torch"), tensor.detach().cpu()
    if host.dtype == torch.bfloat16:  # numpy has the bits, ml_dtypes their meaning
        bits: Array = host.view(torch.int16).numpy()
        return bits.view(BFLOAT16.dtype)
    array: Array = host.numpy()
    return array


def _refusal(path: Path, values: Any) -> BadInput:
    return BadInput(
        f"--output {path}: {type(values).__name__} cannot be saved as an array",
        fix="return tensors or numbers from the kernel",
    )
