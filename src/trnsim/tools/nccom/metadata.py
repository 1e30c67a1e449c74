"""Counts and offsets of alltoallv and all_gatherv: ``--variable-size-op-metadata``.

Counts and displacements are elements. A file has one entry for all ranks, or an entry per rank. The
send counts of a rank are in the order of the ranks of its group; in an all-gather there is a single
count, of the chunk that goes to all. Receive counts may be left out; if stated, they must equal the
send counts.

Source: aws-neuron-sdk tools/neuron-sys-tools/nccom-test.rst, Input/Output Data and its examples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from trnsim.errors import BadInput
from trnsim.fabric.fabric import Fabric
from trnsim.fabric.transfers import Transfer
from trnsim.reader import FileRecord, Rule, declared, read
from trnsim.tools.nccom.operations import NccomOperation
from trnsim.tools.nccom.options import FILE_FIXES, OperationOptions
from trnsim.tools.nccom.ranks import Groups

_OPTION: Final = "--variable-size-op-metadata"
_COUNT: Final = Rule(minimum=0, maximum=2**60)


@dataclass(frozen=True, kw_only=True)
class MetadataEntry(FileRecord):
    """Counts and displacements, in elements, of the chunks of a rank, or of every rank."""

    send_counts: tuple[int, ...] = declared(
        help="elements to each rank", each=_COUNT, exclusive_minimum=0
    )
    send_displs: tuple[int, ...] = declared(
        help="where they stand", each=_COUNT, exclusive_minimum=0
    )
    recv_counts: tuple[int, ...] = declared((), help="elements of each rank", each=_COUNT)
    recv_displs: tuple[int, ...] = declared((), help="where they go", each=_COUNT)


@dataclass(frozen=True, kw_only=True)
class MetadataFile(FileRecord):
    """The file of ``--variable-size-op-metadata``."""

    metadata: tuple[MetadataEntry, ...] = declared(
        help="an entry for all ranks, or one a rank", exclusive_minimum=0
    )


@dataclass(frozen=True)
class Metadata:
    """The entries of a file, checked for the groups of an operation.

    Attributes:
        entries: the entry of each rank.
        is_gather: whether a rank sends the same chunk to all.
    """

    entries: Sequence[MetadataEntry] = field(default=())
    is_gather: bool = False

    def send_count(self, rank: int, peer: int) -> int:
        """Elements that a rank sends to the member `peer` of its group."""
        return self.entries[rank].send_counts[0 if self.is_gather else peer]

    def send_offset(self, rank: int, peer: int) -> int:
        """The first element that a rank sends to the member `peer` of its group."""
        return self.entries[rank].send_displs[0 if self.is_gather else peer]

    def receive_offsets(self, group: Sequence[int], receiver: int) -> tuple[int, ...]:
        """Offsets in the receive buffer, in elements, of the chunks from members of the group.

        Where the file has no offsets, chunks lie one after another.

        Args:
            group: the ranks of the group.
            receiver: index of the rank in the group.
        """
        displacements = self.entries[group[receiver]].recv_displs
        counts = [self.send_count(sender, receiver) for sender in group]
        return displacements or tuple(accumulate(counts[:-1], initial=0))

    def transfers(self, groups: Groups, element_bytes: int) -> Iterator[Transfer]:
        """The chunks that ranks send each other, in bytes."""
        for group in groups:
            for rank in group:
                for peer, target in enumerate(group):
                    if target != rank:
                        yield Transfer(
                            rank, target, float(self.send_count(rank, peer) * element_bytes)
                        )

    def check_fits(self, groups: Groups, nbytes: int, element_bytes: int) -> None:
        """Refuse chunks that exceed a buffer of `nbytes`.

        Raises:
            BadInput: a chunk ends behind the buffer; the error names its field.
        """
        elements = nbytes // element_bytes
        for group in groups:
            for member, rank in enumerate(group):
                for name, end in self._ends(group, member).items():
                    if end > elements:
                        entry = self.entries[rank]
                        raise entry.refused(
                            name if name in entry else "send_counts",
                            f"a chunk of rank {rank} ends at element {end:,}; legal: up to "
                            f"{elements:,}, the elements of {nbytes:,} bytes",
                            "take a larger --minbytes",
                        )

    def extent(self, group: Sequence[int]) -> int:
        """Elements up to the end of the last chunk that a rank of the group sends or receives."""
        return max(max(self._ends(group, member).values()) for member in range(len(group)))

    def _ends(self, group: Sequence[int], member: int) -> dict[str, int]:
        """The ends of the last chunks that a rank sends and receives, by field."""
        entry = self.entries[group[member]]
        sent = zip(entry.send_displs, entry.send_counts, strict=True)
        received = zip(self.receive_offsets(group, member), group, strict=True)
        return {
            "send_displs": max(first + count for first, count in sent),
            "recv_displs": max(
                first + self.send_count(sender, member) for first, sender in received
            ),
        }


def metadata_of(
    options: OperationOptions, operation: NccomOperation, fabric: Fabric, groups: Groups
) -> Metadata | None:
    """The counts of an operation; None for an operation with chunks of equal size.

    Raises:
        BadInput: the option is missing or not of this operation, a list has a wrong length, counts
            of receivers are not those of senders, or a group of all_gatherv is on several devices.
    """
    path = options.variable_size_op_metadata
    if not operation.has_counts:
        if path is not None:
            raise BadInput(
                f"{_OPTION} of {operation.name}; legal: of alltoallv and all_gatherv",
                fix="leave it out",
            )
        return None
    if path is None:
        raise BadInput(
            f"{operation.name} without {_OPTION}; legal: a JSON file of its counts",
            fix=f"{_OPTION} FILE, in which to {FILE_FIXES[_OPTION]}",
        )
    is_gather = operation.name == "all_gatherv"
    if is_gather:
        _check_device(fabric, groups)
    file = read(MetadataFile, path, FILE_FIXES[_OPTION])
    ranks = max(map(max, groups)) + 1
    if len(file.metadata) not in (1, ranks, fabric.ranks):
        why = f"{len(file.metadata)} entries; legal: 1 for all ranks, or {fabric.ranks}, one a rank"
        raise file.refused("metadata", why)
    entries = file.metadata * (fabric.ranks if len(file.metadata) == 1 else 1)
    metadata = Metadata(entries, is_gather)
    for group in groups:
        for rank in group:
            _check_lengths(entries[rank], len(group), is_gather=is_gather)
        _check_received(metadata, group)
    return metadata


def _check_device(fabric: Fabric, groups: Groups) -> None:
    """Refuse a group of all_gatherv on several devices, or on Inferentia."""
    is_trainium = fabric.chip.name.startswith("trainium")
    for group in groups:
        devices = {fabric.place(rank)[:2] for rank in group}
        if len(devices) > 1 or not is_trainium:
            holder = f"{len(devices)} devices" if is_trainium else fabric.instance.name
            raise BadInput(
                f"all_gatherv of {len(group)} ranks on {holder}; legal: groups on one Trainium "
                f"device, which has {fabric.cores_per_chip} logical cores here",
                fix="name such groups by --custom-replica-groups, or fewer --nworkers",
                source="nccom-test.rst, Required Arguments",
            )


def _check_lengths(entry: MetadataEntry, size: int, *, is_gather: bool) -> None:
    sends = 1 if is_gather else size
    for name, legal in (
        *(("send_counts", sends), ("send_displs", sends)),
        *(("recv_counts", size), ("recv_displs", size)),
    ):
        length = len(getattr(entry, name))
        if length != legal and not (name.startswith("recv") and not length):
            raise entry.refused(name, f"{length} items; legal: {legal}, as the group needs")


def _check_received(metadata: Metadata, group: Sequence[int]) -> None:
    """Refuse received counts that differ from the senders' counts."""
    for member, rank in enumerate(group):
        entry = metadata.entries[rank]
        for peer, count in enumerate(entry.recv_counts):
            sent = metadata.send_count(group[peer], member)
            if count != sent:
                raise entry.refused(
                    "recv_counts",
                    f"rank {rank} expects {count} elements of rank {group[peer]}, which sends "
                    f"{sent}; legal: the same number",
                    "leave recv_counts empty, or state an entry a rank",
                )
