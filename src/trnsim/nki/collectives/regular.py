"""Collectives of parts of one size: all_reduce, all_gather, reduce_scatter, all_to_all."""

from __future__ import annotations

from typing import Any

from trnsim.isa import AllGather, AllReduce, AllToAll, ReduceScatter
from trnsim.nki.collectives.issuing import Tensors, issue_grouped, operator_name
from trnsim.nki.collectives.replica_group import ReplicaGroup


def all_reduce(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    op: Any,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """The reduction of each source over the ranks of a group, on each of its ranks."""
    del name
    issue_grouped(AllReduce, srcs, dsts, replica_group, priority, op=operator_name(op))


def all_gather(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """The concatenated sources of the ranks of a group, on each of its ranks."""
    del name
    issue_grouped(AllGather, srcs, dsts, replica_group, priority, collective_dim=collective_dim)


def reduce_scatter(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    collective_dim: int,
    op: Any,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """The reduction of each source over the ranks of a group, divided among them."""
    del name
    issue_grouped(
        ReduceScatter,
        srcs,
        dsts,
        replica_group,
        priority,
        collective_dim=collective_dim,
        op=operator_name(op),
    )


def all_to_all(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """The concatenated parts that the ranks of a group have for this rank."""
    del name
    issue_grouped(AllToAll, srcs, dsts, replica_group, priority, collective_dim=collective_dim)
