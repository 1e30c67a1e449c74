"""``trnsim plan train``: time and USD of a training run, platform by platform."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from trnsim.cli.compiled_layers import layer_lines, training_layers
from trnsim.cli.options import as_number
from trnsim.cli.plan.shared import (
    AsJson,
    Compiled,
    Config,
    Kind,
    On,
    footing,
    json_text,
    platform_names,
    title,
)
from trnsim.formatting import amount, amounts, durations, parse_number, parse_whole, text_table
from trnsim.system import training
from trnsim.system.model import read

if TYPE_CHECKING:
    from collections.abc import Sequence

_TRAINING: Final = "training efficiency"


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
        for name in platform_names(on)
    ]
    layers = training_layers(config, estimates) if compiled else {}
    if as_json:
        print(json_text(estimates, layers, _TRAINING))
        return
    print(f"{title(model)}; {amount(tokens)} tokens in sequences of {sequence}\n")
    print(_training_table(estimates))
    print("\n".join([footing(estimates), *layer_lines(layers, _TRAINING)]))


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
