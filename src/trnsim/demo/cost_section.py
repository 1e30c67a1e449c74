"""4 Cost: a training run on the Trainiums and a GPU, each with the kind and date of its price."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from trnsim.arch.catalogue import Catalogue
from trnsim.decide.times.families import TRAINING
from trnsim.demo import examples
from trnsim.document.answer import Block, Note, Table, columns
from trnsim.formatting import amounts, durations
from trnsim.place.machine import compared_platforms
from trnsim.system.train.best import Effort
from trnsim.system.train.estimate import estimate as train
from trnsim.workload import config as configs

_COLUMNS = columns(" | instances | time (P10 to P90) | USD (P10 to P90)", numbers_from=2)
_EFFORT = Effort(budget=8)


def cost_blocks(
    config: Path | None = None,
    tokens: float = 1e10,
    instances: int | None = None,
    *,
    as_of: date | None = None,
    rows: Catalogue | None = None,
) -> list[Block]:
    """A heading and a row for each platform: time and USD; below it, the price."""
    shape = configs.read(config or examples.path("llama-3.1-8b.json"))
    table: list[tuple[str, ...]] = []
    prices: dict[int, list[str]] = {}
    for name in compared_platforms():
        estimate = train(
            shape, name, tokens, instances=instances, effort=_EFFORT, as_of=as_of, rows=rows
        )
        label = name if estimate.step.estimate.is_validated else f"{name} unvalidated"
        machines = f"{estimate.machine.count} x {estimate.machine.instance.name}"
        prices[len(table)] = [str(estimate.quote)]
        table.append((label, machines, durations(estimate.time_s), amounts(estimate.usd)))
    error = f"{TRAINING.median:.0%} off in the median, {TRAINING.p90:.0%} at P90"
    title = f"4 Cost      {shape.name}, {tokens:.3g} tokens; plans of training were {error}"
    return [
        Note(f"{title} (docs/generated/accuracy-models.md)", hanging=12),
        Table(_COLUMNS, table, indent=4, row_notes=prices),
    ]
