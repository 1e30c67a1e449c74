"""Executables: captured programs with their own buffers, to be executed on other inputs.

Legality, capacity, races and time of a captured program depend on values through its guards alone
(`program.capture`), so they are checked once, and the guards in each execution. Errors that depend
on values (an index out of bounds, an accumulator that nothing reset) are found as instructions
execute, and so are unwritten elements of tracked storages. Tensors without an address share buffers
with tensors of their size whose lives do not overlap; inputs and results are bound to the caller's
bytes at each call.

Several cores run in lockstep (`program.execution`). No access of one races with one of another, so
they yield only where they meet.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock

import numpy as np

from trnsim.dtypes import Array
from trnsim.errors import EmulatorError, UninitializedRead
from trnsim.isa import Engine, Instruction
from trnsim.isa.language.machine import BatchPlan, Machine
from trnsim.memory import ByteMask, Memory
from trnsim.program import affine
from trnsim.program.affine import AffineStep, AffineSteps, touched
from trnsim.program.buffers import (
    FamilyRange,
    LiveRange,
    allocate,
    internal_lives,
    live_ranges,
    merge_cores,
    set_bytes,
)
from trnsim.program.capture import Capture, refuse_recording
from trnsim.program.execution import CoreSteps, Execution, Step, Watcher, guarded_step
from trnsim.program.program import Program
from trnsim.program.written import note_written, partly_written, refuse_unreadable


@dataclass(frozen=True)
class Result:
    """A returned storage after an execution: its bytes, and those of them that are written."""

    data: Array
    written: ByteMask


class Executable:
    """A captured program that runs without its kernel, on the bytes of new inputs.

    Attributes:
        watches_races: whether values decide if accesses of two cores race.
        writes_inputs: by input, whether instructions write to it.
        saved_steps: number of instructions less the number of affine steps that execute them.
        is_fixed: whether no values decide what is executed, which elements are written, or races.
    """

    def __init__(
        self,
        programs: Sequence[Program],
        captures: Sequence[Capture],
        input_lives: Sequence[LiveRange | None],
        results: Sequence[LiveRange],
        affine_steps: Sequence[AffineSteps],
    ) -> None:
        self._core = programs[0].core
        inputs = {life.storage.serial for life in input_lives if life is not None}
        tracked = _all_tracked(captures)
        unwritten_shared: list[UninitializedRead] = []
        self._unwritten_shared = unwritten_shared
        self._cores = [
            CoreSteps(
                program,
                capture.places,
                [
                    _single_step(capture, number, inputs, tracked, unwritten_shared)
                    for number in range(len(capture.instructions))
                ],
                capture.instructions,
                range(len(capture.instructions)),
                any(map(_meets, capture.instructions)),
            )
            for program, capture in zip(programs, captures, strict=True)
        ]
        lives = {life.storage.serial: life for life in (*input_lives, *results) if life is not None}
        self._grouped_cores = [
            _grouped_cores(core, steps.steps(), lives, inputs)
            for core, steps in zip(self._cores, affine_steps, strict=True)
        ]
        self.saved_steps = sum(
            len(core.instructions) - len(core.steps) for core in self._grouped_cores
        )
        self._restart_storages = [
            storage
            for storage in captures[0].storages.values()
            if storage.memory is Memory.PSUM or storage.is_placed
        ]
        self._tracked = [s for serial, s in captures[0].storages.items() if serial in tracked]
        full_serials = inputs.union(captures[0].initial_bytes)
        self._starts_full = {s.serial for s in self._tracked if s.serial in full_serials}
        self._bound = (*input_lives, *results)
        self._release()
        self._results = results
        self._lock = Lock()
        self.watches_races = len(captures) > 1 and _may_values_race(captures, tracked)
        self.writes_inputs = [life is not None and life.is_written for life in input_lives]
        self.has_guards = any(capture.guards for capture in captures)
        self.is_fixed = not (self.has_guards or self._tracked or self.watches_races)

    @classmethod
    def of(
        cls,
        programs: Sequence[Program],
        captures: Sequence[Capture],
        serials: Sequence[int],
        results: Sequence[int],
    ) -> Executable:
        """The executable of a captured run.

        Args:
            programs: the program of each core.
            captures: their captured instructions.
            serials: the input storages, in the order of the arrays that `execute` takes.
            results: serials of the returned storages that are not inputs.

        Raises:
            BadInput: if the kernel handled an error, wrote to a constant, or returned a constant.
        """
        if any(capture.is_broken for capture in captures):
            refuse_recording("it goes on after an error")
        initial_bytes, storages = captures[0].initial_bytes, captures[0].storages
        affine_steps = _affine_steps(programs, captures, serials)
        lives_by_core = [
            live_ranges(capture.instructions, steps.positions)
            for capture, steps in zip(captures, affine_steps, strict=True)
        ]
        lives = merge_cores(lives_by_core)
        constants = initial_bytes.keys() - set(serials)
        if any(lives[serial].is_written for serial in constants if serial in lives):
            refuse_recording("it writes to a constant")
        if not lives.keys() >= set(results) or constants.intersection(results):
            refuse_recording("it returns a tensor that no instruction has written")
        for serial in constants:
            storages[serial].data = initial_bytes[serial]
        bound = constants.union(serials, results)
        for core_lives, steps in zip(lives_by_core, affine_steps, strict=True):
            internal = internal_lives(core_lives, lives, bound)
            for family in steps.make_families(internal.keys()):
                members = [internal.pop(storage.serial) for storage in family.members]
                internal[family.storage.serial] = FamilyRange.of(family, members)
            allocate(list(internal.values()), len(steps.positions))
        for serial, life in lives.items():
            if serial not in bound and not any(
                core_lives.get(serial) is life for core_lives in lives_by_core
            ):
                set_bytes(life, np.empty(life.storage.nbytes, np.uint8))
        inputs = [lives.get(serial) for serial in serials]
        return cls(programs, captures, inputs, [lives[serial] for serial in results], affine_steps)

    def execute(
        self,
        inputs: Sequence[Array],
        changed: Sequence[ByteMask | None] = (),
        watcher: Watcher | None = None,
    ) -> list[Result]:
        """The results for the bytes of the inputs; threads take turns.

        Args:
            inputs: the bytes of each input; instructions may write to them.
            changed: for each input a mask that receives the bytes written, or None.
            watcher: observer of the accesses and meetings of several cores, if any.

        Raises:
            Deviation: if an integer that a guard reads is another than in the capture.
            EmulatorError: if values make an instruction undefined or illegal; names the line.
        """
        with self._lock:
            try:
                results = self._bind(inputs, changed)
                with np.errstate(all="ignore"):
                    self._run(watcher, is_exclusive=self._are_exclusive(inputs))
                if self._unwritten_shared:
                    raise self._unwritten_shared[0]
                masks = [life.storage.written for life in self._results]
            finally:
                self._release()
        return [Result(*pair) for pair in zip(results, masks, strict=True)]

    def _run(self, watcher: Watcher | None, *, is_exclusive: bool) -> None:
        """Run all instructions, in affine steps unless inputs that are written share bytes.

        If values make an instruction illegal, the run is repeated without steps, so that the error
        is that of the first such instruction. Where inputs are written, no step can be illegal.
        """
        self._restart()
        if self.saved_steps and watcher is None and is_exclusive and affine.is_on():
            try:
                Execution(self._core, self._grouped_cores, None).run()
            except EmulatorError:
                if any(self.writes_inputs):
                    raise
                self._restart()
            else:
                return
        Execution(self._core, self._cores, watcher).run()

    def _restart(self) -> None:
        for storage in self._restart_storages:
            storage.restart()
        for storage in self._tracked:
            is_full = storage.serial in self._starts_full
            storage.written = ByteMask(storage.nbytes, is_full=is_full)
        self._unwritten_shared.clear()

    def _are_exclusive(self, inputs: Sequence[Array]) -> bool:
        """True if no input that instructions write shares bytes with another input."""
        return not any(self.writes_inputs) or not any(
            is_written and number != other and np.may_share_memory(array, inputs[other])
            for number, (array, is_written) in enumerate(
                zip(inputs, self.writes_inputs, strict=True)
            )
            for other in range(len(inputs))
        )

    def _bind(self, inputs: Sequence[Array], changed: Sequence[ByteMask | None]) -> list[Array]:
        """Bind the storages of inputs and results to arrays; returns the results' arrays."""
        results = [np.empty(life.storage.nbytes, np.uint8) for life in self._results]
        for life, data in zip(self._bound, (*inputs, *results), strict=True):
            if life is not None:
                life.storage.data = data  # its tiles have no arrays since `_release`
        for life, mask in zip(self._bound, changed, strict=False):
            if life is not None:
                life.storage.changed = mask
        return results

    def _release(self) -> None:
        """Unbind the storages of inputs and results."""
        for life in self._bound:
            if life is not None:
                set_bytes(life, None)
                life.storage.changed = None


def _meets(instruction: Instruction) -> bool:
    """True if an instruction waits for other cores."""
    kind = type(instruction)
    return kind.meeting is not Instruction.meeting or kind.meets_ranks


def _single_step(
    capture: Capture,
    number: int,
    inputs: Collection[int],
    tracked: Collection[int],
    unwritten_shared: list[UninitializedRead],
) -> Step:
    """A function that executes an instruction and records the bytes of inputs that it wrote."""
    instruction = capture.instructions[number]
    plan = instruction.plan()
    step: Step = instruction.execute if plan is None else partial(plan, instruction)
    if number in capture.guards:
        step = guarded_step(instruction, capture.guards[number])
    if any(tile.storage.serial in tracked for tile, _, _ in touched(instruction)):
        return _tracked_step(instruction, step, unwritten_shared)
    writes = instruction.accesses()[1]
    if not any(tile.storage.serial in inputs for tile in writes):
        return step

    def execute(machine: Machine) -> None:
        step(machine)
        for tile in instruction.fully_written_tiles():
            if tile.storage.serial in inputs:
                tile.mark_written()

    return execute


def _tracked_step(
    instruction: Instruction, step: Step, unwritten_shared: list[UninitializedRead]
) -> Step:
    """A function that executes an instruction with all checks of written elements.

    Raises:
        BadInput: for an instruction that reads other tiles if other elements are written.
    """
    if type(instruction).accesses is not Instruction.accesses:
        refuse_recording(f"{instruction.opcode} reads what is written of a tensor")
    by_matmul = Engine.tensor in instruction.engines
    reads, writes = instruction.accesses()
    indices = [source for tile in (*reads, *writes) for source in tile.index_tiles()]

    def execute(machine: Machine) -> None:
        for tile in indices:
            refuse_unreadable(instruction, tile, unwritten_shared)
        partial_writes = partly_written(instruction, [*reads, *indices], unwritten_shared)
        step(machine)
        note_written(instruction.fully_written_tiles(), partial_writes, by_matmul=by_matmul)

    return execute


def _all_tracked(captures: Sequence[Capture]) -> set[int]:
    """The tracked storages, and those written by instructions that read tracked ones."""
    tracked = set(captures[0].tracked)
    flows = [
        (
            {tile.storage.serial for tile, is_read, _ in touches if is_read},
            {tile.storage.serial for tile, _, is_written in touches if is_written},
        )
        for capture in captures
        for touches in map(list, map(touched, capture.instructions))
    ] if tracked else []  # fmt: skip
    count = -1
    while count != len(tracked):
        count = len(tracked)
        for reads, writes in flows:
            if not tracked.isdisjoint(reads):
                tracked |= writes
    if any(s.is_placed for serial, s in captures[0].storages.items() if serial in tracked):
        refuse_recording(
            "values decide which elements of a tensor are written, at an address that the "
            "kernel fixed"
        )
    return tracked


def _may_values_race(captures: Sequence[Capture], tracked: Collection[int]) -> bool:
    """True if values decide which bytes cores access of a shared tensor that a core writes.

    There is no race for a tensor that no core writes.
    """
    shared = [
        (tile, is_written)
        for capture in captures
        for instruction in capture.instructions
        for tile, _, is_written in touched(instruction)
        if tile.storage.is_shared
    ]
    written_serials = {tile.storage.serial for tile, is_written in shared if is_written}
    return not written_serials.isdisjoint(tracked) or any(
        tile.index is not None and tile.storage.serial in written_serials for tile, _ in shared
    )


def _affine_steps(
    programs: Sequence[Program], captures: Sequence[Capture], serials: Sequence[int]
) -> list[AffineSteps]:
    """The affine steps of each core; `serials` are the serial numbers of the inputs' storages."""
    tracked = _all_tracked(captures)
    writes_inputs = any(
        is_written and tile.storage.serial in serials
        for capture in captures
        for instruction in capture.instructions
        for tile, _, is_written in touched(instruction)
    )
    return [
        AffineSteps(
            capture.instructions, program.core, capture.guards, tracked, is_total=writes_inputs
        )
        for program, capture in zip(programs, captures, strict=True)
    ]


def _grouped_cores(
    core: CoreSteps,
    steps: Sequence[AffineStep],
    lives: Mapping[int, LiveRange],
    inputs: Collection[int],
) -> CoreSteps:
    """The instructions of a core in affine steps.

    Args:
        core: the core.
        steps: the steps in order.
        lives: by serial, the live ranges of tensors whose bytes change between executions.
        inputs: the serials of inputs.
    """
    return core._replace(
        steps=[
            core.steps[step.members[0]]
            if step.instruction is None or step.plan is None
            else _merged_step(core, step, step.instruction, step.plan, lives, inputs)
            for step in steps
        ],
        numbers=[step.members[0] for step in steps],
    )


def _merged_step(
    core: CoreSteps,
    step: AffineStep,
    batch_instruction: Instruction,
    plan: BatchPlan,
    lives: Mapping[int, LiveRange],
    inputs: Collection[int],
) -> Step:
    """A function that executes the instructions of an affine step."""
    for tile, _, _ in touched(batch_instruction):
        if tile.storage.serial in lives:
            lives[tile.storage.serial].tiles.append(tile)
    written_tiles = [
        tile
        for member in step.members
        for tile in core.instructions[member].accesses()[1]
        if tile.storage.serial in inputs
    ]
    if not written_tiles:
        return partial(plan.run, batch_instruction)

    def execute(machine: Machine) -> None:
        plan.run(batch_instruction, machine)
        for tile in written_tiles:
            tile.mark_written()

    return execute
