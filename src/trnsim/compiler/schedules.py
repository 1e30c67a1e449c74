"""Schedules of a program that are tried: how SBUF is shared by what stays and what passes.

Each is priced by the time model itself, and the fastest is kept. -O1 takes the first one, -O2 tries
one that leaves a program more room where it lacks some, -O3 tries all of them. That AWS's compiler
loads more weights ahead is not known: published times of encoders are those of the first ring.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from trnsim.compiler.links import RankLinks, links_of
from trnsim.lower.emit.schedule import FIRST, KIB, ROOM, Schedule

_LONGEST: Final = 60_000
"""Instructions of a program beyond which -O2 does not search: some ten seconds a schedule."""
_ROOMY: Final = Schedule(40 * KIB)
_ALL: Final = tuple(
    Schedule(passing * KIB, ring * KIB)
    for passing, ring in product((40, 56, 72, 96, 128), (16, 32, 64))
    if ring < passing
)


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """For what a graph is compiled.

    Attributes:
        target: the chip.
        cores: how many cores do the same.
        level: the optimization level, 1 to 3.
        tell: what is told of the search as it goes.
        lnc: cores of a rank, where only one of two has the program; 0: `cores`.
        is_linked: whether exchanges between ranks take their time in the program.
    """

    target: str
    cores: int = 1
    level: int = 2
    tell: Callable[[str], None] = lambda _: None
    lnc: int = 0
    is_linked: bool = True

    def links(self) -> RankLinks | None:
        """The links that the program sees, if any."""
        return links_of(self.target, self.lnc or self.cores, self.cores) if self.is_linked else None


def alternative_schedules(
    level: int, lacks: Collection[str], instructions: int
) -> Sequence[Schedule]:
    """The schedules to try beside the first, by what its program lacked."""
    if level == 1 or not lacks or (level == 2 and instructions > _LONGEST):  # noqa: PLR2004  -O2
        return ()
    if level == 2:  # noqa: PLR2004  -O2
        return (_ROOMY,) if ROOM in lacks else ()
    return tuple(schedule for schedule in _ALL if schedule != FIRST)


def fastest_schedule(
    first_s: float,
    alternatives: Sequence[Schedule],
    time_s: Callable[[Schedule], float],
    options: CompileOptions,
) -> Schedule:
    """The schedule of the shortest program, the first one where none is shorter."""
    best, best_s = FIRST, first_s
    for number, schedule in enumerate(alternatives, 2):
        options.tell(f"schedule {number} of {len(alternatives) + 1}: {schedule}")
        schedule_s = time_s(schedule)
        if schedule_s < best_s:
            best, best_s = schedule, schedule_s
    return best
