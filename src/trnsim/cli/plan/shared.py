"""What the commands of ``trnsim plan`` share: options, and the platforms that one names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trnsim.errors import BadInput
from trnsim.formatting import enumerated
from trnsim.system.machine import compared

Config = Annotated[Path, typer.Argument(help="A Hugging Face config.json.", metavar="CONFIG.json")]
On = Annotated[
    str | None,
    typer.Option(
        "--on", help=f"Platforms, separated by commas; without, {enumerated(compared(), 'and')}."
    ),
]
Kind = Annotated[
    str, typer.Option("--price", help="Purchase kind of every price: on_demand, spot, ...")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def platform_names(on: str | None) -> list[str]:
    """The platforms that `--on` names; without, those that plans compare.

    Raises:
        BadInput: it names none.
    """
    if on is None:
        return list(compared())
    names = [name.strip() for name in on.split(",") if name.strip()]
    if not names:
        raise BadInput("--on names no platform", fix=f"for example --on {','.join(compared())}")
    return names
