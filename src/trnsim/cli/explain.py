"""``trnsim explain``: the reference page of an instruction."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated

import typer

from trnsim.cli.options import parser
from trnsim.errors import BadInput
from trnsim.formatting import text_table
from trnsim.isa import Instruction
from trnsim.isa.reference.page import page, summary

app = parser()


@app.command()
def explain(
    name: Annotated[
        str, typer.Argument(help="An instruction, as nki.isa names it.", metavar="[NAME]")
    ] = "",
) -> None:
    """Print what an instruction takes, where it runs, what it computes, and what it costs.

    Without a name, list all instructions. The pages also lie in docs/isa.

    Example: trnsim explain nc_matmul
    """
    if not name:
        rows = [(opcode, summary(made)) for opcode, made in sorted(Instruction.registry.items())]
        print(text_table(("instruction", "values"), [(o, " ".join(s.split())) for o, s in rows]))
        return
    print(page(_named(name)), end="")


def _named(name: str) -> type[Instruction]:
    """The instruction called `name`, also as nisa.nc_matmul or NcMatmul."""
    wanted = name.rpartition(".")[2]
    for opcode, made in Instruction.registry.items():
        if wanted in (opcode, made.__name__):
            return made
    near = get_close_matches(wanted.lower(), Instruction.registry, cutoff=0.4)
    raise BadInput(
        f"{name} is no instruction; near: {', '.join(near) or 'nothing'}",
        fix="trnsim explain lists all instructions",
    )
