"""What the commands of ``trnsim plan`` share: options, and the platforms that one names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trnsim.errors import BadInput
from trnsim.formatting import enumerated
from trnsim.system.layers.measured import read
from trnsim.system.machine import compared

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trnsim.system.layers.measured import Measured

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
MeasuredFile = Annotated[
    Path | None,
    typer.Option(
        "--measured", help="A CSV file of your own times of layers, which win.", metavar="FILE.csv"
    ),
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


def measured_table(file: Path | None, names: Sequence[str]) -> Measured | None:
    """The times in the file that `--measured` names.

    Raises:
        BadInput: the file cannot be read, or a line of it; or several platforms are compared.
    """
    if file is None:
        return None
    if len(names) > 1:
        raise BadInput(
            f"--measured {file} has the times of one platform, and {len(names)} are compared: "
            f"{', '.join(names)}",
            fix=f"name the one that was measured, for example --on {names[0]}",
        )
    return read(file)


def by_phase(sources: Mapping[str, str]) -> list[str]:
    """Where times come from: once where all phases have one source, else phase by phase."""
    if len(set(sources.values())) == 1:
        return [next(iter(sources.values()))]
    return [f"{phase}: {source}" for phase, source in sources.items()]
