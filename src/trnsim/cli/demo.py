"""`trnsim demo`: a kernel, a mistake, a training loop, a cost, the claims."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trnsim import files
from trnsim.cli.on import chips as chips_of
from trnsim.cli.on import on_option, one_platform
from trnsim.cli.options import parser
from trnsim.cli.quantity_options import whole
from trnsim.cli.terminal import echo, width
from trnsim.demo import examples
from trnsim.demo.claims_section import claims_blocks
from trnsim.demo.cost_section import cost_blocks
from trnsim.demo.kernel_section import show_kernel
from trnsim.demo.mistake_section import mistake_blocks
from trnsim.demo.training_section import training_blocks
from trnsim.document.text import section_text, wrapped
from trnsim.errors import BadInput

_TILE_ROWS = 512
_NEXT_COMMANDS = "trnsim run, trnsim plan train, trnsim assess"

app = parser()


@app.command("demo")
def show(
    on: Annotated[list[str] | None, on_option("trn2", is_single=True)] = None,
    sequence: Annotated[
        int,
        whole("Rows of q, k and v.", unit="rows"),
    ] = 1024,
    report: Annotated[
        Path,
        typer.Option(
            help="Write the kernel's page: attention.html in a folder, or FILE.html.",
            metavar="DIR|FILE.html",
        ),
    ] = Path("trnsim-report/attention.html"),
) -> None:
    """Show what trnsim does: a kernel, a mistake, a training loop, a cost, the claims.

    Every value is computed when it is printed.

    Example: trnsim demo --on trn3
    """
    (chip,) = chips_of([one_platform(on, "trn2").name])
    if sequence < 1 or sequence % _TILE_ROWS:
        raise BadInput(
            f"--sequence is {sequence}; legal: a multiple of {_TILE_ROWS}",
            fix=f"the example works on blocks of {_TILE_ROWS} keys: --sequence 1024",
        )
    if report.suffix.lower() != ".html":
        report /= "attention.html"
    files.check_folder(report.parent)
    echo(f"trnsim: a Trainium you can pip install      emulated {chip.name}, nothing rented")
    kernel = show_kernel(sequence=sequence, target=chip.name)
    sections = (
        kernel.blocks,
        lambda: mistake_blocks(chip.name),
        lambda: training_blocks(target=chip.name),
        cost_blocks,
        claims_blocks,
    )
    for section in sections:
        echo(section_text("", section(), width()))
    page = kernel.run.report(report)
    report_line = f"Report      {examples.short_path(page)}     next: {_NEXT_COMMANDS}"
    echo("\n".join(wrapped(report_line, width(), hanging=12)))
