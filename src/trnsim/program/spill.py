"""Spills: transfers to another memory and back for a program whose live data exceed SBUF or PSUM.

"If the total size of the live data being used by a NKI kernel overflows the capacity of any on-chip
memory, the Neuron compiler will insert the necessary spills or refills between that memory and the
next-tier memory" (Source: memory-hierarchy-overview.rst, note on capacity): from SBUF to HBM by
DMA, from PSUM to SBUF by copies of the Vector Engine. Its choice of data is not public. Here, in
the order of issue, the part whose next use is farthest away is evicted (Belady). It is saved unless
HBM has its data, and reloaded before its next use. A load of an input for which there is no room is
deferred until its data are needed. A part reuses memory as in `program.memory_reuse`; some bytes
are freed in advance, so that transfers need not wait for the computation.

The spilled program serves timing alone: values and hazards are those of the issued program.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import ceil
from typing import Final

from trnsim.arch import NeuronCore
from trnsim.dtypes import FLOAT32, UINT8
from trnsim.errors import OutOfMemory, SourceLine
from trnsim.isa import DmaCopy, Engine, TensorCopy
from trnsim.memory import (
    AccessPattern,
    Memory,
    Storage,
    Tile,
    capacity_bytes,
    capacity_source,
)
from trnsim.memory.storage import next_serial
from trnsim.program.dependencies import Before
from trnsim.program.memory_reuse import FreeBytes
from trnsim.program.parts import NEVER, Access, AccessKind, Division, TensorPart
from trnsim.program.program import Checked, Program, StorageUse

NEXT: Final = {Memory.PSUM: Memory.SBUF, Memory.SBUF: Memory.HBM}
"""The next tier of the memory hierarchy, which receives spilled data."""

_WHOLE_SPEED_BYTES: Final = 4096
"""Bytes of a partition from which on transfers are nearly as fast as the DMA engines allow.

Source: nki-dma-overview.rst, Performance Considerations.
"""


@dataclass(frozen=True, slots=True)
class Spill:
    """A program with the transfers that keep its data within a memory on chip.

    Attributes:
        program: the instructions, including the transfers.
        saved_bytes: bytes moved to the next memory.
        reloaded_bytes: bytes moved back.
        transfers: the number of instructions that move them.
        largest: the tensor of which most bytes were moved; None if nothing was moved.
    """

    program: Program
    saved_bytes: int
    reloaded_bytes: int
    transfers: int
    largest: StorageUse | None


def insert_spills(
    program: Program, written_by_others: Collection[int] = (), memory: Memory = Memory.SBUF
) -> Spill:
    """`program` with spills, as AWS's compiler might insert them.

    Args:
        program: the issued program.
        written_by_others: serials of the tensors in HBM that other cores write.
        memory: SBUF or PSUM, whose data are moved.

    Raises:
        OutOfMemory: if a single instruction needs more than the memory holds.
    """
    return _Spiller(program, written_by_others, memory).run()


@dataclass(slots=True)
class _Residence:
    """The state of a part while the spilled program is built.

    Attributes:
        next_use: the next issued instruction that needs its data.
        is_here: true if it is in its memory.
        is_filled: true if it has data.
        is_copied: true if the next memory has its data.
        is_loaded: true if its data were copied from tensors in HBM that no instruction changes.
        writers: the instructions that wrote its data since it was last saved.
        users: the instructions that accessed it since its arrival; of each compute engine, which
            works nearly in order, only the last.
        first_access: the first instruction that accessed it since its arrival, or -1.
        last_save: the instruction that saved it last, or -1.
        reload: the instruction that reloaded its current data, or -1.
    """

    next_use: int = NEVER
    is_here: bool = False
    is_filled: bool = False
    is_copied: bool = False
    is_loaded: bool = True
    writers: list[int] = field(default_factory=list[int])
    users: dict[object, int] = field(default_factory=dict[object, int])
    first_access: int = -1
    last_save: int = -1
    reload: int = -1


class _Rewriter:
    """Builds the spilled program.

    Attributes:
        program: the spilled program so far.
        traffic_bytes: serial of a tensor in the memory -> [bytes saved, bytes reloaded] so far.
    """

    def __init__(self, issued: Program, memory: Memory) -> None:
        self._issued = issued
        self._memory = memory
        self.program = Program(
            issued.core,
            checked=list(issued.checked),
            first_serial=issued.first_serial,
            as_issued=issued.issued,
        )
        self.traffic_bytes: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
        self._places = array("q", [-1]) * len(issued)
        """By issued instruction, its place in the spilled program; -1 before it has one."""
        self._other_serials = {
            serial for serial, use in issued.uses.items() if use.memory is not memory
        }
        self._sized_parts: set[tuple[TensorPart, int]] = set()
        """Parts whose bytes the storage in the next memory already counts, with its serial."""
        self._areas: dict[TensorPart | tuple[str, SourceLine | None], int] = {}
        self._transfers: dict[tuple[int, int, int, bool], int] = {}

    def copy(self, index: int, after: Iterable[int]) -> int:
        """Append issued instruction `index`, which waits for `after` too; returns its place."""
        issued, places = self._issued, self._places
        waits_for = {*(places[predecessor] for predecessor in issued.waits_for(index)), *after}
        follows = [
            places[predecessor]
            for predecessor in issued.follows(index)
            if places[predecessor] not in waits_for
        ]
        place = len(self.program)
        self.program.append(
            issued.which[index], Before(sorted(waits_for), follows), issued.line(index)
        )
        self.program.tensor_of.append(issued.tensor_of[index])
        others = self._other_serials
        self.program.touches.append(
            [touch for touch in issued.touches.tiles_of(index) if touch[0] in others]
        )
        places[index] = place
        return place

    def move(self, part: TensorPart, after: Iterable[int], before: int, *, is_save: bool) -> int:
        """Append a transfer of `part`, for issued instruction `before`; returns its place."""
        place, program = len(self.program), self.program
        area = self._area(part, is_save=is_save)
        use = program.uses[area]
        which = self._transfer(part, area, is_save=is_save)
        program.append(which, Before(sorted(set(after)), []), self._issued.line(before))
        program.tensor_of.append(area if use.memory is Memory.HBM else -1)
        (source,), (target,) = program.instruction(place).instruction.accesses()
        layout = (target if is_save else source).layout
        program.touches.append([(area, layout, is_save)] if use.memory is not Memory.HBM else [])
        use.last_use = place
        if (part, area) not in self._sized_parts:
            self._sized_parts.add((part, area))
            use.nbytes += part.nbytes
        if is_save:
            use.first_write = place if use.first_write < 0 else use.first_write
            use.written_bytes += part.nbytes
        else:
            use.reads += 1
            use.read_bytes += part.nbytes
        self.traffic_bytes[part.serial][not is_save] += part.nbytes
        return place

    def note_live_range(self, part: TensorPart, first: int, last: int) -> None:
        """Record that `part` was in SBUF from instruction `first` to `last`."""
        use = self._issued.uses[part.serial]
        self.program.uses[next_serial()] = replace(
            use, row_bytes=part.row_bytes, nbytes=part.nbytes, first_write=first, last_use=last
        )

    def use(self, residence: _Residence, place: int) -> None:
        """Record that the instruction at `place` accesses a part."""
        engine = self.program.instruction(place).engine
        residence.users[place if engine is Engine.dma else engine] = place
        if residence.first_access < 0:
            residence.first_access = place

    def finish(self) -> Program:
        """The spilled program, with the lives of tensors in other memories."""
        places = self._places
        for serial, use in self._issued.uses.items():
            if use.memory is not self._memory:
                first = places[use.first_write] if use.first_write >= 0 else -1
                new_use = replace(use, first_write=first, last_use=places[use.last_use])
                self.program.uses[serial] = new_use
        self.program.ordering = self._issued.ordering.renumbered(places)
        return self.program

    def _area(self, part: TensorPart, *, is_save: bool) -> int:
        """The serial of the storage for a part in the next memory.

        In HBM the tensors of a source line share a storage; in SBUF each save has its own.
        """
        use, memory = self._issued.uses[part.serial], NEXT[self._memory]
        key = (use.name, use.line) if memory is Memory.HBM else part
        if key not in self._areas or (is_save and key is part):
            self._areas[key] = serial = next_serial()
            name = f"spill of {use.name or 'tensor'}"
            self.program.uses[serial] = StorageUse(
                memory, part.row_bytes, 0, name, use.line, -1, -1, is_spill=True
            )
        return self._areas[key]

    def _transfer(self, part: TensorPart, area: int, *, is_save: bool) -> int:
        """The index of the distinct instruction that moves `part`."""
        key = area, part.rows, part.row_bytes, is_save
        which = self._transfers.get(key)
        if which is None:
            name = self.program.uses[area].name
            which = self._transfers[key] = len(self.program.checked)
            shape = part.rows, part.row_bytes
            transfer = _transfer_instruction(
                self._memory, self.program.core, shape, name, is_save=is_save
            )
            self.program.checked.append(transfer)
        return which


def _transfer_instruction(
    memory: Memory, core: NeuronCore, shape: tuple[int, int], name: str, *, is_save: bool
) -> Checked:
    """A transfer of `shape` bytes between a memory and the named storage in the next memory."""
    dtype = UINT8 if memory is Memory.SBUF or shape[1] % FLOAT32.itemsize else FLOAT32
    pattern = AccessPattern.dense((shape[0], shape[1] // dtype.itemsize), dtype.itemsize)
    tile, next_tile = (
        Tile(Storage(which, shape[0] * shape[1], shape[1], name=name), dtype, pattern)
        for which in (memory, NEXT[memory])
    )
    dst, src = (next_tile, tile) if is_save else (tile, next_tile)
    move = DmaCopy(dst, src) if memory is Memory.SBUF else TensorCopy(dst, src)
    dims = move.verify(core)
    return Checked(move, dims, move.chosen_engine(core), move.price(core, dims), is_spill=True)


def _ahead_bytes(core: NeuronCore) -> int:
    """Bytes of a partition of SBUF that are transferred during the latency of a transfer."""
    shape = int(core.partitions), _WHOLE_SPEED_BYTES
    cost = _transfer_instruction(Memory.SBUF, core, shape, "", is_save=False).cost
    concurrent_count = 1 + ceil(cost.latency_s / cost.interval_s)
    return concurrent_count * _WHOLE_SPEED_BYTES


class _Spiller:
    """Walks through a program in issue order and chooses the parts that stay in a memory."""

    def __init__(
        self, program: Program, written_by_others: Collection[int], memory: Memory
    ) -> None:
        division = Division(program, memory)
        self._issued = program
        self._accesses = division.accesses
        self._parts = division.parts
        self._residences = [_Residence() for _ in division.parts]
        self._memory = memory
        self._pool = FreeBytes(capacity_bytes(program.core, memory))
        self._rewriter = _Rewriter(program, memory)
        self._farthest: list[tuple[int, int]] = []
        """Heap of (-next use, number) of the parts in the memory, with outdated entries."""
        self._deferred: set[int] = set()
        # Parts may fit where whole tensors do not.
        is_exceeded = memory is Memory.SBUF and division.peak_bytes() > self._pool.free_bytes
        self._ahead_bytes = _ahead_bytes(program.core) if is_exceeded else 0
        self._inputs = {
            serial
            for serial, use in program.uses.items()
            if use.memory is Memory.HBM
            and not use.written_bytes
            and serial not in written_by_others
        }
        self._loads = [
            memory is Memory.SBUF and _is_plain_load(checked) for checked in program.checked
        ]

    def run(self) -> Spill:
        """The spilled program."""
        for index in range(len(self._issued)):
            if self._can_wait(index):
                self._deferred.add(index)
            else:
                self._issue(index, index)
        for index in sorted(self._deferred):
            self._step(index, index)
        program, moved_bytes = self._rewriter.finish(), self._rewriter.traffic_bytes
        saved_bytes, reloaded_bytes = (
            sum(nbytes[direction] for nbytes in moved_bytes.values()) for direction in (0, 1)
        )
        most_moved = max(moved_bytes, key=lambda serial: sum(moved_bytes[serial]), default=None)
        transfers = len(program) - len(self._issued)
        largest = None if most_moved is None else self._issued.uses[most_moved]
        return Spill(program, saved_bytes, reloaded_bytes, transfers, largest)

    def _can_wait(self, index: int) -> bool:
        """True if instruction `index` is a load of an input for which there is no room yet."""
        issued = self._issued
        if not self._loads[issued.which[index]] or issued.tensor_of[index] not in self._inputs:
            return False
        is_new = all(
            access.kind is AccessKind.FILL or not self._residences[access.part].is_filled
            for access in self._accesses[index]
        )
        return is_new and self._pool.free_bytes < self._missing_bytes(index) + self._ahead_bytes

    def _missing_bytes(self, index: int) -> int:
        """The bytes of a partition that `index` accesses and that are not in the memory."""
        absent_parts = (
            access.part
            for access in self._accesses[index]
            if not self._residences[access.part].is_here
        )
        return sum(self._parts[part].row_bytes for part in absent_parts)

    def _issue(self, index: int, current: int) -> None:
        """Append instruction `index` after the loads that it waits for."""
        loads = self._pop_due_loads(index) if self._deferred else []
        for load in loads:
            loads += self._pop_due_loads(load)
        for step_index in (*sorted(loads), index):
            self._step(step_index, current)

    def _pop_due_loads(self, index: int) -> list[int]:
        """Remove and return the deferred loads that `index` waits for, or may not overtake."""
        issued = self._issued
        before = (*issued.waits_for(index), *issued.follows(index))
        due_loads = [load for load in before if load in self._deferred]
        self._deferred.difference_update(due_loads)
        return due_loads

    def _step(self, index: int, current: int) -> None:
        """Make room for the parts that instruction `index` accesses, and append the instruction.

        It is issued instruction `current`, or a load that `current` waits for.
        """
        accesses, residences = self._accesses[index], self._residences
        absent_accesses = [a for a in accesses if not residences[a.part].is_here]
        waits: set[int] = set()
        if absent_accesses:
            self._make_room(index, current)
            for access in absent_accesses:
                waits.update(self._arrive(index, access))
        waits.update([residences[access.part].reload for access in accesses])
        waits.discard(-1)
        place = self._rewriter.copy(index, waits)
        for access in accesses:
            self._access(index, place, access)

    def _arrive(self, index: int, access: Access) -> list[int]:
        """Reload a part; returns the instructions that its user has to wait for."""
        part, residence = self._parts[access.part], self._residences[access.part]
        after = self._pool.allocate(part.row_bytes)
        residence.is_here = True
        if access.kind is AccessKind.FILL or not residence.is_filled:
            residence.reload = -1
            return after
        before = [residence.last_save] if residence.last_save >= 0 else residence.writers
        residence.reload = self._rewriter.move(part, [*after, *before], index, is_save=False)
        self._rewriter.use(residence, residence.reload)
        return [residence.reload]

    def _access(self, index: int, place: int, access: Access) -> None:
        """Record the access of the instruction at `place` in the spilled program."""
        number, kind, next_use = access
        residence = self._residences[number]
        self._rewriter.use(residence, place)
        if kind is not AccessKind.USE:
            self._write(index, place, residence, kind)
        residence.next_use = next_use
        if next_use == NEVER:
            self._leave(number)
        else:
            heappush(self._farthest, (-next_use, number))

    def _write(self, index: int, place: int, residence: _Residence, kind: AccessKind) -> None:
        """Record that an instruction wrote new data to a part."""
        issued = self._issued
        if kind is AccessKind.FILL or not residence.is_filled:
            residence.writers, residence.is_loaded, residence.reload = [], True, -1
        is_load = self._loads[issued.which[index]] and issued.tensor_of[index] in self._inputs
        residence.is_loaded &= is_load
        residence.writers.append(place)
        residence.is_filled, residence.is_copied, residence.last_save = True, False, -1

    def _make_room(self, index: int, current: int) -> None:
        """Evict parts until there is room for the parts of `index`, and for the next transfers.

        Raises:
            OutOfMemory: if `index` alone needs more than the memory holds.
        """
        missing_bytes, ahead, pool = self._missing_bytes(index), self._ahead_bytes, self._pool
        while pool.free_bytes < missing_bytes + ahead:
            number = self._pop_farthest(current)
            if pool.free_bytes >= missing_bytes:
                if number is None:
                    return
                if self._parts[number].row_bytes > ahead:
                    heappush(self._farthest, (-self._residences[number].next_use, number))
                    return
            elif number is None:
                # A large load for instruction `current` evicts even parts that `current` needs.
                number = self._pop_farthest(index)
                if number is None:
                    raise self._too_large(index)
            self._evict(number, current)

    def _evict(self, number: int, current: int) -> None:
        """Free the room of a part whose data are needed later than `current`."""
        part, residence = self._parts[number], self._residences[number]
        if not (residence.is_copied or residence.is_loaded):
            before = (
                [*residence.writers, residence.reload]
                if residence.reload >= 0
                else residence.writers
            )
            residence.last_save = self._rewriter.move(part, before, current, is_save=True)
            self._rewriter.use(residence, residence.last_save)
            residence.is_copied, residence.writers = True, []
        self._leave(number)

    def _pop_farthest(self, current: int) -> int | None:
        """The resident part that is used farthest after `current`; None if none is used later."""
        current_uses: list[tuple[int, int]] = []
        farthest = None
        while self._farthest and farthest is None:
            next_use, number = heappop(self._farthest)
            residence = self._residences[number]
            if not residence.is_here or residence.next_use != -next_use:
                continue  # outdated: of an earlier access, or an earlier residence
            if residence.next_use > current:
                farthest = number
            else:
                current_uses.append((next_use, number))
        for entry in current_uses:
            heappush(self._farthest, entry)
        return farthest

    def _too_large(self, index: int) -> OutOfMemory:
        accessed_bytes = sum(self._parts[access.part].row_bytes for access in self._accesses[index])
        core = self._issued.core
        return OutOfMemory(
            f"{self._memory.value} of {core.name} holds {capacity_bytes(core, self._memory)} bytes "
            "a partition; "
            f"{self._issued.instruction(index).opcode} alone accesses {accessed_bytes}",
            fix="give it smaller tiles: what one instruction accesses cannot be spilled",
            source=capacity_source(core, self._memory),
            line=self._issued.line(index),
        )

    def _leave(self, number: int) -> None:
        """Take a part out of its memory; its room is free after all accesses to it."""
        residence, part = self._residences[number], self._parts[number]
        users = list(residence.users.values())
        self._rewriter.note_live_range(part, residence.first_access, max(users))
        self._pool.free(part.row_bytes, users)
        residence.is_here, residence.users, residence.first_access = False, {}, -1


def _is_plain_load(checked: Checked) -> bool:
    """True if an instruction copies bytes from HBM to SBUF unchanged."""
    copy = checked.instruction
    if not isinstance(copy, DmaCopy) or copy.src.memory is not Memory.HBM:
        return False
    return copy.src.dtype == copy.dst.dtype and copy.src.index is None and copy.dst.index is None
