"""`trnsim compile`: a PyTorch program on the chip, without running it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trnsim import arch
from trnsim.cli.options import chip_names, parser
from trnsim.cli.progress import progress
from trnsim.compiler import Flags
from trnsim.errors import BadInput, NotModelled
from trnsim.files import check_folder, write
from trnsim.system.collective_time import FORMS, collective_time

if TYPE_CHECKING:
    from trnsim.lower import Exchange

app = parser()


@app.command()
def compile_model(
    model: Annotated[
        Path,
        typer.Argument(help="An exported program (.pt2), a config.json, or a Python file (.py)."),
    ],
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
    lnc: Annotated[
        int | None,
        typer.Option(
            help="Physical cores of a logical one, 1 or 2, over which a graph is split; by default "
            "as --logical-nc-config, NEURON_LOGICAL_NC_CONFIG or the chip say."
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Write the text, the figures (JSON) and a trace to this folder."),
    ] = None,
    batch: Annotated[int, typer.Option(help="Sequences or images of a config.json's model.")] = 1,
    sequence: Annotated[int, typer.Option(help="Tokens of each sequence.")] = 128,
    past: Annotated[int, typer.Option(help="Keys in the cache: one more token is decoded.")] = 0,
    tp: Annotated[int, typer.Option(help="Ranks over which each layer is split.")] = 1,
    phase: Annotated[
        str | None, typer.Option(help="encode, prefill, decode or train, where it is not clear.")
    ] = None,
    dtype: Annotated[
        str, typer.Option(help="Of weights and activations: bfloat16, float16 or float32.")
    ] = "bfloat16",
) -> None:
    """Lower a PyTorch program to a NeuronCore: its time by operator, and its memory.

    Of an exported program: how long the graph takes and which kernels take it, the most HBM it
    needs and what holds it then, and which operators have no lowering. Of a config.json, as it lies
    beside a model's weights: ten lines for one rank's graph in one phase, built by transformers on
    the meta device. Of a Python file: the same for what it names model, on what it names args.
    Nothing is computed, so the weights may be any, or none.

    To export a model: torch.export.save(torch.export.export(model.eval(), (x,)), "model.pt2").
    Shapes are those of x; another batch size is another program.

    Examples: trnsim compile model.pt2 --on trn2,trn3 --report out

    trnsim compile model.pt2 --flags "--auto-cast=matmult -O1"

    trnsim compile config.json --batch 8 --past 2047 --tp 32 --lnc 2
    """
    kind = model.suffix
    room = _room()
    if report is not None:
        check_folder(report)
    _import_all(modules or [])
    asked = Flags.parse(flags, "--flags", Flags.of_environment())
    chips = [arch.target(name.strip()).name for name in on.split(",")]
    with progress() as tell:
        for chip in chips:
            tell(f"{model.name} for {chip}")
            if kind in (".json", ".py"):
                shape = (batch, sequence, past, tp)
                answer = (
                    _of_config(model, chip, phase, dtype, shape, asked, lnc)
                    if kind == ".json"
                    else _answers().answer_script(model, chip, _exchange_s, asked, lnc)
                )
                typer.echo(f"{answer.text()}\n")
                if report is not None:
                    write(report / f"compile-{chip}.txt", f"{answer.text()}\n", parents=True)
                continue
            compiled = room.compile_program(model, chip, asked, lnc)
            typer.echo(compiled.text())
            files = compiled.write(report) if report is not None else []
            typer.echo("\n".join([*(f"  report  {file}" for file in files), ""]))


def _of_config(
    model: Path,
    chip: str,
    phase: str | None,
    dtype: str,
    sizes: tuple[int, int, int, int],
    flags: Flags,
    lnc: int | None,
) -> Any:
    """The answer for a configuration."""
    answers = _answers()
    batch, sequence, past, tp = sizes
    shape = answers.ModelShape(phase or answers.phase_of(model, past), batch, sequence, past, tp)
    return answers.answer_config(model, shape, chip, _exchange_s, dtype, flags, lnc)


def _answers() -> Any:
    """`trnsim.torch.models.answer`, imported late."""
    return import_module("trnsim.torch.models.answer")


def _exchange_s(exchange: Exchange, chip: str) -> tuple[float, float]:
    """The time of an exchange between ranks by its closed form, and of its bytes over the links.

    Raises:
        NotModelled: for an exchange without one.
    """
    name = _CLOSED_FORMS.get(exchange.kind, exchange.kind)
    found = collective_time(name, exchange.nbytes, exchange.ranks, chip)
    if found is None:
        raise NotModelled(
            f"{exchange.kind} has no closed form of its time; there is one of "
            f"{', '.join(_CLOSED_FORMS)}",
            fix="take it out of the graph",
        )
    link, _ = found.facts
    shares = FORMS[name].shares(exchange.ranks) if exchange.ranks > 1 else 0.0
    return found.time_s, shares * exchange.nbytes / exchange.ranks / link


_CLOSED_FORMS: Final = {
    "all_reduce": "allreduce",
    "all_gather": "allgather",
    "reduce_scatter": "reduce_scatter",
    "all_to_all": "alltoall",
}
"""Names of exchanges in graphs, and those of closed forms."""


def _import_all(modules: list[str]) -> None:
    for name in modules:
        try:
            import_module(name)
        except ImportError as error:
            raise BadInput(
                f"--import {name}: {error}", fix="install it, or set PYTHONPATH"
            ) from error


def _room() -> Any:
    """`trnsim.torch.compile.exported`, imported late: other commands need no PyTorch."""
    try:
        import_module("torch")
    except ImportError as error:
        raise BadInput("trnsim compile needs PyTorch", fix="pip install 'trnsim[torch]'") from error
    return import_module("trnsim.torch.compile.exported")
