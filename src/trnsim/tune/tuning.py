"""The search of the fastest setting with few trials, and what it says.

1. The kernel's own setting is timed first.
2. One parameter after the other takes all of its values, the others as in the best setting so far,
   until a round of all parameters finds nothing faster.
3. The trials that are left go to the settings that the main effects of the parameters on log(time),
   fitted to all trials, call fastest.

A value that was never legal and is the only difference to a legal setting, or was refused twice,
comes last. A setting that is at least as large in each number as one that exceeded a memory is not
tried. A trial ends early where its bound exceeds the best time (`tune.trial`).
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
        time_us: its time; infinite if it is not legal, or was ended early as longer than the best.
        draws_us: its time in each draw of the constants.
        busiest: the label of the engine that is busy longest.
        busy_share: its busy time as a share of the device time.
        error: why it is not legal; "" if it is.
        kind: the kind of that error.
        beyond_us: a bound of its time that exceeds the best; 0 if it was timed.
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
        is_interrupted: whether Ctrl-C ended it.
    """

    space: SettingSpace
    chip: Target
    trials: dict[Setting, TuningTrial] = field(default_factory=dict[Setting, TuningTrial])
    is_interrupted: bool = False

    @property
    def timed(self) -> list[TuningTrial]:
        """The trials with a time, fastest first; of equal ones the kernel's own setting first."""
        default = self.space.default
        trials = [each for each in self.trials.values() if each.is_timed]
        return sorted(
            trials, key=lambda each: (each.time_us, each.setting != default, each.setting)
        )

    @property
    def default_trial(self) -> TuningTrial:
        """The trial of the kernel's own setting."""
        return self.trials[self.space.default]

    def shift(self, trial_: TuningTrial, since: TuningTrial) -> TimeShift:
        """The difference of a trial's time to that of another, under the same draws."""
        return shift_between(since.time_us, since.draws_us, trial_.time_us, trial_.draws_us)

    def ties(self, best: TuningTrial) -> list[TuningTrial]:
        """Trials that cannot be told apart from the best."""
        others = [each for each in self.timed if each is not best]
        return [each for each in others if not self.shift(each, best).is_significant]


def tune(space: SettingSpace, chip: Target, effort: TuningEffort) -> Tuning:
    """The search of the fastest setting of a kernel on a chip.

    Raises:
        BadInput: no setting that was tried is legal, or the effort is zero.
    """
    if effort.runs is not None and effort.runs < 1:
        raise BadInput(f"--runs {effort.runs}; legal: from 1 on")
    tuning = Tuning(space, chip)
    searching = _Search(tuning, effort)
    try:
        searching.run()
    except KeyboardInterrupt:
        if not tuning.timed:
            raise
        tuning.is_interrupted = True
    if not tuning.timed:
        raise _illegal_throughout(tuning)
    return tuning


def _illegal_throughout(tuning: Tuning) -> BadInput:
    case = tuning.space.case
    reasons = Counter(each.error for each in tuning.trials.values() if each.error)
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
        """Run trials until none is left, or nothing untried is promising."""
        self._try([self._space.default])
        self._sweep()
        while self._trials_left and (proposed := self._promising()):
            self._try(proposed)
            if self._tuning.timed[:1] and self._tuning.timed[0].setting in proposed:
                self._sweep()

    @property
    def _trials_left(self) -> int:
        return self._trial_limit - len(self._tuning.trials)

    @property
    def _best(self) -> TuningTrial | None:
        return next(iter(self._tuning.timed), None)

    def _try(self, settings: Sequence[Setting]) -> None:
        """Try settings, as many as are left, together."""
        new = [each for each in dict.fromkeys(settings) if each not in self._tuning.trials]
        new = new[: self._trials_left]
        if not new:
            return
        best = self._best
        limit_us = None if best is None else best.time_us
        points = [[list(setting), limit_us] for setting in new]
        begun_s = monotonic()
        is_short = self._trial_s * len(points) < _MOST_IN_PROCESS_S
        results = search.map(
            self._function,
            points,
            ray=self._effort.ray,
            processes=1 if is_short and not self._effort.ray else self._effort.processes,
            chunk=1,
        )
        self._trial_s = max(self._trial_s, (monotonic() - begun_s) / len(points))
        for setting, result in zip(new, results, strict=True):
            self._tuning.trials[setting] = _trial_of(setting, result)
        count, best = len(self._tuning.trials), self._best
        best_text = ""
        if best is not None:
            best_text = f", best {best.time_us:.4g} us: {self._space.text(best.setting)}"
        self._effort.tell(f"{count} of {self._trial_limit} settings{best_text}")

    def _sweep(self) -> None:
        """Give one parameter after the other all of its values, until nothing is faster."""
        unchanged = 0
        while unchanged < len(self._space.parameters) and self._trials_left:
            for at in range(len(self._space.parameters)):
                before = self._best
                centre = self._space.default if before is None else before.setting
                self._try(self._settings_along(centre, at))
                unchanged = unchanged + 1 if self._is_no_faster(before) else 1
                if unchanged >= len(self._space.parameters):
                    break

    def _is_no_faster(self, before: TuningTrial | None) -> bool:
        """True if the best is no more than a few thousandths faster than `before`."""
        best = self._best
        if best is None or before is None:
            return best is before
        return best.time_us > (1 - _LEAST_GAIN) * before.time_us

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
        """True if a setting is at least as large as one that exceeded a memory."""
        return any(
            self._is_as_large(setting, each.setting)
            for each in self._tuning.trials.values()
            if each.kind == _MEMORY
        )

    def _is_refused(self, parameter: int, index: int) -> bool:
        """True if a value was never legal, and refused twice or where another value is legal."""
        trials = [each for each in self._tuning.trials.values() if each.setting[parameter] == index]
        refused = [each.setting for each in trials if each.error]
        if not refused or len(refused) < len(trials):
            return False
        legal = [each.setting for each in self._tuning.trials.values() if not each.error]
        return len(refused) >= _MOST_REFUSALS or any(
            _differ_only_in(parameter, setting, other) for setting in refused for other in legal
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

    def _promising(self) -> list[Setting]:
        """The untried settings that the main effects call fastest.

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
            like_best = [
                setting
                for setting in untried
                if all(setting[at] == best.setting[at] for at in without_effect)
            ]
            untried = like_best or untried
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
        trials = [each for each in self._tuning.trials.values() if each.is_timed or each.beyond_us]
        counts = [len(parameter.values) for parameter in self._space.parameters]
        if not trials:
            return [np.zeros(count) for count in counts]
        logs = np.log([each.time_us if each.is_timed else each.beyond_us for each in trials])
        columns = self._columns([each.setting for each in trials])
        normal_matrix = columns.T @ columns + _RIDGE * np.eye(columns.shape[1])
        fitted = np.linalg.solve(normal_matrix, columns.T @ (logs - logs.mean()))
        return np.split(fitted, np.cumsum(counts)[:-1])

    def _columns(self, settings: Sequence[Setting]) -> npt.NDArray[np.float64]:
        """A column for each value of each parameter: 1 where a setting has it."""
        columns = [
            np.array([[setting[at] == index] for setting in settings], float)
            for at, parameter in enumerate(self._space.parameters)
            for index in range(len(parameter.values))
        ]
        return np.hstack(columns)


def _conditions(kernel: Launchable) -> tuple[object, ...]:
    """Settings beside its source that decide what a kernel may do and how long it takes."""
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
