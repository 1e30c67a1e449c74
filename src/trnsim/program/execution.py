"""Execution of captured instructions: on one core in order, on several in lockstep.

Without a watcher a core yields only where it meets the others: the captured run had no race, so the
order of other accesses changes no value. Cores that never meet run one after the other. A watcher
judges races again, and sees the accesses in the order of the captured run, in which cores take
turns after each instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple, Protocol, TypeAlias

from trnsim.arch import NeuronCore
from trnsim.errors import EmulatorError, SourceLine
from trnsim.isa import Engine, Instruction
from trnsim.isa.language.machine import Machine
from trnsim.memory import Tile
from trnsim.program.lockstep import Lockstep, Meetings, do_nothing
from trnsim.program.program import Program

Step: TypeAlias = Callable[[Machine], None]
"""A function that executes an instruction on the state of a core."""


class Watcher(Protocol):
    """Observer of the accesses of several cores to shared HBM: a race detector."""

    def before(self, core: int, writes: Iterable[Tile]) -> None:
        """Called before an instruction of `core` writes these tiles."""

    def accessed(
        self,
        core: int,
        reads: Iterable[Tile],
        writes: Iterable[Tile],
        line: SourceLine | None,
        waits_for: Sequence[int],
    ) -> None:
        """Called for each instruction of `core`, with its reads, writes and dependences."""

    def meets(self, group: Sequence[int], data: Iterable[Tile] = ()) -> None:
        """Called when a group of cores meets; a barrier orders the accesses to `data`."""


class CoreSteps(NamedTuple):
    """The captured instructions of a core.

    Attributes:
        places: by instruction, its index in the program.
        steps: the functions that execute them.
        numbers: by step, the number of its instruction, or of the first if it executes several.
        meets: whether an instruction waits for other cores.
    """

    program: Program
    places: Sequence[int]
    steps: Sequence[Step]
    instructions: Sequence[Instruction]
    numbers: Sequence[int]
    meets: bool


class Deviation(Exception):
    """A guard read other integers than in the capture.

    Attributes:
        core: the core that read them.
        step: the number of the guard among the core's captured instructions.
        values: the integers.
    """

    def __init__(self, core: int, step: int, values: tuple[int, ...]) -> None:
        super().__init__(core, step, values)
        self.core = core
        self.step = step
        self.values = values


class _GuardMismatch(Exception):
    """A guard read integers (`values`) other than in the capture."""

    def __init__(self, values: tuple[int, ...]) -> None:
        super().__init__(values)
        self.values = values


def guarded_step(instruction: Instruction, expected: tuple[int, ...]) -> Step:
    """A step that executes an instruction that reads integers, and compares them.

    Raises:
        _GuardMismatch: when the step runs, if the integers differ from `expected`.
    """
    registers = instruction.registers_written()

    def execute(machine: Machine) -> None:
        instruction.execute(machine)
        values = tuple(int(register.value) for register in registers)
        if values != expected:
            raise _GuardMismatch(values)

    return execute


class Execution:
    """One execution of the captured instructions of each core."""

    def __init__(
        self, core: NeuronCore, cores: Sequence[CoreSteps], watcher: Watcher | None
    ) -> None:
        self._core = core
        self._cores = cores
        self._watcher = watcher

    def run(self) -> None:
        """Execute all instructions.

        Raises:
            Deviation: if a guard reads other integers than in the capture.
            EmulatorError: if values make an instruction undefined or illegal; names the line.
        """
        meets = self._watcher is not None or any(core.meets for core in self._cores)
        if len(self._cores) == 1 or not meets:
            for number in range(len(self._cores)):
                self._run_core(number, Machine(self._core))
            return
        lockstep = Lockstep(len(self._cores))
        watcher: Watcher | None = self._watcher
        meetings = Meetings(lockstep, watcher.meets if watcher is not None else do_nothing)

        def body_of(number: int) -> Callable[[], None]:
            machine = Machine(self._core, meetings.link(number))
            if watcher is None:
                return lambda: self._run_core(number, machine)
            return partial(self._run_watched, number, machine, watcher, lockstep)

        lockstep.run([body_of(number) for number in range(len(self._cores))])

    def _run_core(self, number: int, machine: Machine) -> None:
        """Execute the instructions of a core."""
        core, place = self._cores[number], 0
        try:
            for place, step in enumerate(core.steps):  # noqa: B007  for the error
                step(machine)
        except (EmulatorError, _GuardMismatch) as error:
            self._raise_with_line(error, number, core.numbers[place])

    def _run_watched(
        self, number: int, machine: Machine, watcher: Watcher, lockstep: Lockstep
    ) -> None:
        """Execute the instructions of a core in turns with the others, and tell of accesses."""
        core, place = self._cores[number], 0
        before, turns, reads = instructions_before(core.program), 0, list[Tile]()
        try:
            for place, step in enumerate(core.steps):
                index = core.places[place]
                for turn in range(turns, index):  # instructions that access no memory
                    watcher.accessed(number, (), (), core.program.line(turn), before[turn])
                    lockstep.hand_over()
                turns = index
                own_reads, writes = core.instructions[place].accesses()
                shared = [tile for tile in writes if tile.storage.is_shared]
                watcher.before(number, shared)
                step(machine)
                reads += own_reads
                reads += [source for tile in (*own_reads, *writes) for source in tile.index_tiles()]
                if place + 1 < len(core.places) and core.places[place + 1] == index:
                    continue  # it read an index of the instruction that follows
                shared_reads = [tile for tile in reads if tile.storage.is_shared]
                line = core.program.line(index)
                watcher.accessed(number, shared_reads, shared, line, before[index])
                turns += 1
                reads.clear()
                lockstep.hand_over()
        except (EmulatorError, _GuardMismatch) as error:
            self._raise_with_line(error, number, place)

    def _raise_with_line(
        self, error: EmulatorError | _GuardMismatch, number: int, place: int
    ) -> None:
        """Raise `error` with the line of its instruction, or as a deviation."""
        core = self._cores[number]
        if isinstance(error, EmulatorError):
            error.line = core.program.line(core.places[place])
            raise error
        raise Deviation(number, place, error.values)


def instructions_before(program: Program) -> list[list[int]]:
    """By instruction, its dependences and the instruction before it on its engine."""
    last: dict[Engine, int] = {}
    result: list[list[int]] = []
    for index in range(len(program)):
        producers, engine = list(program.waits_for(index)), program.instruction(index).engine
        if engine is not Engine.dma:
            if engine in last:
                producers.append(last[engine])
            last[engine] = index
        result.append(producers)
    return result
