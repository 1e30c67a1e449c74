"""Checks of the numbers, names and places in a stored kernel, beyond checks of their types.

The chip's rules for an instruction are checked where it is issued.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator
from math import prod
from typing import Any, Final, NoReturn

from trnsim.behaviours.version import VERSIONS
from trnsim.dtypes import BY_NAME
from trnsim.torch.traces.encoding import INT_MAX, MalformedProgram, checked_index
from trnsim.torch.traces.kernels.stored_kernel import (
    KernelTensor,
    StoredCore,
    StoredInstruction,
    StoredKernel,
    StoredRegister,
    StoredTile,
    TensorPlace,
)
from trnsim.torch.traces.kernels.typed_json import to_json

_RANK_MAX: Final = 16
"""Maximum number of dimensions of a tile; the hardware's patterns have five."""
_CORES_MAX: Final = 2
"""Maximum number of NeuronCores of a logical core."""
_BROADCAST_MAX: Final = 1 << 25
"""Maximum number of elements of a tile that repeats elements of its tensor, if no tensor has more:
the bytes of SBUF, 256 KiB of 128 partitions (trainium3_arch.rst)."""
_TITLE: Final = re.compile(r"[A-Za-z_]\w{0,200}", re.ASCII)
"""A kernel's name, of which a name of PyTorch's registry is made."""
_LINE_MAX: Final = 1 << 24
"""Maximum number of lines of a file."""


def checked_kernel(value: Any, path: str) -> StoredKernel:
    """The kernel of JSON, with every member checked.

    Raises:
        MalformedProgram: for content of no kernel; names the field.
    """
    kernel = StoredKernel.from_json(value, path)
    _Checks(kernel).check(path)
    return kernel


class _Checks:
    """The checks of a kernel."""

    def __init__(self, kernel: StoredKernel) -> None:
        self._kernel = kernel
        self._elements_max = _BROADCAST_MAX

    def check(self, path: str) -> None:
        """Check the kernel.

        Raises:
            MalformedProgram: for the first member that is not legal; names the field.
        """
        kernel = self._kernel
        if kernel.version not in VERSIONS:
            _refuse(f"{path}.version", kernel.version, ", ".join(VERSIONS))
        if not _TITLE.fullmatch(kernel.title):
            _refuse(f"{path}.title", kernel.title, "a name of Python")
        if not 1 <= len(kernel.cores) <= _CORES_MAX:
            _refuse(f"{path}.cores", f"{len(kernel.cores)} cores", f"1 to {_CORES_MAX}")
        for number, line in enumerate(kernel.lines):
            if not 1 <= line.line <= _LINE_MAX:
                _refuse(f"{path}.lines[{number}].line", line.line, f"1 to {_LINE_MAX}")
        self._check_line(kernel.line, path)
        for number, tensor in enumerate(kernel.arguments):
            self._check_tensor(tensor, f"{path}.arguments[{number}]", is_argument=True)
        tensors = (*kernel.arguments, *(tensor for core in kernel.cores for tensor in core.tensors))
        self._elements_max = max(_BROADCAST_MAX, *(prod(tensor.shape) for tensor in tensors))
        for number, core in enumerate(kernel.cores):
            self._check_core(core, f"{path}.cores[{number}]")
        for number, result in enumerate(kernel.results):
            field = f"{path}.results[{number}].tile"
            self._check_tile(result.tile, kernel.cores[0], field, has_index=False)

    def _check_core(self, core: StoredCore, path: str) -> None:
        """Check what a core issues."""
        for number, tensor in enumerate(core.tensors):
            self._check_tensor(tensor, f"{path}.tensors[{number}]", is_argument=False)
        for number, instruction in enumerate(core.instructions):
            field = f"{path}.instructions[{number}]"
            self._check_line(instruction.line, field)
            self._check_operands(instruction, number, core, f"{field}.operands")
        end, count = 0, len(core.instructions)
        for number, block in enumerate(core.blocks):
            if not end <= block[0] <= block[1] <= count:
                _refuse(f"{path}.blocks[{number}]", block, "parts of the instructions in order")
            end = block[1]
        for number, edge in enumerate(core.edges):
            for name in ("consumer", "producer"):
                checked_index(getattr(edge, name), count, f"{path}.edges[{number}].{name}")
            self._check_line(edge.line, f"{path}.edges[{number}]")

    def _check_line(self, line: int | None, path: str) -> None:
        if line is not None:
            checked_index(line, len(self._kernel.lines), f"{path}.line")

    def _check_tensor(self, tensor: KernelTensor, path: str, *, is_argument: bool) -> None:
        self._check_line(tensor.line, path)
        if (tensor.place is TensorPlace.argument) is not is_argument:
            _refuse(f"{path}.place", tensor.place.name, "argument of arguments alone")
        itemsize = _itemsize(tensor.dtype, path)
        nbytes = prod(tensor.shape) * itemsize
        if not 1 <= len(tensor.shape) <= _RANK_MAX or min(tensor.shape) < 1 or nbytes > INT_MAX:
            _refuse(f"{path}.shape", tensor.shape, "lengths of at least 1")
        has_content = tensor.place is TensorPlace.constant
        if _content_bytes(tensor.content) != nbytes * has_content:
            _refuse(f"{path}.content", tensor.content, f"{nbytes * has_content} bytes in base64")

    def _check_operands(
        self, instruction: StoredInstruction, number: int, core: StoredCore, path: str
    ) -> None:
        """Check the tiles and registers of instruction `number`."""
        for field, form in forms_in(instruction.operands, path):
            if isinstance(form, StoredTile):
                self._check_tile(form, core, field)
                continue
            for origin in form.origins:
                checked_index(origin, number, f"{field}.origins")
            if form.dtype is not None:
                _itemsize(form.dtype, field)

    def _check_tile(
        self, tile: StoredTile, core: StoredCore, path: str, *, has_index: bool = True
    ) -> None:
        checked_index(
            tile.tensor, len(self._kernel.arguments) + len(core.tensors), f"{path}.tensor"
        )
        _itemsize(tile.dtype, path)
        if not 1 <= len(tile.shape) <= _RANK_MAX or len(tile.shape) != len(tile.strides_bytes):
            _refuse(f"{path}.shape", tile.shape, "as many lengths as strides")
        for name in ("shape", "strides_bytes"):
            for number in getattr(tile, name):
                checked_index(number, INT_MAX, f"{path}.{name}")
        if prod(tile.shape) > self._elements_max:
            _refuse(f"{path}.shape", tile.shape, f"at most {self._elements_max:,} elements")
        checked_index(tile.offset_bytes, INT_MAX, f"{path}.offset_bytes")
        if tile.index is None:
            return
        source = tile.index.source
        if not has_index or (isinstance(source, StoredTile) and source.index is not None):
            _refuse(f"{path}.index", "an index", "null")
        for name, value in to_json(tile.index).items():
            if isinstance(value, int):
                checked_index(value, INT_MAX, f"{path}.index.{name}")


def forms_in(value: Any, path: str) -> Iterator[tuple[str, StoredTile | StoredRegister]]:
    """(field, tile or register) of each tile and register in `value`, indices of tiles included."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from forms_in(item, f"{path}.{name}")
    elif isinstance(value, tuple):
        for number, item in enumerate(value):
            yield from forms_in(item, f"{path}[{number}]")
    elif isinstance(value, StoredTile | StoredRegister):
        yield path, value
        index = value.index if isinstance(value, StoredTile) else None
        if index is not None:
            yield from forms_in(index.source, f"{path}.index.source")


def _content_bytes(content: str) -> int:
    """Bytes of a text in base64; -1 for another text."""
    try:
        return len(b64decode(content, validate=True))
    except ValueError:
        return -1


def _itemsize(dtype: str, path: str) -> int:
    """Bytes of an element of a dtype."""
    if dtype not in BY_NAME:
        _refuse(f"{path}.dtype", dtype, ", ".join(BY_NAME))
    return BY_NAME[dtype].itemsize


def _refuse(path: str, value: object, legal: str) -> NoReturn:
    raise MalformedProgram(f"{path}: {value!r:.60}; legal: {legal}")
