"""Exchanges of NeuronCores: the fabric inside an instance, and stages between instances.

Inside, the fabric's closed form gives the time of each algorithm. Between instances each rank
exchanges with the ranks at its place in the others, all at once, over its share of EFA: as the
fabric's hierarchical algorithm does, in closed form for any number of instances.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final

from trnsim.fabric.choice import choose
from trnsim.fabric.constants import EFA_HOP_S, hop_s
from trnsim.fabric.fabric import Fabric, fabric
from trnsim.place.links.lines import Line, combined_lines

if TYPE_CHECKING:
    from trnsim.place.links.exchange import GroupLayout

_LARGE_BYTES: Final = 2.0**40
"""Bytes at which a line's slope is read; lines are straight, so any will do."""
_MOST_MESH_INSTANCES: Final = 64
"""Maximum instances of a mesh between instances: each rank writes to every other at once."""


@cache
def _one_instance(instance: str, lnc: int) -> Fabric:
    """The fabric of one instance (`node` below), cached, as it caches its routes."""
    return fabric(instance, lnc=lnc)


@cache
def inside_lines(instance: str, lnc: int, kind: str, size: int, stride: int) -> tuple[Line, ...]:
    """Lines of time over bytes, one for each algorithm, of equal groups on one instance.

    All groups exchange at once.
    """
    node = _one_instance(instance, lnc)
    reach = size * stride
    starts = range(0, node.ranks_per_node - reach + 1, reach)
    groups = [
        tuple(range(start + first, start + reach, stride))
        for start in starts
        for first in range(stride)
    ]
    choices = [choose(node, kind, nbytes, groups) for nbytes in (0.0, _LARGE_BYTES)]
    fixed_s, large_s = ({choice.algorithm: choice.time_s, **choice.others_s} for choice in choices)
    return tuple(
        Line(name, time_s, (large_s[name] - time_s) / _LARGE_BYTES)
        for name, time_s in fixed_s.items()
    )


def between_lines(instance: str, lnc: int, kind: str, layout: GroupLayout) -> tuple[Line, ...]:
    """Lines of time over bytes, one for each algorithm, of groups with one rank on each instance.

    Every rank of an instance is in some group, so each has an equal share of EFA.
    """
    node, nodes = _one_instance(instance, lnc), layout.nodes
    # share_s: seconds per byte of a rank's share of EFA.
    share_s = node.ranks_per_node / _efa_bytes_per_s(node)
    local_s, efa_s = float(hop_s(node.chip.name)), float(EFA_HOP_S)
    hops = {"ring": (nodes - 1) * efa_s}
    if nodes <= _MOST_MESH_INSTANCES:
        hops["mesh"] = efa_s
    if nodes & (nodes - 1) == 0:
        hops["rdh"] = (nodes.bit_length() - 1) * efa_s
    part = (nodes - 1) / nodes
    passes = 2 if kind == "all_reduce" else 1
    lines = [
        Line(name, node.start_s + passes * hop_time_s, passes * part * share_s)
        for name, hop_time_s in hops.items()
    ]
    if nodes <= _MOST_MESH_INSTANCES and kind == "all_reduce":
        fixed_s = node.start_s + efa_s + local_s
        lines.append(Line("single-step mesh", fixed_s, (nodes - 1) * share_s))
    if kind == "all_gather":
        return tuple(lines)
    # After a mesh each rank reduces what it received: one step more, on its own chip.
    return tuple(
        replace(line, fixed_s=line.fixed_s + local_s) if line.name == "mesh" else line
        for line in lines
    )


def staged_lines(instance: str, lnc: int, kind: str, layout: GroupLayout) -> tuple[Line, ...]:
    """Lines of time over bytes, one for each algorithm, of a collective over several instances.

    Where an instance has several members of a group, the collective has a stage inside instances
    and a stage between them.
    """
    members = layout.per_node
    if members == 1:
        return between_lines(instance, lnc, kind, layout)
    local_lines = {
        name: inside_lines(instance, lnc, name, members, layout.stride) for name in _stages(kind)
    }
    network_lines = between_lines(instance, lnc, kind, layout)
    start_s = _one_instance(instance, lnc).start_s
    if kind == "all_gather":
        stages = [(network_lines, 1 / members), (local_lines[kind], 1.0)]
    elif kind == "reduce_scatter":
        stages = [(local_lines[kind], 1.0), (network_lines, 1 / members)]
    else:
        stages = [
            (local_lines["reduce_scatter"], 1.0),
            (network_lines, 1 / members),
            (local_lines["all_gather"], 1.0),
        ]
    repeated_starts_s = (len(stages) - 1) * start_s  # a collective starts once
    return tuple(
        Line("hierarchical", line.fixed_s - repeated_starts_s, line.per_byte_s)
        for line in combined_lines(stages)
    )


def _stages(kind: str) -> tuple[str, ...]:
    """The kinds of the stages inside an instance of a collective over several instances."""
    return ("reduce_scatter", "all_gather") if kind == "all_reduce" else (kind,)


def direct_lines(instance: str, lnc: int, kind: str, layout: GroupLayout) -> tuple[Line, ...]:
    """The line of time over bytes of an all-to-all or a permute over several instances.

    In a permute the last ranks of an instance send to the next instance, and those of them that are
    on one chip share an EFA adapter.
    """
    node = _one_instance(instance, lnc)
    efa, leaving_share = _efa_bytes_per_s(node), 1.0
    if kind == "all_to_all":
        leaving_share = 1 - layout.per_node / layout.size
        share_s = node.ranks_per_node / efa
    else:
        adapters = node.instance.efa_devices or node.instance.count
        share_s = min(layout.stride, node.ranks_per_node / adapters) * adapters / efa
    return (Line("direct", node.start_s + float(EFA_HOP_S), leaving_share * share_s),)


def _efa_bytes_per_s(node: Fabric) -> float:
    return float(node.instance.efa_bytes_per_s or 0.0)
