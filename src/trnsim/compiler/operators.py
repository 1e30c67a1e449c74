"""Costs of a single operator on a device: its kernels, split over the cores of a logical core.

An operator that is called by itself reads its operands from HBM and writes its result there. Each
of two cores reads and writes its halves and exchanges nothing: an operator that would need an
exchange runs on one core.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import inf

from trnsim import arch
from trnsim.compiler.sharding import halve_graph
from trnsim.compiler.sharding.splits import CORES
from trnsim.errors import NotModelled, OutOfMemory
from trnsim.graph import Graph, Kind
from trnsim.lower import Cost, bound, costs
from trnsim.lower.legalize import legalize
from trnsim.timing.time_limit import TimeLimitExceededError

_MOST_CACHED_GRAPHS = 1 << 14
"""Maximum number of graphs whose costs are kept."""


@lru_cache(_MOST_CACHED_GRAPHS)
def operator_costs(graph: Graph, target: str, cores: int = 1) -> tuple[Cost, ...]:
    """The cost of each kernel of an operator on a device of one or two cores.

    The bytes are the sum over both cores; the flop are the whole operator's.

    Raises:
        NotModelled: for an operation without a kernel.
    """
    if cores == 1:
        return costs(graph, target)
    core = arch.paired(arch.target(target))
    split = _split_costs(graph, target, core)
    split_s = _device_s(split)
    unsplit = _unsplit_within(split_s, graph, target)
    if unsplit is None:
        whole_flop = sum(node.operation.flop(*node.operand_types) for node in legalize(graph).nodes)
        return _for_both_cores(split, whole_flop)
    if split_s < _device_s(unsplit):
        return _for_both_cores(split, sum(cost.flop for cost in unsplit))
    # A launch starts both cores of the logical core, even if one of them does all the work.
    return tuple(replace(cost, launch_s=core.paired_launch_s) for cost in unsplit)


def _split_costs(graph: Graph, target: str, core: arch.NeuronCore) -> tuple[Cost, ...]:
    """The kernels of one of two cores that share the work; empty if it cannot be halved."""
    half = halve_graph(graph, (), core, may_exchange=False)
    if not half.is_split:
        return ()
    try:
        return costs(half.graph, target, is_mirrored=True)
    except (NotModelled, OutOfMemory):  # no kernel computes halves of these shapes
        return ()


def _unsplit_within(limit_s: float, graph: Graph, target: str) -> tuple[Cost, ...] | None:
    """Costs of the kernels on one core; None if they take longer than `limit_s`."""
    # Instructions are costed one by one: kernels that cannot win are left out.
    if limit_s < _unsplit_bound_s(graph, target):
        return None
    try:
        return costs(graph, target, limit_s=limit_s)
    except TimeLimitExceededError:
        return None


def _unsplit_bound_s(graph: Graph, target: str) -> float:
    """A lower bound of the time on one core; 0 if a node runs other graphs or a user's kernel."""
    if any(node.kind in (Kind.CONTROL, Kind.CALL) for node in graph.nodes):
        return 0.0
    return bound(graph, target).seconds


def _for_both_cores(kernels: tuple[Cost, ...], whole_flop: float) -> tuple[Cost, ...]:
    """The kernels of one core as those of both, with the flop of the whole operator."""
    flop = sum(cost.flop for cost in kernels)
    return tuple(
        replace(
            cost,
            flop=cost.flop * whole_flop / (flop or 1.0),
            hbm_bytes=CORES * cost.hbm_bytes,
        )
        for cost in kernels
    )


def _device_s(kernels: tuple[Cost, ...]) -> float:
    """The time of kernels one after the other; infinite if there are none."""
    return sum(cost.device_time_s for cost in kernels) if kernels else inf
