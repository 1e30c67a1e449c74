"""Executables: captured programs with their own buffers, to be executed on other inputs.

Legality, capacity, definedness, races and time of a captured program do not depend on values, so
they are checked once. Errors that depend on values (an index out of bounds, an accumulator that
nothing reset) are found as instructions execute. Tensors without an address share buffers with
tensors of their size whose lives do not overlap; inputs and results are bound to the caller's bytes
at each call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from trnsim.dtypes import Array
from trnsim.errors import EmulatorError
from trnsim.isa import Instruction
from trnsim.isa.language.declaration import CHANGES
from trnsim.isa.language.machine import Machine
from trnsim.memory import ByteMask, Memory, Storage, Tile
from trnsim.program.capture import Capture, refuse
from trnsim.program.program import Program


@dataclass
class _LiveRange:
    """The live range of a storage: its tiles, and its first and last instruction."""

    storage: Storage
    first: int
    last: int = 0
    tiles: list[Tile] = field(default_factory=list["Tile"])
    is_written: bool = False


class Executable:
    """A captured program that runs without its kernel, on the bytes of new inputs."""

    def __init__(
        self,
        program: Program,
        capture: Capture,
        input_lives: Sequence[_LiveRange | None],
        results: Sequence[_LiveRange],
    ) -> None:
        self._program = program
        self._places = capture.places
        inputs = {life.storage.serial for life in input_lives if life is not None}
        self._steps = [_step(instruction, inputs) for instruction in capture.instructions]
        self._storages = list(capture.storages.values())
        self._bound = (*input_lives, *results)
        self._result_bytes = [life.storage.nbytes for life in results]
        self._lock = Lock()

    @classmethod
    def of(
        cls, program: Program, capture: Capture, serials: Sequence[int], results: Sequence[int]
    ) -> Executable:
        """The executable of a captured run.

        Args:
            program: the run's program.
            capture: its captured instructions.
            serials: the input storages, in the order of the arrays that `execute` takes.
            results: serials of the returned storages that are not inputs.

        Raises:
            BadInput: if the kernel handled an error, wrote to a constant, or returned a constant.
        """
        if capture.is_broken:
            refuse("it goes on after an error")
        lives = _live_ranges(capture.instructions)
        constants = capture.initial_bytes.keys() - set(serials)
        if any(lives[serial].is_written for serial in constants if serial in lives):
            refuse("it writes to a constant")
        if not lives.keys() >= set(results) or constants.intersection(results):
            refuse("it returns a tensor that no instruction has written")
        for serial in constants:
            capture.storages[serial].data = capture.initial_bytes[serial]
        elsewhere = constants.union(serials, results)
        internal = [life for serial, life in lives.items() if serial not in elsewhere]
        _allocate(internal, len(capture.instructions))
        inputs = [lives.get(serial) for serial in serials]
        return cls(program, capture, inputs, [lives[serial] for serial in results])

    def execute(
        self, inputs: Sequence[Array], changed: Sequence[ByteMask | None] = ()
    ) -> list[Array]:
        """The bytes of the results for the bytes of the inputs; threads take turns.

        Args:
            inputs: the bytes of each input; instructions may write to them.
            changed: for each input a mask that receives the bytes written, or None.

        Raises:
            EmulatorError: if values make an instruction undefined or illegal; names the line.
        """
        with self._lock:
            place = 0
            try:
                results = self._bind(inputs, changed)
                for storage in self._storages:
                    storage.restart()
                machine = Machine(self._program.core)
                with np.errstate(all="ignore"):
                    for place, step in enumerate(self._steps):  # noqa: B007  for the error
                        step(machine)
            except EmulatorError as error:
                error.line = self._program.line(self._places[place])
                raise
            finally:
                for life in self._bound:
                    if life is not None:
                        _set_bytes(life, None)
                        life.storage.changed = None
        return results

    def _bind(self, inputs: Sequence[Array], changed: Sequence[ByteMask | None]) -> list[Array]:
        """Bind the storages of inputs and results to arrays; returns the results' arrays."""
        results = [np.empty(nbytes, np.uint8) for nbytes in self._result_bytes]
        for life, data in zip(self._bound, (*inputs, *results), strict=True):
            if life is not None:
                _set_bytes(life, data)
        for life, mask in zip(self._bound, changed, strict=False):
            if life is not None:
                life.storage.changed = mask
        return results


def _set_bytes(life: _LiveRange, data: Array | None) -> None:
    """Give the storage of `life` the bytes `data`."""
    life.storage.data = data
    for tile in life.tiles:
        tile.forget_array()


def _step(instruction: Instruction, inputs: Collection[int]) -> Callable[[Machine], None]:
    """A function that executes `instruction` and records the bytes of inputs that it wrote."""
    written = [tile for tile in instruction.fully_written_tiles() if tile.storage.serial in inputs]
    if not written:
        return instruction.execute

    def execute(machine: Machine) -> None:
        instruction.execute(machine)
        for tile in written:
            tile.mark_written()

    return execute


def _touched(instruction: Instruction) -> Iterator[tuple[Tile, bool]]:
    """(tile, true if it may be written) for each tile of an instruction, indices included."""
    for operand, tile in instruction.tiles():
        yield tile, operand.access in CHANGES
        for source in tile.index_tiles():
            yield source, False


def _live_ranges(instructions: Sequence[Instruction]) -> dict[int, _LiveRange]:
    """Serial -> live range of each storage."""
    lives: dict[int, _LiveRange] = {}
    for place, instruction in enumerate(instructions):
        for tile, is_written in _touched(instruction):
            storage = tile.storage
            life = lives.setdefault(storage.serial, _LiveRange(storage, place))
            life.last = place
            life.tiles.append(tile)
            life.is_written |= is_written
    return lives


def _allocate(lives: Sequence[_LiveRange], count: int) -> None:
    """Allocate buffers for storages; storages with disjoint live ranges share a buffer."""
    free: defaultdict[int, list[Array]] = defaultdict(list)
    begins: defaultdict[int, list[_LiveRange]] = defaultdict(list)
    ends: defaultdict[int, list[_LiveRange]] = defaultdict(list)
    _attach_memories(life for life in lives if life.storage.is_placed)
    for life in lives:
        if not life.storage.is_placed:
            begins[life.first].append(life)
            ends[life.last].append(life)
    for place in range(count):
        for life in begins[place]:
            nbytes = life.storage.nbytes
            _set_bytes(life, free[nbytes].pop() if free[nbytes] else np.empty(nbytes, np.uint8))
        for life in ends[place]:
            if life.storage.data is not None:
                free[life.storage.nbytes].append(life.storage.data)


def _attach_memories(lives: Iterable[_LiveRange]) -> None:
    """Give tensors with an address a buffer of their entire memory."""
    buffers: dict[Memory, Array] = {}
    for life in lives:
        storage = life.storage
        if storage.memory not in buffers:
            buffers[storage.memory] = np.empty(storage.nbytes, np.uint8)
        _set_bytes(life, buffers[storage.memory])
