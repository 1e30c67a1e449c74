"""Core contexts: each issues, checks, executes and records the instructions of one core.

An instruction executes when it is issued, so kernels can print values and be stepped through in a
debugger.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

from trnsim.arch import NeuronCore
from trnsim.errors import InternalError, SourceLine, UninitializedRead, user_line
from trnsim.isa import Engine, Instruction
from trnsim.isa.language.machine import Machine, RankLink
from trnsim.isa.language.overlap import refuse_overlap
from trnsim.memory import CoreMemory, ScalarIndex, Storage, Tile
from trnsim.memory.storage import next_serial
from trnsim.program.capture import Capture, refuse_recording
from trnsim.program.connections import LoopObserver, Peer
from trnsim.program.dependencies import DependencyTable
from trnsim.program.edges import Nesting, Ordering, Turns
from trnsim.program.follower import Follower
from trnsim.program.joint import AgreeingCores
from trnsim.program.plain import PlainStep
from trnsim.program.program import Checked, Program
from trnsim.program.records import KernelRecord, Recorder
from trnsim.program.signatures import SignatureInfo, checked_info
from trnsim.program.written import note_written, partly_written, refuse_unreadable, shared_tiles

_INSTRUCTIONS_PER_REPORT = 1024


class CoreContext:
    """One emulated NeuronCore while it runs a kernel.

    Attributes:
        has_values: False in shape-only mode.
        peer: its view of the other cores of a logical core; None on a single core.
        loops: observer of its loops, or None.
        capture: keeps its instructions so that they can be executed again, or None.
        report_progress: called at intervals with the number of instructions so far, or None.
        may_be_in_psum: False as long as `left_in_psum` had no entry.
        last: the index of the instruction that was issued last.
        ordering: the order that the kernel asks for beside that of its data.
        nesting: the device loops that run around the next instruction.
        unknown_call: the operands and the caller of the running function of NKI, for a step of the
            record that has yet to learn which call issues it.
        labels: by `name=`, the instructions with that name and the loops around them.
        unwritten_shared: reads of shared HBM that nothing had written yet. If another core writes
            there later, that is a race; otherwise the first of these errors is raised at the end.
    """

    def __init__(
        self,
        core: NeuronCore,
        *,
        has_values: bool = True,
        peer: Peer | None = None,
        loops: LoopObserver | None = None,
        ranks: RankLink | None = None,
    ) -> None:
        self.core = core
        self.has_values = has_values
        self.peer = peer
        self.loops = loops
        self.memory = CoreMemory(
            core, has_values=has_values, shared=peer.shared if peer is not None else None
        )
        self.capture: Capture | None = None
        self.report_progress: Callable[[int], None] | None = None
        self.unwritten_shared: list[UninitializedRead] = []
        self.may_be_in_psum = False
        self.ordering = Ordering()
        self.nesting = Nesting()
        self.labels: dict[str, list[tuple[int, Turns]]] = {}
        self._first_serial = next_serial()
        self._watched = peer if peer is not None and peer.is_watched else None
        self._machine = Machine(core, peer.link if peer else None, ranks)
        self._dependencies = DependencyTable()
        self.last = -1
        self._signatures: dict[tuple[object, ...], SignatureInfo] = {}
        self._last_on: dict[Engine, int] = {}
        self._ordered: dict[Engine, int] | None = None
        self._follower: Follower | None = None
        self._agreeing_cores: AgreeingCores | None = None
        self._has_left = False
        self._recorder: Recorder | None = None
        self.unknown_call: tuple[dict[str, Any], FrameType] | None = None

    @cached_property
    def program(self) -> Program:
        """The instructions issued so far; a run that follows a record makes none."""
        return Program(self.core, first_serial=self._first_serial, ordering=self.ordering)

    @cached_property
    def left_in_psum(self) -> WeakKeyDictionary[Storage, Tile]:
        """SBUF tensors without values yet, and the PSUM tiles in their place (`nki.settling`)."""
        return WeakKeyDictionary()

    def follow(
        self,
        record: KernelRecord,
        inputs: Sequence[Storage],
        agreeing_cores: AgreeingCores | None = None,
    ) -> None:
        """Compare the instructions issued from now on with `record`, as long as they agree.

        `agreeing_cores` are the cores of the launch, if there are several.
        """
        self._follower = Follower(record, inputs, self._first_serial, agreeing_cores)
        self._agreeing_cores = agreeing_cores
        self.program, self._signatures = record.program, record.signatures

    def record(
        self, inputs: Sequence[Storage], common: dict[int, int] | None = None
    ) -> KernelRecord:
        """Record the instructions issued from now on; returns the growing record.

        `common` has the numbers of the storages that several cores share.
        """
        record = KernelRecord(self.program, self._signatures, len(inputs))
        self._recorder = Recorder(record, inputs, common)
        return record

    @property
    def is_following(self) -> bool:
        """True while the core compares its instructions with a record."""
        return self._follower is not None

    def agreed_to_the_end(self) -> bool:
        """True if the finished run agreed with an entire record."""
        is_complete = self._follower is not None and self._follower.is_complete()
        return is_complete and self.ordering == self.program.ordering

    def end(self) -> tuple[KernelRecord | None, KernelRecord | None]:
        """End a run: the earlier record with which it agreed, and its new record, each or None."""
        if self._follower is not None and not self.agreed_to_the_end():
            self._leave_record()
        recorder = self._recorder
        return (
            self._follower.record if self._follower is not None else None,
            recorder.record if recorder is not None else None,
        )

    def world(self, opcode: str) -> RankLink:
        """The link to other ranks.

        Raises:
            IllegalInstruction: in a run without ranks; names `opcode`.
        """
        return self._machine.world(opcode)

    def issue(self, instruction: Instruction) -> None:
        """Check, execute and record `instruction`.

        Raises:
            EmulatorError: for any rule that the instruction violates, with the user's line.
        """
        info = self._check(instruction)
        after = self._register_writers(instruction) if info.reads_registers else ()
        ordered, engine = self._ordered, info.checked.engine
        if ordered is not None and engine in ordered:
            after += (~ordered[engine],)
        if info.has_index:
            self._issue_indexed(instruction, info, after)
        else:
            self._run(instruction, info, *info.accesses(instruction), after)
        if ordered is not None:
            ordered[engine] = self.last
        if info.writes_registers:
            for register in instruction.registers_written():
                register.origins = ((self._first_serial, self.last),)

    def issue_next(self, instruction: Instruction) -> bool:
        """Execute `instruction` if it equals the record's next, plain step; False if it does not.

        The record replaces the checks of `issue`. Only for functions of NKI: their callers, up to
        the kernel's line, are compared too.
        """
        follower, loops = self._follower, self.loops
        if follower is None or self._ordered is not None or (loops is not None and loops.running):
            return False
        frame = sys._getframe(2)  # noqa: SLF001  as `user_line`
        plain = follower.next_plain(instruction, frame) if self.has_values else None
        if plain is None or self.report_progress is not None:
            return False
        if self.unknown_call is not None:
            plain.learn_call(*self.unknown_call, frame, instruction)
        self._execute_plain(follower, plain, instruction)
        return True

    def issue_again(self, kind: type[Instruction], operands: dict[str, Any]) -> bool:
        """Execute the call of the function for `kind`, if it is that of the record's next step.

        As `issue_next`, but the call is compared, and not the instruction that it makes. A call
        that is not known yet is learnt if the function issues an instruction that agrees.
        """
        follower, loops = self._follower, self.loops
        if (
            follower is None
            or self._ordered is not None
            or self.nesting.turns
            or self.may_be_in_psum
            or self.report_progress is not None
            or not self.has_values
            or (loops is not None and loops.running)
        ):
            return False
        frame = sys._getframe(2)  # noqa: SLF001  as `user_line`
        plains, position = follower.plains, follower.position
        plain = plains[position] if position < len(plains) else None
        if plain is None or plain.kind is not kind:
            return False
        if plain.call is None:
            self.unknown_call = None if plain.is_learnt else (operands.copy(), frame)
            return False
        instruction = plain.call.instruction(frame, operands)
        has_tiles = follower.has_direct if plain.direct else follower.has_gathered
        if instruction is None or not has_tiles(plain, instruction):
            return False
        self._execute_plain(follower, plain, instruction)
        return True

    def _execute_plain(
        self, follower: Follower, plain: PlainStep, instruction: Instruction
    ) -> None:
        """Execute an instruction that agrees with the record's next step, and advance past it."""
        info, operands = plain.info, instruction.__dict__
        peer, agreeing_cores = self.peer, self._agreeing_cores
        shared: tuple[Sequence[Tile], Sequence[Tile]] = ((), ())
        if agreeing_cores is not None and (plain.shared_reads or plain.shared_writes):
            shared = plain.shared_tiles(operands)
            if peer is not None and shared[1]:
                peer.before(peer.rank, shared[1])
        for name in plain.reads:
            storage = operands[name].storage
            if not storage.written.is_full or storage.is_placed:
                self._execute(instruction, info, *info.accesses(instruction))
                break
        else:
            info.run(instruction, self._machine)
            for name in plain.writes:
                tile = operands[name]
                storage = tile.storage
                if not storage.is_simple:
                    note_written((tile,), [], by_matmul=plain.by_matmul)
                elif not storage.written.is_full:
                    tile.mark_written()
        self.last = follower.position
        follower.position += 1
        if agreeing_cores is not None and peer is not None:
            agreeing_cores.note_agreement(peer.rank, self.last, info, *shared, plain.line)
            peer.hand_over()

    @contextmanager
    def outside_loops(self) -> Generator[None]:
        """Context in which instructions belong to no loop iteration, e.g. for a constant."""
        loops, self.loops = self.loops, None
        try:
            with self.memory.outside_loops():
                yield
        finally:
            self.loops = loops

    @contextmanager
    def in_order(self) -> Generator[None]:
        """Context in which no instruction may overtake an earlier instruction of its engine."""
        if self._ordered is not None:
            yield
            return
        self._ordered = {}
        try:
            with self.ordering.block(self.issued):
                yield
        finally:
            self._ordered = None

    def issued(self) -> int:
        """Number of instructions issued so far."""
        follower = self._follower
        return len(self.program.which) if follower is None else follower.position

    def _register_writers(self, instruction: Instruction) -> tuple[int, ...]:
        """The instructions that wrote the registers that `instruction` reads."""
        origins = chain(*(register.origins for register in instruction.registers_read()))
        return tuple(sorted({place for serial, place in origins if serial == self._first_serial}))

    def refuse_capture(self, reason: str) -> None:
        """Stop a capture: the kernel has side effects outside its instructions; trace every call.

        Raises:
            BadInput: if the run is being captured.
        """
        if self.capture is not None:
            refuse_recording(reason)

    def _issue_indexed(
        self, instruction: Instruction, info: SignatureInfo, after: tuple[int, ...]
    ) -> None:
        """Issue an instruction with an indexed operand, whose address is computed here."""
        reads, writes = instruction.accesses()
        indices = [source for tile in (*reads, *writes) for source in tile.index_tiles()]
        if not self.has_values:
            self._run(instruction, info, reads + indices, writes, after)
            return
        for tile in indices:
            tile.require_within()
            refuse_unreadable(instruction, tile, self.unwritten_shared)
        resolved = instruction.resolved()
        if self.capture is not None and resolved is not instruction:
            shifts = (t.index for t in (*reads, *writes) if isinstance(t.index, ScalarIndex))
            sources = [shift.source for shift in shifts]
            self.capture.guard(self.issued(), [t for t in sources if isinstance(t, Tile)])
        if resolved is None:
            # An instruction skipped by an index out of bounds is issued too, and reads its index.
            self._record(info, indices, [], [], after)
            return
        if resolved is instruction:
            self._run(instruction, info, reads + indices, writes, after)
            return
        reads, writes = resolved.accesses()
        self._run(resolved, self._check(resolved), reads + indices, writes, after)

    def _run(
        self,
        instruction: Instruction,
        info: SignatureInfo,
        reads: list[Tile],
        writes: list[Tile],
        after: tuple[int, ...],
    ) -> None:
        """Execute and record a checked instruction whose operands have fixed addresses."""
        names = instruction.fences
        fences = [getattr(instruction, name) for name in names] if names else []
        if self._watched is not None and (changed := [t for t in writes if t.storage.is_shared]):
            if self._agreeing_cores is not None:
                self._compare_first(info, reads, writes, fences, after)
            if self.has_values:
                self._watched.before(self._watched.rank, changed)
        if info.streams:
            for dst in writes:
                for src in reads:
                    is_same = src is dst and info.keeps_order
                    if src.storage is dst.storage and not is_same:
                        refuse_overlap(instruction, dst, src)
        if self.has_values:
            self._execute(instruction, info, reads, writes)
        elif instruction.runs_without_values:
            instruction.execute(self._machine)
        self._record(info, reads, writes, fences, after)

    def _compare_first(
        self,
        info: SignatureInfo,
        reads: list[Tile],
        writes: list[Tile],
        fences: list[Tile],
        after: tuple[int, ...],
    ) -> None:
        """Leave the record if the next instruction, a write to shared memory, differs from it.

        It is left before the write, so that the detector finds the earlier bytes in memory.
        """
        line, follower = user_line(), self._follower
        if follower is None or not follower.would_agree(info, line, reads, writes, fences, after):
            self._leave_record()

    def _execute(
        self, instruction: Instruction, info: SignatureInfo, reads: list[Tile], writes: list[Tile]
    ) -> None:
        """Compute the values, and mark the elements written."""
        unsure = [t for t in reads if not t.storage.written.is_full or t.storage.is_placed]
        partial_writes = (
            partly_written(instruction, unsure, self.unwritten_shared) if unsure else []
        )
        if self.capture is None:
            info.run(instruction, self._machine)
        else:
            self.capture.execute(len(self.program), instruction, reads, self._machine)
        written = writes if info.writes_all else instruction.fully_written_tiles()
        note_written(written, partial_writes, by_matmul=info.checked.engine is Engine.tensor)

    def _record(
        self,
        info: SignatureInfo,
        reads: list[Tile],
        writes: list[Tile],
        fences: list[Tile],
        after: tuple[int, ...],
    ) -> None:
        """Record an executed instruction, or advance in the record that already contains it."""
        line = user_line(depth=len(("_record", "_run", "issue", "its caller")))
        if self.loops is not None and self.loops.running:
            self.loops.accessed(reads, writes, line)
        follower, peer = self._follower, self._watched
        index = self.last = self.issued()
        if follower is not None and not follower.agrees(info, line, reads, writes, fences, after):
            self._leave_record()
            follower = None
        if self._has_left:  # it may have been checked by the record that another core has left
            self._has_left, info = False, self._renumbered(info)
        if follower is None:
            ordered = self._record_new(info, line, reads, writes, fences, after)
            if self._recorder is not None:
                self._recorder.note(info, line, reads, writes, fences, after)
            if peer is not None:
                waits_for = self.instructions_before(index, info.checked, ordered)
                shared = shared_tiles(reads, writes, self.has_values)
                peer.accessed(peer.rank, *shared, line, waits_for)
        elif self._agreeing_cores is not None and peer is not None:
            shared = shared_tiles(reads, writes, self.has_values)
            self._agreeing_cores.note_agreement(peer.rank, index, info, *shared, line)
        if peer is not None:
            peer.hand_over()
        if self.report_progress is not None and index % _INSTRUCTIONS_PER_REPORT == 0:
            self.report_progress(index)

    def _record_new(
        self,
        info: SignatureInfo,
        line: SourceLine | None,
        reads: list[Tile],
        writes: list[Tile],
        fences: list[Tile],
        after: tuple[int, ...],
    ) -> list[int]:
        """Record an instruction; returns the instructions that it waits for."""
        program, engine = self.program, info.checked.engine
        ordered_by = writes + fences if fences else writes
        before = self._dependencies.before(engine, reads, ordered_by, after, info.states)
        program.append(info.number, before, line)
        program.note_use(len(program.which) - 1, reads, writes)
        return before.waits_for

    def _leave_record(self) -> None:
        """Stop following the record, and re-record the instructions issued so far."""
        if self._agreeing_cores is not None:
            self._agreeing_cores.leave()
        else:
            self.leave_own_record()

    def leave_own_record(self) -> list[list[int]]:
        """As `_leave_record`, on this core; returns `instructions_before` of each instruction."""
        follower, self._follower = self._follower, None
        if follower is None:
            raise InternalError("a run left a record that it did not follow")
        self._agreeing_cores, self._has_left = None, True
        del self.program
        self._signatures = {}
        self._last_on.clear()
        before: list[list[int]] = []
        for step, reads, writes, fences in follower.agreed_steps():
            info = self._renumbered(step.info)
            ordered = self._record_new(info, step.line, reads, writes, fences, step.after)
            if self.peer is not None:
                before.append(self.instructions_before(len(before), info.checked, ordered))
        return before

    def _renumbered(self, info: SignatureInfo) -> SignatureInfo:
        """A recorded signature's properties, with the signature's number in this program."""
        renumbered = self._signatures.get(info.signature)
        if renumbered is None:
            renumbered = info.numbered(len(self.program.checked))
            self._signatures[info.signature] = renumbered
            self.program.checked.append(renumbered.checked)
        return renumbered

    def instructions_before(self, index: int, checked: Checked, ordered: list[int]) -> list[int]:
        """`ordered`, and the instruction before `index` on its engine (DMA engines have none)."""
        if checked.engine is Engine.dma:
            return ordered
        before = self._last_on.get(checked.engine)
        self._last_on[checked.engine] = index
        return ordered if before is None else [*ordered, before]

    def _check(self, instruction: Instruction) -> SignatureInfo:
        """The properties of the instruction's signature; each signature is checked once."""
        signature = instruction.signature()
        try:
            info = self._signatures.get(signature)
        except TypeError:  # an operand that should be a tile: `verify` names it
            instruction.verify(self.core)
            raise
        if info is None:
            if self._follower is not None:
                self._leave_record()
            number = len(self.program.checked)
            info = checked_info(signature, number, instruction, self.core, self.has_values)
            self._signatures[signature] = info
            self.program.checked.append(info.checked)
        elif info.converted_fields:
            instruction.__dict__.update(info.converted_fields)
        return info
