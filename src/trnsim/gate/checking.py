"""The check of a kernel on a chip: its values, legality, races, time, and change of time.

finding     a failure or a notice, at a line of the user's program
check       a kernel's findings, its run and time, and the difference to its baseline
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from trnsim.arch import Target
from trnsim.errors import BadInput, EmulatorError, SourceLine, is_of_trnsim, is_users_file
from trnsim.gate.baselines import Baselines, Key
from trnsim.gate.difference import KernelTimeDifference, difference
from trnsim.gate.kernel_file import Arguments, KernelCase
from trnsim.gate.kernel_time import KernelLineTime, KernelTime, kernel_time
from trnsim.gate.line_changes import LineChange
from trnsim.gate.source import inputs_text, source_digest
from trnsim.gate.values import ResultError, result_errors
from trnsim.profile.units import percent_text, time_text
from trnsim.runner import run as run_kernel
from trnsim.runs import Launchable, Run, collecting
from trnsim.user_traceback import FULL_TRACEBACK, keeps_all_frames, users_stack

_US: Final = 1e-6
_MOST_LINES: Final = 3
"""Lines that a message names."""
_MAIN_SHARE: Final = 0.5
"""A line whose work is more than this share of a difference explains it, without waiting lines."""


@dataclass(frozen=True)
class GateFinding:
    """A failure or a notice.

    Attributes:
        kind: "illegal", "race", "values", "memory", "time", "slower", "faster", "upgrade",
            "baseline" or "inputs".
        is_failure: whether the check fails by it.
        fix: what to do; "" for nothing.
        line: the user's line, if any.
        source: the document of the rule, or "".
    """

    kind: str
    is_failure: bool
    text: str
    fix: str = ""
    line: SourceLine | None = None
    source: str = ""


@dataclass(frozen=True)
class CheckLimits:
    """The limits of a check, and its use of baselines.

    Attributes:
        max_s: longest legal time; None for no limit.
        baselines: the baselines to compare with; None for no comparison.
        is_updating: whether times become baselines, so that no baseline is demanded.
        accepts_new: whether a kernel without a baseline passes.
        update_words: the command that writes baselines.
    """

    max_s: float | None = None
    baselines: Baselines | None = None
    is_updating: bool = False
    accepts_new: bool = False
    update_words: str = "trnsim check --update"


@dataclass
class KernelCheck:
    """The check of a kernel on a chip.

    Attributes:
        key: its name among baselines.
        run: its run; None if that was refused.
        findings: failures and notices.
        values: the error of each result; empty without a reference.
        time: its time; None without a run.
        difference: the difference to its baseline; None without a baseline.
    """

    key: Key
    run: Run | None = None
    findings: list[GateFinding] = field(default_factory=list[GateFinding])
    values: Sequence[ResultError] = ()
    time: KernelTime | None = None
    difference: KernelTimeDifference | None = None

    @property
    def is_passed(self) -> bool:
        """True if no finding is a failure."""
        return not any(finding.is_failure for finding in self.findings)


def check_case(case: KernelCase, owner: str, chip: Target, limits: CheckLimits) -> KernelCheck:
    """A kernel of a file on a chip, checked on the inputs that the file declares."""
    check = KernelCheck(Key(owner, case.name, chip.name))
    arguments = case.arguments
    try:
        run = run_for_findings(case.kernel, arguments, chip)
    except EmulatorError as error:
        check.findings.append(refusal(error))
        return check
    except AssertionError as error:
        check.findings.append(_assertion(error))
        return check
    except (Exception, SystemExit) as error:  # noqa: BLE001  whatever the user's function raises
        check.findings.append(_user_error(error, "illegal", "the kernel"))
        return check
    _compare_with_reference(check, run, case)
    source, inputs = source_digest(case.kernel, arguments), inputs_text(arguments)
    judge(check, run, kernel_time(run, source, inputs), limits)
    return check


def _compare_with_reference(check: KernelCheck, run: Run, case: KernelCase) -> None:
    """Add findings about the values of a run, or about a reference that is missing or fails."""
    reference, arguments = case.reference, case.arguments
    if reference is None:
        text = f"no reference: define {case.name}_reference(...) to compare values"
        check.findings.append(GateFinding("values", False, text))
        return
    try:
        expected = reference(*arguments.positional, **arguments.keywords)
    except (Exception, SystemExit) as error:  # noqa: BLE001  whatever the user's function raises
        check.findings.append(_user_error(error, "values", "the reference"))
        return
    compare_values(check, run, expected, case.tolerance)


def compare_values(check: KernelCheck, run: Run, expected: object, tolerance: float | None) -> None:
    """Add the errors of a run's results, and the findings about them, to a check."""
    check.values = result_errors(run.outputs, expected, tolerance)
    check.findings += [_value_finding(error) for error in check.values if not error.is_legal]


def run_for_findings(kernel: Launchable, arguments: Arguments, chip: Target) -> Run:
    """A run of a kernel; its races and spills are among its properties, and no warnings."""
    with collecting():
        return run_kernel(
            kernel,
            *arguments.positional,
            target=chip.name,
            races="warn",
            kernel_kwargs=arguments.keywords,
        )


def judge(check: KernelCheck, run: Run, time: KernelTime, limits: CheckLimits) -> None:
    """Add a run, its time and the findings about them to a check."""
    check.run, check.time = run, time
    check.findings += [GateFinding("race", True, text) for text in run.races]
    check.findings += [GateFinding("race", False, text) for text in run.doubtful]
    check.findings += [GateFinding("memory", False, text) for text in run.overfull]
    check.findings += [GateFinding("race", False, text) for text in run.carried]
    _compare(check, run, time, limits)
    if limits.max_s is not None and run.summary.total_time_p50_s > limits.max_s:
        check.findings.append(_too_long(check, run, limits.max_s))


def refusal(error: EmulatorError) -> GateFinding:
    """The finding that a kernel, or one of its arguments, is not legal."""
    kind = "inputs" if isinstance(error, BadInput) else "illegal"
    name = type(error).__name__
    return GateFinding(kind, True, f"{name}: {error.reason}", error.fix, error.line, error.source)


def _assertion(error: AssertionError) -> GateFinding:
    """A failed assertion of the kernel: it refuses its inputs.

    Raises:
        AssertionError: it is trnsim's own.
    """
    frame = traceback.extract_tb(error.__traceback__)[-1]
    if is_of_trnsim(frame.filename):
        raise error
    line = SourceLine(frame.filename, frame.lineno or 0)
    return GateFinding(
        "inputs", True, f"the kernel refused its inputs: {str(error) or frame.line}", line=line
    )


def _user_error(error: BaseException, kind: str, function: str) -> GateFinding:
    """The finding that a function of the user's file ends by an error of its own.

    Raises:
        BaseException: the error itself, where all frames are asked for.
    """
    if keeps_all_frames():
        raise error
    frame = users_stack(traceback.extract_tb(error.__traceback__))[-1]
    line = SourceLine(frame.filename, frame.lineno or 0)
    return GateFinding(
        kind,
        True,
        f"{function} does not run to its end: {type(error).__name__}: {error}",
        f"{FULL_TRACEBACK}=1 shows its traceback",
        line if is_users_file(frame.filename) else None,
    )


def _value_finding(error: ResultError) -> GateFinding:
    name = f"result {error.result}: " if error.result else ""
    if error.why:
        return GateFinding("values", True, f"{name}{error.why}")
    return GateFinding(
        "values",
        True,
        f"{name}off by {error.error:.2g} of the largest value of the reference, at "
        f"{list(error.index)}; legal: up to {error.tolerance:g}",
    )


def _too_long(check: KernelCheck, run: Run, max_s: float) -> GateFinding:
    summary = run.summary
    text = f"{time_text(summary.total_time_p50_s)} ({summary.interval_text()}); legal: up to "
    text += time_text(max_s)
    if summary.total_time_p10_s <= max_s:
        text += ", which lies within P10 to P90"
    shift = check.difference
    if shift is not None and shift.upgrade.is_slower and shift.before.time_us * _US <= max_s:
        text += f"; with its baseline's trnsim it was {time_text(shift.before.time_us * _US)}"
    if check.time is None or not check.time.lines:
        return GateFinding("time", True, text)
    longest = check.time.lines[0]
    text += f"; longest at {longest.place}: {_us(longest.critical_us)}  {longest.text}"
    return GateFinding("time", True, text, line=_line_of(run, longest))


def _line_of(run: Run, line: KernelLineTime) -> SourceLine | None:
    """The line of a program with a number and a name of its file; None if there is none."""
    for place in run.program.lines:
        if place.line == line.line and Path(place.file).name == line.file:
            return place
    return None


def _compare(check: KernelCheck, run: Run, time: KernelTime, limits: CheckLimits) -> None:
    """Add the difference to the baseline, if times are compared, and the findings about it."""
    baselines = limits.baselines
    if baselines is None:
        return
    before = baselines.times.get(check.key)
    if before is None:
        if not limits.is_updating:
            check.findings.append(_missing_baseline(check.key, baselines, limits))
        return
    shift = check.difference = difference(before, time, run.timeline)
    check.findings += _shift_findings(shift, run, limits)


def _missing_baseline(key: Key, baselines: Baselines, limits: CheckLimits) -> GateFinding:
    other_chips = baselines.other_chips(key)
    if limits.accepts_new:
        return GateFinding("baseline", False, f"{baselines.path} has no time of this kernel")
    text = f"{baselines.path.name} has no baseline of {key}"
    if other_chips:
        text += f"; it has that of another chip: {', '.join(other_chips)}"
    return GateFinding("baseline", True, text, f"accept its time: {limits.update_words}")


def _shift_findings(
    shift: KernelTimeDifference, run: Run, limits: CheckLimits
) -> list[GateFinding]:
    findings: list[GateFinding] = []
    if shift.kernel.is_slower:
        line = shift.lines[0] if shift.lines and increase_us(shift.lines[0]) > 0 else None
        text = f"{difference_words(shift)}{''.join(_line_words(shift))}"
        findings.append(
            GateFinding(
                "slower",
                not limits.is_updating,
                text,
                f"if it is meant, accept the new time: {limits.update_words}",
                None if line is None else _line_of(run, line.line),
            )
        )
    elif shift.kernel.is_faster:
        text = difference_words(shift)
        findings.append(GateFinding("faster", False, text, f"keep it: {limits.update_words}"))
    if shift.upgrade.is_significant:
        findings.append(
            GateFinding(
                "upgrade",
                False,
                f"another trnsim, not the kernel: {upgrade_words(shift)}",
                f"accept it: {limits.update_words}",
            )
        )
    return findings


def difference_words(shift: KernelTimeDifference) -> str:
    """The kernel's part of a difference in words."""
    part = shift.kernel
    direction = "slower" if part.is_slower else "faster" if part.is_faster else "different"
    size = f"{_us(abs(part.change_us))} {direction} than its baseline"
    if not part.is_significant:
        size = "as fast as its baseline"
    times = f"{_us(shift.before.time_us)} -> {_us(shift.after.time_us)}"
    low, high = part.interval_us.p10, part.interval_us.p90
    text = f"{size}: {times}, difference P10 to P90 {signed_us(low)} to {signed_us(high)}"
    if shift.before.inputs != shift.after.inputs:
        text += f"; its inputs were {shift.before.inputs}, and are {shift.after.inputs}"
    if shift.is_split:
        text += "; trnsim changed too, and this part is with its earlier constants"
    return text


def upgrade_words(shift: KernelTimeDifference) -> str:
    """The part of another version of trnsim in words, with the constants that changed."""
    part = shift.upgrade
    low, high = part.interval_us.p10, part.interval_us.p90
    share = percent_text(abs(part.change_us) / shift.before.time_us)
    kernel = "the kernel is the same" if shift.is_same_source else "beside the kernel's change"
    text = (
        f"{signed_us(part.change_us)} ({share}; P10 to P90 "
        f"{signed_us(low)} to {signed_us(high)}) from {shift.before.model} to {shift.after.model}; "
        f"{kernel}"
    )
    if shift.constants:
        changes = ", ".join(
            f"{row.name} {_number(row.before)} -> {_number(row.after)}"
            for row in shift.constants[:_MOST_LINES]
        )
        hidden_count = len(shift.constants) - _MOST_LINES
        text += f"; constants: {changes}{f' and {hidden_count} more' if hidden_count > 0 else ''}"
    return text


def _line_words(shift: KernelTimeDifference) -> list[str]:
    """The lines that cost most, each as a clause: by their work, and by waiting for the rest."""
    least_us, slower_us = shift.kernel.least_us, shift.kernel.change_us
    working_lines = [line for line in shift.lines if line.cost_us > least_us]
    waiting_lines = [line for line in shift.lines if not line.cost_us and line.change_us > least_us]
    if working_lines and (shift.is_split or working_lines[0].cost_us > _MAIN_SHARE * slower_us):
        waiting_lines = []
    return [f"\n  {line_words(line)}" for line in [*working_lines, *waiting_lines][:_MOST_LINES]]


def increase_us(change: LineChange) -> float:
    """Microseconds that a line costs more than before: by its work, else on the critical path."""
    return change.cost_us or change.change_us


def line_words(change: LineChange) -> str:
    """A line's change in words."""
    was = f"  (was: {change.was})" if change.was else ""
    direction = "" if change.cost_us else " of waiting"
    return (
        f"{change.line.place}: {signed_us(increase_us(change))}{direction}  {change.line.text}{was}"
    )


def signed_us(value_us: float) -> str:
    """A difference of microseconds with its sign."""
    return f"{'-' if value_us < 0 else '+'}{_us(abs(value_us))}"


def _us(value_us: float) -> str:
    return time_text(value_us * _US)


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"
