"""`trnsim run`: a script or one of its kernels on an emulated NeuronCore."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import typer

from trnsim import arch, files
from trnsim.cli import array_files, script
from trnsim.cli.error_text import message, show
from trnsim.cli.on import chips as chips_of
from trnsim.cli.on import on_option, platforms
from trnsim.cli.options import parser
from trnsim.cli.parsing import Command
from trnsim.cli.profile import side_by_side
from trnsim.cli.progress import progress
from trnsim.cli.script import Ending
from trnsim.cli.terminal import complain, echo, width
from trnsim.document.answer import Document
from trnsim.document.text import text as text_of
from trnsim.document.values import json_line
from trnsim.errors import BadInput, EmulatorError
from trnsim.foreign_text import file_name, terminal_text
from trnsim.nki.environment import chosen_target
from trnsim.profile import advise, write_report, write_traces
from trnsim.profile.tables.parquet import EXTRA
from trnsim.runner import collecting_worlds, on_ranks
from trnsim.runs import Run, ordered, watching
from trnsim.worlds import World

_FOLDER = Path("trnsim-report")
_On = Annotated[list[str] | None, on_option("NEURON_PLATFORM_TARGET_OVERRIDE, else trn2")]
_Output = Annotated[
    Path | None,
    typer.Option(
        help="Save what the kernel returns here (.npy): a tuple's second tensor as NAME-1, the "
        "values of a dict as NAME-KEY."
    ),
]
_Report = Annotated[
    Path | None,
    typer.Option(
        help="Write all reports to this folder: the page, the stored report for trnsim "
        "profile, traces for Perfetto and Chrome, Parquet tables. Without, the page and the "
        "stored report go to trnsim-report."
    ),
]

_Order = Annotated[
    str,
    typer.Option(
        help="How instructions of an engine are timed: compiler, in an order that AWS's compiler "
        "might give them, or issued, in the kernel's. Values are the same."
    ),
]

_Ranks = Annotated[
    int | None,
    typer.Option(help="Ranks on which each kernel that is called runs: 1, 2, 4, 8, 16, 32 ..."),
]
_Instance = Annotated[
    str | None,
    typer.Option(
        help="The same as --on with an instance type, which names where ranks lie.", hidden=True
    ),
]

app = parser()


class RunCommand(Command):
    """The parser of `trnsim run`, which passes a script its own options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments after separating the script's from the command's."""
        return super().parse_args(ctx, script.arranged(args))


@app.command(cls=RunCommand)
def run_script(
    path: Annotated[
        Path,
        typer.Argument(help="A Python file: a program, or a file of kernels.", metavar="SCRIPT"),
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="The program's own arguments.", metavar="[ARGS]...")
    ] = None,
    on: _On = None,
    inputs: Annotated[
        list[Path] | None,
        typer.Option("--input", help="Arrays (.npy) for the kernel's arguments, in order."),
    ] = None,
    kernel: Annotated[
        str | None, typer.Option(help="The kernel to call, where the file has several.")
    ] = None,
    output: _Output = None,
    report: _Report = None,
    order: _Order = "compiler",
    ranks: _Ranks = None,
    instance: _Instance = None,
) -> None:
    """Run a Python program, or one of its NKI kernels, on an emulated NeuronCore.

    With --input, the file's kernel is called with these arrays. Without, the file runs as a
    program, with the arguments that follow it, and every kernel that it launches is emulated; a
    training step on torch.device("neuron") is timed on every chip. However the program ends, what
    ran is reported, and its own exit status follows.

    Options stand before the script's path or behind it. Behind it, one that the program names
    itself is the program's, as are --kernel and --output without --input, what the command does
    not know, and all that follows --.

    With --ranks, each kernel that is called runs on so many ranks, which exchange tensors by
    nki.collectives: all get the same arguments, and the call returns what rank 0 returns. They lie
    on the instance type that --on names, else on the smallest of the chip that has them.

    Example: trnsim run examples/attention.py --input q.npy k.npy v.npy --output out.npy
    """
    chosen, why = chosen_target()
    chips = chips_of(on) if on else [arch.target(chosen)]
    why = "--on" if on else why
    instance = instance or _instance_of(on, ranks)
    script.checked(path)
    if inputs and arguments:
        raise BadInput(
            f"with --input a kernel is called, which takes no other arguments: {arguments}",
            fix="leave them out, or --input",
        )
    if instance is not None and ranks is None:
        raise BadInput("--instance without --ranks", fix="say how many ranks lie on it: --ranks 8")
    if output is not None:
        files.check_writable(output)
    files.check_folder(report or _FOLDER)
    echo(f"chip: {', '.join(chip.name for chip in chips)} ({why})")
    with progress() as tell:
        with watching(tell), ordered(order), on_ranks(ranks, instance), collecting_worlds() as made:
            endings = _endings(path, kernel, inputs, arguments or [], chips)
        unwritten = list(_reported(endings, output, report, chips[0], why, tell))
        for number, world in enumerate(made):
            unwritten += _tried(partial(_write_world, world, report, number))
    _end(path, chips, endings, unwritten)


def _instance_of(on: list[str] | None, ranks: int | None) -> str | None:
    """The instance type that --on names for ranks; None where it names chips or families."""
    types = {platform.instance for platform in platforms(on) if len(platform.instances) == 1}
    return types.pop() if ranks is not None and len(types) == 1 else None


def _endings(
    path: Path,
    kernel: str | None,
    inputs: list[Path] | None,
    arguments: list[str],
    chips: list[arch.Target],
) -> list[Ending]:
    """How the script ended on each chip; an error on one chip does not stop the others."""
    found: list[Ending] = []
    for chip in chips:
        if inputs:
            found.append(script.call(path, kernel, inputs, chip))
        else:
            found.append(script.execute(path, arguments, chip))
        if not (found[-1].is_whole or isinstance(found[-1].error, EmulatorError)):
            break
    return found


def _reported(
    endings: list[Ending],
    output: Path | None,
    report: Path | None,
    chip: arch.Target,
    why: str,
    tell: Callable[[str], None],
) -> Iterable[BadInput]:
    """Print and write the reports of all runs; the errors of those that could not be written."""
    runs = [ending.runs for ending in endings]
    first = next((ending for ending in endings if ending.runs), endings[0])
    if output is not None and (first.runs or first.is_whole):
        yield from _tried(lambda: _save(output, first.runs))
    yield from _tried(lambda: _report_device(report, chip, why, tell))
    # Runs of one kernel on several chips share a report.
    kernels = [[run for run in group if run is not None] for group in zip_longest(*runs)]
    for number, group in enumerate(kernels):
        title = file_name(group[0].title)
        name = title if len(kernels) == 1 else f"{title}-{number}"
        echo("\n".join([*map(_describe, group), *_compared(group)]))
        yield from _tried(lambda: _write(group, report, name, tell))  # noqa: B023  called at once


def _save(output: Path, runs: list[Run]) -> None:
    if not runs:
        raise BadInput(f"--output {output}: no kernel ran, so there is nothing to save")
    array_files.save(output, runs[-1].outputs)


def _tried(write: Callable[[], object]) -> list[BadInput]:
    """The error of a writer, caught so that the other writers still run."""
    try:
        write()
    except BadInput as error:
        return [error]
    return []


def _end(
    path: Path, chips: list[arch.Target], endings: list[Ending], unwritten: list[BadInput]
) -> None:
    """Print errors to stderr and exit with the matching status.

    Raises:
        SystemExit: the program's own, or one with the status of the first error.
    """
    codes: list[int] = []
    exits: list[SystemExit] = []
    for chip, ending in zip(chips, endings, strict=False):
        if isinstance(ending.error, SystemExit):
            exits.append(ending.error)
        elif ending.error is not None:
            codes.append(show(ending.error, path, f"{chip.name}: " if len(chips) > 1 else ""))
    for text in dict.fromkeys(map(message, unwritten)):
        complain(text)
        codes.append(2)
    if not any(ending.runs for ending in endings) and _recording() is None and not codes:
        codes += _launched_nothing(path, is_exit=bool(exits))
    for error in exits:
        if error.code:
            raise error
    if codes:
        raise SystemExit(codes[0])


def _launched_nothing(path: Path, *, is_exit: bool) -> list[int]:
    """Say that no kernel ran; an error status unless the program called exit itself."""
    error = BadInput(
        f"{path} ran to its end and launched no kernel",
        fix="call a kernel in the script, use torch.device('neuron'), or give arrays: "
        "--input a.npy b.npy",
    )
    if is_exit:
        sys.stderr.write(terminal_text(f"trnsim: {path} launched no kernel\n"))
        return []
    raise error


def _recording() -> Any:
    """The recording of the program's calls on a framework's device; None where there are none."""
    module = sys.modules.get("trnsim.device.call_log")
    found = [] if module is None else module.whole_program
    return found[0] if found and found[0].events else None


def _report_device(
    folder: Path | None, chip: arch.Target, why: str, tell: Callable[[str], None]
) -> None:
    """Print and write the report of the program's training step on a framework's device."""
    recording = _recording()
    if recording is None:
        return
    tell("step: device time")
    from trnsim.device.step_report import write_step  # noqa: PLC0415  of a framework's program

    def show(document: Document) -> None:
        echo(text_of(document, width()))

    write_step(recording, folder or _FOLDER, chip.name, why, show)
    echo(f"  report  {(folder or _FOLDER) / 'step.html'}")


def _write(runs: list[Run], folder: Path | None, name: str, tell: Callable[[str], None]) -> None:
    """Write the reports of one kernel, and print a line for each file."""
    tell(f"{name}: report")
    page = write_report(runs, folder or _FOLDER, name)
    echo(f"  report  {page}\n  stored  {page.with_suffix('.json')}")
    for run in runs if folder is not None else ():
        found = write_traces(run, folder or _FOLDER, f"{name}-{run.target.name}", tell)
        lines = [f"  {kind:<8}{path}" for kind, path in found.items()]
        if "tables" not in found:
            lines.append(f"  tables  not written: {EXTRA}")
        echo("\n".join(lines))


def _write_world(world: World, folder: Path | None, number: int) -> None:
    """Print a run on ranks in a few lines; write its page and figures, in `folder` its trace."""
    base = (folder or _FOLDER) / f"{file_name(world.runs[0].title)}-ranks-{number}"
    page = world.report(base.with_suffix(".html"))
    stored = files.write(base.with_suffix(".world.json"), f"{json_line(world.summary.as_dict())}\n")
    lines = [world.summary.text(), f"  report  {page}", f"  figures {stored}"]
    if folder is not None:
        lines.append(f"  trace   {world.trace(base.with_suffix('.perfetto-trace'))}")
    echo("\n".join(lines))


def _compared(runs: list[Run]) -> list[str]:
    """The kernel on several chips, side by side."""
    if len(runs) < 2:  # noqa: PLR2004  one chip has nothing beside it
        return []
    return ["", side_by_side({run.target.name: run.summary for run in runs}), ""]


def _describe(run: Run) -> str:
    """A run in a few lines: what was spilled, outputs, time, bottleneck, advice."""
    lines = [f"{run.title} on {run.target.name}: {len(run.program)} instructions"]
    lines += [f"  warning {text}" for text in run.overfull]
    lines += [f"  output  {_shape(values)}" for values in array_files.leaves(run.outputs)]
    lines.append(run.summary.text())
    advice = advise(run.timeline)
    lines += [f"  try     {item.action} ({item.line}; {item.finding})" for item in advice[:1]]
    return "\n".join(lines)


def _shape(values: Any) -> str:
    shape, dtype = getattr(values, "shape", None), getattr(values, "dtype", None)
    return f"{list(shape)} {dtype}" if shape is not None else repr(values)
