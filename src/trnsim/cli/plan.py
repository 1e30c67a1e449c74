"""``trnsim plan train`` and ``trnsim plan serve``: time and USD, platform by platform."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trnsim.cli.compiled_layers import (
    layer_json,
    layer_lines,
    serving_layers,
    training_layers,
)
from trnsim.cli.options import as_number, parser
from trnsim.errors import BadInput
from trnsim.formatting import (
    amount,
    amounts,
    durations,
    enumerated,
    parse_number,
    parse_whole,
    text_table,
)
from trnsim.system import serving, training
from trnsim.system.model import ModelShape, read
from trnsim.system.platform import compared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnsim.facts import Interval

    Estimates = Sequence[training.TrainingEstimate] | Sequence[serving.ServingEstimate]

app = parser(
    help="Estimate time and USD of training or serving a model, platform by platform.",
    no_args_is_help=True,
)

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
_HBM: Final = "HBM efficiency"
_TRAINING: Final = "training efficiency"


@app.command("train")
def train(
    config: Config,
    tokens: Annotated[
        float,
        typer.Option(
            parser=as_number(parse_number), help="Tokens of the whole run.", metavar="NUMBER"
        ),
    ] = 1e9,
    sequence: Annotated[
        int,
        typer.Option(parser=as_number(parse_whole), help="Tokens per sequence.", metavar="NUMBER"),
    ] = 8192,
    batch_tokens: Annotated[
        int,
        typer.Option(
            parser=as_number(parse_whole), help="Tokens per optimizer step.", metavar="NUMBER"
        ),
    ] = training.BATCH_TOKENS,
    on: On = None,
    instances: Annotated[
        int | None,
        typer.Option(
            parser=as_number(parse_whole),
            help="How many; the smallest number that fits unless told.",
            metavar="NUMBER",
        ),
    ] = None,
    price: Kind = "capacity_block",
    as_json: AsJson = False,
    compiled: Compiled = False,
) -> None:
    """Time and USD of a training run, with P10 and P90.

    Compute is 6 N + 6 L D S FLOPs per token at a stated share of the published peak; HBM traffic
    and all-reduces over NeuronLink and EFA come on top. Weights, gradients and Adam's state must
    fit: 16 bytes per parameter, and activations.

    Example: trnsim plan train examples/llama-3.1-8b.json --tokens 1e9
    """
    model = read(config)
    estimates = [
        training.estimate(
            model,
            name,
            tokens,
            sequence=sequence,
            batch_tokens=batch_tokens,
            instances=instances,
            kind=price,
        )
        for name in _names(on)
    ]
    layers = training_layers(config, estimates) if compiled else {}
    if as_json:
        print(_json(estimates, layers, _TRAINING))
        return
    print(f"{_title(model)}; {amount(tokens)} tokens in sequences of {sequence}\n")
    print(_training_table(estimates))
    print("\n".join([_footing(estimates), *layer_lines(layers, _TRAINING)]))


@app.command("serve")
def serve(
    config: Config,
    batch: Annotated[
        int,
        typer.Option(
            parser=as_number(parse_whole), help="Requests that decode together.", metavar="NUMBER"
        ),
    ] = 8,
    context: Annotated[
        int,
        typer.Option(
            parser=as_number(parse_whole), help="Tokens of each prompt.", metavar="NUMBER"
        ),
    ] = 2048,
    output_tokens: Annotated[
        int,
        typer.Option(
            parser=as_number(parse_whole), help="Tokens generated per request.", metavar="NUMBER"
        ),
    ] = 256,
    on: On = None,
    chips: Annotated[
        int | None,
        typer.Option(
            parser=as_number(parse_whole),
            help="Chips that hold one replica; up to 16 unless told.",
            metavar="NUMBER",
        ),
    ] = None,
    price: Kind = "capacity_block",
    as_json: AsJson = False,
    compiled: Compiled = False,
) -> None:
    """Time to first token, time per token and USD per million output tokens, with P10 and P90.

    A token costs reading weights, keys and values from HBM, or computing 2 N FLOPs, whichever
    takes longer, and a fixed latency per half layer.

    Example: trnsim plan serve examples/llama-3.1-8b.json --batch 16 --context 4096
    """
    model = read(config)
    estimates = [
        serving.estimate(
            model,
            name,
            batch=batch,
            context=context,
            output_tokens=output_tokens,
            chips_per_replica=chips,
            kind=price,
        )
        for name in _names(on)
    ]
    layers = serving_layers(config, estimates) if compiled else {}
    if as_json:
        print(_json(estimates, layers, _HBM))
        return
    print(f"{_title(model)}; batch {batch}, {context} tokens in, {output_tokens} out\n")
    print(_serving_table(estimates))
    print("\n".join([_footing(estimates), *layer_lines(layers, _HBM)]))


def _names(on: str | None) -> list[str]:
    if on is None:
        return list(compared())
    names = [name.strip() for name in on.split(",") if name.strip()]
    if not names:
        raise BadInput("--on names no platform", fix=f"for example --on {','.join(compared())}")
    return names


def _title(model: ModelShape) -> str:
    active = f", {model.active_parameters / 1e9:.2f} B active" if model.experts > 1 else ""
    return f"{model.name}: {model.parameters / 1e9:.2f} B parameters{active}"


def _training_table(estimates: Sequence[training.TrainingEstimate]) -> str:
    header = ("platform", "instances", "chips", "time P50 (P10 to P90)", "chip-hours")
    rows = [
        (
            e.platform,
            f"{e.layout.instances} x {e.instance}",
            str(e.layout.chips),
            durations(e.time_s),
            amount(e.chip_hours),
            amounts(e.usd),
            str(e.quote),
        )
        for e in estimates
    ]
    return text_table((*header, "USD P50 (P10 to P90)", "price"), rows)


def _serving_table(estimates: Sequence[serving.ServingEstimate]) -> str:
    header = ("platform", "instances", "replicas x chips", "TTFT P50 (P10 to P90)")
    rows = [
        (
            e.platform,
            f"{e.instances} x {e.instance}",
            f"{e.replicas} x {e.chips_per_replica}",
            durations(e.ttft_s),
            durations(e.tpot_s),
            amounts(e.tokens_per_s),
            amounts(e.usd_per_million_tokens),
            str(e.quote),
        )
        for e in estimates
    ]
    columns = (*header, "TPOT P50 (P10 to P90)", "tokens/s", "USD per 1M tokens", "price")
    return text_table(columns, rows)


def _footing(estimates: Estimates) -> str:
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


def _json(estimates: Estimates, layers: dict[str, Any], constant: str) -> str:
    rows = [_plain(e) for e in estimates]
    for row in rows:
        name = str(row["platform"])
        if name in layers:
            row["compiled_layer"] = layer_json(layers[name], name, constant)
    return json.dumps(rows, indent=1)


def _plain(e: training.TrainingEstimate | serving.ServingEstimate) -> dict[str, object]:
    """An estimate as JSON: intervals, price, provenance."""
    plain: dict[str, object] = {
        "platform": e.platform,
        "instance": e.instance,
        "price": str(e.quote),
        "validated": e.validated,
        "inputs": {kind.value: count for kind, count in e.basis.counts.items()},
        "assumed": list(e.basis.assumed),
        "note": e.note,
    }
    intervals: dict[str, Interval | None]
    if isinstance(e, training.TrainingEstimate):
        plain["instances"], plain["chips"] = e.layout.instances, e.layout.chips
        intervals = {"time_s": e.time_s, "usd": e.usd}
    else:
        plain["instances"], plain["chips_per_replica"] = e.instances, e.chips_per_replica
        intervals = {
            "ttft_s": e.ttft_s,
            "tpot_s": e.tpot_s,
            "tokens_per_s": e.tokens_per_s,
            "usd_per_million_tokens": e.usd_per_million_tokens,
        }
    return plain | {name: value and asdict(value) for name, value in intervals.items()}
