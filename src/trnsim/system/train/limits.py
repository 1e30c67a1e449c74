"""A deadline and a budget of a training run, and the numbers of instances that may keep them.

A run keeps a limit if its median does, as in `trnsim assess`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from trnsim.errors import BadInput, OutOfMemory
from trnsim.formatting import amount, enumerated, seconds
from trnsim.system.train.estimate import Size, TrainingEstimate, compare_runs

_MOST_INSTANCES: Final = 10_000
"""Instances of one type: more than any region is known to have."""
_MOST_ROUNDS: Final = 8
"""Numbers of instances that are tried after the fewest."""
_LEAST_GAIN: Final = 1.02
"""Ratio of two times below which more instances do not pay."""


@dataclass(frozen=True)
class RunLimits:
    """Limits of the duration and the cost of a training run.

    Attributes:
        deadline_s: seconds within which it ends; None for any time.
        usd: USD that it may cost; None for any price.
    """

    deadline_s: float | None = None
    usd: float | None = None

    def __bool__(self) -> bool:
        return self.deadline_s is not None or self.usd is not None

    def __str__(self) -> str:
        parts = []
        if self.deadline_s is not None:
            parts.append(f"a deadline of {seconds(self.deadline_s)}")
        if self.usd is not None:
            parts.append(f"a budget of {amount(self.usd)} USD")
        return enumerated(parts, "and")

    def missed(self, size: Size) -> tuple[str, ...]:
        """The limits that a run misses; a run without a public price misses the budget."""
        missed = []
        if self.deadline_s is not None and not size.time_s.p50 <= self.deadline_s:
            missed.append("deadline")
        if self.usd is not None and (size.usd is None or not size.usd.p50 <= self.usd):
            missed.append("budget")
        return tuple(missed)

    def best(self, sizes: Sequence[Size]) -> int | None:
        """Index of the best run that keeps the limits; None if none does.

        It is the cheapest; with a budget alone, the shortest. Runs without a public price come
        last, the fewest chip-hours first.
        """
        kept = [index for index, size in enumerate(sizes) if not self.missed(size)]
        return min(kept, key=lambda index: self._rank(sizes[index]), default=None)

    def nearest(self, sizes: Sequence[Size]) -> int:
        """Index of the best run that misses the fewest limits.

        Of late runs it is the shortest, of those that are too dear the cheapest.
        """
        ranks: list[tuple[float, ...]] = []
        for size in sizes:
            missed = self.missed(size)
            usd = size.usd.p50 if size.usd else math.inf
            order = self._rank(size) if not missed else (usd, size.time_s.p50)
            if "deadline" in missed:
                order = (size.time_s.p50, usd)
            ranks.append((len(missed), "deadline" in missed, *order))
        return ranks.index(min(ranks))

    def _rank(self, size: Size) -> tuple[float, ...]:
        if self.deadline_s is None:
            return (size.time_s.p50, size.machine.chips)
        if size.usd is None:
            return (1.0, size.time_s.p50 * size.machine.chips)
        return (0.0, size.usd.p50, size.machine.chips)

    def feasible(self, sizes: Iterable[Size]) -> tuple[RunLimits, ...]:
        """The nearest limits that some of `sizes` keeps: one of the two relaxed, or else both."""
        ending = [size for size in sizes if math.isfinite(size.time_s.p50)]
        in_time = [size.usd.p50 for size in ending if size.usd and self._is_in_time(size)]
        in_budget = [size.time_s.p50 for size in ending if not self._without_deadline.missed(size)]
        relaxed = []
        if self.deadline_s is not None and in_budget:
            relaxed.append(RunLimits(min(in_budget), self.usd))
        if self.usd is not None and in_time:
            relaxed.append(RunLimits(self.deadline_s, min(in_time)))
        priced = [size for size in ending if size.usd]
        if not relaxed and priced:
            shortest = min(priced, key=lambda size: size.time_s.p50)
            relaxed.append(RunLimits(shortest.time_s.p50, shortest.usd.p50 if shortest.usd else 0))
        return tuple(relaxed)

    def _is_in_time(self, size: Size) -> bool:
        return "deadline" not in self.missed(size)

    @property
    def _without_deadline(self) -> RunLimits:
        return RunLimits(None, self.usd)


def runs_on_enough(
    estimated: Callable[[int | None], TrainingEstimate], limits: RunLimits
) -> list[TrainingEstimate]:
    """Runs of one platform, among them the best that keeps the limits, or comes nearest.

    The number of instances doubles from the fewest that hold the model, until the deadline is kept
    or more do not pay; with a budget alone, until that is spent. Then numbers between the last two
    are tried, and the best of those that were only compared.

    Args:
        estimated: the run on a number of instances, or on the fewest.
        limits: the limits.

    Raises:
        BadInput: no layout is legal on the fewest.
        OutOfMemory: no layout fits on any number.
    """
    runs = [estimated(None)]
    fewest = runs[0].machine.count
    for _ in range(_MOST_ROUNDS):
        last = runs[-1]
        if not _wants_more(limits, last):
            break
        count = min(_next_count(limits, last, fewest), _largest_power(fewest))
        run = _largest_answer(estimated, count, last.machine.count)
        if run is None:
            break
        runs.append(run)
        if last.time_s.p50 < _LEAST_GAIN * run.time_s.p50:
            break
    if len(runs) > 1:
        runs += _between(estimated, limits, runs)
    sizes = compare_runs(runs)[0].sizes
    count = sizes[limits.nearest(sizes)].machine.count
    if all(run.machine.count != count for run in runs):
        runs.append(estimated(count))
    return runs


def _wants_more(limits: RunLimits, run: TrainingEstimate) -> bool:
    """True if more instances may keep the limits, or use more of a budget alone."""
    if not math.isfinite(run.time_s.p50):
        return False
    missed = limits.missed(run)
    return "deadline" in missed if limits.deadline_s is not None else not missed


def _next_count(limits: RunLimits, run: TrainingEstimate, fewest: int) -> int:
    """The number of instances to try next: `fewest` doubled as often as linear speedup asks."""
    needed_instances = 2.0 * run.machine.count
    if limits.deadline_s is not None:
        needed_instances = max(
            needed_instances, run.machine.count * run.time_s.p50 / limits.deadline_s
        )
    return fewest << math.ceil(
        math.log2(min(needed_instances, 2.0 * _MOST_INSTANCES) / fewest) - 1e-9
    )


def _largest_power(fewest: int) -> int:
    """The largest number of instances that doubling reaches."""
    return fewest << max(math.floor(math.log2(_MOST_INSTANCES / fewest)), 0)


def _largest_answer(
    estimated: Callable[[int | None], TrainingEstimate], count: int, lower_bound: int
) -> TrainingEstimate | None:
    """The run on `count` instances, or half, a quarter, ..., above `lower_bound`; else None."""
    while count > lower_bound:
        try:
            return estimated(count)
        except (BadInput, OutOfMemory):  # not all of their ranks have work
            count //= 2
    return None


def _between(
    estimated: Callable[[int | None], TrainingEstimate],
    limits: RunLimits,
    runs: Sequence[TrainingEstimate],
) -> list[TrainingEstimate]:
    """Runs on fewer instances than the last of `runs`, if that keeps the deadline.

    They begin at the number that linear speedup asks for, and end with the first that keeps it.
    """
    last, kept = runs[-2:]
    if limits.deadline_s is None or "deadline" in limits.missed(kept):
        return []
    needed_instances = math.ceil(last.machine.count * last.time_s.p50 / limits.deadline_s)
    counts = [
        needed_instances,
        needed_instances + 1,
        *(-(-needed_instances // power) * power for power in (2, 4, 8, 16, 32)),
    ]
    larger_runs: list[TrainingEstimate] = []
    for count in dict.fromkeys(counts):
        if not last.machine.count < count < kept.machine.count:
            continue
        run = _largest_answer(estimated, count, count - 1)
        if run is not None:
            larger_runs.append(run)
            if "deadline" not in limits.missed(run):
                break
    return larger_runs
