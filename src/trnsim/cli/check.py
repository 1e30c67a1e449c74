"""``trnsim check``: values, legality, races and times of the kernels in files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from trnsim import arch
from trnsim.cli import script
from trnsim.cli.check_document import CheckedFiles, check_document, path_text
from trnsim.cli.error_text import users_traceback
from trnsim.cli.on import chips as chips_of
from trnsim.cli.on import on_option
from trnsim.cli.options import KernelName, command, parser
from trnsim.cli.quantity_options import number
from trnsim.cli.report_files import PrintedAnswer, answering
from trnsim.errors import BadInput, EmulatorError
from trnsim.gate.against import earlier_baselines
from trnsim.gate.baselines import FILE, Baselines, Key, read_baselines
from trnsim.gate.checking import CheckLimits, GateFinding, KernelCheck, check_case, judge, refusal
from trnsim.gate.kernel_file import NOTHING_TO_CHECK, cases, kernels_of, module_of
from trnsim.gate.kernel_time import kernel_time
from trnsim.gate.source import files_digest

_US: float = 1e-6

app = parser()


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """Options of ``trnsim check``."""

    kernel_files: Annotated[
        list[Path], typer.Argument(help="Python files with kernels.", metavar="FILE.py...")
    ]
    on: Annotated[list[str] | None, on_option("trn2")] = None
    max_us: Annotated[
        float | None,
        number("The longest time that passes.", "--max-us", unit="us", exclusive_minimum=0),
    ] = None
    kernel: KernelName = None
    baseline: Annotated[
        Path | None,
        typer.Option(
            help=f"Compare with the times of this file, usually {FILE}.", metavar="FILE.toml"
        ),
    ] = None
    update: Annotated[
        bool,
        typer.Option("--update", help="Accept the times: write them to the file of --baseline."),
    ] = False
    against: Annotated[
        str | None,
        typer.Option(
            help="Compare with the same files in another revision of the git repository, whose "
            "kernels this trnsim times too.",
            metavar="REVISION",
        ),
    ] = None

    def check(self) -> None:
        """Refuse options of which one needs or excludes another.

        Raises:
            BadInput: --update stands without --baseline, or --against with --baseline.
        """
        if self.update and self.baseline is None:
            raise BadInput("--update without --baseline", fix=f"name the file: --baseline {FILE}")
        if self.against is not None and self.baseline is not None:
            raise BadInput(
                "--against and --baseline both say what times are compared with",
                fix="leave one of them out",
            )


@app.command()
@answering
@command(CheckOptions)
def check(options: CheckOptions) -> PrintedAnswer:
    """Check kernels without a chip: values, legality, races, time, and what a change costs.

    A kernel NAME runs on what NAME_inputs() returns, and its results are compared with those of
    NAME_reference(...), where the file has these functions. A file without any NAME_inputs runs as
    a program, as `trnsim run` does; its own assertions are the reference. Times are those of
    `trnsim run`.

    A change of time counts if P10 to P90 of the difference leaves zero out. Both sides have the
    same draws of the model's constants. What another version of trnsim changed is said apart, and
    fails nothing but --max-us.

    Ends with status 1 if a check fails. --output comment.md writes it for a pull request.

    Examples: trnsim check softmax.py --max-us 60 --on trn2,trn3

    trnsim check kernels/softmax.py --baseline trn-baselines.toml --update

    trnsim check kernels/softmax.py --against origin/main --output comment.md
    """
    options.check()
    chips = chips_of(options.on)
    for path in options.kernel_files:
        script.checked_script(path)
    baselines = _baselines(options, chips)
    if options.update and baselines is not None:
        baselines.check_writable()
    limits = CheckLimits(
        max_s=None if options.max_us is None else options.max_us * _US,
        baselines=baselines,
        is_updating=options.update,
        accepts_new=options.against is not None,
        update_words=f"trnsim check {options.kernel_files[0]} --baseline "
        f"{options.baseline or FILE} --update",
    )
    checks: list[KernelCheck] = []
    unchecked: list[str] = []
    with script.program_output(is_apart=True):
        for path in options.kernel_files:
            file_checks, names = _checked_file(path, options.kernel, chips, limits)
            checks += file_checks
            unchecked += [f"{path_text(path)}: {name}" for name in names]
    stale_keys = _stale_baselines(baselines, checks, options) if options.against is None else []
    written_files = _write_baselines(baselines, checks, stale_keys) if options.update else []
    files = CheckedFiles(options.kernel_files, chips, limits, checks, unchecked, stale_keys)
    is_passed = all(check.is_passed for check in checks)
    return PrintedAnswer(check_document(files), files=written_files, status=0 if is_passed else 1)


def _baselines(options: CheckOptions, chips: Sequence[arch.Target]) -> Baselines | None:
    """The times to compare with; None without --baseline and --against.

    Raises:
        BadInput: the file is not legal, or there is no such revision.
    """
    if options.against is not None:
        names = [chip.name for chip in chips]
        return earlier_baselines(options.against, options.kernel_files, names, options.kernel)
    return None if options.baseline is None else read_baselines(options.baseline)


def _checked_file(
    path: Path, name: str | None, chips: Sequence[arch.Target], limits: CheckLimits
) -> tuple[list[KernelCheck], list[str]]:
    """Check a file's kernels: (their checks, names of kernels for which no inputs are declared).

    Raises:
        BadInput: the file has no kernel, or a declaration of it is not legal.
    """
    owner = path_text(path)
    module = module_of(path)
    declared_cases = cases(path, module, name)
    if declared_cases:
        checks = [
            check_case(case, owner, chip, limits) for case in declared_cases for chip in chips
        ]
        case_names = {case.name for case in declared_cases}
        kernels = kernels_of(module) if name is None else {}
        return checks, [
            kernel_name
            for kernel_name, kernel in kernels.items()
            if kernel_name not in case_names
            and getattr(kernel, "__module__", "") == module.__name__
        ]
    return [check for chip in chips for check in _checked_program(path, owner, chip, limits)], []


def _checked_program(
    path: Path, owner: str, chip: arch.Target, limits: CheckLimits
) -> list[KernelCheck]:
    """The kernels that a program launches, checked; its own assertions are the reference.

    Raises:
        BadInput: it launches none.
    """
    ending = script.execute(path, [], chip)
    checks: list[KernelCheck] = []
    counts: dict[str, int] = {}
    for run in ending.runs:
        count = counts[run.title] = counts.get(run.title, 0) + 1
        name = run.title if count == 1 else f"{run.title}#{count}"
        check = KernelCheck(Key(owner, name, chip.name))
        judge(check, run, kernel_time(run, files_digest(run, path)), limits)
        checks.append(check)
    if not ending.has_succeeded and ending.error is not None:
        program_check = KernelCheck(Key(owner, path.stem, chip.name))
        program_check.findings.append(_program_finding(ending.error, path))
        checks.append(program_check)
    if not checks:
        raise BadInput(
            f"{path} {NOTHING_TO_CHECK}",
            fix="define NAME_inputs() for a kernel NAME, which returns a tuple of its arguments",
        )
    return checks


def _program_finding(error: BaseException, path: Path) -> GateFinding:
    """The error that ended a program, as a finding.

    Raises:
        KeyboardInterrupt: the user ended it.
    """
    if isinstance(error, EmulatorError):
        return refusal(error)
    if isinstance(error, KeyboardInterrupt):
        raise error
    return GateFinding("values", True, users_traceback(error, path).strip())


def _stale_baselines(
    baselines: Baselines | None, checks: Sequence[KernelCheck], options: CheckOptions
) -> list[Key]:
    """The baselines of kernels that the checked files no longer have.

    A file in which a kernel did not run to its end has none, as later kernels were not reached.
    """
    if baselines is None or options.kernel is not None:
        return []
    unfinished_files = {check.key.owner for check in checks if check.run is None}
    owners = {path_text(path) for path in options.kernel_files} - unfinished_files
    kernel_names = {check.key[:2] for check in checks}
    return [
        key
        for key in sorted(baselines.times)
        if key.owner in owners and key[:2] not in kernel_names
    ]


def _write_baselines(
    baselines: Baselines | None, checks: Sequence[KernelCheck], stale_keys: Sequence[Key]
) -> list[Path]:
    """Write the times of kernels that pass, without `stale_keys`; returns the written paths."""
    if baselines is None:
        return []
    for key in stale_keys:
        del baselines.times[key]
    for check in checks:
        if check.time is not None and check.is_passed:
            baselines.times[check.key] = check.time
    return [baselines.write()]
