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

    def missed_limits(self, size: Size) -> tuple[str, ...]:
        """The limits that a run misses; a run without a public price misses the budget."""
        missed_limits = []
        if self.deadline_s is not None and not size.time_s.p50 <= self.deadline_s:
            missed_limits.append("deadline")
        if self.usd is not None and (size.usd is None or not size.usd.p50 <= self.usd):
            missed_limits.append("budget")
        return tuple(missed_limits)

    def best(self, sizes: Sequence[Size]) -> int | None:
        """Index of the best run that keeps the limits; None if none does.

        It is the cheapest; with a budget alone, the shortest. Runs without a public price come
        last, the fewest chip-hours first.
        """
        kept_indices = [index for index, size in enumerate(sizes) if not self.missed_limits(size)]
        return min(kept_indices, key=lambda index: self._rank(sizes[index]), default=None)

    def nearest(self, sizes: Sequence[Size]) -> int:
        """Index of the best run that misses the fewest limits.

        Of late runs it is the shortest, of those that are too dear the cheapest.
        """
        ranks: list[tuple[float, ...]] = []
        for size in sizes:
            missed_limits = self.missed_limits(size)
            usd = size.usd.p50 if size.usd else math.inf
            order = self._rank(size) if not missed_limits else (usd, size.time_s.p50)
            if "deadline" in missed_limits:
                order = (size.time_s.p50, usd)
            ranks.append((len(missed_limits), "deadline" in missed_limits, *order))
        return ranks.index(min(ranks))

    def _rank(self, size: Size) -> tuple[float, ...]:
        if self.deadline_s is None:
            return (size.time_s.p50, size.machine.chips)
        if size.usd is None:
            return (1.0, size.time_s.p50 * size.machine.chips)
        return (0.0, size.usd.p50, size.machine.chips)

    def feasible(self, sizes: Iterable[Size]) -> tuple[RunLimits, ...]:
        """The nearest limits that some of `sizes` keeps: one of the two relaxed, or else both."""
        ending_sizes = [size for size in sizes if math.isfinite(size.time_s.p50)]
        usd_in_time = [size.usd.p50 for size in ending_sizes if size.usd and self._is_in_time(size)]
        seconds_in_budget = [
            size.time_s.p50
            for size in ending_sizes
            if not self._without_deadline.missed_limits(size)
        ]
        relaxed_limits = []
        if self.deadline_s is not None and seconds_in_budget:
            relaxed_limits.append(RunLimits(min(seconds_in_budget), self.usd))
        if self.usd is not None and usd_in_time:
            relaxed_limits.append(RunLimits(self.deadline_s, min(usd_in_time)))
        priced_sizes = [size for size in ending_sizes if size.usd]
        if not relaxed_limits and priced_sizes:
            shortest_size = min(priced_sizes, key=lambda size: size.time_s.p50)
            relaxed_limits.append(
                RunLimits(
                    shortest_size.time_s.p50, shortest_size.usd.p50 if shortest_size.usd else 0
                )
            )
        return tuple(relaxed_limits)

    def _is_in_time(self, size: Size) -> bool:
        return "deadline" not in self.missed_limits(size)

    @property
    def _without_deadline(self) -> RunLimits:
        return RunLimits(None, self.usd)


def runs_on_enough(
    estimate_run: Callable[[int | None], TrainingEstimate], limits: RunLimits
) -> list[TrainingEstimate]:
    """Runs of one platform, among them the best that keeps the limits, or comes nearest.

    The number of instances doubles from the fewest that hold the model, until the deadline is kept
    or more do not pay; with a budget alone, until that is spent. Then numbers between the last two
    are tried, and the best of those that were only compared.

    Args:
        estimate_run: the run on a number of instances, or on the fewest.
        limits: the limits.

    Raises:
        BadInput: no layout is legal on the fewest.
        OutOfMemory: no layout fits on any number.
    """
    runs = [estimate_run(None)]
    fewest = runs[0].machine.count
    for _ in range(_MOST_ROUNDS):
        last_run = runs[-1]
        if not _wants_more(limits, last_run):
            break
        count = min(_next_count(limits, last_run, fewest), _largest_power(fewest))
        run = _largest_answer(estimate_run, count, last_run.machine.count)
        if run is None:
            break
        runs.append(run)
        if last_run.time_s.p50 < _LEAST_GAIN * run.time_s.p50:
            break
    if len(runs) > 1:
        runs += _between(estimate_run, limits, runs)
    sizes = compare_runs(runs)[0].sizes
    count = sizes[limits.nearest(sizes)].machine.count
    if all(run.machine.count != count for run in runs):
        runs.append(estimate_run(count))
    return runs


def _wants_more(limits: RunLimits, run: TrainingEstimate) -> bool:
    """True if more instances may keep the limits, or use more of a budget alone."""
    if not math.isfinite(run.time_s.p50):
        return False
    missed_limits = limits.missed_limits(run)
    return "deadline" in missed_limits if limits.deadline_s is not None else not missed_limits


def _next_count(limits: RunLimits, run: TrainingEstimate, fewest: int) -> int:
    """The number of instances to try next: `fewest` doubled as often as linear speedup asks."""
    needed_instances = 2.0 * run.machine.count
    if limits.deadline_s is not None:
        needed_instances = max(
            needed_instances, run.machine.count * run.time_s.p50 / limits.deadline_s
        )
    speedup = min(needed_instances, 2.0 * _MOST_INSTANCES) / fewest
    return fewest << max(math.ceil(math.log2(speedup) - 1e-9), 0)


def _largest_power(fewest: int) -> int:
    """The largest number of instances that doubling reaches."""
    return fewest << max(math.floor(math.log2(_MOST_INSTANCES / fewest)), 0)


def _largest_answer(
    estimate_run: Callable[[int | None], TrainingEstimate], count: int, lower_bound: int
) -> TrainingEstimate | None:
    """The run on `count` instances, or half, a quarter, ..., above `lower_bound`; else None."""
    while count > lower_bound:
        try:
            return estimate_run(count)
        except (BadInput, OutOfMemory):  # not all of their ranks have work
            count //= 2
    return None


def _between(
    estimate_run: Callable[[int | None], TrainingEstimate],
    limits: RunLimits,
    runs: Sequence[TrainingEstimate],
) -> list[TrainingEstimate]:
    """Runs on fewer instances than the last of `runs`, if that keeps the deadline.

    They begin at the number that linear speedup asks for, and end with the first that keeps it.
    """
    last_run, final_run = runs[-2:]
    if limits.deadline_s is None or "deadline" in limits.missed_limits(final_run):
        return []
    needed_instances = math.ceil(last_run.machine.count * last_run.time_s.p50 / limits.deadline_s)
    counts = [
        needed_instances,
        needed_instances + 1,
        *(-(-needed_instances // power) * power for power in (2, 4, 8, 16, 32)),
    ]
    larger_runs: list[TrainingEstimate] = []
    for count in dict.fromkeys(counts):
        if not last_run.machine.count < count < final_run.machine.count:
            continue
        run = _largest_answer(estimate_run, count, count - 1)
        if run is not None:
            larger_runs.append(run)
            if "deadline" not in limits.missed_limits(run):
                break
    return larger_runs
