"""Collectives with chunk sizes known at run time: all_to_all_v and all_gather_v.

Tensors are flat buffers of elements. A metadata tensor of 3 or 4 rows with a column for each rank
of the group has the sizes and places of chunks: send_counts, send_displs, recv_counts, recv_displs.
The counts are unknown before the run, so the time is that of full buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NoReturn

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.behaviours.collectives import ANY_DESTINATION, PLACES_BETWEEN_INSTANCES
from trnsim.dtypes import UINT32, Array
from trnsim.errors import UndefinedBehavior, UninitializedRead
from trnsim.fabric.topology import Racks
from trnsim.isa.collectives.collective import Collective, MemberArrays, flat
from trnsim.isa.collectives.movement import check_one_tensor
from trnsim.isa.collectives.setting import in_words
from trnsim.isa.language.declaration import reads_many, updates, writes_many
from trnsim.isa.language.instruction import HBM, SBUF, Dims
from trnsim.isa.language.machine import Machine
from trnsim.isa.language.modes import Engine
from trnsim.memory import Tile

_LNC = 2
_RANKS_OF_CHIP = 4
_COUNTS, _DISPLACEMENTS, _RECEIVE_COUNTS, _RECEIVE_DISPLACEMENTS = range(4)
"""Rows of the metadata: send counts and displacements, receive counts and displacements."""


class VariableCollective(Collective, engines=()):
    """Common base of all_to_all_v and all_gather_v: metadata, bounds, written elements.

    Attributes:
        metadata_tensor: rows of send counts, send displacements, receive counts and, with
            has_rdispls, receive displacements, in elements; a column for each rank of the group.
        recv_counts_known: true if the kernel knows the receive counts; else the collective writes
            them to their row.
        has_rdispls: true if the fourth row says where chunks go in dst; else the chunk of the n-th
            of N ranks goes to the n-th of N equal parts of dst.
    """

    srcs: tuple[Tile, ...] = reads_many(HBM)
    dsts: tuple[Tile, ...] = writes_many(HBM)
    replica_group: tuple[tuple[int, ...], ...]
    metadata_tensor: Tile = updates("", HBM, SBUF, dtypes=(UINT32,))
    recv_counts_known: bool = False
    has_rdispls: bool = False

    def check(self, core: NeuronCore, n: Dims) -> None:
        """One tensor in HBM; groups of one size.

        - The metadata is [rows, N] in HBM, [1, rows, N] in SBUF, uint32, contiguous: 3 rows, or 4
          with has_rdispls.
        - Counts lie within the buffers; without has_rdispls each chunk fits an N-th of dst.
        """
        super().check(core, n)
        check_one_tensor(self, self.srcs, "srcs")
        rows = _RECEIVE_DISPLACEMENTS + 1 if self.has_rdispls else _RECEIVE_DISPLACEMENTS
        for group in self.replica_group:
            legal = (rows, len(group))
            expected = legal if self.metadata_tensor.memory is HBM else (1, *legal)
            if self.metadata_tensor.shape != expected:
                self.refuse(
                    f"`metadata_tensor` is {self.metadata_tensor}; legal for {len(group)} ranks: "
                    f"{list(expected)}",
                    "give it a row for counts, displacements and received counts, and with "
                    "has_rdispls one for their places",
                )
        if not self.metadata_tensor.pattern.is_contiguous(UINT32.itemsize):
            self.refuse(
                f"`metadata_tensor` is a view of {self.metadata_tensor} with gaps; legal: laid out "
                "contiguously",
                "copy it with nisa.dma_copy to a tensor of its own",
            )

    def accesses(self) -> tuple[list[Tile], list[Tile]]:
        """Reads the sources and the input rows of the metadata; writes the destinations.

        Also writes the row of receive counts, unless they are known.
        """
        return [*self.srcs, *self.input_rows()], [*self.dsts, *self.fully_written_tiles()]

    def input_rows(self) -> list[Tile]:
        """The rows of the metadata that it reads: all but the receive counts."""
        rows = [self._rows(_COUNTS, _RECEIVE_COUNTS)]
        return (
            [*rows, self._rows(_RECEIVE_DISPLACEMENTS, _RECEIVE_DISPLACEMENTS + 1)]
            if self.has_rdispls
            else rows
        )

    def fully_written_tiles(self) -> list[Tile]:
        """The row of receive counts, unless they are known; dst is written as they say."""
        return (
            [] if self.recv_counts_known else [self._rows(_RECEIVE_COUNTS, _RECEIVE_DISPLACEMENTS)]
        )

    def elements_written_after(self, tile: Tile, flags: Array) -> list[tuple[Tile, Array]] | None:
        """Nothing yet: the elements that are sent are checked when the counts are known."""
        del flags
        return [] if any(tile is source for source in self.srcs) else None

    def details(self) -> str:
        """The two flags, on which all members must agree."""
        return f"recv_counts_known={self.recv_counts_known}, has_rdispls={self.has_rdispls}"

    def offered_arrays(self) -> list[Array]:
        """The source, the metadata as integers, and flags of the source's written elements."""
        source = self.srcs[0]
        return [flat(source.bits()), self.metadata(), flat(source.written_flags())]

    def metadata(self) -> Array:
        """The metadata as integers [4, N], with zeros in the rows that are no inputs."""
        inputs = self.input_rows()
        for rows in inputs:
            if not rows.is_written():  # in shared HBM only the run's end would report it
                raise UninitializedRead(
                    f"{self.opcode} reads {self.metadata_tensor}, some rows of which no "
                    "instruction has written",
                    fix="write rows 0 and 1, and row 3 with has_rdispls, before",
                    source=self.source,
                )
        metadata = np.zeros((_RECEIVE_DISPLACEMENTS + 1, len(self.replica_group[0])), np.int64)
        metadata[:_RECEIVE_COUNTS] = inputs[0].bits().reshape(_RECEIVE_COUNTS, -1)
        if self.has_rdispls:
            metadata[_RECEIVE_DISPLACEMENTS] = inputs[1].bits().reshape(-1)
        return metadata

    def results(self, group: tuple[int, ...], offers: MemberArrays) -> MemberArrays:
        """The arrays that each member receives, with the flags of their elements."""
        return self.received_arrays(group, offers)

    def execute(self, machine: Machine) -> None:
        """Move the chunks; elements of dst that no chunk covers keep their values."""
        link = machine.world(self.opcode)
        self.check_internal()
        if self.srcs[0].storage.data is not None:
            self._check_written(self.metadata(), link.rank)
        results = self.meet(link.rank, machine)
        if results is None:
            return
        counts, offsets, data, chunk_flags = results
        target = self.dsts[0]
        bits, flags = flat(target.bits()), flat(target.written_flags())
        start = 0
        for count, offset in zip(counts.tolist(), offsets.tolist(), strict=True):
            bits[offset : offset + count] = data[start : start + count]
            flags[offset : offset + count] = chunk_flags[start : start + count]
            start += count
        target.put(bits)
        target.mark_written_where(flags)
        for row in self.fully_written_tiles():
            row.put(counts.astype(np.uint32))

    def received_arrays(self, group: tuple[int, ...], offers: MemberArrays) -> MemberArrays:
        """For each member: counts of its chunks, their offsets in dst, their elements and flags.

        The elements of all chunks are joined, and so are their flags.
        """
        return [self._member_arrays(group, offers, member) for member in range(len(group))]

    def chunk(self, metadata: Array, member: int) -> tuple[int, int]:
        """Count and displacement of the chunk that a rank sends to member number `member`."""
        return int(metadata[_COUNTS][member]), int(metadata[_DISPLACEMENTS][member])

    def check_sent(self, metadata: Array, rank: int) -> None:
        """Refuse chunks beyond the source of `rank`, or without has_rdispls too large for dst."""
        group = self.group_of(rank)
        for member, receiver in enumerate(group):
            chunk = self.chunk(metadata, member)
            self._check_within((rank, receiver), chunk, self.srcs[0].pattern.elements, None)

    def _member_arrays(
        self, group: Sequence[int], offers: MemberArrays, member: int
    ) -> list[Array]:
        """The arrays that member number `member` receives: an item of `received_arrays`."""
        part_elements = self._part_elements(group)
        receive_displacements = offers[member][1][_RECEIVE_DISPLACEMENTS]
        counts, offsets, chunks, flags = [], [], [], []
        for sender, (source, metadata, source_flags) in enumerate(offers):
            count, displacement = self.chunk(metadata, member)
            offset = part_elements * sender
            if self.has_rdispls:
                offset = int(receive_displacements[sender])
            pair = group[sender], group[member]
            self._check_within(pair, (count, displacement), len(source), offset)
            counts.append(count)
            offsets.append(offset)
            chunks.append(source[displacement : displacement + count])
            flags.append(source_flags[displacement : displacement + count])
        self._check_disjoint(group, member, counts, offsets)
        return [np.array(counts), np.array(offsets), *map(np.concatenate, (chunks, flags))]

    def _part_elements(self, group: Sequence[int]) -> int:
        """Elements of the equal parts of dst, one for each rank's chunk without has_rdispls."""
        return self.dsts[0].pattern.elements // len(group)

    def _check_within(
        self,
        pair: tuple[int, int],
        chunk: tuple[int, int],
        src_elements: int,
        offset: int | None,
    ) -> None:
        """Refuse a chunk that reaches beyond its source, or has no room in dst.

        Args:
            pair: the ranks that send and receive it.
            chunk: its count and displacement.
            src_elements: elements of the source.
            offset: its offset in dst, in elements; None if it is not known.
        """
        count, displacement = chunk
        if displacement + count > src_elements:
            self._refuse_counts(
                pair,
                f"elements {displacement} to {displacement + count}",
                f"its source has {src_elements}",
            )
        if self.has_rdispls and offset is None:
            return
        group = self.group_of(pair[0])
        part_elements = self._part_elements(group)
        offset = part_elements * group.index(pair[0]) if offset is None else offset
        room = self.dsts[0].pattern.elements - offset if self.has_rdispls else part_elements
        if count > room:
            self._refuse_counts(
                pair,
                f"{count} elements to place {offset}",
                f"the destination has room for {max(room, 0)} there",
            )

    def _check_disjoint(
        self, group: Sequence[int], member: int, counts: Sequence[int], offsets: Sequence[int]
    ) -> None:
        """Refuse chunks that overlap in the dst of member number `member`."""
        chunks = sorted(
            (start, start + count, sender)
            for start, count, sender in zip(offsets, counts, group, strict=True)
            if count
        )
        for (_, end, sender), (start, _, next_sender) in pairwise(chunks):
            if start < end:
                raise UndefinedBehavior(
                    f"{self.opcode}: what rank {group[member]} receives from ranks {sender} and "
                    f"{next_sender} overlaps at element {start}; legal: chunks apart from each "
                    "other",
                    fix="let recv_displs leave room for recv_counts",
                    source=self.source,
                )

    def _check_written(self, metadata: Array, rank: int) -> None:
        """Refuse to send a chunk of which no element is written; partly written ones are sent."""
        source = self.srcs[0]
        if source.is_written():
            return
        flags = source.written_flags().reshape(-1)
        for member in range(metadata.shape[1]):
            count, displacement = self.chunk(metadata, member)
            chunk_flags = flags[displacement : displacement + count]
            if chunk_flags.size and not chunk_flags.any():
                raise UninitializedRead(
                    f"{self.opcode} on rank {rank} sends elements {displacement} to "
                    f"{displacement + count} of {source}, none of which an instruction has written",
                    fix="write what is sent, or lower the count",
                    source=self.source,
                )

    def _refuse_counts(self, pair: tuple[int, int], elements: str, limit: str) -> NoReturn:
        """Refuse a chunk from rank to rank; `elements` and `limit` are in words."""
        sender, receiver = pair
        self.refuse(
            f"rank {sender} sends {elements} to rank {receiver}, and {limit}; legal: counts within "
            "both buffers",
            "look at rows 0, 1 and 3 of metadata_tensor of both ranks",
        )

    def _rows(self, first: int, end: int) -> Tile:
        """Rows `first` to `end` (exclusive) of the metadata."""
        tile = self.metadata_tensor
        spans = [(first, end, 1, True), (0, tile.shape[-1], 1, True)]
        if tile.memory is SBUF:
            spans.insert(0, (0, 1, 1, True))
        return Tile(tile.storage, tile.dtype, tile.pattern.cut(spans), tile.index)


class AllToAllV(
    VariableCollective,
    engines=(Engine.collective,),
    source="nki.collectives.all_to_all_v",
    is_in_nki_isa=False,
):
    """``dst[offset s:] on rank r = src[displ r : displ r + count r] on rank s``.

    Counts and displacements are those of rank s. The offset is receive displacement s of rank r, or
    without has_rdispls the start of the s-th of N equal parts of dst.

    Note:
        On instances without switches AWS's page supports only groups of ranks at the same position
        of different instances; public kernels use it inside an instance all the same, and so it is
        legal here.
    """

    kind = "all_to_all"

    def check(self, core: NeuronCore, n: Dims) -> None:
        """On Trn3's switches: LNC=2, more than one device, all ranks of each device, in sequence.

        - On instances without switches, with has_rdispls: ranks at the same position of different
          instances.
        - On instances without switches, without has_rdispls, in groups inside an instance: dst has
          N times src's elements.
        """
        super().check(core, n)
        fabric = self.setting.fabric
        if not isinstance(fabric.topology, Racks):
            for group in self.replica_group:
                self._check_unswitched(core, group)
            return
        if fabric.lnc != _LNC:
            self.refuse(
                f"LNC={fabric.lnc} on {fabric.instance.name}; legal: LNC=2",
                "launch the kernel as kernel[2]",
            )
        for group in self.replica_group:
            chips = {fabric.place(rank)[:2] for rank in group}
            if len(chips) == 1 or len(group) != len(chips) * fabric.cores_per_chip:
                self.refuse(
                    f"the group [{in_words(group)}] has {len(group)} ranks on {len(chips)} "
                    f"devices; legal: more than one device, with all {fabric.cores_per_chip} ranks "
                    "of each",
                    "put whole devices in a group; a rank that sends nothing has send_counts 0",
                )
            if group != tuple(range(group[0], group[0] + len(group))):
                self.refuse(
                    f"the group [{in_words(group)}] on {fabric.instance.name}; legal: sequential "
                    "ranks",
                    "name the ranks in order, without gaps",
                )

    def _check_unswitched(self, core: NeuronCore, group: tuple[int, ...]) -> None:
        """Refuse exchanges that instances without switches do not support."""
        fabric = self.setting.fabric
        nodes = {fabric.place(rank).node for rank in group}
        is_between = len(nodes) == len(group) > 1
        is_aligned = len({fabric.place(rank)[1:] for rank in group}) == 1
        if self.has_rdispls and not (
            is_between and is_aligned and core.nki.follows(PLACES_BETWEEN_INSTANCES)
        ):
            legal = "on instances with switches, such as those of trn3"
            if core.nki.follows(PLACES_BETWEEN_INSTANCES):
                legal = f"for ranks of one number in different instances, or {legal}"
            self.refuse(
                f"has_rdispls=True on {fabric.instance.name} in the group [{in_words(group)}]; "
                f"legal under {core.nki}: {legal}",
                PLACES_BETWEEN_INSTANCES.instead,
                PLACES_BETWEEN_INSTANCES.source,
            )
        count, capacity = self.srcs[0].pattern.elements, self.dsts[0].pattern.elements
        expected = count * len(group)
        if len(nodes) > 1 or core.nki.follows(ANY_DESTINATION) or capacity == expected:
            return
        self.refuse(
            f"dst has {capacity} elements and src {count}, in the group [{in_words(group)}] inside "
            f"{fabric.instance.name}; legal under {core.nki}: {expected}, those of src for "
            "each rank",
            ANY_DESTINATION.instead,
            ANY_DESTINATION.source,
        )


class AllGatherV(
    VariableCollective,
    engines=(Engine.collective,),
    source="nki.collectives.all_gather_v",
    is_in_nki_isa=False,
):
    """``dst[offset s:] = src[displ : displ + count] on rank s``, on each rank of the group.

    Count and displacement are in the first column of rows 0 and 1; the offset is the start of the
    s-th of N equal parts of dst.
    """

    kind = "all_gather"

    def check(self, core: NeuronCore, n: Dims) -> None:
        """LNC=2, groups of exactly four ranks of a chip, no has_rdispls."""
        super().check(core, n)
        fabric = self.setting.fabric
        if self.has_rdispls:
            self.refuse("has_rdispls=True; legal: False", "leave it out")
        if fabric.lnc != _LNC:
            self.refuse(f"LNC={fabric.lnc}; legal: LNC=2", "launch the kernel as kernel[2]")
        for group in self.replica_group:
            chips = {fabric.place(rank)[:2] for rank in group}
            if len(group) != _RANKS_OF_CHIP or len(chips) > 1:
                self.refuse(
                    f"the group [{in_words(group)}] has {len(group)} ranks on {len(chips)} chips; "
                    "legal: 4 ranks of one chip",
                    "gather inside chips, and between them with all_gather",
                )

    def chunk(self, metadata: Array, member: int) -> tuple[int, int]:
        """The same chunk for every member, from the first column of the metadata."""
        del member
        return super().chunk(metadata, 0)
