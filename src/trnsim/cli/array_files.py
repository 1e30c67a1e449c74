"""Arrays in .npy files: arguments of a kernel are read, results of a kernel are written."""

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
    # In a file, numpy has no name for bfloat16: its items are two raw bytes each (V2).
    return array.view(BFLOAT16.dtype) if array.dtype == np.dtype("V2") else array


def save(path: Path, outputs: Any) -> list[Path]:
    """Write every array of a kernel's result to a file; returns the paths.

    A single array goes to `path`, the second of a tuple or list to path-1, the third to path-2, and
    the value of a dict's KEY to path-KEY.

    Raises:
        BadInput: there is no array, or a file cannot be written.
    """
    values_by_file = [
        (path.with_stem(path.stem + suffix), values) for suffix, values in _suffixed_values(outputs)
    ]
    if not values_by_file:
        raise BadInput(
            f"--output {path}: the kernel returned nothing", fix="return a tensor from the kernel"
        )
    if len({file for file, _ in values_by_file}) < len(values_by_file):
        raise BadInput(
            f"--output {path}: two results would have the same file",
            fix="return a dict whose keys differ in their letters and digits",
        )
    for file, values in values_by_file:
        with files.Draft(file) as draft, draft.open("wb") as stream:
            np.save(stream, _loadable_array(values, path), allow_pickle=False)
    return [file for file, _ in values_by_file]


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
            item_suffix = f"-{number}" if number else ""
            yield from (
                (f"{item_suffix}{suffix}", values) for suffix, values in _suffixed_values(item)
            )
    elif outputs is not None:
        yield "", outputs


def _loadable_array(values: Any, path: Path) -> Array:
    """`values` as an array whose dtype a .npy file keeps: 8-bit floats become float32.

    Raises:
        BadInput: `values` are no numbers.
    """
    try:
        array = np.asarray(_from_torch(values) if hasattr(values, "detach") else values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise _refusal(path, values) from error
    if array.dtype.hasobject:
        raise _refusal(path, values)
    # A .npy file has raw bytes for floats of ml_dtypes: V2 is bfloat16, V1 any of several floats.
    is_8_bit_float = array.dtype.itemsize == 1 and array.dtype.kind in "fV"
    return array.astype(np.float32) if is_8_bit_float else array


def _from_torch(tensor: Any) -> Array:
    """A PyTorch tensor on any device, as an array."""
    torch, host = import_module("torch"), tensor.detach().cpu()
    if host.dtype == torch.bfloat16:  # which torch converts to no array of numpy
        bits: Array = host.view(torch.int16).numpy()
        return bits.view(BFLOAT16.dtype)
    is_8_bit_float = host.is_floating_point() and host.element_size() == 1  # nor these
    array: Array = (host.float() if is_8_bit_float else host).numpy()
    return array


def _refusal(path: Path, values: Any) -> BadInput:
    return BadInput(
        f"--output {path}: {type(values).__name__} cannot be saved as an array",
        fix="return tensors or numbers from the kernel",
    )
