"""``trnsim tune``: the fastest setting of a kernel's parameters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from trnsim.arch import Target
from trnsim.cli import script
from trnsim.cli.error_text import INTERRUPTED
from trnsim.cli.on import chips as chips_of
from trnsim.cli.on import on_option
from trnsim.cli.options import KernelName, command, parser
from trnsim.cli.progress import progress
from trnsim.cli.quantity_options import whole
from trnsim.cli.report_files import PrintedAnswer, answering
from trnsim.cli.tune_document import TunedKernel, tune_document
from trnsim.errors import BadInput
from trnsim.gate.checking import CheckLimits, KernelCheck, check_case
from trnsim.gate.kernel_file import KernelCase, cases, module_of
from trnsim.tune.space import SettingSpace, space_of
from trnsim.tune.tuning import Tuning, TuningEffort, TuningTrial, tune

app = parser()


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """Options of ``trnsim tune``."""

    kernel_file: Annotated[
        Path, typer.Argument(help="A Python file with kernels.", metavar="FILE.py")
    ]
    on: Annotated[list[str] | None, on_option("trn2")] = None
    kernel: KernelName = None
    runs: Annotated[
        int | None,
        whole("Maximum number of settings; default: a fifth of all, and 8 at least.", minimum=1),
    ] = None
    ray: Annotated[
        str, typer.Option(metavar="ADDRESS", help="A Ray cluster that does the search.")
    ] = ""


@app.command(name="tune")
@answering
@command(TuneOptions)
def tune_kernel(options: TuneOptions) -> PrintedAnswer:
    """Find the fastest setting of a kernel's parameters on the timing model.

    The kernel NAME takes its parameters as keywords with defaults. The file has their values in
    NAME_parameters, a dict of keywords to lists such as {"tile": [128, 256, 512]}, and on what the
    kernel runs in NAME_inputs(), as `trnsim check` reads it. A parameter named schedule that is no
    keyword has lists of edges for NAME.with_schedule.

    Settings are timed without values; the best is then checked against NAME_reference(...). Each
    difference has P10 to P90 under the same draws of the model's constants: where it holds zero,
    two settings cannot be told apart. Ctrl-C prints the best so far; called again, the search goes
    on where it was, as times lie in trnsim's cache.

    Example: trnsim tune examples/tune/softmax.py --on trn2
    """
    script.checked_script(options.kernel_file)
    with script.program_output(is_apart=True), progress() as tell:
        module = module_of(options.kernel_file)
        spaces = [space_of(case) for case in _cases_with_parameters(options, module)]
        effort = TuningEffort(options.runs, options.ray, tell=tell)
        kernels = [_tune(space, chip, effort) for space in spaces for chip in chips_of(options.on)]
    is_interrupted = any(kernel.tuning.is_interrupted for kernel in kernels)
    return PrintedAnswer(tune_document(kernels), status=INTERRUPTED if is_interrupted else 0)


def _cases_with_parameters(options: TuneOptions, module: ModuleType) -> list[KernelCase]:
    """The file's kernels that declare parameters, or the kernel of --kernel.

    Raises:
        BadInput: no kernel declares inputs and parameters.
    """
    kernel_cases = cases(options.kernel_file, module, options.kernel)
    if options.kernel is not None:
        return kernel_cases
    tunable_cases = [case for case in kernel_cases if case.parameters]
    if not tunable_cases:
        raise BadInput(
            f"{options.kernel_file} declares no kernel with inputs and parameters; it has inputs "
            f"for {', '.join(case.name for case in kernel_cases) or 'no kernel'}",
            fix="beside a kernel NAME define NAME_inputs() and "
            "NAME_parameters = {'tile': [128, 256, 512]}",
        )
    return tunable_cases


def _tune(space: SettingSpace, chip: Target, effort: TuningEffort) -> TunedKernel:
    """Tune a kernel on a chip; returns its fastest setting that has right values.

    Raises:
        BadInput: the values of all timed settings are wrong.
    """
    tuning = tune(space, chip, effort)
    wrong_trials: list[tuple[TuningTrial, str]] = []
    for trial in tuning.timed:
        check = None if tuning.is_interrupted else _check_values(tuning, trial)
        failure = "" if check is None else _failure(check)
        if not failure:
            return TunedKernel(tuning, trial, check, wrong_trials)
        wrong_trials.append((trial, failure))
    raise BadInput(
        f"{space.case.file}: no setting of {space.case.name} that is timed has right values; "
        f"{space.text(wrong_trials[0][0].setting)}: {wrong_trials[0][1]}",
        fix=f"trnsim check {space.case.file} --kernel {space.case.name}",
    )


def _check_values(tuning: Tuning, trial: TuningTrial) -> KernelCheck | None:
    """The check of a trial's values; None without a reference."""
    case = tuning.space.case
    if case.reference is None:
        return None
    kernel, keywords = tuning.space.kernel_for(trial.setting)
    reference, arguments = case.reference, case.arguments

    def expected(*_args: object, **_keywords: object) -> object:
        """The reference, which takes no parameters."""
        return reference(*arguments.positional, **arguments.keywords)

    tuned_case = KernelCase(
        case.file, case.name, kernel, arguments.with_keywords(keywords), expected, case.tolerance
    )
    return check_case(tuned_case, case.file.as_posix(), tuning.chip, CheckLimits())


def _failure(check: KernelCheck) -> str:
    """The first failure of a check; "" if it passes."""
    return next((finding.text for finding in check.findings if finding.is_failure), "")
