"""``trnsim plan serve``: latency and USD of serving, platform by platform."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from trnsim.cli.compiled_layers import layer_lines, serving_layers
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
from trnsim.formatting import amounts, durations, parse_whole, text_table
from trnsim.system import serving
from trnsim.system.model import read

if TYPE_CHECKING:
    from collections.abc import Sequence

_HBM: Final = "HBM efficiency"


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
        for name in platform_names(on)
    ]
    layers = serving_layers(config, estimates) if compiled else {}
    if as_json:
        print(json_text(estimates, layers, _HBM))
        return
    print(f"{title(model)}; batch {batch}, {context} tokens in, {output_tokens} out\n")
    print(_serving_table(estimates))
    print("\n".join([footing(estimates), *layer_lines(layers, _HBM)]))


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
