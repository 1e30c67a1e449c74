"""Graphs as instructions: which operations run together, their values, their time, their memory.

It promises for each operation that it knows instructions of our own `nki`, and from these both the
values, one after the other, and the time. A single operation is a graph of one node. Operations
without instructions of their own become others that have some (`legalize`); control flow runs
graphs (`control`). It does not promise what AWS's compiler would make.
"""

from trnsim.lower.bound import Bound, bound
from trnsim.lower.exchanges import GraphExchange, between_exchanges, exchange, without_exchanges
from trnsim.lower.fusion import FusionGroup, groups
from trnsim.lower.lowering import Cost, costs, evaluate, launch
from trnsim.lower.memory_plan import MemoryPlan, memory_plan

__all__ = [
    "Bound",
    "Cost",
    "FusionGroup",
    "GraphExchange",
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
