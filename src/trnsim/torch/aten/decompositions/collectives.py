"""PyTorch's functional collectives over a named group of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from trnsim.graph import Value
from trnsim.graph.building.build import Build
from trnsim.graph.ops.collectives import AllGather, AllReduce, AllToAll, ReduceScatter
from trnsim.torch.aten.decomposition import Decomposition, Unlowered

_BODIES: Final = {"sum": "add", "product": "multiply", "min": "minimum", "max": "maximum"}
"""PyTorch's names of reductions, and StableHLO's; an average is a sum that is divided."""


def _replica_groups(b: Build, name: Any) -> tuple[tuple[int, ...], ...]:
    replica_groups = b.replica_groups.get(name)
    if replica_groups is None:
        raise Unlowered(f"a group {name!r} whose ranks are not known")
    return replica_groups


def _averaged(b: Build, value: Value, op: str, size: int) -> Value:
    return b.ew("multiply", value, 1.0 / size) if op == "avg" else value


def _reduction_body(op: str) -> str:
    if op != "avg" and op not in _BODIES:
        raise Unlowered(f"a reduction by {op}")
    return _BODIES.get(op, "add")


def all_reduce(b: Build, value: Value, op: str, group: Any) -> Value:
    """The sum, product, minimum, maximum or average over a group."""
    collective = AllReduce(_replica_groups(b, group), _reduction_body(op))
    return _averaged(b, b.graph.apply(collective, value), op, collective.size)


def all_gather(b: Build, value: Value, size: int, group: Any) -> Value:
    """All ranks' tensors, one after the other along the first dimension."""
    del size
    return b.graph.apply(AllGather(_replica_groups(b, group), 0), value)


def reduce_scatter(b: Build, value: Value, op: str, size: int, group: Any) -> Value:
    """A rank's share, along the first dimension, of the result of `all_reduce`."""
    share = b.graph.apply(ReduceScatter(_replica_groups(b, group), _reduction_body(op), 0), value)
    return _averaged(b, share, op, size)


def all_to_all(
    b: Build, value: Value, receive_sizes: Sequence[int], send_sizes: Sequence[int], group: Any
) -> Value:
    """Rows sent to each rank and received from each; all parts have the same size."""
    if len({*map(int, receive_sizes), *map(int, send_sizes)}) != 1:
        raise Unlowered("an all-to-all of parts of different sizes")
    return b.graph.apply(AllToAll(_replica_groups(b, group), 0, 0), value)


def wait(b: Build, value: Value) -> Value:
    """The result of a collective, unchanged: in a graph no result is pending."""
    del b
    return value


DECOMPOSITIONS: Final[dict[str, Decomposition]] = {
    "all_reduce": all_reduce,
    "all_gather_into_tensor": all_gather,
    "reduce_scatter_tensor": reduce_scatter,
    "all_to_all_single": all_to_all,
    "wait_tensor": wait,
}
