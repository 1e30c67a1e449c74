"""`nki.collectives`: a function for each collective, with AWS's names and signatures.

Each builds the instruction of `trnsim.isa.collectives` and issues it to the current core, which
must belong to a world of ranks: `trnsim.run(kernel, ..., ranks=N)`.

Source: nki.collectives.
"""

from collections.abc import Callable
from typing import Any, NoReturn

from trnsim.errors import NotModelled
from trnsim.nki.collectives.permutes import (
    collective_permute,
    collective_permute_implicit,
    collective_permute_implicit_current_processing_rank_id,
    collective_permute_implicit_reduce,
    rank_id,
)
from trnsim.nki.collectives.regular import all_gather, all_reduce, all_to_all, reduce_scatter
from trnsim.nki.collectives.replica_group import ReplicaGroup, rg_partition_op
from trnsim.nki.collectives.variable import all_gather_v, all_to_all_v

__all__ = [
    "ReplicaGroup",
    "all_gather",
    "all_gather_v",
    "all_reduce",
    "all_to_all",
    "all_to_all_v",
    "collective_permute",
    "collective_permute_implicit",
    "collective_permute_implicit_current_processing_rank_id",
    "collective_permute_implicit_reduce",
    "rank_id",
    "reduce_scatter",
    "rg_partition_op",
]


def _unmodelled(name: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        del args, kwargs
        raise NotModelled(
            f"nki.collectives.{name} is not emulated yet",
            fix="exchange chunks of equal size with all_gather, all_to_all or reduce_scatter",
            source=f"nki.collectives.{name}",
        )

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


UNMODELLED = (
    "all_gather_v_prepare",
    "all_gather_v_trigger",
    "all_to_all_v_prepare",
    "all_to_all_v_trigger",
    "reduce_scatter_v",
)
"""Published collectives that are refused by name."""

globals().update({name: _unmodelled(name) for name in UNMODELLED})
