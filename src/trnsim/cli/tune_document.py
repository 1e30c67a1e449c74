"""The answer of `trnsim tune`: the best setting beside the kernel's own, and the trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from trnsim.cli.check_document import shift_values
from trnsim.document.answer import (
    Block,
    Document,
    Note,
    Section,
    Table,
    columns,
    label_table,
    records,
)
from trnsim.gate.checking import KernelCheck, signed_us
from trnsim.gate.difference import TimeShift
from trnsim.profile.units import percent_text, time_text
from trnsim.tune.tuning import Tuning, TuningTrial

_US: Final = 1e-6
_SHOWN: Final = 5
"""Trials that the text shows, at most."""
_MOST_REASONS: Final = 3
"""Reasons why settings are not legal that the text shows, at most."""
_COLUMNS: Final = columns("setting | time | to the best | P10 to P90", numbers_from=1)
_ROW_NAMES: Final = ("kernel", "chip", "setting", "time_s", "error", "beyond_s")


@dataclass(frozen=True)
class TunedKernel:
    """A kernel and the best of its settings.

    Attributes:
        best: the best trial whose values are right.
        check: the check of its values; None without a reference.
        wrong_trials: (trial, failure) of each faster trial whose values are wrong.
    """

    tuning: Tuning
    best: TuningTrial
    check: KernelCheck | None
    wrong_trials: Sequence[tuple[TuningTrial, str]] = ()


def tune_document(kernels: Sequence[TunedKernel]) -> Document:
    """Tuned kernels as a document."""
    sections = [section for kernel in kernels for section in _sections(kernel)]
    rows = records([row for kernel in kernels for row in _records(kernel)], _ROW_NAMES)
    values = {"kernels": [_values(kernel) for kernel in kernels]}
    return Document("Tuned kernels", values, sections, rows=rows, schema="tune/1")


def _sections(tuned: TunedKernel) -> list[Section]:
    tuning, best = tuned.tuning, tuned.best
    space = tuning.space
    head = f"{space.case.name} on {tuning.chip.name}: {_verdict(tuned)}"
    rows = [
        ("best", f"{space.text(best.setting)}: {time_text(best.time_us * _US)}"),
        ("as it is", f"{space.text(space.default)}: {_own_words(tuned)}"),
        ("tried", _tried_words(tuning)),
        ("busiest", f"{best.busiest}, {percent_text(best.busy_share)} of the device time"),
        ("values", _check_words(tuned)),
    ]
    blocks: list[Block] = [Note(head, kind="strong"), label_table(rows, indent=2)]
    sections = [Section("", blocks), Section("", [_table(tuned)])]
    notes = [Note(text) for text in _notes(tuned)]
    return [*sections, Section("", notes)] if notes else sections


def _verdict(tuned: TunedKernel) -> str:
    """The comparison of the best setting with the kernel's own, in words."""
    tuning, best = tuned.tuning, tuned.best
    default_trial = tuning.default_trial
    if best.setting == default_trial.setting:
        other_trials = [
            row for row in tuning.trials.values() if row.setting != default_trial.setting
        ]
        if other_trials and all(row.error for row in other_trials):
            return "no setting that was tried is legal but its own"
        return "no setting that was tried is faster than the kernel's own"
    if not default_trial.is_timed:
        return "its own setting is not legal; another one is"
    shift = tuning.shift(best, default_trial)
    if not shift.is_significant:
        return "no setting that was tried can be told apart from its own as faster"
    factor = default_trial.time_us / best.time_us
    return f"{factor:.2f} times as fast, {_shift_words(shift)}"


def _shift_words(shift: TimeShift) -> str:
    low, high = shift.interval_us.p10, shift.interval_us.p90
    return f"{signed_us(shift.change_us)} (P10 to P90 {signed_us(low)} to {signed_us(high)})"


def _own_words(tuned: TunedKernel) -> str:
    default_trial = tuned.tuning.default_trial
    if default_trial.error:
        return f"not legal: {default_trial.error}"
    return time_text(default_trial.time_us * _US)


def _tried_words(tuning: Tuning) -> str:
    rows = tuning.trials.values()
    illegal_count = sum(bool(row.error) for row in rows)
    early_count = sum(bool(row.beyond_us) for row in rows)
    text = f"{len(tuning.trials)} of {len(tuning.space)} settings"
    if illegal_count:
        text += f", {illegal_count} not legal"
    if early_count:
        text += f", {early_count} left early as their bound exceeds the best time"
    return text


def _check_words(tuned: TunedKernel) -> str:
    if tuned.check is None:
        case = tuned.tuning.space.case
        return f"not compared: the file has no {case.name}_reference"
    errors = [error.error for error in tuned.check.values]
    return f"those of the reference, off by {max(errors, default=0.0):.2g} of its largest value"


def _table(tuned: TunedKernel) -> Table:
    """The fastest settings beside the best."""
    tuning, best = tuned.tuning, tuned.best
    rows: list[list[str]] = []
    for row in tuning.timed[:_SHOWN]:
        words = [tuning.space.text(row.setting), time_text(row.time_us * _US)]
        if row is best:
            rows.append([*words, "best", ""])
            continue
        shift = tuning.shift(row, best)
        low, high = shift.interval_us.p10, shift.interval_us.p90
        change = signed_us(shift.change_us) if shift.is_significant else "cannot be told apart"
        rows.append([*words, change, f"{signed_us(low)} to {signed_us(high)}"])
    return Table(_COLUMNS, rows)


def _notes(tuned: TunedKernel) -> list[str]:
    tuning = tuned.tuning
    texts = _refusals(tuning)
    ties = tuning.ties(tuned.best)
    if len(ties) > 1:
        texts.append(f"{len(ties)} settings cannot be told apart from the best")
    for row, why in tuned.wrong_trials:
        texts.append(f"faster, and its values are wrong: {tuning.space.text(row.setting)}: {why}")
    if tuning.is_interrupted:
        texts.append("interrupted: called again, the search goes on where it was")
    return texts


def _refusals(tuning: Tuning) -> list[str]:
    """Reasons why settings are not legal, the most frequent first, each with an example."""
    trials_by_reason: dict[str, list[TuningTrial]] = {}
    for row in tuning.trials.values():
        if row.error:
            trials_by_reason.setdefault(row.error, []).append(row)
    reasons_and_trials = sorted(trials_by_reason.items(), key=lambda item: -len(item[1]))
    texts: list[str] = []
    for reason, rows in reasons_and_trials[:_MOST_REASONS]:
        suffix = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
        texts.append(f"not legal: {tuning.space.text(rows[0].setting)}{suffix}: {reason}")
    hidden_count = len(reasons_and_trials) - _MOST_REASONS
    return [*texts, f"other reasons, in --json: {hidden_count}"] if hidden_count > 0 else texts


def _values(tuned: TunedKernel) -> dict[str, Any]:
    tuning, best = tuned.tuning, tuned.best
    space, default_trial = tuning.space, tuning.default_trial
    return {
        "file": space.case.file.as_posix(),
        "kernel": space.case.name,
        "chip": tuning.chip.name,
        "parameters": [
            {
                "name": row.name,
                "values": [row.text(index) for index in range(len(row.values))],
                "default": row.text(row.default),
            }
            for row in space.parameters
        ],
        "settings": len(space),
        "best": _trial_values(tuning, best),
        "own": _trial_values(tuning, default_trial),
        "gain": None
        if not default_trial.is_timed
        else shift_values(tuning.shift(best, default_trial)),
        "ties": [space.text(row.setting) for row in tuning.ties(best)],
        "wrong": [
            {"setting": space.text(row.setting), "why": why} for row, why in tuned.wrong_trials
        ],
        "error": None
        if tuned.check is None
        else max((error.error for error in tuned.check.values), default=0.0),
        "interrupted": tuning.is_interrupted,
        "trials": [_trial_values(tuning, row) for row in tuning.trials.values()],
    }


def _trial_values(tuning: Tuning, row: TuningTrial) -> dict[str, Any]:
    parameters = tuning.space.parameters
    return {
        "setting": {
            parameter.name: parameter.text(index)
            for parameter, index in zip(parameters, row.setting, strict=True)
        },
        "time_s": row.time_us * _US if row.is_timed else None,
        "error": row.error,
        "beyond_s": row.beyond_us * _US,
    }


def _records(tuned: TunedKernel) -> list[dict[str, Any]]:
    tuning = tuned.tuning
    case = {"kernel": tuning.space.case.name, "chip": tuning.chip.name}
    return [
        {**case, **_trial_values(tuning, row), "setting": tuning.space.text(row.setting)}
        for row in tuning.trials.values()
    ]
