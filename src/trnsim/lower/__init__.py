"""Graphs as instructions: which nodes run together, their values, their time, their memory.

Each operation has instructions of `trnsim.nki`: executed one after the other they give its values,
and their timeline gives its time. A single operation is a graph of one node. Operations without
instructions become others that have some (`legalize`); control flow runs graphs (`control`). The
programs are not those that AWS's compiler would make.
"""

from trnsim.lower.bound import Bound, bound
from trnsim.lower.exchanges import GraphExchange, between_exchanges, exchange, without_exchanges
from trnsim.lower.fusion import FusionGroup, fusion_groups
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
    "fusion_groups",
    "launch",
    "memory_plan",
    "without_exchanges",
]
