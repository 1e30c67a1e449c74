"""Collectives with chunk sizes known at run time: all_to_all_v, all_gather_v, reduce_scatter_v."""

from __future__ import annotations

from typing import Any, NoReturn

from trnsim.errors import NotModelled
from trnsim.isa import AllGatherV, AllToAllV
from trnsim.nki.collectives.issuing import Options, Tensors, issue_grouped
from trnsim.nki.collectives.replica_group import ReplicaGroup
from trnsim.nki.instruction import NkiInstruction


def all_to_all_v(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    metadata_tensor: Any,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction | None:
    """Chunks of the sizes in `metadata_tensor`, from each rank of a group to every rank."""
    return issue_grouped(
        AllToAllV,
        srcs,
        dsts,
        replica_group,
        Options(priority, name),
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
) -> NkiInstruction | None:
    """A chunk of the size in `metadata_tensor`, from each rank of a group to all."""
    return issue_grouped(
        AllGatherV,
        srcs,
        dsts,
        replica_group,
        Options(priority, name),
        metadata_tensor=metadata_tensor,
        recv_counts_known=recv_counts_known,
        has_rdispls=has_rdispls,
    )


def reduce_scatter_v(*args: Any, **kwargs: Any) -> NoReturn:
    """The reduction of chunks whose sizes are data, divided among ranks: not emulated.

    AWS's page is not public here: neither signature nor metadata rows nor operators.

    Raises:
        NotModelled: always, with the limits that are known.
    """
    del args, kwargs
    raise NotModelled(
        "nki.collectives.reduce_scatter_v: its signature, metadata rows and operators are not "
        "public here. Known: LNC=2, groups of exactly 4 ranks of one chip, and at most 16 KiB of "
        "output a rank",
        fix="pad to chunks of one size for ncc.reduce_scatter; or exchange them with "
        "ncc.all_to_all_v, and add on each rank",
        source="nki.collectives.reduce_scatter_v; limits: the kernel library, as quoted by "
        "deepep-trn, docs/trn2-constraints",
    )
