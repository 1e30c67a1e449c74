"""`trnsim run`: a script or one of its kernels on an emulated NeuronCore."""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
import traceback
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import numpy as np
import typer

from trnsim import arch
from trnsim.cli.profile import side_by_side
from trnsim.cli.progress import progress
from trnsim.dtypes import BFLOAT16, Array
from trnsim.errors import BadInput, EmulatorError, SourceLine
from trnsim.nki.kernel import TARGET_VARIABLE
from trnsim.profile import advise, write_report, write_traces
from trnsim.profile.tables.parquet import EXTRA
from trnsim.run import Launchable, Run, collecting, watching
from trnsim.run import run as run_kernel
from trnsim.system.collectives import collective_time

SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True}
"""What follows the script belongs to the script."""

_FOLDER = Path("trnsim-report")
_RECORD_VARIABLE = "TRNSIM_RECORD"  # what trnsim.torch.recording reads when it is loaded


def run_script(
    context: typer.Context,
    script: Annotated[Path, typer.Argument(help="A Python file: a program, or a file of kernels.")],
    on: Annotated[
        str, typer.Option(help="Chip: trn1, inf2, trn2 or trn3; several, separated by commas.")
    ] = "trn2",
    inputs: Annotated[
        list[Path] | None,
        typer.Option("--input", help="Arrays (.npy) for the kernel's arguments, in order."),
    ] = None,
    kernel: Annotated[
        str | None, typer.Option(help="The kernel to call, where the file has several.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Save what the kernel returns here (.npy).")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            help="Write all reports to this folder: the page, the stored report for trnsim "
            "profile, traces for Perfetto and Chrome, Parquet tables. Without, the page and the "
            "stored report go to trnsim-report."
        ),
    ] = None,
) -> None:
    """Run a Python program, or one of its NKI kernels, on an emulated NeuronCore.

    With --input, the file's kernel is called with these arrays. Without, the file runs as a
    program, with the arguments that follow it, and every kernel that it launches is emulated; a
    training step on torch.device("neuron") is timed on every chip.

    Example: trnsim run examples/attention.py --input q.npy k.npy v.npy --output out.npy
    """
    chips = [arch.target(name.strip()) for name in on.split(",")]
    if not script.is_file():
        raise BadInput(
            f"script {script} is not a file",
            fix="name a Python file, for example examples/attention.py",
        )
    with progress() as tell:
        with watching(tell):
            runs = [_runs(script, kernel, inputs, context.args, chip) for chip in chips]
        if output is not None:
            _save(output, runs[0][-1])
        _report_device(report, chips[0], tell)
        # What a kernel did on each chip belongs together.
        kernels = [[run for run in group if run is not None] for group in zip_longest(*runs)]
        for number, group in enumerate(kernels):
            name = group[0].title if len(kernels) == 1 else f"{group[0].title}-{number}"
            files = _write(group, report, name, tell)
            typer.echo("\n".join([*map(_describe, group), *_compared(group), *files]))


def _runs(
    script: Path,
    kernel: str | None,
    inputs: list[Path] | None,
    arguments: list[str],
    chip: arch.Target,
) -> list[Run]:
    """What the script's kernels did on one chip."""
    try:
        if inputs:
            return [_call(script, kernel, inputs, chip)]
        return _execute(script, arguments, chip)
    except AssertionError as error:
        raise _refusal(script, error) from error


def _recording() -> Any:
    """What the program did on PyTorch's device, if it loaded that."""
    module = sys.modules.get("trnsim.torch.recording")
    found = [] if module is None else module.whole_program
    return found[0] if found and found[0].events else None


def _report_device(folder: Path | None, chip: arch.Target, tell: Callable[[str], None]) -> None:
    """The training step that the program made on PyTorch's device, printed and written."""
    recording = _recording()
    if recording is None:
        return
    tell("PyTorch step: device time")
    write_step: Any = importlib.import_module("trnsim.torch.report").write_step
    typer.echo(write_step(recording, folder or _FOLDER, chip.name, collective_time))
    typer.echo(f"  report  {(folder or _FOLDER) / 'step.html'}")


def _write(
    runs: list[Run], folder: Path | None, name: str, tell: Callable[[str], None]
) -> list[str]:
    """Writes the reports of one kernel; a line for each file."""
    tell(f"{name}: report")
    page = write_report(runs, folder or _FOLDER, name)
    lines = [f"  report  {page}", f"  stored  {page.with_suffix('.json')}"]
    if folder is None:
        return lines
    for run in runs:
        found = write_traces(run, folder, f"{name}-{run.target.name}", tell)
        lines += [f"  {kind:<8}{path}" for kind, path in found.items()]
        if "tables" not in found:
            lines.append(f"  tables  not written: {EXTRA}")
    return lines


def _compared(runs: list[Run]) -> list[str]:
    """The kernel on several chips, side by side."""
    if len(runs) < 2:  # noqa: PLR2004  one chip has nothing beside it
        return []
    return ["", side_by_side({run.target.name: run.summary for run in runs}), ""]


def with_repeated_option(arguments: list[str], option: str) -> list[str]:
    """``--input a b c`` as ``--input a --input b --input c``, which is what the parser knows."""
    spread: list[str] = []
    is_listing = False
    for argument in arguments:
        is_listing = argument == option or (is_listing and not argument.startswith("-"))
        if argument == option:
            continue
        spread += [option, argument] if is_listing else [argument]
    return spread


def _execute(script: Path, arguments: list[str], chip: arch.Target) -> list[Run]:
    """The runs of a program's kernels."""
    before = sys.argv, sys.path[0], os.environ.get(TARGET_VARIABLE)
    sys.argv, sys.path[0] = [str(script), *arguments], str(script.parent)
    os.environ[TARGET_VARIABLE] = chip.name
    os.environ[_RECORD_VARIABLE] = "1"
    try:
        with collecting() as runs:
            runpy.run_path(str(script), run_name="__main__")
    finally:
        sys.argv, sys.path[0] = before[0], before[1]
        os.environ.pop(_RECORD_VARIABLE, None)
        if before[2] is None:
            os.environ.pop(TARGET_VARIABLE, None)
        else:
            os.environ[TARGET_VARIABLE] = before[2]
    if not runs and _recording() is None:
        raise BadInput(
            f"{script} ran to its end and launched no kernel",
            fix="call a kernel in the script, use torch.device('neuron'), or give arrays: "
            "--input a.npy b.npy",
        )
    return runs


def _call(script: Path, name: str | None, inputs: list[Path], chip: arch.Target) -> Run:
    """One kernel of a file with the user's arrays."""
    launchable = _kernel(script, _module(script), name)
    arrays = [_load(path) for path in inputs]
    return run_kernel(launchable, *arrays, target=chip.name)


def _module(script: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location(script.stem, script)
    if specification is None or specification.loader is None:
        raise BadInput(f"{script} is not a Python file", fix="name a file that ends in .py")
    module = importlib.util.module_from_spec(specification)
    sys.modules[script.stem] = module
    sys.path.insert(0, str(script.parent))
    try:
        specification.loader.exec_module(module)
    except SyntaxError as error:
        raise BadInput(
            f"{script} is not valid Python: {error.msg}",
            fix="correct the line",
            line=SourceLine(str(script), error.lineno or 0),
        ) from error
    finally:
        sys.path.pop(0)
    return module


def _kernel(script: Path, module: ModuleType, name: str | None) -> Launchable:
    kernels = {key: value for key, value in vars(module).items() if isinstance(value, Launchable)}
    if name is None and len(kernels) == 1:
        return next(iter(kernels.values()))
    if name in kernels:
        return kernels[name]
    asked = "no --kernel was given" if name is None else f"--kernel {name}"
    raise BadInput(
        f"{asked}, and {script} has the kernels: {', '.join(kernels) or 'none'}",
        fix="name one of them with --kernel"
        if kernels
        else "decorate a function of the file with @nki.jit",
    )


def _load(path: Path) -> Array:
    fix = "give a file that numpy.save wrote, of numbers"
    try:
        array: object = np.load(path, allow_pickle=False)
    except (OSError, EOFError) as error:
        raise BadInput(f"--input {path}: {error}", fix=fix) from error
    except ValueError as error:  # numpy's own words advise to load pickles, which run code
        raise BadInput(f"--input {path}: not an array of numbers", fix=fix) from error
    if not isinstance(array, np.ndarray):
        raise BadInput(f"--input {path}: an archive of arrays (.npz)", fix=fix)
    # numpy writes bfloat16, which it does not know, as two raw bytes.
    return array.view(BFLOAT16.dtype) if array.dtype == np.dtype("V2") else array


def _save(path: Path, run: Run) -> None:
    """Every output in a file: the second and later ones under path-1, path-2 ..."""
    outputs = run.outputs if isinstance(run.outputs, tuple | list) else [run.outputs]
    for number, values in enumerate(outputs):
        file = path if number == 0 else path.with_stem(f"{path.stem}-{number}")
        unfinished = file.with_suffix(".part")
        try:
            with unfinished.open("wb") as stream:
                np.save(stream, np.asarray(values))
            unfinished.replace(file)
        except OSError as error:
            raise BadInput(
                f"--output {file}: {error}", fix="name a file in a folder that can be written"
            ) from error


def _refusal(script: Path, error: AssertionError) -> EmulatorError:
    """A kernel's own assertion, as an error that names its line."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return BadInput(
        f"{script.name} refused its arguments: {error or frame.line}",
        fix="give arguments that satisfy the assertion",
        line=SourceLine(frame.filename, frame.lineno or 0),
    )


def _describe(run: Run) -> str:
    """A run in a few lines: outputs, time, what binds it, what to try."""
    lines = [f"{run.title} on {run.target.name}: {len(run.program)} instructions"]
    outputs: Any = run.outputs if isinstance(run.outputs, tuple | list) else [run.outputs]
    lines += [f"  output  {_shape(values)}" for values in outputs if values is not None]
    lines.append(run.summary.text())
    advice = advise(run.timeline)
    lines += [f"  try     {item.action} ({item.line}; {item.finding})" for item in advice[:1]]
    return "\n".join(lines)


def _shape(values: Any) -> str:
    shape, dtype = getattr(values, "shape", None), getattr(values, "dtype", None)
    return f"{list(shape)} {dtype}" if shape is not None else repr(values)
