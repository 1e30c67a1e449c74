"""Time and traffic of the parts of a program, such as the operations of a model.

Engines work at once, so the times of parts would not add up if each were its instructions' own.
A part's time is therefore the share of its instructions in the critical path: over all parts, that
is the device time. Work beside another part's critical instructions has no share in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from trnsim.isa import Engine
from trnsim.profile.measures.busy import engines_of
from trnsim.profile.measures.traffic import Totals
from trnsim.timing import Timeline
from trnsim.timing.occupancy import Integers, Seconds, columns, critical_steps

WAITING: Final = "waiting"
"""No engine: latency until the next step of the critical path starts."""

Amounts = dict[str, float]
"""Seconds by engine, or bytes by reason for traffic."""


@dataclass(frozen=True, slots=True)
class PartCost:
    """Time and traffic of a part of a program; costs of several parts or programs add up.

    Attributes:
        busy_s: busy time by engine ("tensor").
        critical_s: time of its steps of the critical path, by the engine that was busy in them, or
            `WAITING`.
        hbm_bytes: bytes read from HBM and written to it, by reason.
    """

    instructions: float = 0
    busy_s: Amounts = field(default_factory=Amounts)
    critical_s: Amounts = field(default_factory=Amounts)
    hbm_bytes: Amounts = field(default_factory=Amounts)

    @property
    def time_s(self) -> float:
        """The part's share of the device time: its steps of the critical path."""
        return sum(self.critical_s.values())

    @property
    def bound_by(self) -> str:
        """The engine, or `WAITING`, with most of `time_s`; "" if that is 0."""
        return max(self.critical_s, key=self.critical_s.__getitem__, default="")

    def plus(self, other: PartCost) -> PartCost:
        """The sum of the costs of two parts."""
        return PartCost(
            self.instructions + other.instructions,
            _plus(self.busy_s, other.busy_s),
            _plus(self.critical_s, other.critical_s),
            _plus(self.hbm_bytes, other.hbm_bytes),
        )

    def with_times_scaled(self, factor: float) -> PartCost:
        """The cost with all times multiplied by `factor`."""
        return replace(
            self,
            busy_s={name: factor * amount for name, amount in self.busy_s.items()},
            critical_s={name: factor * amount for name, amount in self.critical_s.items()},
        )

    def repeated(self, count: float, critical_factor: float, instruction_factor: float) -> PartCost:
        """`count` such parts: busy times and bytes times `count`, others times their factor."""
        return PartCost(
            self.instructions * instruction_factor,
            {name: count * amount for name, amount in self.busy_s.items()},
            {name: critical_factor * amount for name, amount in self.critical_s.items()},
            {name: count * amount for name, amount in self.hbm_bytes.items()},
        )


def _plus(first: Mapping[str, float], second: Mapping[str, float]) -> Amounts:
    names = dict.fromkeys([*first, *second])
    return {name: first.get(name, 0.0) + second.get(name, 0.0) for name in names}


def part_costs(
    timeline: Timeline, part_of: Integers, count: int, reasons: Sequence[str], reason_of: Integers
) -> list[PartCost]:
    """The costs of the parts 0 to `count` - 1 of a program.

    Args:
        timeline: the program's timeline.
        part_of: the part of each instruction.
        count: number of parts.
        reasons: names of reasons for traffic with HBM.
        reason_of: for each instruction, the index of the reason of its reads from HBM and of its
            writes to it, [2, N].
    """
    spans, steps = columns(timeline), critical_steps(timeline)
    engine_of = engines_of(timeline.program)
    names = {engine.value: engine.name for engine in Engine}
    part_of_step = part_of[steps.index]
    instruction_counts = np.bincount(part_of, minlength=count)
    busy_s = _sums_by_kind(part_of, engine_of, spans.busy_until_s - spans.start_s, count, names)
    critical_s = _sums_by_kind(part_of_step, engine_of[steps.index], steps.busy_s, count, names)
    critical_s[WAITING] = np.bincount(part_of_step, steps.waiting_s, count).astype(np.float64)
    totals = Totals(timeline.program)
    moved_bytes = [totals.column(f"hbm_{way}_bytes")[spans.which] for way in ("read", "write")]
    part_of_access = np.concatenate([part_of, part_of])
    hbm_bytes = _sums_by_kind(
        part_of_access,
        reason_of.ravel(),
        np.concatenate(moved_bytes),
        count,
        dict(enumerate(reasons)),
    )
    return [
        PartCost(
            int(instruction_counts[part]),
            _amounts_of_part(busy_s, part),
            _amounts_of_part(critical_s, part),
            _amounts_of_part(hbm_bytes, part),
        )
        for part in range(count)
    ]


def _sums_by_kind(
    part_of: Integers,
    kind_of: Integers,
    amounts: Seconds | Integers,
    count: int,
    names: Mapping[int, str],
) -> dict[str, Seconds]:
    """By name of a kind, the sums of its instructions' amounts, one sum for each part."""
    return {
        name: np.bincount(part_of[is_of_kind], amounts[is_of_kind], count).astype(np.float64)
        for kind, name in names.items()
        if (is_of_kind := kind_of == kind).any()
    }


def _amounts_of_part(amounts: Mapping[str, Seconds], part: int) -> Amounts:
    return {name: float(by_part[part]) for name, by_part in amounts.items() if by_part[part]}
