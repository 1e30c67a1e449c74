"""The graph between frameworks and instructions: StableHLO's operations, lowered to tile kernels.

It promises for each operation it knows a kernel in our own `nki`, and from that kernel both the
values, instruction by instruction, and the time. It does not promise fast kernels: they are plain,
each readable on its own, and not what AWS's compiler would make.
"""

from trnsim.graph.fusion import Group, groups
from trnsim.graph.ir import Graph, Node, TensorType, Value
from trnsim.graph.lowering import Cost, costs, evaluate, launch
from trnsim.graph.memory import MemoryPlan, memory_plan

__all__ = [
    "Cost",
    "Graph",
    "Group",
    "MemoryPlan",
    "Node",
    "TensorType",
    "Value",
    "costs",
    "evaluate",
    "groups",
    "launch",
    "memory_plan",
]
