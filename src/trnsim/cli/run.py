"""`trnsim run`: a script or one of its kernels on an emulated NeuronCore."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from trnsim import arch, files
from trnsim.arch.environment import chosen_target
from trnsim.behaviours.chosen import pinned
from trnsim.cli import report_files, script
from trnsim.cli.error_text import message, show
from trnsim.cli.on import chips as chips_of
from trnsim.cli.on import on_option, platforms
from trnsim.cli.options import KernelInputs, KernelName, parser
from trnsim.cli.parsing import Command
from trnsim.cli.progress import progress
from trnsim.cli.quantity_options import whole
from trnsim.cli.report_files import ENDINGS, AsJson
from trnsim.cli.run_reports import FOLDER, Reports
from trnsim.cli.run_versions import ALL, versions_document
from trnsim.cli.script import Ending, ScriptProgram
from trnsim.cli.terminal import complain
from trnsim.errors import BadInput, EmulatorError
from trnsim.foreign_text import terminal_text
from trnsim.nki.mixing import one_program
from trnsim.runner import collecting_worlds, on_ranks
from trnsim.runs import ordered, watching
from trnsim.worlds import World

_On = Annotated[list[str] | None, on_option("NEURON_PLATFORM_TARGET_OVERRIDE, else trn2")]
_Output = Annotated[
    Path | None,
    typer.Option(
        help="Save what the kernel returns as .npy, of a tuple the second tensor as FILE-1, of a "
        "dict each value as FILE-KEY, floats of 8 bits as float32; or the answer as .json, .csv, "
        ".txt, .md or .html.",
        metavar="FILE",
    ),
]
_Report = Annotated[
    Path | None,
    typer.Option(
        help="Write all reports to this folder: page.html, figures.json and table.csv; of each "
        "kernel its page, the stored report for trnsim profile, traces for Perfetto and Chrome, "
        "Parquet tables. Without, the page and the stored report go to trnsim-report.",
        metavar="DIR",
    ),
]

_Order = Annotated[
    str,
    typer.Option(
        help="How instructions of an engine are timed: compiler, in an order that AWS's compiler "
        "might give them, or issued, in the kernel's. Values are the same.",
        metavar="ORDER",
    ),
]

_Ranks = Annotated[
    int | None, whole("Ranks on which each kernel that is called runs: 1, 2, 4, 8, 16, 32 ...")
]
_Instance = Annotated[
    str | None,
    typer.Option(
        help="The same as --on with an instance type, which names where ranks lie.",
        metavar="TYPE",
        hidden=True,
    ),
]

_Script = Annotated[
    Path, typer.Argument(help="A Python file: a program, or a file of kernels.", metavar="SCRIPT")
]
_Arguments = Annotated[
    list[str] | None, typer.Argument(help="The program's own arguments.", metavar="[ARGS]...")
]
_Nki = Annotated[
    str | None,
    typer.Option(
        help="The version of NKI whose rules kernels follow: 0.2 to 0.7, or all to compare them: "
        "where the program runs, is refused, or gives other values; default: that of a line "
        "`# nki: 0.4` of a kernel's file, of the variable TRNSIM_NKI, or the newest version in "
        "which every form that the file uses exists.",
        metavar="VERSION",
    ),
]
_Verbose = Annotated[
    bool,
    typer.Option("-v", "--verbose", help="Print what the times rest on: all figures and files."),
]

app = parser()


class RunCommand(Command):
    """The parser of `trnsim run`, which passes a script its own options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments after separating the script's from the command's."""
        return super().parse_args(ctx, script.parser_arguments(args))


@app.command(cls=RunCommand)
def run_script(
    path: _Script,
    arguments: _Arguments = None,
    on: _On = None,
    inputs: KernelInputs = None,
    kernel: KernelName = None,
    output: _Output = None,
    report: _Report = None,
    order: _Order = "compiler",
    ranks: _Ranks = None,
    instance: _Instance = None,
    nki: _Nki = None,
    is_verbose: _Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Run a Python program, or one of its NKI kernels, on an emulated NeuronCore.

    With --input, the file's kernel is called with these arrays. Without, the file runs as a
    program, with the arguments that follow it, and every kernel that it launches is emulated; a
    training step on torch.device("neuron") is timed on every chip. However the program ends, what
    ran is reported, and its own exit status follows.

    Options stand before the script's path or behind it. Behind it, one that the program names
    itself is the program's, as are --kernel, --output, --json and -v without --input, what the
    command does not know, and all that follows --.

    With --ranks, each kernel that is called runs on so many ranks, which exchange tensors by
    nki.collectives: all get the same arguments, and the call returns what rank 0 returns. They lie
    on the instance type that --on names, else on the smallest of the chip that has them.

    With --json, what the program prints goes to stderr.

    Example: trnsim run examples/attention.py --input q.npy k.npy v.npy --output out.npy
    """
    target_name, reason = chosen_target()
    chips = chips_of(on) if on else [arch.target(target_name)]
    program = ScriptProgram(path, tuple(arguments or ()), tuple(inputs or ()), kernel)
    program.check()
    instance = instance or _instance_of(on, ranks)
    if instance is not None and ranks is None:
        raise BadInput("--instance without --ranks", fix="say how many ranks lie on it: --ranks 8")
    context_of = partial(_emulation, order=order, ranks_on=(ranks, instance))
    if nki == ALL:
        _compare_versions(program, chips, output, report, context_of, as_json=as_json)
        return
    answer_file = _answer_file(output)
    files.check_folder(report or FOLDER)
    with progress() as tell:
        with context_of(tell, nki=nki, is_apart=as_json) as worlds:
            endings = _endings(program, chips)
        reports = Reports(report, "--on" if on else reason, tell, is_verbose=is_verbose)
        array_file = None if answer_file else output
        _report(reports, endings, (worlds, ranks), array_file, chips[0])
    reports.answer(path, [chip.name for chip in chips], answer_file, as_json=as_json)
    _end(path, chips, endings, reports.errors)


def _answer_file(output: Path | None) -> Path | None:
    """The file of --output if its ending is an answer's; None for arrays that the kernel returns.

    Raises:
        BadInput: the file cannot be written.
    """
    if output is None:
        return None
    files.check_writable(output)
    return output if output.suffix.lower() in ENDINGS else None


def _compare_versions(
    program: ScriptProgram,
    chips: Sequence[arch.Target],
    output: Path | None,
    report: Path | None,
    context_of: Callable[..., AbstractContextManager[list[World]]],
    *,
    as_json: bool,
) -> None:
    """Answer `--nki all`.

    Args:
        program: the script.
        chips: those of --on.
        output: the answer's file.
        report: the answer's folder.
        context_of: `_emulation` with the command's order and ranks.
        as_json: True to print JSON.

    Raises:
        BadInput: for several chips, or an answer file that cannot be written.
        SystemExit: with the status of the program's own error.
    """
    if len(chips) > 1:
        names = ", ".join(chip.name for chip in chips)
        raise BadInput(
            f"--nki all on {names}; legal: one chip", fix=f"name one: --on {chips[0].name}"
        )
    report_files.check_output(output)
    if report is not None:
        report_files.check_report(report)
    (chip,) = chips
    name = program.path.name
    with progress() as tell, context_of(tell, nki=None, is_apart=True):
        try:
            document = versions_document(name, chip.name, lambda: program.run(chip), tell)
        except (Exception, SystemExit) as error:  # raised by the program under its own version
            if isinstance(error, BadInput):
                raise
            raise SystemExit(show(error, program.path)) from None
    report_files.answer(document, report, output, as_json=as_json)


@contextmanager
def _emulation(
    tell: Callable[[str], None],
    *,
    order: str,
    ranks_on: tuple[int | None, str | None],
    nki: str | None,
    is_apart: bool,
) -> Generator[list[World]]:
    """A context with the command's settings, whose runs on ranks are collected.

    Args:
        tell: a function that shows progress.
        order: order of instructions.
        ranks_on: (number of ranks of each kernel, instance type on which they lie).
        nki: version of NKI.
        is_apart: True if the program's output goes to stderr.
    """
    with (
        script.program_output(is_apart=is_apart),
        watching(tell),
        on_ranks(*ranks_on),
        collecting_worlds() as worlds,
        ordered(order),
        pinned(nki, "--nki"),
        one_program(),
    ):
        yield worlds


def _report(
    reports: Reports,
    endings: list[Ending],
    runs_on_ranks: tuple[list[World], int | None],
    output: Path | None,
    chip: arch.Target,
) -> None:
    """Write the reports of all that ran.

    Args:
        reports: where they are written.
        endings: the runs of the program.
        runs_on_ranks: (the runs, the number of ranks that --ranks states).
        output: the file of the kernel's outputs.
        chip: the first chip.
    """
    ending = next((ending for ending in endings if ending.runs), endings[0])
    if output is not None and (ending.runs or ending.has_succeeded):
        reports.attempt(lambda: reports.save(output, ending.runs))
    recording = _recording()
    if recording is not None:
        reports.add_step(recording, chip.name, [ending.runs for ending in endings])
    reports.add_kernels([ending.runs for ending in endings])
    reports.add_worlds(*runs_on_ranks)


def _instance_of(on: list[str] | None, ranks: int | None) -> str | None:
    """The instance type that --on names for ranks; None where it names chips or families."""
    types = {platform.instance for platform in platforms(on) if len(platform.instances) == 1}
    return types.pop() if ranks is not None and len(types) == 1 else None


def _endings(program: ScriptProgram, chips: list[arch.Target]) -> list[Ending]:
    """The end of the program on each chip, up to the first error that is not trnsim's."""
    endings: list[Ending] = []
    for chip in chips:
        gc.collect()  # the last run's tensors are in cycles, and would count as memory in use
        endings.append(program.run(chip))
        if not (endings[-1].has_succeeded or isinstance(endings[-1].error, EmulatorError)):
            break
    return endings


def _end(
    path: Path, chips: list[arch.Target], endings: list[Ending], write_errors: list[BadInput]
) -> None:
    """Print errors to stderr and exit with the matching status.

    Raises:
        BadInput: the program reached its end without a kernel.
        SystemExit: the one that the program raised, or one with the status of the first error.
    """
    codes: list[int] = []
    exits: list[SystemExit] = []
    for chip, ending in zip(chips, endings, strict=False):
        if isinstance(ending.error, SystemExit):
            exits.append(ending.error)
        elif ending.error is not None:
            codes.append(show(ending.error, path, f"{chip.name}: " if len(chips) > 1 else ""))
    for text in dict.fromkeys(map(message, write_errors)):
        complain(text)
        codes.append(2)
    if not any(ending.runs for ending in endings) and _recording() is None and not codes:
        if not exits:
            raise BadInput(
                f"{path} ran to its end and launched no kernel",
                fix="call a kernel in the script, use torch.device('neuron'), or give arrays: "
                "--input a.npy b.npy",
            )
        sys.stderr.write(terminal_text(f"trnsim: {path} launched no kernel\n"))
    for error in exits:
        if error.code:
            raise error
    if codes:
        raise SystemExit(codes[0])


def _recording() -> Any:
    """The recording of the program's calls on a framework's device; None where there are none."""
    module = sys.modules.get("trnsim.device.call_log")
    recordings = [] if module is None else module.whole_program
    return recordings[0] if recordings and recordings[0].events else None
