"""Graphs as tile kernels: which operations run together, their values, their time, their memory.

It promises for each operation it knows a kernel in our own `nki`, and from that kernel both the
values, instruction by instruction, and the time. Operations without a kernel of their own become
others that have one (`legalize`); control flow runs graphs (`control`). It does not promise fast
kernels: they are plain, each readable on its own, and not what AWS's compiler would make.
"""

from trnsim.lower.bound import Bound, bound
from trnsim.lower.exchanges import Exchange, between_exchanges, exchange, without_exchanges
from trnsim.lower.fusion import Group, groups
from trnsim.lower.lowering import Cost, costs, evaluate, launch
from trnsim.lower.memory_plan import MemoryPlan, memory_plan

__all__ = [
    "Bound",
    "Cost",
    "Exchange",
    "Group",
    "MemoryPlan",
    "between_exchanges",
    "bound",
    "costs",
    "evaluate",
    "exchange",
    "groups",
    "launch",
    "memory_plan",
    "without_exchanges",
]
