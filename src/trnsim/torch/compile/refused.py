"""Refusals of neuronx-cc, as errors or warnings by TRNSIM_POLICY.

Under `chip` the first refusal of a graph is an error. Under `host`, the default, each is a warning
with its code, and trnsim compiles the graph if it can; a refusal without a substitute, such as a
lack of HBM, is an error under both policies.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Final, Protocol

from torch import fx

from trnsim.compiler.flags import Flags
from trnsim.compiler.ncc.calls import FrameworkCall
from trnsim.compiler.ncc.refusals import Refusal, refusals, require_accepted
from trnsim.device.fallback_policy import state
from trnsim.graph import Graph
from trnsim.torch.compile.origins import dynamic_calls, dynamic_inputs

_DYNAMIC: Final = "NCC_EMOD025"


class CompilerWarning(UserWarning):
    """Warning of a graph that neuronx-cc would refuse."""


class ImportedCalls(Protocol):
    """An imported graph with the framework's calls."""

    @property
    def graph(self) -> Graph:
        """The graph."""
        ...

    @property
    def calls(self) -> tuple[FrameworkCall, ...]:
        """The calls of the framework's operators."""
        ...

    @property
    def origins(self) -> dict[int, FrameworkCall]:
        """The call that a value came from, by the value's number."""
        ...


def refusals_of_graph(imported: ImportedCalls, target: str, flags: Flags) -> tuple[Refusal, ...]:
    """The refusals of neuronx-cc for an imported graph."""
    return refusals(imported.graph, target, flags, calls=imported.calls, origins=imported.origins)


def dynamic_refusals(module: fx.GraphModule) -> tuple[Refusal, ...]:
    """The refusals of a graph's tensors with symbolic sizes: first inputs, then results."""
    inputs = [Refusal(_DYNAMIC, f"an input {tensor}") for tensor in dynamic_inputs(module)]
    calls = [
        Refusal(_DYNAMIC, f"{call.on()} gives {', '.join(map(str, call.results))}", call.line)
        for call in dynamic_calls(module)
    ]
    return (*inputs, *calls)


def raise_or_warn(refusals: Sequence[Refusal]) -> None:
    """Raise the first refusal that the policy makes an error; without one, warn of each.

    Raises:
        CompilerRefusal: for a graph that neuronx-cc refuses.
        OutOfMemory: for a graph that does not fit in HBM.
    """
    require_accepted(refusals, is_strict=state.policy == "chip")
    for refusal in refusals:
        warnings.warn(
            f"{refusal}\n  TRNSIM_POLICY=chip makes this an error", CompilerWarning, stacklevel=3
        )
