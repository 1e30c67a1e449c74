"""The difference between two times of a kernel, by cause: the kernel, or another version of trnsim.

Both programs have the same draws of the model's constants, so the interval of their difference has
no noise from the draws. A difference is significant if its P10 to P90 is farther from zero than
`_LEAST_SHARE` of the time.

    sources equal       trnsim's, if that is another; else the kernel reads something that changed
    model equal         the kernel's
    neither             the new program with the old constants lies between: up to it the difference
                        is the kernel's, from it on trnsim's
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from trnsim.facts import Interval
from trnsim.gate.kernel_time import KernelTime, constants_id, draws_us, time_on_us, with_constants
from trnsim.gate.line_changes import LineChange, costly_lines, line_changes
from trnsim.timing import Timeline

_LEAST_SHARE: Final = 0.001
"""Largest share of the time that counts as no difference."""
_NONE: Final = Interval(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class TimeShift:
    """A difference of times.

    Attributes:
        change_us: after minus before, of the estimates.
        interval_us: P10, P50 and P90 of the shift over the draws.
        least_us: the largest shift that counts as no difference.
    """

    change_us: float
    interval_us: Interval
    least_us: float

    @property
    def is_slower(self) -> bool:
        """True if it is an increase, and P10 to P90 leaves zero out."""
        return self.interval_us.p10 > self.least_us

    @property
    def is_faster(self) -> bool:
        """True if it is a decrease, and P10 to P90 leaves zero out."""
        return self.interval_us.p90 < -self.least_us

    @property
    def is_significant(self) -> bool:
        """True if P10 to P90 leaves zero out."""
        return self.is_slower or self.is_faster


@dataclass(frozen=True)
class ConstantChange:
    """A constant of the model that changed; None on the side that lacks it."""

    name: str
    before: float | None
    after: float | None


@dataclass(frozen=True)
class KernelTimeDifference:
    """The difference between a kernel's time and its earlier time.

    Attributes:
        total: the whole difference.
        kernel: the kernel's part of the difference.
        upgrade: the part that another version of trnsim causes.
        is_same_source: whether the kernel's source and the shapes of its inputs are equal.
        lines: the changes of lines, by the cost of their additional work, the largest first.
    """

    before: KernelTime
    after: KernelTime
    total: TimeShift
    kernel: TimeShift
    upgrade: TimeShift
    is_same_source: bool
    constants: tuple[ConstantChange, ...]
    lines: tuple[LineChange, ...]

    @property
    def is_upgrade(self) -> bool:
        """True if the two times are of different models."""
        return self.before.model != self.after.model or bool(self.constants)

    @property
    def is_split(self) -> bool:
        """True if both the kernel and trnsim changed."""
        return self.is_upgrade and not self.is_same_source


def difference(
    before: KernelTime, after: KernelTime, timeline: Timeline | None
) -> KernelTimeDifference:
    """The difference from `before` to `after`, the time of `timeline`.

    Without a timeline a difference is not split: both times are of this trnsim.
    """
    constant_changes = _constant_changes(before, after)
    is_same_source = before.source == after.source
    is_same_model = before.model == after.model and not constant_changes
    total = shift_between(before.time_us, before.draws_us, after.time_us, after.draws_us)
    no_shift = TimeShift(0.0, _NONE, total.least_us)
    if is_same_model or timeline is None:
        kernel, upgrade = total, no_shift
    elif is_same_source:
        kernel, upgrade = no_shift, total
    else:
        former_core = with_constants(timeline.program.core, before.constants)
        between_us, between_draws_us = (
            time_on_us(timeline, former_core),
            draws_us(timeline, former_core),
        )
        kernel = shift_between(before.time_us, before.draws_us, between_us, between_draws_us)
        upgrade = shift_between(between_us, between_draws_us, after.time_us, after.draws_us)
    lines = line_changes(before.lines, after.lines)
    if timeline is not None and kernel.is_slower:
        lines = costly_lines(timeline, lines, total.least_us, is_split=not is_same_model)
    return KernelTimeDifference(
        before,
        after,
        total,
        kernel,
        upgrade,
        is_same_source,
        constant_changes,
        lines,
    )


def shift_between(
    before_us: float, before: Sequence[float], after_us: float, after: Sequence[float]
) -> TimeShift:
    """The shift of a time; draws beyond the number of the shorter side are left out."""
    count = min(len(before), len(after))
    differences = np.array(after[:count]) - np.array(before[:count])
    p10, p50, p90 = np.percentile(differences, [10, 50, 90]).tolist()
    return TimeShift(after_us - before_us, Interval(p10, p50, p90), _LEAST_SHARE * before_us)


def _constant_changes(before: KernelTime, after: KernelTime) -> tuple[ConstantChange, ...]:
    old_constants, new_constants = before.constants, after.constants
    if constants_id(old_constants) == constants_id(new_constants):
        return ()
    rows = [
        ConstantChange(
            name,
            old_constants[name].value if name in old_constants else None,
            new_constants[name].value if name in new_constants else None,
        )
        for name in sorted({*old_constants, *new_constants})
        if old_constants.get(name) != new_constants.get(name)
    ]
    return tuple(rows)
