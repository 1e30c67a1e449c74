"""Solver policy: widths of jobs by a linear program on a rolling horizon (HiGHS).

    maximise    sum  usd[level] jobs[level, hour] - cost[level] entered[level, hour]
    subject to  sum over levels of a kind  jobs[level, hour] = jobs of the kind
                sum over levels  blocks[level] jobs[level, hour] <= blocks left by services
                entered[level, hour] >= jobs[level, hour] - jobs[level, hour - 1],  entered >= 0

Equal jobs are counted, not told apart. In the hours of a window whose plan is final the counts are
made whole by diving: one variable is rounded, the rest solved again, and so on. Later hours of the
window, which are planned again, may have fractions of jobs. A fraction of a job pays only a
fraction of a change, so the plan is then improved job by job (`polished_plan`); so is the plan of
the threshold policy, which fits because it leaves jobs no more blocks. The better of both is the
plan.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from trnsim.errors import BadInput, InternalError
from trnsim.system.fleet.demand import Array
from trnsim.system.fleet.need import allotment, needs
from trnsim.system.fleet.plan import Counts, FleetPlan
from trnsim.system.fleet.policies import threshold
from trnsim.system.fleet.polish import polished_plan
from trnsim.system.fleet.scenario import Scenario
from trnsim.system.fleet.worth import entering_usd, hourly_usd, planned_usd

_WHOLE_TOLERANCE: Final = 1e-6
"""Tolerance of a whole number."""


def solver_plan(scenario: Scenario, tell: Callable[[str], None] = lambda _: None) -> FleetPlan:
    """The plan of a rolling horizon: the needs of services, and the most valuable widths of jobs.

    Raises:
        BadInput: highspy is not installed.
    """
    services = allotment(scenario, needs(scenario, scenario.planning.demand))
    free_blocks = scenario.blocks - services.sum(axis=1)
    planning = scenario.planning
    sizes = [len(job.levels) for job in scenario.jobs]
    widths = np.zeros((scenario.hours, sum(sizes)), np.int64)
    windows: dict[int, PlanWindow] = {}
    hour = 0 if sizes else scenario.hours
    while hour < scenario.hours:
        window_hours = min(planning.horizon_hours, scenario.hours - hour)
        if window_hours not in windows:
            windows[window_hours] = PlanWindow(scenario, window_hours)
        is_last = hour + window_hours == scenario.hours  # no later plan sees more
        final_hours = window_hours if is_last else planning.replan_hours
        previous_widths = widths[hour - 1] if hour else None
        widths[hour : hour + final_hours] = windows[window_hours].solve(
            free_blocks[hour : hour + window_hours], previous_widths, final_hours
        )
        hour += final_hours
        tell(f"planned {hour:,} of {scenario.hours:,} hours")
    jobs = np.split(widths, np.cumsum(sizes)[:-1], axis=1) if sizes else []
    starts = (tuple(jobs), threshold(scenario).jobs)
    plans = [polished_plan(scenario, FleetPlan("solver", services, start)) for start in starts]
    return max(plans, key=lambda plan: planned_usd(scenario, plan))


class PlanWindow:
    """The linear program of a number of hours, solved again for other free blocks and starts."""

    def __init__(self, scenario: Scenario, hours: int) -> None:
        self._hours = hours
        jobs = scenario.jobs
        self._usd = np.concatenate([hourly_usd(scenario, job) for job in jobs])
        self._entering_usd = np.concatenate([entering_usd(scenario, job) for job in jobs])
        self._blocks = np.concatenate([[level.blocks for level in job.levels] for job in jobs])
        self._kind_of_level = np.repeat(np.arange(len(jobs)), [len(job.levels) for job in jobs])
        self._jobs_of_kind = np.array([job.count for job in jobs])
        self._highs = _silent_highs()
        self._pass_problem()

    def solve(
        self, free_blocks: Counts, previous_widths: Counts | None, final_hours: int = 1
    ) -> Counts:
        """Whole numbers of jobs by level ``[final_hours, levels of all kinds]``.

        Args:
            free_blocks: blocks that services leave, by hour.
            previous_widths: jobs by level in the hour before the window; None at the start of the
                scenario.
            final_hours: hours whose plan is final.

        Raises:
            InternalError: HiGHS found no plan, though all jobs may wait.
        """
        levels = len(self._usd)
        entering_jobs = (
            self._jobs_of_kind[self._kind_of_level] if previous_widths is None else previous_widths
        )
        rows = np.arange(levels + self._hours, dtype=np.int32)
        lower = np.concatenate([-entering_jobs, np.full(self._hours, -np.inf)])
        upper = np.concatenate([np.full(levels, np.inf), free_blocks])
        self._highs.changeRowsBounds(len(rows), rows, lower.astype(float), upper.astype(float))
        size = final_hours * levels
        self._set_bounds(np.arange(size), np.zeros(size), self._most_jobs(size))
        columns = self._dive(size)
        return np.rint(columns).astype(np.int64).reshape(final_hours, levels)

    def _most_jobs(self, size: int) -> Array:
        """The largest number of jobs at each of the first `size` levels of hours."""
        return np.resize(self._jobs_of_kind[self._kind_of_level], size).astype(float)

    def _set_bounds(self, columns: Counts, lower: Array, upper: Array) -> None:
        self._highs.changeColsBounds(len(columns), columns.astype(np.int32), lower, upper)

    def _dive(self, size: int) -> Array:
        """The first `size` columns in whole numbers: the largest fraction is rounded up, or down.

        Raises:
            InternalError: there is no plan.
        """
        most_jobs = self._most_jobs(size)
        columns = self._relaxation()
        while columns is not None:
            fractions = columns[:size] - np.floor(columns[:size] + _WHOLE_TOLERANCE)
            if fractions.max(initial=0.0) <= _WHOLE_TOLERANCE:
                return columns[:size]
            column = np.array([np.argmax(fractions)])
            rounded_up = np.ceil(columns[column])
            self._set_bounds(column, rounded_up, most_jobs[column])
            next_columns = self._relaxation()
            if next_columns is None:
                self._set_bounds(column, np.zeros(1), rounded_up - 1.0)
                next_columns = self._relaxation()
            columns = next_columns
        raise InternalError(f"HiGHS: {self._highs.getModelStatus()} of a plan of jobs")

    def _relaxation(self) -> Array | None:
        """All columns, with fractions of jobs; None if there is no plan."""
        self._highs.run()
        if self._highs.getModelStatus() != import_module("highspy").HighsModelStatus.kOptimal:
            return None
        return np.array(self._highs.getSolution().col_value)

    def _pass_problem(self) -> None:
        """Pass the problem to HiGHS: columns are jobs, then changes, each by hour and level.

        The first rows are those whose bounds change: entering in the first hour, then free blocks.
        """
        levels, hours = len(self._usd), self._hours
        size = levels * hours
        lp = import_module("highspy").HighsLp()
        lp.num_col_ = 2 * size
        lp.col_cost_ = np.concatenate(
            [np.tile(-self._usd, hours), np.tile(self._entering_usd, hours)]
        )
        lp.col_lower_ = np.zeros(2 * size)
        count = np.tile(self._jobs_of_kind[self._kind_of_level], hours)
        lp.col_upper_ = np.concatenate([count, count]).astype(float)
        entering_rows = [[(size + column, 1.0), (column, -1.0)] for column in range(levels)]
        fitting_rows = [
            [(hour * levels + column, float(self._blocks[column])) for column in range(levels)]
            for hour in range(hours)
        ]
        later_rows = [
            [(size + column, 1.0), (column, -1.0), (column - levels, 1.0)]
            for column in range(levels, size)
        ]
        counted_rows = [
            [
                (hour * levels + column, 1.0)
                for column in np.flatnonzero(self._kind_of_level == kind).tolist()
            ]
            for hour in range(hours)
            for kind in range(len(self._jobs_of_kind))
        ]
        rows = [*entering_rows, *fitting_rows, *later_rows, *counted_rows]
        counts = np.tile(self._jobs_of_kind, hours)
        lp.num_row_ = len(rows)
        lp.row_lower_ = np.concatenate(
            [np.zeros(levels), np.full(hours, -np.inf), np.zeros(len(later_rows)), counts]
        ).astype(float)
        lp.row_upper_ = np.concatenate(
            [np.full(levels, np.inf), np.zeros(hours), np.full(len(later_rows), np.inf), counts]
        ).astype(float)
        matrix = lp.a_matrix_
        matrix.format_ = import_module("highspy").MatrixFormat.kRowwise
        matrix.start_ = np.cumsum([0] + [len(row) for row in rows])
        matrix.index_ = [column for row in rows for column, _ in row]
        matrix.value_ = [value for row in rows for _, value in row]
        self._highs.passModel(lp)


def _silent_highs() -> Any:
    """A silent solver on one thread.

    Raises:
        BadInput: highspy is not installed.
    """
    if find_spec("highspy") is None:
        raise BadInput(
            "--policy solver needs highspy, which is not installed",
            fix="pip install 'trnsim[fleet]', or --policy threshold",
        )
    highs = import_module("highspy").Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    return highs
