"""``trnsim plan layer``: one layer on one rank."""

from __future__ import annotations

import math
from typing import Annotated

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
from trnsim.workload.config import read
from trnsim.workload.operators import Pass, Phase, Split
from trnsim.workload.passes import summaries


@answering
def layer(
    config: Config,
    on: RequiredOn,
    phase: Annotated[
        str, typer.Option(help="encode, prefill or decode.", metavar="PHASE")
    ] = "decode",
    batch: Annotated[
        int, whole("Sequences that go through at once.", unit="sequences", least=1)
    ] = 1,
    sequence: Annotated[
        int,
        whole(
            "Tokens of each sequence; in decode, those before the new one.", unit="tokens", least=1
        ),
    ] = 2048,
    tensor_parallel_size: Annotated[
        int, whole("Ranks over which each layer is split.", least=1)
    ] = 1,
    measured: MeasuredFile = None,
) -> Document:
    """The time of one layer on one rank, without exchanges, and where it comes from.

    Each product has its FLOP, bytes and time, and what bounds it: the array or memory. A row of a
    file for --measured stands for such a layer.

    Example: trnsim plan layer llama-3.1-8b --on trn1 --tensor-parallel-size 32
    """
    model, rank = read(config), machine(one_platform(on).name)
    work = _pass(phase, batch, sequence)
    parts = summaries(model, work, Split(tensor_parallel_size))
    block = next(part for part in parts if part.name == "layer")
    table = read_measured(measured) if measured else None
    answer = layer_times(rank, measured=table).forward(block, work)
    values = {
        "platform": rank.name,
        **picked(work, "phase batch tokens past"),
        "tensor_parallel_size": tensor_parallel_size,
        "layer": signature(block, work),
        "answer": answer,
    }
    sections = [Section("", _blocks(answer))]
    return Document(
        f"{model.name}: a layer on {rank.name}", values, sections, schema="plan-layer/1"
    )


def _pass(phase: str, batch: int, sequence: int) -> Pass:
    legal = [str(known) for known in Phase if known is not Phase.TRAIN]
    if phase not in legal:
        raise BadInput(f"--phase is {phase!r}; legal: {enumerated(legal, 'or')}")
    if phase == Phase.DECODE:
        return Pass(Phase.DECODE, batch, 1, sequence)
    return Pass(Phase(phase), batch, sequence)


def _blocks(answer: LayerTime) -> list[Block]:
    """The time with P10 and P90, its parts from the largest, and its source."""
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
    ]
    bar = Parts("", parts_s, time_text(answer.time_s), "/answer/parts_s")
    return [label_table(rows), Drawing(parts_chart("Where the time goes", [bar]))]
