"""Calls of the user's own kernels from a graph."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NoReturn

from trnsim.graph.operation import Example, Kind, Operation
from trnsim.graph.types import Array, TensorType


class CustomCall(Operation, kind=Kind.CALL):
    """A call of a kernel of the user's own.

    Attributes:
        call: the kernel with its arguments, which computes values and time.
    """

    operands = ("*inputs",)
    reads_stored = True
    call: Hashable = None
    results: tuple[TensorType, ...] = ()

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """The types of the kernel's results."""
        del tensors
        return self.results

    def reference(self, *inputs: Array) -> NoReturn:
        """Refused: the kernel is its only definition.

        Raises:
            BadInput: always.
        """
        del inputs
        self.refuse("has no reference; its kernel defines it", "run the kernel")

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """None: the kernel is the user's."""
        return ()
