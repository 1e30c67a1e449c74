"""The framework's calls that a graph came from, with the properties that refusals depend on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trnsim.arch import Target
from trnsim.compiler.flags import Flags
from trnsim.errors import SourceLine


@dataclass(frozen=True, slots=True)
class CompileTarget:
    """The chip and the flags for which a graph is compiled."""

    chip: Target
    flags: Flags


@dataclass(frozen=True, slots=True)
class CallTensor:
    """A tensor of the framework.

    Attributes:
        shape: lengths of its dimensions; None for a dynamic length.
        dtype: the framework's name of its element type ("int64").
    """

    shape: tuple[int | None, ...]
    dtype: str

    def __str__(self) -> str:
        lengths = ", ".join("?" if length is None else str(length) for length in self.shape)
        return f"{self.dtype}[{lengths}]"


@dataclass(frozen=True, eq=False)
class FrameworkCall:
    """A call of an operator of the framework, with the argument names of PyTorch's schema.

    Attributes:
        operator: the operator's full name ("aten::topk").
        name: the name without namespace, overload and the underscore of in-place forms ("topk").
        arguments: arguments by name, tensors as `CallTensor`.
        line: line of the user's program; None if it is not known.
        reason: why the operator has no lowering; "" if it has a lowering.
    """

    operator: str
    name: str
    arguments: Mapping[str, Any]
    results: tuple[CallTensor, ...] = ()
    line: SourceLine | None = None
    reason: str = ""

    @cached_property
    def tensors(self) -> tuple[CallTensor, ...]:
        """The tensors among its arguments, in order."""
        return tuple(_tensors(list(self.arguments.values())))

    @property
    def numbers(self) -> Iterator[float]:
        """The numbers among its arguments."""
        for value in self.arguments.values():
            if isinstance(value, int | float) and not isinstance(value, bool):
                yield value

    def option(self, name: str, otherwise: Any) -> Any:
        """An argument by name; `otherwise` if it is missing, None or an empty list."""
        value = self.arguments.get(name)
        return otherwise if value is None or value == [] else value

    def on(self) -> str:
        """The operator and its tensors, as text."""
        tensors = ", ".join(map(str, self.tensors))
        return f"{self.operator} on {tensors}" if tensors else self.operator


def _tensors(values: list[Any]) -> Iterator[CallTensor]:
    """The tensors among values and nested lists of values, in order."""
    for value in values:
        if isinstance(value, CallTensor):
            yield value
        elif isinstance(value, list):
            yield from _tensors(value)
