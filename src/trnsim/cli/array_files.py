"""Arrays on the command line: arguments of a kernel read from files, results written to files."""

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
    """The array in a file, with a dtype that kernels take.

    Raises:
        BadInput: the file cannot be read, or holds no array.
    """
    array = files.read_array(path)
    # numpy does not know bfloat16 and writes it as two raw bytes.
    return array.view(BFLOAT16.dtype) if array.dtype == np.dtype("V2") else array


def save(path: Path, outputs: Any) -> list[Path]:
    """Write every array of `outputs` to a file; the paths.

    One goes to `path`; of a tuple or list the second goes to path-1, the third to path-2; each
    value of a dict goes to path-KEY.

    Raises:
        BadInput: there is no array, or a file cannot be written.
    """
    named = [(path.with_stem(path.stem + suffix), a) for suffix, a in _suffixed_values(outputs)]
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
    """The values in a kernel's result, without the tuples, lists and dicts around them."""
    return [values for _, values in _suffixed_values(outputs)]


def _suffixed_values(outputs: Any) -> Iterator[tuple[str, Any]]:
    """The values in a kernel's result, each with the suffix of its file's name."""
    if isinstance(outputs, dict):
        for key, item in outputs.items():
            name = re.sub(r"[^\w.]+", "_", str(key))
            yield from ((f"-{name}{suffix}", values) for suffix, values in _suffixed_values(item))
    elif isinstance(outputs, tuple | list):
        for number, item in enumerate(outputs):
            own = f"-{number}" if number else ""
            yield from ((f"{own}{suffix}", values) for suffix, values in _suffixed_values(item))
    elif outputs is not None:
        yield "", outputs


def _saved(values: Any, path: Path) -> Array:
    """`values` as an array that numpy can load from a file: 8-bit floats become float32.

    Raises:
        BadInput: they are no numbers.
    """
    try:
        array = np.asarray(_from_torch(values) if hasattr(values, "detach") else values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise _refusal(path, values) from error
    if array.dtype.hasobject:
        raise _refusal(path, values)
    # numpy writes ml_dtypes' floats as raw bytes: two are bfloat16's, one may be any 8-bit float's.
    is_nameless = array.dtype.itemsize == 1 and array.dtype.kind in "fV"
    return array.astype(np.float32) if is_nameless else array


def _from_torch(tensor: Any) -> Array:
    """A PyTorch tensor on any device, as an array."""
    torch, host = import_module("torch"), tensor.detach().cpu()
    if host.dtype == torch.bfloat16:  # numpy holds the bits, ml_dtypes gives them their dtype
        bits: Array = host.view(torch.int16).numpy()
        return bits.view(BFLOAT16.dtype)
    is_nameless = host.is_floating_point() and host.element_size() == 1  # numpy has none of 8 bits
    array: Array = (host.float() if is_nameless else host).numpy()
    return array


def _refusal(path: Path, values: Any) -> BadInput:
    return BadInput(
        f"--output {path}: {type(values).__name__} cannot be saved as an array",
        fix="return tensors or numbers from the kernel",
    )
