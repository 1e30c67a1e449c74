"""docs/generated/microsecond.md: where the CPU time of an instruction goes, by stages of a call.

`python docs/makers/microsecond.py` measures it and writes the page: a timer of the process's CPU
time stops the program a thousand times, and each stop counts for the room of trnsim whose code
runs, numpy's for the room that called it. A profiler that is told of each call would make short
functions look long. Needs `signal.setitimer`, so Linux or macOS.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FrameType

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import trnsim
from trnsim.nki import jit

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "generated" / "microsecond.md"
PACKAGE: Final = f"{Path(trnsim.__file__).parent}{os.sep}"
KERNELS: Final = (f"{ROOT / 'examples'}{os.sep}", f"{ROOT / 'bench'}{os.sep}")
INTERVAL_S: Final = 0.001
LEAST_CPU_S: Final = 1.0
US_PER_S: Final = 1e6
KERNEL: Final = "the kernel"
OTHERS: Final = "others"
STAGES: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    KERNEL: ((), "the Python of the kernel itself"),
    "nki": (("nki",), "calls of `nki.isa` and `nki.language`, their arguments, views of tensors"),
    "isa": (("isa", "dtypes"), "the instruction: its fields, checks, values in numpy, and cost"),
    "memory": (("memory",), "tiles: layouts, loads and stores in numpy"),
    "program": (("program",), "the record: signatures, dependencies, lives, comparisons"),
    "timing": (("timing", "hazards"), "the order, the schedule and the time"),
    OTHERS: ((), "launches, the user's line, and everything else"),
}
"""Stage -> the rooms that it has, and what happens there."""
_STAGE_OF_ROOM: Final = {room: name for name, (rooms, _) in STAGES.items() for room in rooms}
_HEAD: Final = """\
# Where a microsecond goes

The CPU time of an instruction by the room of trnsim that takes it, in microseconds, measured by
`python docs/makers/microsecond.py` on one thread of {machine}. The time of numpy counts for the
room that calls it. Figures move with the machine by a third and more; their proportions less.

- **first**: a kernel that was never called, whose instructions the process has seen in another one;
  its time is not asked for.
- **again**: a kernel that was called before, whose call is compared with the record of that one.
- **record**: what `trnsim.record` returns.
- **no values**: a first call with `numerics=False`, and its time, as all estimates are made.
"""


@dataclass
class Profile:
    """The CPU time of calls, by stage.

    Attributes:
        stops: number of times that the timer stopped the program in each stage.
        cpu_s: CPU time of all calls.
        instructions: number of instructions of all calls.
    """

    stops: Counter[str] = field(default_factory=Counter[str])
    cpu_s: float = 0.0
    instructions: int = 0

    def us(self, stage: str) -> float:
        """Microseconds of an instruction in a stage."""
        return self.stops[stage] / self.stops.total() * self.total_us

    @property
    def total_us(self) -> float:
        """Microseconds of an instruction."""
        return self.cpu_s / self.instructions * US_PER_S


def stage_of(frame: FrameType | None) -> str:
    """The stage of the innermost frame that is of trnsim or of the kernel."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(PACKAGE):
            room = file.removeprefix(PACKAGE).partition(os.sep)[0]
            return _STAGE_OF_ROOM.get(room, OTHERS)
        if file.startswith(KERNELS):
            return KERNEL
        frame = frame.f_back
    return OTHERS


@contextmanager
def _sampled(profile: Profile) -> Generator[None]:
    """Context in which stops of the timer are counted."""

    def stop(_: int, frame: FrameType | None) -> None:
        profile.stops[stage_of(frame)] += 1

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def measured(call: Callable[[], Any], instructions: int, least_cpu_s: float) -> Profile:
    """The profile of a call, repeated for at least that CPU time.

    The timer runs through all calls: one that started with each call would never stop a short one.
    """
    profile, started_s = Profile(), time.process_time()
    with _sampled(profile):
        while profile.cpu_s < least_cpu_s or not profile.stops:
            call()
            profile.instructions += instructions
            profile.cpu_s = time.process_time() - started_s
    return profile


def ways(kernel: Any, arrays: tuple[Any, ...]) -> dict[str, tuple[Callable[[], Any], int]]:
    """Name of a way to call a kernel -> the call, and its number of instructions."""

    def again() -> Any:
        return trnsim.run(kernel, *arrays)

    def first(**options: Any) -> Any:
        return trnsim.run(jit(kernel.__wrapped__), *arrays, **options)

    count = [len(again().program) for _ in range(3)][-1]
    first()
    replay = trnsim.record(kernel, *arrays)
    replay(*arrays)
    return {
        "first": (first, count),
        "again": (again, count),
        "record": (lambda: replay(*arrays), count),
        "no values": (lambda: first(numerics=False).total_time_s, count),
    }


def cases() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Title -> a kernel and its arrays: small tiles, so that Python counts, and large ones."""
    sys.path[:0] = [str(ROOT / part) for part in ("examples", "bench")]
    attention = import_module("attention").attention
    rmsnorm = import_module("kernels_called").rmsnorm
    random = np.random.default_rng(1)

    def array(*shape: int) -> Any:
        return random.standard_normal(shape).astype(np.float32)

    return {
        "Attention of 512 tokens": (attention, tuple(array(512, 128) for _ in "qkv")),
        "RMS norm of 512 rows of 256": (rmsnorm, (array(512, 256), array(1, 256))),
        "RMS norm of 4,096 rows of 2,048": (rmsnorm, (array(4096, 2048), array(1, 2048))),
    }


def table(profiles: dict[str, Profile]) -> str:
    """The stages of each way of calling a kernel, in microseconds of an instruction."""
    rows = [["", *profiles, "what happens there"]]
    for stage, (_, meaning) in STAGES.items():
        cells = [f"{profile.us(stage):.1f}" for profile in profiles.values()]
        if any(float(cell) for cell in cells):
            rows.append([stage, *cells, meaning])
    rows.append(["**all**", *(f"**{p.total_us:.1f}**" for p in profiles.values()), ""])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    rule = f"| --- |{' ---: |' * len(profiles)} --- |"
    return "\n".join([lines[0], rule, *lines[1:]])


def page(least_cpu_s: float = LEAST_CPU_S) -> str:
    """The page, measured now."""
    machine = f"Python {sys.version.split()[0]} and numpy {np.__version__}"
    parts = [_HEAD.format(machine=machine)]
    for title, (kernel, arrays) in cases().items():
        calls = ways(kernel, arrays)
        profiles = {name: measured(*call, least_cpu_s) for name, call in calls.items()}
        count = calls["first"][1]
        parts.append(f"## {title}: {count:,} instructions\n\n{table(profiles)}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
