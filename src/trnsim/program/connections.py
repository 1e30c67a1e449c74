"""Connections of a core's context: the other cores of its group, and an observer of loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from trnsim.errors import SourceLine
from trnsim.isa.language.machine import CoreLink
from trnsim.memory import SharedTensors, Tile


class LoopObserver(Protocol):
    """Observer of loops whose iterations should not depend on each other.

    Attributes:
        running: the loops that run; without any, `accessed` does nothing.
    """

    running: list[Any]

    def loop(self) -> AbstractContextManager[Any]:
        """A running loop, as a context; its value is passed to `iterate`."""
        ...

    def iterate(self, loop: Any) -> None:
        """Called when the next iteration begins."""

    def accessed(self, reads: list[Tile], writes: list[Tile], line: SourceLine | None) -> None:
        """Called when an instruction has read and written these tiles."""


@dataclass(frozen=True)
class Peer:
    """A core's view of the group of cores that run the same kernel (LNC=2).

    Attributes:
        rank: the core's number, `nl.program_id(0)`.
        link: barriers and exchanges with the other cores.
        hand_over: called after each instruction, to let the other cores run.
        before: called with values, before an instruction writes these tiles in shared HBM.
        accessed: called with the tiles in shared HBM that an instruction reads and writes, and with
            its preceding instructions.
        shared: the tensors in shared HBM, common to all cores.
        is_watched: False if no callback does anything.
    """

    rank: int
    cores: int
    link: CoreLink
    hand_over: Callable[[], None]
    before: Callable[[int, Sequence[Tile]], None]
    accessed: Callable[[int, list[Tile], list[Tile], SourceLine | None, Sequence[int]], None]
    shared: SharedTensors
    is_watched: bool = True
