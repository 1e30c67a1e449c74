"""Programs of one of several devices: the number that a device has, groups of devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from trnsim.errors import NotModelled
from trnsim.jax.stablehlo import mlir
from trnsim.jax.stablehlo.mlir import Op, Ssa
from trnsim.jax.stablehlo.rules import rule
from trnsim.jax.stablehlo.scope import Device, Entry, Scope, Target

Groups = tuple[tuple[int, ...], ...]

_MOST_INSPECTED: Final = 64
"""Maximum number of operations between a device's number and the start of a window."""


@rule("stablehlo.partition_id", "stablehlo.replica_id", is_folded=False)
def device_number(scope: Scope, op: Op) -> Entry:
    """The number of the device whose program is imported."""
    del op
    scope.target.reads.add("number")
    return np.array(scope.target.device.number, np.uint32)


def groups_of(scope: Scope, op: Op) -> Groups:
    """The members of each group, without the -1 that fill up a short group in the attribute.

    Raises:
        NotModelled: groups are named by axes of a mesh, or the number of devices is not known.
    """
    text = str(op.attributes["replica_groups"]) if "replica_groups" in op.attributes else ""
    if not text.startswith("dense"):
        raise NotModelled(f"{op.name} whose groups are not listed", fix="list replica_groups")
    rows = np.array(op.attributes["replica_groups"]).tolist()
    groups = tuple(tuple(device for device in row if device >= 0) for row in rows)
    if groups:
        return groups
    if scope.target.device.count == 1:
        raise NotModelled(
            f"{op.name} in one group of all replicas, whose number the module does not say",
            fix="list replica_groups",
        )
    return (tuple(range(scope.target.device.count)),)


def share_dimension(scope: Scope, op: Op, groups: Groups) -> int | None:
    """The dimension along which each member of a group reads only its own share of a result.

    XLA's partitioner writes `reduce_scatter` as the whole sum and each device's window of it. None
    if the result is read in another way.
    """
    dims = list(range(len(mlir.shape_of(op.results[0].type))))
    reader = _only_reader(op)
    while reader is not None and reader.name in ("stablehlo.transpose", "mhlo.copy"):
        order = mlir.ints(reader, "permutation", range(len(dims)))
        dims = [dims[place] for place in order]
        reader = _only_reader(reader)
    if reader is None or reader.name != "stablehlo.dynamic_slice":
        return None
    shape, window = (mlir.shape_of(ssa.type) for ssa in (reader.operands[0], reader.results[0]))
    short_dims = [dim for dim, n in enumerate(window) if n != shape[dim]]
    if len(short_dims) != 1 or window[short_dims[0]] * len(groups[0]) != shape[short_dims[0]]:
        return None
    length, start = window[short_dims[0]], reader.operands[1 + short_dims[0]]
    starts = {device: index * length for group in groups for index, device in enumerate(group)}
    is_own = all(
        _value_on(scope, start, device) == own_start for device, own_start in starts.items()
    )
    return dims[short_dims[0]] if is_own else None


def _only_reader(op: Op) -> Op | None:
    """The only reader of an operation's result, in the same block and as its first operand."""
    uses = list(op.results[0].uses)
    if len(uses) != 1 or uses[0].operand_number:
        return None
    reader = uses[0].owner.operation
    return reader if reader.parent == op.operation.parent else None


def _value_on(scope: Scope, ssa: Ssa, device: int) -> int | None:
    """The integer that a value is on a device; None if it depends on more than the device."""
    producers = list[Op]()
    for count, op in enumerate(_producers(ssa, _MOST_INSPECTED)):
        if op is None or count == _MOST_INSPECTED:
            return None
        if op not in producers:
            producers.append(op)
    scratch = Scope(Target(scope.target.functions, Device(device, scope.target.device.count)))
    for op in producers:
        scratch.add(op)
    constant = scratch.constant_of(ssa)
    return None if constant is None else int(constant)


def _producers(ssa: Ssa, most_depth: int) -> Iterator[Op | None]:
    """The operations that a value depends on, operands first.

    None for an argument, and for a value behind a chain of `most_depth` operations.
    """
    producer = getattr(ssa.owner, "operation", ssa.owner)
    if not most_depth or not hasattr(producer, "operands"):
        yield None
        return
    for operand in producer.operands:
        yield from _producers(operand, most_depth - 1)
    yield producer
