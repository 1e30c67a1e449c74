"""`trnsim neuronx-cc`: AWS's compiler by its name."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from trnsim.cli.error_text import INTERRUPTED, message
from trnsim.cli.options import parser
from trnsim.cli.progress import progress
from trnsim.cli.terminal import complain, echo
from trnsim.compiler.compile_cache.settings import compiler_version
from trnsim.errors import BadInput, EmulatorError
from trnsim.tools.neuronx_cc.arguments import PROGRAM, CompileArguments, flag_lines
from trnsim.tools.neuronx_cc.compilation import FAILED_STATUS, check_files, compile_file, messages
from trnsim.tools.neuronx_cc.operators import operator_names

_FRAMEWORK: Final = "XLA"


def _print_version(is_asked: bool) -> None:
    if is_asked:
        echo(f"{PROGRAM} {compiler_version()}: trnsim's, in place of AWS's compiler")
        raise typer.Exit


def _print_flags(is_asked: bool) -> None:
    if is_asked:
        rows = flag_lines()
        width = max(len(name) for name, _ in rows)
        echo("\n".join(f"{name:{width}}  {takes}".rstrip() for name, takes in rows))
        raise typer.Exit


app = parser(no_args_is_help=True)


@app.callback()
def neuronx_cc(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and end."
        ),
    ] = False,
) -> None:
    """Compile a graph of XLA, by the name and flags of AWS's compiler.

    The answer is that of trnsim compile; the file that stands in place of a NEFF says what it is.
    An installed neuronx-cc of AWS wins over the program neuronx-cc of this package.
    """


@app.command(
    name="compile",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True},
)
def compile_graph(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE FLAGS...",
            help="HLO as text or HloModuleProto, StableHLO as text or bytecode, or a stored graph; "
            "then flags, of which --framework XLA and --target are required.",
        ),
    ],
    _flags: Annotated[
        bool,
        typer.Option(
            "--list-flags", callback=_print_flags, is_eager=True, help="Print all flags and end."
        ),
    ] = False,
) -> None:
    """Compile the graph in a file for a chip: its time, what bounds it, its memory.

    The log (--logfile, log-neuron-cc.txt) is the whole text of the report; --workdir DIR gets the
    page, the figures and the traces too; --output (file.neff) is the file in place of the NEFF.
    The exit status is 70 for a graph that does not compile.

    Example: trnsim neuronx-cc compile step.hlo --framework XLA --target trn2 -O1 --workdir out
    """
    arguments = CompileArguments.of(words)
    check_files(arguments)
    try:
        with progress() as tell:
            compiled = compile_file(arguments, tell)
    except KeyboardInterrupt:
        complain(
            f"{PROGRAM}: the compilation of {arguments.model} was interrupted (Ctrl-C); "
            f"{arguments.output} is not written"
        )
        raise typer.Exit(INTERRUPTED) from None
    except EmulatorError as error:
        complain(f"{PROGRAM}: {message(error)}")
        raise typer.Exit(FAILED_STATUS) from None
    output_lines, error_lines = messages(compiled, arguments.level, arguments.flag_notes)
    for line in error_lines:
        echo(line, is_error=True)
    for line in output_lines:
        echo(line)


@app.command(name="list-operators")
def list_operators(
    framework: Annotated[
        str,
        typer.Option("--framework", help="The framework of the names: XLA.", metavar="NAME"),
    ] = _FRAMEWORK,
) -> None:
    """List the operators that compile, by the names of XlaBuilder.

    Example: trnsim neuronx-cc list-operators --framework XLA
    """
    if framework.upper() != _FRAMEWORK:
        raise BadInput(
            f"{PROGRAM}: argument --framework: invalid choice: {framework!r}; legal: {_FRAMEWORK}",
            fix=f"--framework {_FRAMEWORK}",
        )
    echo("\n".join(operator_names()))
