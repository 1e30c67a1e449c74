"""What `torch.compile` made of one of PyTorch's graphs."""

from __future__ import annotations

from dataclasses import dataclass, field

from trnsim.graph import Graph
from trnsim.lower import MemoryPlan
from trnsim.torch.aten.spec import Spec


@dataclass(frozen=True, eq=False)
class CompiledGraph:
    """A graph that was compiled.

    Attributes:
        name: "forward-0", "backward-0" ...
        inputs: the shapes and dtypes that it was compiled for.
        graph: what it does.
        plan: what lies in HBM when.
        operators: the operators of PyTorch's graph, in order.
        missing: operators without a lowering, which run on the host, with the reason for each.
        reason: why it was compiled.
    """

    name: str
    inputs: tuple[Spec, ...]
    graph: Graph = field(repr=False)
    plan: MemoryPlan = field(repr=False)
    operators: tuple[str, ...]
    missing: tuple[str, ...]
    reason: str

    @property
    def operation(self) -> str:
        """Its name."""
        return self.name
