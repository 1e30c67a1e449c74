"""`sbuf`, `psum` and `hbm` of NKI 0.2: names that its compiler knows without an import.

``sbuf.view(dtype, shape)`` allocates a tensor. While a kernel of that version runs they are
builtins of Python.

Source: nki-dma-overview.rst and nki.language.device_print of v2.28.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dis import get_instructions
from functools import lru_cache
from types import CodeType
from typing import Any, Final

from trnsim.behaviours import Version
from trnsim.behaviours.language import BUILTIN_BUFFERS
from trnsim.errors import SourceLine
from trnsim.nki.dialect import code_of
from trnsim.nki.language.creation import ndarray
from trnsim.nki.tensor import MemoryRegion, NkiTensor


class BuiltinBuffer:
    """A region of memory, in which `view` allocates."""

    def __init__(self, region: MemoryRegion) -> None:
        self._region = region

    def view(self, dtype: Any, shape: Iterable[int]) -> NkiTensor:
        """A new uninitialised tensor of the region."""
        return ndarray(shape, dtype, self._region)


_BUFFERS: Final = {
    "sbuf": BuiltinBuffer(MemoryRegion.sbuf),
    "psum": BuiltinBuffer(MemoryRegion.psum),
    "hbm": BuiltinBuffer(MemoryRegion.private_hbm),
}


@lru_cache(maxsize=256)
def _global_buffers(code: CodeType) -> tuple[str, ...]:
    """The names of `_BUFFERS` that a function loads as globals; none if it calls no `.view()`.

    `nl.sbuf` does not count: there `sbuf` is an attribute.
    """
    if "view" not in code.co_names or not _BUFFERS.keys() & set(code.co_names):
        return ()
    loads = (step.argval for step in get_instructions(code) if step.opname == "LOAD_GLOBAL")
    return tuple(name for name in loads if name in _BUFFERS)


def builtin_buffers(
    function: Callable[..., Any], line: SourceLine | None, version: Version
) -> AbstractContextManager[None]:
    """Context in which `sbuf`, `psum` and `hbm` are builtins of Python, if `version` has them.

    Args:
        function: the kernel's function.
        line: the line of its definition, for errors.
        version: the version of NKI that the kernel follows.

    Raises:
        IllegalInstruction: if the function uses such a builtin and `version` lacks it.
    """
    if not version.follows(BUILTIN_BUFFERS):
        code, global_names = code_of(function), getattr(function, "__globals__", {})
        for name in () if code is None else _global_buffers(code):
            if name not in global_names:
                BUILTIN_BUFFERS.require(version, f"{name}.view()", line)
        return nullcontext()
    return _buffers_as_builtins()


@contextmanager
def _buffers_as_builtins() -> Generator[None]:
    original_values = {
        name: getattr(builtins, name) for name in _BUFFERS if hasattr(builtins, name)
    }
    for name, buffer in _BUFFERS.items():
        setattr(builtins, name, buffer)
    try:
        yield
    finally:
        for name in _BUFFERS:
            if name in original_values:
                setattr(builtins, name, original_values[name])
            else:
                delattr(builtins, name)
