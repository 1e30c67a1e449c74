"""Branches on the values of tensors in a function that is traced.

A trace has no values, so a read of one ends it. Then the function is traced once more with the
example's values: each read gives the example's value, and is recorded with its line.
"""

from __future__ import annotations

import re
from typing import Any, Final

import torch
from torch import fx
from torch._subclasses import fake_tensor
from torch.utils import _python_dispatch

from trnsim.device.program_line import program_line
from trnsim.errors import SourceLine

_Mode: Any = _python_dispatch.TorchDispatchMode
_aten: Final[Any] = torch.ops.aten
_READS: Final = (_aten._local_scalar_dense.default, _aten.is_nonzero.default, _aten.equal.default)  # noqa: SLF001  PyTorch's name
_MESSAGES: Final = re.compile(r"value out of a tracing tensor|[Dd]ata.dependent")
_SOURCE: Final = "aws-neuron-sdk, PyTorch NeuronX Tracing API, Fixed Control Flow"
_MOST_SHOWN: Final = 8


def names_data_dependence(error: BaseException) -> bool:
    """True if an error of a trace without values says that a value is missing."""
    kinds: tuple[Any, ...] = (
        fake_tensor.DataDependentOutputException,
        fake_tensor.DynamicOutputShapeException,
    )
    return isinstance(error, kinds) or bool(_MESSAGES.search(str(error)))


def reads_values(module: fx.GraphModule) -> bool:
    """True if a graph computes with the value of a tensor, as `x * y.item()` does."""
    return any(node.target in _READS for node in module.graph.nodes)


class FrozenBranches(_Mode):  # type: ignore[misc]
    """A mode that answers reads of values with the example's values."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title
        self._reads: dict[tuple[SourceLine | None, str], int] = {}

    @property
    def texts(self) -> list[str]:
        """A sentence on each line that reads a value."""
        return [
            f"{self._title} reads the value of a tensor{f' at {line}' if line else ''}: the trace "
            f"takes the example's value, {value}, for every input"
            f"{f' ({times} times)' if times > 1 else ''}\n  source: {_SOURCE}"
            for (line, value), times in list(self._reads.items())[:_MOST_SHOWN]
        ]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The value of the example for a read; other operators as they are."""
        del types
        if func in _READS:
            with _python_dispatch._disable_current_modes():  # noqa: SLF001  PyTorch's name
                value = func(*args, **(kwargs or {}))
            key = (program_line(), str(value))
            self._reads[key] = self._reads.get(key, 0) + 1
            return value
        return func(*args, **(kwargs or {}))
