"""Collectives of chunks whose sizes are data: all_to_all_v and all_gather_v."""

from __future__ import annotations

from typing import Any

from trnsim.isa import AllGatherV, AllToAllV
from trnsim.nki.collectives.issuing import Tensors, issue_grouped
from trnsim.nki.collectives.replica_group import ReplicaGroup


def all_to_all_v(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    metadata_tensor: Any,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Chunks of the sizes in `metadata_tensor`, from each rank of a group to every rank."""
    del name
    issue_grouped(
        AllToAllV,
        srcs,
        dsts,
        replica_group,
        priority,
        metadata_tensor=metadata_tensor,
        recv_counts_known=recv_counts_known,
        has_rdispls=has_rdispls,
    )


def all_gather_v(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    metadata_tensor: Any,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """A chunk of the size in `metadata_tensor`, from each rank of a group to all."""
    del name
    issue_grouped(
        AllGatherV,
        srcs,
        dsts,
        replica_group,
        priority,
        metadata_tensor=metadata_tensor,
        recv_counts_known=recv_counts_known,
        has_rdispls=has_rdispls,
    )
