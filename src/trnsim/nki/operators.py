"""The operators of `nki.language`: names for an instruction's `op`, and functions of tiles."""

from __future__ import annotations

from typing import Any

from trnsim.dtypes import as_dtype
from trnsim.errors import IllegalInstruction, NotModelled
from trnsim.isa import ACTIVATIONS, ALU, Activation, TensorScalar, TensorTensor
from trnsim.memory import Memory
from trnsim.nki.tensor import MemoryRegion, NkiTensor
from trnsim.program import current_core


class Operator:
    """An operator such as `nl.add`.

    Passed as `op` it names an ALU operator or activation function; called on tiles it issues the
    instruction that computes it and returns a new SBUF tile.
    """

    def __init__(self, name: str) -> None:
        self.name = self.__name__ = name

    def __repr__(self) -> str:
        return f"nl.{self.name}"

    def __call__(self, x: Any, y: Any = None, dtype: Any = None) -> NkiTensor:
        """The operator applied element by element, as one instruction."""
        is_reversed = isinstance(x, int | float) and isinstance(y, NkiTensor)
        if is_reversed:
            x, y = y, x
        if not isinstance(x, NkiTensor):
            raise IllegalInstruction(
                f"nl.{self.name} of {type(x).__name__}; legal: tiles and numbers, at least one "
                "tile",
                fix="make a tile of it with nl.full, or compute it in Python",
                source="nki.language",
            )
        core = current_core()
        kind = x.dtype if dtype is None else as_dtype(dtype)
        storage, pattern = core.memory.allocate(x.shape, kind, Memory.SBUF)
        dst = NkiTensor(storage, kind, pattern, MemoryRegion.sbuf)
        if isinstance(y, NkiTensor):
            core.issue(TensorTensor(dst, x, y, self.name))
        elif y is not None or (self.name in ALU and self.name not in ACTIVATIONS):
            core.issue(TensorScalar(dst, x, self.name, y, is_reversed))
        elif self.name in ACTIVATIONS:
            core.issue(Activation(dst, self.name, x))
        else:
            raise NotModelled(
                f"nl.{self.name} is not emulated yet",
                fix="use an emulated operator",
                source="nki.language",
            )
        return dst


OPERATORS = {name: Operator(name) for name in {**ALU, **ACTIVATIONS}}
