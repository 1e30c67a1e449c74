"""The time of a kernel for comparisons, with its draws, its lines, and the model's constants.

The draws are the kernel's time under constants of the core that are drawn from the spread of their
facts (`arch.draws`). A draw of a constant depends on its name and number alone, so two programs
have the same constants in the same draw, and their difference has no noise from them.

The order of instructions is kept (docs/design/0018).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, Final

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.arch.draws import sample_core
from trnsim.disk_cache import version as sources_version
from trnsim.facts import Evidence, Provenance, Rate
from trnsim.profile.measures.lines import time_by_line
from trnsim.runs import Run
from trnsim.timing import Timeline
from trnsim.version import VERSION

DRAWS: Final = 100
_US_PER_S: Final = 1e6
_DECIMALS: Final = 4
"""Decimals of a stored microsecond: a tenth of a nanosecond."""
_ID_DIGITS: Final = 12
_LEAST_SHARE: Final = 0.001
"""The share of the time from which a line is kept."""
_MOST_CHARS: Final = 120


@dataclass(frozen=True)
class KernelLineTime:
    """A line's part of a kernel's time.

    Attributes:
        text: its text without indentation, at most 120 characters.
        critical_us: its part of the critical path.
        busy_us: the busy time of its engines.
    """

    file: str
    line: int
    text: str
    critical_us: float
    busy_us: float

    @property
    def place(self) -> str:
        """File and line."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class DrawnConstant:
    """A constant of a core and its spread."""

    value: float
    spread: float


Constants = Mapping[str, DrawnConstant]


@dataclass(frozen=True)
class KernelTime:
    """The time of a kernel on a chip, with the model, source and inputs that it depends on.

    Attributes:
        model: the version of trnsim and a digest of the sources that decide a time.
        constants: the constants of the core that vary.
        source: the digest of the kernel's source and of its inputs' shapes.
        inputs: its arguments in words.
        draws_us: the time in each draw of the constants.
        lines: its lines, longest first.
    """

    chip: str
    model: str
    constants: Constants
    source: str
    inputs: str
    time_us: float
    draws_us: tuple[float, ...]
    lines: tuple[KernelLineTime, ...]


def kernel_time(run: Run, source: str = "", inputs: str = "") -> KernelTime:
    """The time of a run of a kernel with this digest of its source and these inputs."""
    timeline = run.timeline
    core = timeline.program.core
    return KernelTime(
        chip=run.target.name,
        model=model(),
        constants=constants_of(core),
        source=source,
        inputs=inputs,
        time_us=_round_us(timeline.total_time_s),
        draws_us=draws_us(timeline, core),
        lines=_lines(timeline),
    )


def model() -> str:
    """The version of trnsim with a digest of the sources that decide a kernel's time."""
    return f"{VERSION}+{sources_version()[:_ID_DIGITS]}"


def constants_of(core: NeuronCore) -> dict[str, DrawnConstant]:
    """The constants of a core that vary, by name."""
    return {
        name: DrawnConstant(float(rate), float(rate.provenance.spread))
        for name, rate in sorted(core.varying().items())
    }


def constants_id(constants: Constants) -> str:
    """A digest of constants, their names and spreads."""
    rows = [
        f"{name} {float(row.value)!r} {float(row.spread)!r}"
        for name, row in sorted(constants.items())
    ]
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()[:_ID_DIGITS]


def draws_us(timeline: Timeline, core: NeuronCore) -> tuple[float, ...]:
    """The total time of a timeline in each draw of the constants of `core`."""
    cores = [sample_core(core, draw) for draw in range(DRAWS)]
    times_s = timeline.device_times_on_s(cores) + np.array([float(c.launch_s) for c in cores])
    return tuple(_round_us(time_s) for time_s in times_s.tolist())


def with_constants(core: NeuronCore, constants: Constants) -> NeuronCore:
    """The core with other values and spreads of the constants that it has."""
    names = core.varying().keys() & constants.keys()
    rates: dict[str, Any] = {
        name: Rate(constants[name].value, Provenance(Evidence.DERIVED, "", constants[name].spread))
        for name in names
    }
    return replace(core, **rates)


def time_on_us(timeline: Timeline, core: NeuronCore) -> float:
    """The total time of a timeline with the constants of `core`."""
    (device_s,) = timeline.device_times_on_s([core]).tolist()
    return _round_us(device_s + float(core.launch_s))


def _round_us(time_s: float) -> float:
    return round(time_s * _US_PER_S, _DECIMALS)


def _lines(timeline: Timeline) -> tuple[KernelLineTime, ...]:
    least_s = _LEAST_SHARE * timeline.total_time_s
    rows = (
        row
        for row in time_by_line(timeline)
        if row.line and max(row.critical_s, row.busy_s) >= least_s
    )
    return tuple(
        KernelLineTime(
            PurePath(row.line.file).name,
            row.line.line,
            row.text[:_MOST_CHARS],
            _round_us(row.critical_s),
            _round_us(row.busy_s),
        )
        for row in rows
        if row.line
    )


def in_file_order(lines: Sequence[KernelLineTime]) -> list[KernelLineTime]:
    """Lines in the order of their files."""
    return sorted(lines, key=lambda line: (line.file, line.line))
