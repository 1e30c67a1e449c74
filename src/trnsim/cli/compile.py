"""`trnsim compile`: an exported PyTorch program on the chip, without running it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from trnsim import arch
from trnsim.cli.options import chip_names, parser
from trnsim.cli.progress import progress
from trnsim.compiler import Flags
from trnsim.errors import BadInput
from trnsim.files import check_folder

app = parser()


@app.command()
def compile_model(
    model: Annotated[Path, typer.Argument(help="A program that torch.export.save wrote (.pt2).")],
    on: Annotated[
        str, typer.Option(help=f"Chip: {chip_names()}; several, separated by commas.")
    ] = "trn2",
    modules: Annotated[
        list[str] | None,
        typer.Option("--import", help="A module that registers the model's own operators; again."),
    ] = None,
    flags: Annotated[
        str, typer.Option(help="Flags of neuronx-cc, after those of NEURON_CC_FLAGS.")
    ] = "",
    report: Annotated[
        Path | None,
        typer.Option(help="Write the text, the figures (JSON) and a trace to this folder."),
    ] = None,
) -> None:
    """Lower an exported PyTorch program to a NeuronCore: its time by operator, and its memory.

    Prints how long the graph takes and which kernels take it, the most HBM it needs and what holds
    it then, and which operators have no lowering. Nothing is computed, so the weights may be any.

    To export a model: torch.export.save(torch.export.export(model.eval(), (x,)), "model.pt2").
    Shapes are those of x; another batch size is another program.

    Example: trnsim compile model.pt2 --on trn2,trn3 --report out
    Example: trnsim compile model.pt2 --flags "--auto-cast=matmult -O1"
    """
    room = _room()
    if report is not None:
        check_folder(report)
    for name in modules or []:
        try:
            import_module(name)
        except ImportError as error:
            raise BadInput(
                f"--import {name}: {error}", fix="install it, or set PYTHONPATH"
            ) from error
    asked = Flags.parse(flags, "--flags", Flags.of_environment())
    chips = [arch.target(name.strip()).name for name in on.split(",")]
    with progress() as tell:
        for chip in chips:
            tell(f"{model.name} for {chip}")
            compiled = room.compile_program(model, chip, asked)
            typer.echo(compiled.text())
            files = compiled.write(report) if report is not None else []
            typer.echo("\n".join([*(f"  report  {file}" for file in files), ""]))


def _room() -> Any:
    """`trnsim.torch.compile.exported`, imported late: other commands need no PyTorch."""
    try:
        import_module("torch")
    except ImportError as error:
        raise BadInput("trnsim compile needs PyTorch", fix="pip install 'trnsim[torch]'") from error
    return import_module("trnsim.torch.compile.exported")
