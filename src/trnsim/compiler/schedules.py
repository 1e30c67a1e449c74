"""Candidate schedules of a program: the split of SBUF between resident results and streamed tiles.

The time model prices each schedule, and the fastest is taken. -O1 takes the first schedule, -O2
also tries a schedule with more room for results if they had too little, -O3 tries all. Weights are
loaded ahead into a ring buffer. Whether AWS's compiler has a larger one is not known: published
times of encoders agree with the size of the first schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf
from typing import Final

from trnsim.compiler.links import RankLinks, links_of
from trnsim.lower.emit.schedule import FIRST_SCHEDULE, KIB, ROOM, SbufSchedule

_MOST_INSTRUCTIONS_SEARCHED: Final = 60_000
"""Longest program, in instructions, for which -O2 tries a further schedule, in some ten seconds."""
_SMALL_STREAM: Final = SbufSchedule(40 * KIB)
"""The schedule tried if results had too little room: less of SBUF for streamed tiles."""
_ALL_SCHEDULES: Final = tuple(
    SbufSchedule(passing * KIB, ring * KIB)
    for passing, ring in product((40, 56, 72, 96, 128), (16, 32, 64))
    if ring < passing
)
"""The schedules that -O3 tries."""


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Options of a compilation.

    Attributes:
        cores: number of cores that run the program.
        level: the optimization level, 1 to 3.
        tell: receives messages on the progress of the search.
        lnc: cores of a rank: 2 if a program of one core runs on half a rank; 0 stands for `cores`.
        is_linked: whether the program has exchanges between ranks, which take time.
        limit_s: time of another program of the same work; a program that cannot take less is not
            compiled.
    """

    target: str
    cores: int = 1
    level: int = 2
    tell: Callable[[str], None] = lambda _: None
    lnc: int = 0
    is_linked: bool = True
    limit_s: float = inf

    def links(self) -> RankLinks | None:
        """The links that the program's exchanges use; None if it has no exchanges."""
        return links_of(self.target, self.lnc or self.cores, self.cores) if self.is_linked else None


def alternative_schedules(
    level: int, shortages: Collection[str], instructions: int
) -> Sequence[SbufSchedule]:
    """The schedules to try beside the first, by the resources that its program lacked."""
    if level == 1 or not shortages or (level == 2 and instructions > _MOST_INSTRUCTIONS_SEARCHED):  # noqa: PLR2004  -O2
        return ()
    if level == 2:  # noqa: PLR2004  -O2
        return (_SMALL_STREAM,) if ROOM in shortages else ()
    return tuple(schedule for schedule in _ALL_SCHEDULES if schedule != FIRST_SCHEDULE)


def fastest_schedule(
    first_s: float,
    alternatives: Sequence[SbufSchedule],
    time_s: Callable[[SbufSchedule], float],
    options: CompileOptions,
) -> SbufSchedule:
    """The schedule of the shortest program; `FIRST_SCHEDULE` where no alternative is shorter."""
    best, best_s = FIRST_SCHEDULE, first_s
    for number, schedule in enumerate(alternatives, 2):
        options.tell(f"schedule {number} of {len(alternatives) + 1}: {schedule}")
        schedule_s = time_s(schedule)
        if schedule_s < best_s:
            best, best_s = schedule, schedule_s
    return best
