"""`nki.collectives`: a function for each collective, with AWS's names and signatures.

Each builds the instruction of `trnsim.isa.collectives` and issues it to the current core, which
must belong to a world of ranks: `trnsim.run(kernel, ..., ranks=N)`.

Source: nki.collectives.
"""

from types import FunctionType
from typing import Any

from trnsim.nki.absent import VersionedNames
from trnsim.nki.arguments import documented
from trnsim.nki.collectives.permutes import (
    collective_permute,
    collective_permute_implicit,
    collective_permute_implicit_current_processing_rank_id,
    collective_permute_implicit_reduce,
    rank_id,
)
from trnsim.nki.collectives.prepared import (
    all_gather_v_prepare,
    all_gather_v_trigger,
    all_to_all_v_prepare,
    all_to_all_v_trigger,
)
from trnsim.nki.collectives.regular import all_gather, all_reduce, all_to_all, reduce_scatter
from trnsim.nki.collectives.replica_group import ReplicaGroup, rg_partition_op
from trnsim.nki.collectives.variable import all_gather_v, all_to_all_v, reduce_scatter_v

__all__ = [
    "ReplicaGroup",
    "all_gather",
    "all_gather_v",
    "all_gather_v_prepare",
    "all_gather_v_trigger",
    "all_reduce",
    "all_to_all",
    "all_to_all_v",
    "all_to_all_v_prepare",
    "all_to_all_v_trigger",
    "collective_permute",
    "collective_permute_implicit",
    "collective_permute_implicit_current_processing_rank_id",
    "collective_permute_implicit_reduce",
    "rank_id",
    "reduce_scatter",
    "reduce_scatter_v",
    "rg_partition_op",
]


for _name, _value in list(globals().items()):
    if _name in __all__ and isinstance(_value, FunctionType):
        globals()[_name] = documented(_value, "ncc")

_ABSENT = VersionedNames(__name__, "nki.collectives", lambda _: None, "ncc")
_ABSENT.withdraw(globals())


def __getattr__(name: str) -> Any:
    return _ABSENT.serve(name)


def __dir__() -> list[str]:
    return _ABSENT.names(globals())
