"""``trnsim plan layer``: one layer on one rank, by few constants and compiled."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trnsim.arch import TARGETS
from trnsim.cli.plan.shared import AsJson, Config, whole
from trnsim.cli.progress import progress
from trnsim.cli.terminal import echo
from trnsim.errors import BadInput
from trnsim.estimate.choice import layer_times
from trnsim.estimate.compiling import compiled, layer_of
from trnsim.estimate.measured import read as read_measured
from trnsim.estimate.table import signature
from trnsim.formatting import enumerated
from trnsim.place.machine import machine
from trnsim.profile.units import time_text
from trnsim.workload.config import read
from trnsim.workload.operators import Pass, Phase

if TYPE_CHECKING:
    from trnsim.estimate.times import LayerTime


def layer(
    config: Config,
    on: Annotated[str, typer.Option("--on", help="A platform, as trn1 or trn2.48xlarge.")],
    phase: Annotated[str, typer.Option(help="encode, prefill or decode.")] = "decode",
    batch: Annotated[int, whole("Sequences.")] = 1,
    sequence: Annotated[int, whole("Tokens; in decode, those that are there.")] = 2048,
    tensor_parallel_size: Annotated[int, whole("Ranks that share it.")] = 1,
    measured: Annotated[Path | None, typer.Option(help="A CSV file of your own times.")] = None,
    compile_now: Annotated[
        bool, typer.Option("--compile", help="Compile it now, and print its time beside.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """The time of one layer on one rank, without exchanges, and where it comes from.

    Example: trnsim plan layer examples/llama-3.1-8b.json --on trn1 --tensor-parallel-size 32
    """
    model, rank = read(config), machine(on)
    given = _pass(phase, batch, sequence)
    block = layer_of(model, given, tensor_parallel_size)
    table = read_measured(measured) if measured else None
    if compile_now:
        name = next((one.name for one in TARGETS.values() if one.chip == rank.chip.name), None)
        if name is None:
            raise BadInput(f"--compile on {on}; legal: {enumerated(list(TARGETS), 'or')}")
        with progress() as tell:
            tell(f"one layer for {name}")
            compiled(config, model, name, given, tensor_parallel_size)
    found = [
        layer_times(rank, measured=table, takes_compiled=takes).of(block, given)
        for takes in (False, True)
    ]
    answers = found[:1] if found[0] == found[1] else found
    if as_json:
        made = {"layer": signature(block, given), "answers": [asdict(one) for one in answers]}
        echo(json.dumps(made, indent=2))
        return
    for one in answers:
        echo(_words(one))


def _pass(phase: str, batch: int, sequence: int) -> Pass:
    legal = [str(one) for one in Phase if one is not Phase.TRAIN]
    if phase not in legal:
        raise BadInput(f"--phase {phase}; legal: {enumerated(legal, 'or')}")
    if sequence < 1:
        raise BadInput(f"--sequence {sequence}; legal: from 1 on")
    if phase == Phase.DECODE:
        return Pass(Phase.DECODE, batch, 1, sequence)
    return Pass(Phase(phase), batch, sequence)


def _words(found: LayerTime) -> str:
    parts = ", ".join(f"{name} {time_text(one)}" for name, one in found.parts_s.items() if one)
    return f"{time_text(found.time_s)} ({parts}): {found.source}"
