"""What the commands of ``trnsim plan`` share: options, the basis of estimates, JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trnsim.cli.compiled_layers import layer_json
from trnsim.errors import BadInput
from trnsim.formatting import enumerated
from trnsim.system import serving
from trnsim.system.platform import compared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnsim.facts import Interval
    from trnsim.system.model import ModelShape

    Estimates = Sequence[serving.ServingEstimate]

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
Compiled = Annotated[
    bool,
    typer.Option(
        "--compiled",
        help="Also compile one layer for each AWS chip, which takes from seconds to minutes.",
    ),
]


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


def title(model: ModelShape) -> str:
    """The model and how many parameters it has."""
    active = f", {model.active_parameters / 1e9:.2f} B active" if model.experts > 1 else ""
    return f"{model.name}: {model.parameters / 1e9:.2f} B parameters{active}"


def footing(estimates: Estimates) -> str:
    """The basis of each estimate, then the assumptions, each once."""
    lines = [""]
    for e in estimates:
        note = f"; {e.note}" if e.note else ""
        state = "validated" if e.validated else "unvalidated"
        lines.append(f"{e.platform}: {state}; {e.basis}{note}")
    lines.append("assumed:")
    seen: dict[str, list[str]] = {}
    for e in estimates:
        for name in e.basis.assumed:
            seen.setdefault(name, []).append(e.platform)
    lines += [f"  {name} [{', '.join(platforms)}]" for name, platforms in seen.items()]
    return "\n".join(lines)


def json_text(estimates: Estimates, layers: dict[str, Any], constant: str) -> str:
    """Estimates as JSON, with the layer that was compiled beside each."""
    rows = [_plain(e) for e in estimates]
    for row in rows:
        name = str(row["platform"])
        if name in layers:
            row["compiled_layer"] = layer_json(layers[name], name, constant)
    return json.dumps(rows, indent=1)


def _plain(e: serving.ServingEstimate) -> dict[str, object]:
    """An estimate as JSON: intervals, price, provenance."""
    plain: dict[str, object] = {
        "platform": e.platform,
        "instance": e.instance,
        "price": str(e.quote),
        "validated": e.validated,
        "inputs": {kind.value: count for kind, count in e.basis.counts.items()},
        "assumed": list(e.basis.assumed),
        "note": e.note,
        "instances": e.instances,
        "chips_per_replica": e.chips_per_replica,
    }
    intervals: dict[str, Interval | None] = {
        "ttft_s": e.ttft_s,
        "tpot_s": e.tpot_s,
        "tokens_per_s": e.tokens_per_s,
        "usd_per_million_tokens": e.usd_per_million_tokens,
    }
    return plain | {name: value and asdict(value) for name, value in intervals.items()}
