"""The ranks of an operation: groups that work at once, and pairs of a permute.

AWS's files hold a list of lists of groups, or of pairs. Each example has one inner list; a file
with several is refused. With ``--data-parallel-dimension D`` a group is every ``ranks / D``-th
rank: on D instances, one rank of each instance.

Source: aws-neuron-sdk tools/neuron-sys-tools/nccom-test.rst, Replica Group and its examples;
neuron-runtime/about/collectives.rst, Permute Operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trnsim.errors import BadInput, Unspecified
from trnsim.fabric.fabric import Fabric
from trnsim.fabric.group import RankGroup
from trnsim.reader import FileRecord, Rule, declared, read
from trnsim.tools.nccom.operations import NccomOperation
from trnsim.tools.nccom.options import FILE_FIXES, OperationOptions

Groups = tuple[tuple[int, ...], ...]
"""Ranks of each group, or source and target of each pair."""
_NUMBER: Final = Rule(minimum=0)
_LISTS: Final = Rule(each=Rule(each=_NUMBER, exclusive_minimum=0), exclusive_minimum=0)
_PAIR: Final = 2
_PERMUTE: Final = "neuron-runtime/about/collectives.rst, Permute Operation"


@dataclass(frozen=True, kw_only=True)
class ReplicaGroupsFile(FileRecord):
    """The file of ``--custom-replica-groups``."""

    replica_groups: tuple[Groups, ...] = declared(
        help="a list that holds the list of groups", each=_LISTS, exclusive_minimum=0
    )


@dataclass(frozen=True, kw_only=True)
class PairsFile(FileRecord):
    """The file of ``--custom-src-target-pairs``."""

    src_target_pairs: tuple[Groups, ...] = declared(
        help="a list that holds the list of pairs", each=_LISTS, exclusive_minimum=0
    )


def groups_of(options: OperationOptions, ranks: int) -> Groups:
    """The groups of ranks that work at once; without an option, one group of all ranks.

    Raises:
        BadInput: the file or the dimension makes no groups of these ranks.
    """
    if options.custom_replica_groups is not None:
        return _groups_in(options.custom_replica_groups, ranks)
    size = options.data_parallel_dimension
    if size is None:
        return (tuple(range(ranks)),)
    if size < 2 or ranks % size:  # noqa: PLR2004  as the message says
        divisors = [count for count in range(2, ranks + 1) if not ranks % count]
        raise BadInput(
            f"--data-parallel-dimension {size} of {ranks} ranks; legal: "
            f"{', '.join(map(str, divisors))}",
            fix="take a divisor of --nworkers, the ranks of a group",
        )
    stride = ranks // size
    return tuple(tuple(range(first, ranks, stride)) for first in range(stride))


def _groups_in(path: Path, ranks: int) -> Groups:
    file = read(ReplicaGroupsFile, path, FILE_FIXES["--custom-replica-groups"])
    field = "replica_groups"
    groups = _only_list(file, field, file.replica_groups, "groups")
    grouped_ranks: set[int] = set()
    for group in groups:
        illegal_ranks = [rank for rank in group if rank >= ranks]
        if illegal_ranks:
            raise file.refused(
                field, f"rank {illegal_ranks[0]}; legal: 0 to {ranks - 1} (--nworkers)"
            )
        repeated_ranks = [rank for rank in group if rank in grouped_ranks or group.count(rank) > 1]
        if repeated_ranks:
            raise file.refused(field, f"rank {repeated_ranks[0]} stands twice; legal: once")
        grouped_ranks.update(group)
    if len({len(group) for group in groups}) > 1:
        sizes = ", ".join(map(str, dict.fromkeys(map(len, groups))))
        raise file.refused(
            field, f"groups of {sizes} ranks; legal: of one size, of which bus bandwidth is"
        )
    if len(groups[0]) == 1:
        raise file.refused(field, "groups of 1 rank, which have nothing to send; legal: from 2 on")
    return groups


def _only_list(file: FileRecord, field: str, lists: tuple[Groups, ...], noun: str) -> Groups:
    """The only list of a file.

    Raises:
        Unspecified: the file has several, and AWS does not say which operation has which list.
    """
    if len(lists) == 1:
        return lists[0]
    error = file.refused(field, f"{len(lists)} lists of {noun}; legal here: one")
    raise Unspecified(
        error.reason,
        fix="leave one list",
        source="nccom-test.rst, whose examples have one and which says of no other",
        line=error.line,
    )


def pairs_of(
    options: OperationOptions, operation: NccomOperation, fabric: Fabric, groups: Groups
) -> Groups:
    """Source and target of each message of sendrecv or permute; () for other operations.

    AWS names no pairs but those of the file. Without a file each rank of a group sends to the next
    rank, and the last to the first; the ranks of a permute form a ring along the links.

    Raises:
        BadInput: the file makes no rings of these ranks, or the operation has no pairs.
    """
    path = options.custom_src_target_pairs
    if path is None:
        if not operation.has_pairs:
            return ()
        return tuple(pair for group in groups for pair in _ring_pairs(operation, fabric, group))
    if operation.name != "permute":
        raise BadInput(
            f"--custom-src-target-pairs of {operation.name}; legal: of permute",
            fix="nccom-test permute",
        )
    return _pairs_in(path, fabric)


def _ring_pairs(operation: NccomOperation, fabric: Fabric, group: tuple[int, ...]) -> Groups:
    order = group
    if operation.name == "permute":
        members = RankGroup(fabric, group)
        order = members.cycles()[0] if members.is_local else group
    return tuple(zip(order, (*order[1:], order[0]), strict=True))


def _pairs_in(path: Path, fabric: Fabric) -> Groups:
    file = read(PairsFile, path, FILE_FIXES["--custom-src-target-pairs"])
    field, ranks = "src_target_pairs", fabric.ranks
    pairs = _only_list(file, field, file.src_target_pairs, "pairs")
    for index, pair in enumerate(pairs):
        if len(pair) != _PAIR:
            raise file.refused(
                field, f"pair {index} has {len(pair)} ranks; legal: source and target"
            )
        if max(pair) >= ranks:
            raise file.refused(field, f"rank {max(pair)}; legal: 0 to {ranks - 1} (--nworkers)")
    sources, targets = (sorted(pair[side] for pair in pairs) for side in (0, 1))
    if len(set(sources)) < len(sources) or sources != targets:
        why = (
            "the pairs make no rings; legal: each rank that sends also receives, both once "
            f"({_PERMUTE})"
        )
        raise file.refused(field, why, "close each ring: its last rank sends to its first")
    for source, target in pairs:
        if not fabric.is_direct(source, target):
            why = (
                f"ranks {source} and {target} are on chips without a connection; legal: "
                f"neighbours ({_PERMUTE})"
            )
            raise file.refused(field, why, "order the ring along the links; trnsim neuron-ls -t")
    return pairs
