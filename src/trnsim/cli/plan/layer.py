"""``trnsim plan layer``: one layer on one rank."""

from __future__ import annotations

import math
from typing import Annotated, Final

import typer

from trnsim.cli.on import RequiredOn, one_platform
from trnsim.cli.plan.shared import Config, MeasuredFile
from trnsim.cli.quantity_options import whole
from trnsim.cli.report_files import answering
from trnsim.document.answer import Block, Document, Drawing, Section, label_table
from trnsim.document.drawing import Parts, parts_chart
from trnsim.document.values import picked
from trnsim.errors import BadInput
from trnsim.estimate.choice import layer_times
from trnsim.estimate.curve import signature
from trnsim.estimate.estimate import QUANTILES
from trnsim.estimate.measured import read as read_measured
from trnsim.estimate.times import LayerTime
from trnsim.formatting import enumerated
from trnsim.place.machine import machine
from trnsim.profile.units import time_text
from trnsim.system.serve.tensor_degrees import heads_of
from trnsim.workload.architecture import Architecture
from trnsim.workload.config import read
from trnsim.workload.operators import Pass, Phase, Split
from trnsim.workload.passes import summaries

_TOKENS: Final = 2048
"""Tokens of a sequence whose length is not given."""


@answering
def layer(
    config: Config,
    on: RequiredOn,
    phase: Annotated[
        str | None,
        typer.Option(
            help="encode, prefill or decode; default: decode, or encode for a model that makes no "
            "tokens.",
            metavar="PHASE",
        ),
    ] = None,
    batch: Annotated[
        int, whole("Sequences that go through at once.", unit="sequences", minimum=1)
    ] = 1,
    sequence: Annotated[
        int | None,
        whole(
            "Tokens of each sequence; in decode, those before the new one; default: 2,048, or as "
            "many as the model knows.",
            unit="tokens",
            minimum=1,
        ),
    ] = None,
    tensor_parallel_size: Annotated[
        int, whole("Ranks over which each layer is split.", minimum=1)
    ] = 1,
    measured: MeasuredFile = None,
) -> Document:
    """The time of one layer on one rank, without exchanges, and where it comes from.

    Each product has its FLOP, bytes and time, and what bounds it: the array or memory. A row of a
    file for --measured stands for such a layer. If the layers of a model differ, this is one of
    the most common kind.

    Example: trnsim plan layer llama-3.1-8b --on trn1 --tensor-parallel-size 32
    """
    model, rank = read(config), machine(one_platform(on).name)
    _check_ranks(model, tensor_parallel_size)
    work = _pass(model, phase, batch, sequence)
    parts = summaries(model, work, Split(tensor_parallel_size))
    layers = [part for part in parts if part.name == "layer"]
    block = max(layers, key=lambda part: part.times)
    table = read_measured(measured) if measured else None
    answer = layer_times(rank, measured=table).forward(block, work)
    values = {
        "platform": rank.name,
        **picked(work, "phase batch tokens past"),
        "tensor_parallel_size": tensor_parallel_size,
        "layer": signature(block, work),
        "answer": answer,
    }
    count = sum(part.times for part in layers)
    equal_layers = f"{block.times} of {count}" if len(layers) > 1 else ""
    sections = [Section("", _blocks(answer, equal_layers))]
    return Document(
        f"{model.name}: a layer on {rank.name}", values, sections, schema="plan-layer/1"
    )


def _check_ranks(model: Architecture, ranks: int) -> None:
    """Check that each of these tensor ranks has a head.

    Raises:
        BadInput: there are twice as many ranks as heads, or more; to fewer ranks, heads without
            weights may be added.
    """
    heads = heads_of(model)
    if ranks >= 2 * heads:
        raise BadInput(
            f"--tensor-parallel-size {ranks}: {model.name} has {heads} heads, so that some ranks "
            "would have none",
            fix=f"--tensor-parallel-size {heads}",
        )


def _pass(model: Architecture, name: str | None, batch: int, sequence: int | None) -> Pass:
    """The pass of `model` that the options name.

    Raises:
        BadInput: an unknown phase, prefill or decode for a model that makes no tokens, or more
            tokens than the model has positions.
    """
    legal = [str(phase) for phase in Phase if phase is not Phase.TRAIN]
    if name is not None and name not in legal:
        raise BadInput(f"--phase is {name!r}; legal: {enumerated(legal, 'or')}")
    default = Phase.DECODE if model.is_generating else Phase.ENCODE
    phase = Phase(name or default)
    if phase is not Phase.ENCODE and not model.is_generating:
        raise BadInput(
            f"--phase is {name!r}; legal for {model.name} ({model.model_type}): encode, as it "
            "makes no tokens one after another",
            fix="leave --phase out",
        )
    new_tokens = 1 if phase is Phase.DECODE else 0
    limit = model.length_limit
    if sequence and new_tokens and limit and sequence >= limit:
        raise BadInput(
            f"a sequence of {sequence + 1:,} tokens exceeds {model.positions_key} of {model.name}: "
            f"--sequence {sequence} and, in decode, a new one; legal: 1 to {limit - 1:,}",
            fix=f"--sequence {limit - 1}",
        )
    longest = model.max_positions - new_tokens if model.max_positions else _TOKENS
    tokens = sequence or model.decoder.tokens or min(_TOKENS, longest)
    if not model.decoder.tokens:
        model.check_length(tokens + new_tokens)
    return Pass(phase, batch, 1, tokens) if new_tokens else Pass(phase, batch, tokens)


def _blocks(answer: LayerTime, equal_layers: str) -> list[Block]:
    """The time of a layer with P10 and P90, its parts from the largest, and its source.

    `equal_layers` is the number of such layers in words; "" if all layers are equal.
    """
    low, high = (
        time_text(answer.time_s * math.exp(QUANTILES[name] * answer.spread))
        for name in ("p10", "p90")
    )
    causes = sorted(answer.parts_s.items(), key=lambda cause: -cause[1])
    parts_s = {name: time_s for name, time_s in causes if time_s}
    cause_times = ", ".join(f"{name} {time_text(time_s)}" for name, time_s in parts_s.items())
    rows = [
        ("time", f"{time_text(answer.time_s)} (P10 to P90: {low} to {high})"),
        ("bound by", next(iter(parts_s), "-")),
        ("parts", cause_times or "-"),
        ("source", answer.source),
        *([("layers alike", equal_layers)] if equal_layers else []),
    ]
    bar = Parts("", parts_s, time_text(answer.time_s), "/answer/parts_s")
    return [label_table(rows), Drawing(parts_chart("Where the time goes", [bar]))]
