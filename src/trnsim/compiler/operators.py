"""Costs of a single operator on a device: its kernels, split over the cores of a logical core.

An operator that is called by itself reads its operands from HBM and writes its result there. Each
of two cores reads and writes its halves and exchanges nothing: an operator that would need an
exchange runs on one core.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from trnsim import arch
from trnsim.compiler.sharding import halve_graph
from trnsim.compiler.sharding.splits import CORES
from trnsim.errors import NotModelled, OutOfMemory
from trnsim.graph import Graph
from trnsim.lower import Cost, costs

_MOST_CACHED_GRAPHS = 1 << 14
"""Maximum number of graphs whose costs are kept."""


@lru_cache(_MOST_CACHED_GRAPHS)
def operator_costs(graph: Graph, target: str, cores: int = 1) -> tuple[Cost, ...]:
    """The cost of each kernel of an operator on a device of one or two cores.

    The bytes are the sum over both cores; the flop are the whole operator's.

    Raises:
        NotModelled: for an operation without a kernel.
    """
    unsplit = costs(graph, target)
    if cores == 1:
        return unsplit
    core = arch.paired(arch.target(target))
    # A launch starts both cores of the logical core, even if one of them does all the work.
    one_working = tuple(replace(cost, launch_s=core.paired_launch_s) for cost in unsplit)
    half = halve_graph(graph, (), core, may_exchange=False)
    if not half.is_split:
        return one_working
    try:
        split = costs(half.graph, target, is_mirrored=True)
    except (NotModelled, OutOfMemory):  # no kernel computes halves of these shapes
        return one_working
    if _device_s(split) >= _device_s(unsplit):
        return one_working
    split_flop, unsplit_flop = (sum(cost.flop for cost in kernels) for kernels in (split, unsplit))
    return tuple(
        replace(
            cost,
            flop=cost.flop * unsplit_flop / (split_flop or 1.0),
            hbm_bytes=CORES * cost.hbm_bytes,
        )
        for cost in split
    )


def _device_s(kernels: tuple[Cost, ...]) -> float:
    return sum(cost.device_time_s for cost in kernels)
