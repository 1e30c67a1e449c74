"""The search of the fastest setting with few trials.

1. The kernel's own setting is timed first.
2. One parameter after the other takes all of its values, the others as in the best setting so far,
   until a round of all parameters finds nothing faster.
3. The remaining trials are of the settings that the main effects of the parameters on log(time),
   fitted to all trials, predict as fastest.

A value that was never legal and is the only difference to a legal setting, or was refused twice,
comes last. A setting whose numbers are all at least as large as in a setting that exceeded a memory
is not tried. A trial ends early if its bound exceeds the best time (`tune.trial`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trnsim.arch import Target, configured_cores
from trnsim.arch.environment import transposes_on_tensor_engine
from trnsim.errors import BadInput
from trnsim.gate.difference import TimeShift, shift_between
from trnsim.gate.kernel_time import model
from trnsim.runs import Launchable
from trnsim.system import search
from trnsim.tune.space import Setting, SettingSpace
from trnsim.tune.trial import trial

SHARE: Final = 5
"""A search tries at most 1 / `SHARE` of the settings, or `LEAST` if that is fewer."""
LEAST: Final = 8
"""Number of settings that a search may always try."""
_PROPOSED_AT_ONCE: Final = 4
"""Settings that the main effects propose before they are fitted again."""
_MOST_IN_PROCESS_S: Final = 4.0
"""Expected seconds of trials up to which this process runs them, and starts no other."""
_MOST_REFUSALS: Final = 2
_MEMORY: Final = "OutOfMemory"
_RIDGE: Final = 1e-3
_LEAST_GAIN: Final = 0.005
"""The least gain, as a share of the time, for which a setting counts as faster in the search."""


@dataclass(frozen=True)
class TuningTrial:
    """A setting that was tried.

    Attributes:
        setting: an index of a value for each parameter.
        time_us: its time; infinite for a setting that is not legal, or whose trial ended early.
        draws_us: its time in each draw of the constants.
        busiest: the label of the engine that is busy longest.
        busy_share: its busy time as a share of the device time.
        error: the reason why the setting is not legal; "" for a legal setting.
        kind: the class of that error.
        beyond_us: a lower bound of its time that exceeds the best time; 0 without such a bound.
    """

    setting: Setting
    time_us: float = math.inf
    draws_us: tuple[float, ...] = ()
    busiest: str = ""
    busy_share: float = 0.0
    error: str = ""
    kind: str = ""
    beyond_us: float = 0.0

    @property
    def is_timed(self) -> bool:
        """True if it has a time."""
        return math.isfinite(self.time_us)


@dataclass(frozen=True)
class TuningEffort:
    """The effort of a search.

    Attributes:
        runs: maximum number of trials; None for a fifth of the settings, and 8 at least.
        ray: address of a Ray cluster; "" for processes of this machine.
        processes: number of processes; 0 for the number of cores.
        tell: called with words on the progress.
    """

    runs: int | None = None
    ray: str = ""
    processes: int = 0
    tell: Callable[[str], None] = lambda _: None

    def most_trials(self, settings: int) -> int:
        """The largest number of trials in a space of `settings` settings."""
        if self.runs is not None:
            return min(self.runs, settings)
        return min(settings, max(LEAST, settings // SHARE))


@dataclass
class Tuning:
    """A search and its trials.

    Attributes:
        trials: the trials by setting, in order.
        is_interrupted: True if Ctrl-C ended the search.
    """

    space: SettingSpace
    chip: Target
    trials: dict[Setting, TuningTrial] = field(default_factory=dict[Setting, TuningTrial])
    is_interrupted: bool = False

    @property
    def timed(self) -> list[TuningTrial]:
        """The trials with a time, fastest first; at equal times the kernel's own setting first."""
        default = self.space.default
        trials = [row for row in self.trials.values() if row.is_timed]
        return sorted(trials, key=lambda row: (row.time_us, row.setting != default, row.setting))

    @property
    def default_trial(self) -> TuningTrial:
        """The trial of the kernel's own setting."""
        return self.trials[self.space.default]

    def shift(self, trial_: TuningTrial, since: TuningTrial) -> TimeShift:
        """The difference of a trial's time to that of another, under the same draws."""
        return shift_between(since.time_us, since.draws_us, trial_.time_us, trial_.draws_us)

    def ties(self, best: TuningTrial) -> list[TuningTrial]:
        """Trials that cannot be told apart from the best."""
        others = [row for row in self.timed if row is not best]
        return [row for row in others if not self.shift(row, best).is_significant]


def tune(space: SettingSpace, chip: Target, effort: TuningEffort) -> Tuning:
    """The search of the fastest setting of a kernel on a chip.

    Raises:
        BadInput: no setting that was tried is legal, or the effort is zero.
    """
    if effort.runs is not None and effort.runs < 1:
        raise BadInput(f"--runs {effort.runs}; legal: from 1 on")
    tuning = Tuning(space, chip)
    try:
        _Search(tuning, effort).run()
    except KeyboardInterrupt:
        if not tuning.timed:
            raise
        tuning.is_interrupted = True
    if not tuning.timed:
        raise _no_legal_setting(tuning)
    return tuning


def _no_legal_setting(tuning: Tuning) -> BadInput:
    case = tuning.space.case
    reasons = Counter(row.error for row in tuning.trials.values() if row.error)
    (reason, times), *_ = reasons.most_common(1)
    return BadInput(
        f"{case.file}: none of the {len(tuning.trials)} settings of {case.name} that were tried on "
        f"{tuning.chip.name} is legal; {times} of them: {reason}",
        fix=f"change the values of {case.name}_parameters, or its inputs; first tried: "
        f"{tuning.space.text(next(iter(tuning.trials)))}",
    )


class _Search:
    """The state of a search."""

    def __init__(self, tuning: Tuning, effort: TuningEffort) -> None:
        self._tuning = tuning
        self._space = tuning.space
        self._effort = effort
        self._trial_limit = effort.most_trials(len(tuning.space))
        self._trial_s = 0.0
        case = tuning.space.case
        self._function = partial(
            trial,
            file=str(Path(case.file).resolve()),
            kernel=case.name,
            chip=tuning.chip.name,
            identity=f"{tuning.space.digest()} {model()} {_conditions(case.kernel)}",
        )

    def run(self) -> None:
        """Run trials until none is left, or no untried setting is promising."""
        self._try([self._space.default])
        self._sweep()
        while self._trials_left and (settings := self._promising_settings()):
            self._try(settings)
            if self._best is not None and self._best.setting in settings:
                self._sweep()

    @property
    def _trials_left(self) -> int:
        return self._trial_limit - len(self._tuning.trials)

    @property
    def _best(self) -> TuningTrial | None:
        return next(iter(self._tuning.timed), None)

    def _try(self, settings: Sequence[Setting]) -> None:
        """Try the settings that are not tried yet, together, up to the limit of trials."""
        trials = self._tuning.trials
        untried = [setting for setting in dict.fromkeys(settings) if setting not in trials]
        untried = untried[: self._trials_left]
        if not untried:
            return
        best = self._best
        limit_us = None if best is None else best.time_us
        points = [[list(setting), limit_us] for setting in untried]
        start_s = monotonic()
        is_short = self._trial_s * len(points) < _MOST_IN_PROCESS_S
        results = search.map(
            self._function,
            points,
            ray=self._effort.ray,
            processes=1 if is_short and not self._effort.ray else self._effort.processes,
            chunk=1,
        )
        self._trial_s = max(self._trial_s, (monotonic() - start_s) / len(points))
        for setting, result in zip(untried, results, strict=True):
            trials[setting] = _trial_of(setting, result)
        count, best = len(trials), self._best
        best_text = ""
        if best is not None:
            best_text = f", best {best.time_us:.4g} us: {self._space.text(best.setting)}"
        self._effort.tell(f"{count} of {self._trial_limit} settings{best_text}")

    def _sweep(self) -> None:
        """Give one parameter after the other all of its values, until nothing is faster."""
        unchanged_count = 0
        while unchanged_count < len(self._space.parameters) and self._trials_left:
            for parameter in range(len(self._space.parameters)):
                previous_best = self._best
                centre = self._space.default if previous_best is None else previous_best.setting
                self._try(self._settings_along(centre, parameter))
                unchanged_count = unchanged_count + 1 if self._is_no_faster(previous_best) else 1
                if unchanged_count >= len(self._space.parameters):
                    break

    def _is_no_faster(self, previous_best: TuningTrial | None) -> bool:
        """True if the best trial is not `_LEAST_GAIN` of the time faster than `previous_best`."""
        best = self._best
        if best is None or previous_best is None:
            return best is previous_best
        return best.time_us > (1 - _LEAST_GAIN) * previous_best.time_us

    def _settings_along(self, centre: Setting, parameter: int) -> list[Setting]:
        """The settings that differ in one parameter, its nearest values first."""
        count = len(self._space.parameters[parameter].values)
        indexes = sorted(range(count), key=lambda index: abs(index - centre[parameter]))
        settings = [(*centre[:parameter], index, *centre[parameter + 1 :]) for index in indexes]
        return [setting for setting in settings if not self._is_hopeless(setting)]

    def _is_hopeless(self, setting: Setting) -> bool:
        """True if the trials so far suggest that a setting is not legal."""
        return self._exceeds_memory(setting) or any(
            self._is_refused(at, index) for at, index in enumerate(setting)
        )

    def _exceeds_memory(self, setting: Setting) -> bool:
        """True if a setting is at least as large as a setting that exceeded a memory."""
        return any(
            self._is_as_large(setting, row.setting)
            for row in self._tuning.trials.values()
            if row.kind == _MEMORY
        )

    def _is_refused(self, parameter: int, index: int) -> bool:
        """True if a value was never legal, and refused twice or where another value is legal."""
        trials = [row for row in self._tuning.trials.values() if row.setting[parameter] == index]
        refusals = [row.setting for row in trials if row.error]
        if not refusals or len(refusals) < len(trials):
            return False
        legal = [row.setting for row in self._tuning.trials.values() if not row.error]
        return len(refusals) >= _MOST_REFUSALS or any(
            _differ_only_in(parameter, setting, other) for setting in refusals for other in legal
        )

    def _is_as_large(self, setting: Setting, other: Setting) -> bool:
        """True if each number is at least that of another setting, and all else is equal."""
        for parameter, index, other_index in zip(
            self._space.parameters, setting, other, strict=True
        ):
            value, other_value = parameter.values[index], parameter.values[other_index]
            are_numbers = isinstance(value, int | float) and isinstance(other_value, int | float)
            if value != other_value and not (are_numbers and value > other_value):
                return False
        return True

    def _promising_settings(self) -> list[Setting]:
        """The untried settings that the main effects predict as fastest.

        A parameter without an effect keeps its best value while other settings are left.
        """
        possible = [
            setting
            for setting in self._space.settings()
            if setting not in self._tuning.trials and not self._exceeds_memory(setting)
        ]
        untried = [setting for setting in possible if not self._is_hopeless(setting)] or possible
        if not untried:
            return []
        effects = self._main_effects()
        best = self._best
        if best is not None:
            without_effect = [
                at for at, column in enumerate(effects) if np.ptp(column) < _LEAST_GAIN
            ]
            settings = [
                setting
                for setting in untried
                if all(setting[at] == best.setting[at] for at in without_effect)
            ]
            untried = settings or untried
        logs = [
            sum(column[index] for column, index in zip(effects, setting, strict=True))
            for setting in untried
        ]
        order = np.argsort(logs, kind="stable")[: min(_PROPOSED_AT_ONCE, self._trials_left)]
        return [untried[at] for at in order.tolist()]

    def _main_effects(self) -> list[npt.NDArray[np.float64]]:
        """The main effect of each value of each parameter on log(time), by ridge regression.

        A value without a trial has the effect of the parameter's average.
        """
        # A trial that was ended early counts with its bound: it takes at least that long.
        trials = [row for row in self._tuning.trials.values() if row.is_timed or row.beyond_us]
        counts = [len(parameter.values) for parameter in self._space.parameters]
        if not trials:
            return [np.zeros(count) for count in counts]
        logs = np.log([row.time_us if row.is_timed else row.beyond_us for row in trials])
        columns = self._columns([row.setting for row in trials])
        normal_matrix = columns.T @ columns + _RIDGE * np.eye(columns.shape[1])
        effects = np.linalg.solve(normal_matrix, columns.T @ (logs - logs.mean()))
        return np.split(effects, np.cumsum(counts)[:-1])

    def _columns(self, settings: Sequence[Setting]) -> npt.NDArray[np.float64]:
        """A column for each value of each parameter: 1 where a setting has it."""
        columns = [
            np.array([[setting[at] == index] for setting in settings], float)
            for at, parameter in enumerate(self._space.parameters)
            for index in range(len(parameter.values))
        ]
        return np.hstack(columns)


def _conditions(kernel: Launchable) -> tuple[object, ...]:
    """The settings beside a kernel's source on which its legality and its time depend."""
    choice = kernel.version()
    return (
        choice.version.name,
        choice.is_simulated,
        transposes_on_tensor_engine(),
        configured_cores(),
    )


def _differ_only_in(parameter: int, setting: Setting, other: Setting) -> bool:
    """True if two settings differ in the parameter number `parameter` alone."""
    return (
        setting != other
        and setting[:parameter] == other[:parameter]
        and setting[parameter + 1 :] == other[parameter + 1 :]
    )


def _trial_of(setting: Setting, result: dict[str, Any]) -> TuningTrial:
    """A trial from its result (`tune.trial`)."""
    fields: dict[str, Any] = {**result, "draws_us": tuple(result.get("draws_us", ()))}
    return TuningTrial(setting, **fields)
