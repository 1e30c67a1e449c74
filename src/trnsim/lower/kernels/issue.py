"""The instructions of a group's kernel, from HBM to HBM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from trnsim.errors import NotModelled
from trnsim.graph import Kind
from trnsim.lower.emit.rules import EMITTERS
from trnsim.lower.fusion import Group
from trnsim.lower.kernels import columns, indexing, movement, rows
from trnsim.lower.kernels.fused import fused
from trnsim.lower.rules import KERNELS

_RULES: Final = (columns, indexing, movement, rows)
"""Importing them fills the table of kernels."""


def check_kernel(group: Group) -> None:
    """Refuse operations that have no kernel.

    Raises:
        NotModelled: if they have none, by name.
    """
    if group.nodes[0].kind is Kind.COLLECTIVE:
        raise NotModelled(
            f"{group.name} has no kernel yet: it exchanges values between cores, and a graph is "
            "lowered for one",
            fix="take it out of the graph, and call the framework's collective between graphs",
        )
    if type(group.nodes[0].operation) not in KERNELS and not group.is_fused | is_emitted(group):
        names = sorted({one.name for table in (KERNELS, EMITTERS) for one in table})
        raise NotModelled(
            f"{group.name} has no kernel yet; there are kernels for chains of elementwise "
            f"operations and reductions, {', '.join(names)}",
            fix="run it on the CPU, and send its result to the device",
        )


def is_emitted(group: Group) -> bool:
    """Whether a group is issued as a graph's program is, as it has no kernel of its own."""
    operation = type(group.nodes[0].operation)
    return not group.is_fused and operation in EMITTERS and operation not in KERNELS


def issue(group: Group, tensors: Sequence[Any]) -> Any:
    """The instructions of a group's kernel on tensors in HBM; its outputs there.

    Raises:
        NotModelled: if its operation has none.
    """
    check_kernel(group)
    if group.is_fused:
        return fused(list(tensors), group)
    (node,) = group.nodes
    given = dict(zip((value.number for value in group.inputs), tensors, strict=True))
    function = KERNELS[type(node.operation)]
    return function(node.operation, node, *(given[value.number] for value in node.values))
