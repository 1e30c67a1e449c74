"""Collectives with parts of equal size: all_reduce, all_gather, reduce_scatter, all_to_all."""

from __future__ import annotations

from typing import Any

from trnsim.isa import AllGather, AllReduce, AllToAll, ReduceScatter
from trnsim.nki.collectives.issuing import Options, Tensors, issue_grouped
from trnsim.nki.collectives.replica_group import ReplicaGroup
from trnsim.nki.instruction import NkiInstruction
from trnsim.nki.language_operators import operator_name


def all_reduce(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    op: Any,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction | None:
    """The reduction of each source over the ranks of a group, on each of its ranks."""
    name_of_op = operator_name("all_reduce: `op`", op)
    return issue_grouped(
        AllReduce, srcs, dsts, replica_group, Options(priority, name), op=name_of_op
    )


def all_gather(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction | None:
    """The sources of the ranks of a group, concatenated along `collective_dim`, on each rank."""
    return issue_grouped(
        AllGather, srcs, dsts, replica_group, Options(priority, name), collective_dim=collective_dim
    )


def reduce_scatter(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    collective_dim: int,
    op: Any,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction | None:
    """The reduction of each source over a group, divided among its ranks along `collective_dim`."""
    return issue_grouped(
        ReduceScatter,
        srcs,
        dsts,
        replica_group,
        Options(priority, name),
        collective_dim=collective_dim,
        op=operator_name("reduce_scatter: `op`", op),
    )


def all_to_all(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction | None:
    """Part r of the source of each rank of a group, concatenated, on the group's r-th rank.

    Sources are divided, and parts concatenated, along `collective_dim`.
    """
    return issue_grouped(
        AllToAll, srcs, dsts, replica_group, Options(priority, name), collective_dim=collective_dim
    )
