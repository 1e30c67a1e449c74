"""`trnsim neuron_parallel_compile`: graphs of a program collected and compiled ahead of its run."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from trnsim.cli.error_text import INTERRUPTED
from trnsim.cli.options import command as command_of
from trnsim.cli.options import parser
from trnsim.cli.parsing import ENDS_AT_PROGRAM
from trnsim.cli.quantity_options import whole
from trnsim.cli.terminal import complain, echo
from trnsim.compiler.compile_cache import CacheSettings, cache_settings, entries
from trnsim.compiler.compile_cache.cached_compilation import log_line
from trnsim.document.values import json_text
from trnsim.errors import BadInput
from trnsim.files import check_folder, write
from trnsim.jax import parallel_compilation
from trnsim.tools.neuron_parallel_compile import collection, maintenance
from trnsim.tools.neuron_parallel_compile.analysis import ATEN, XLA, analysis_of

PROGRAM: Final = "neuron_parallel_compile"
_COMPONENT: Final = "NEURON_PARALLEL_COMPILE"
_COLLECT, _COMPILE, _ANALYZE = "collect", "compile", "analyze"
_CLEAN: Final = ("clean", "clear-cache")
_LOCKS: Final = "clear-locks"
_COMMANDS: Final = (_COLLECT, _COMPILE, *_CLEAN, _LOCKS, _ANALYZE)
_RESULT_FOLDER: Final = "model_analysis_result"
_RESULT: Final = "result.json"
_FAILED_STATUS: Final = 1

app = parser()


@dataclass(frozen=True, kw_only=True)
class ParallelCompileOptions:
    """Options of `trnsim neuron_parallel_compile`."""

    program: Annotated[
        list[str] | None,
        typer.Argument(help="The program to run, with its arguments.", metavar="PROGRAM..."),
    ] = None
    command: Annotated[
        str,
        typer.Option(
            "--command",
            help=f"One of {', '.join(_COMMANDS)}.",
            metavar="NAME",
            show_default="collect, then compile",
        ),
    ] = ""
    processes: Annotated[
        int | None,
        whole(
            "Compilations at once; default: as many as there are cores.",
            *("--num_parallel", "--num-parallel"),
            minimum=1,
            maximum=1024,
        ),
    ] = None
    cache_url: Annotated[
        str,
        typer.Option(
            "--cache-url",
            help="The cache's folder, before --cache_dir in NEURON_CC_FLAGS and "
            "NEURON_COMPILE_CACHE_URL.",
            metavar="FOLDER",
        ),
    ] = ""
    analyze_output: Annotated[
        Path | None,
        typer.Option(
            "--analyze-output",
            help="The folder of result.json, for --command analyze.",
            metavar="DIR",
            show_default=_RESULT_FOLDER,
        ),
    ] = None
    analyze_verbosity: Annotated[
        int,
        whole(
            "1: with instructions of XLA; 2: operators of PyTorch.",
            "--analyze-verbosity",
            minimum=XLA,
            maximum=ATEN,
        ),
    ] = ATEN

    def check(self) -> None:
        """Refuse an unknown command, and an option of another command.

        Raises:
            BadInput: the command is unknown, or the option is of another command.
        """
        if self.command and self.command not in _COMMANDS:
            raise BadInput(
                f"{PROGRAM}: argument --command: invalid choice: {self.command!r}; legal: "
                f"{', '.join(_COMMANDS)}",
                fix=f"{PROGRAM} --command {_COLLECT} PROGRAM",
            )
        if self.analyze_output is not None and self.command != _ANALYZE:
            raise BadInput(
                f"--analyze-output without --command {_ANALYZE}, which writes it",
                fix=f"add --command {_ANALYZE}",
            )


@app.command(context_settings=ENDS_AT_PROGRAM)
@command_of(ParallelCompileOptions)
def neuron_parallel_compile(options: ParallelCompileOptions) -> None:
    """Collect the graphs of a trial run, compile them all, and keep the programs in the cache.

    The program runs with NEURON_EXTRACT_GRAPHS_ONLY=1: its graphs are stored and its values mean
    nothing. Give it a few steps. Its later run finds every graph compiled.

    Example: trnsim neuron_parallel_compile torchrun --nproc_per_node 2 train.py --steps 10
    """
    options.check()
    words, command = options.program or [], options.command
    if command == _ANALYZE:
        folder = options.analyze_output or Path(_RESULT_FOLDER)
        _analyze(words, folder, options.analyze_verbosity)
        return
    settings = cache_settings(options.cache_url or None)
    if command in (*_CLEAN, _LOCKS):
        _maintain(command, settings)
        return
    if command != _COMPILE:
        _collect(words, settings)
    if command != _COLLECT:
        _compile(settings, options.processes or os.cpu_count() or 1)


def _collect(words: Sequence[str], settings: CacheSettings) -> None:
    """Run the program, and store its graphs.

    Raises:
        Exit: the program failed.
    """
    collection.check_command(words)
    folder = maintenance.enabled_folder(settings.folder)
    check_folder(folder)
    status = _run(words, folder)
    if status == 0:
        return
    echo(log_line(_COMPONENT, f"{words[0]} ended with status {status}", "ERROR"), is_error=True)
    if not collection.ignores_errors():
        complain(
            f"{PROGRAM}: the program ended with status {status}, and nothing was compiled\n"
            f"  fix: {collection.IGNORE_VARIABLE}=1 compiles the graphs that it stored"
        )
        raise typer.Exit(status if status > 0 else 128 - status)


def _run(words: Sequence[str], folder: Path) -> int:
    """Run the program, whose graphs go to a folder; returns its exit status.

    Raises:
        Exit: Ctrl-C ended it.
    """
    try:
        return collection.collect(words, folder)
    except KeyboardInterrupt:
        complain(f"{PROGRAM}: {words[0]} was interrupted (Ctrl-C), and nothing was compiled")
        raise typer.Exit(INTERRUPTED) from None


def _compile(settings: CacheSettings, processes: int) -> None:
    """Compile the graphs of the cache, and print the summary and the report.

    Raises:
        Exit: a graph failed, or Ctrl-C ended it.
    """
    retries = parallel_compilation.max_retries()
    try:
        outcomes = parallel_compilation.compile_all(
            settings, echo, processes=processes, retries=retries
        )
    except KeyboardInterrupt:
        complain(
            f"{PROGRAM}: the compilation was interrupted (Ctrl-C); graphs that were being compiled "
            "are remembered as failed\n"
            "  fix: NEURON_CC_FLAGS=--retry_failed_compilation compiles them again"
        )
        raise typer.Exit(INTERRUPTED) from None
    report = parallel_compilation.report(outcomes, with_times=parallel_compilation.reports_times())
    failed = [outcome for outcome in outcomes if not outcome.is_compiled]
    for text in (
        json_text(report),
        f"Total graphs: {len(outcomes)}",
        f"Total successful compilations: {len(outcomes) - len(failed)}",
        f"Total failed compilations: {len(failed)}",
    ):
        echo(log_line(_COMPONENT, text))
    for outcome in outcomes:
        for message in outcome.figures.get("neuronx_cc", []):
            echo(f"{outcome.graph.parent.name}: {message}", is_error=True)
    for outcome in failed:
        complain(f"{PROGRAM}: {outcome.graph}: {outcome.reason}")
    if not outcomes:
        echo(
            f"no graph is stored in {settings.version_folder}; programs of torch_xla and JAX store "
            "theirs while they run under this command",
            is_error=True,
        )
    if failed:
        raise typer.Exit(_FAILED_STATUS)


def _maintain(command: str, settings: CacheSettings) -> None:
    """Remove the cache's files, or its locks."""
    if command == _LOCKS:
        removed, locked_paths = maintenance.clear_locks(settings)
        echo(log_line("NEURON_CACHE", f"Removed {removed} locks in {settings.version_folder}"))
        lock_words = "is held by a process that compiles, and stays"
    else:
        removed, locked_paths = maintenance.clean(settings)
        echo(log_line("NEURON_CACHE", f"Removed {removed} graphs in {settings.version_folder}"))
        lock_words = "is compiled by a process, and stays"
    for path in locked_paths:
        echo(log_line("NEURON_CACHE", f"{path} {lock_words}", "WARNING"), is_error=True)


def _analyze(words: Sequence[str], folder: Path, verbosity: int) -> None:
    """Run the program, and write which of its operators compile.

    Raises:
        Exit: the program failed, and its errors are not ignored.
    """
    collection.check_command(words)
    check_folder(folder)
    with tempfile.TemporaryDirectory(prefix="trnsim-analyze-") as cache:
        status = _run(words, Path(cache))
        stored = [entry for version in sorted(Path(cache).iterdir()) for entry in entries(version)]
        if status != 0 and not collection.ignores_errors():
            complain(f"{PROGRAM}: the program ended with status {status}; nothing was analyzed")
            raise typer.Exit(status if status > 0 else 128 - status)
        analysis = analysis_of(stored)
    path = folder / _RESULT
    if path.exists():
        echo(log_line("ANALYZE", f"Removing existing report {path.absolute()}"))
    write(path, f"{json_text(analysis.as_dict(verbosity))}\n", parents=True)
    echo(log_line("ANALYZE", f"Model analysis completed. Report - {path.absolute()}"))
