"""4 Cost: a training run on the Trainiums and a GPU, each with the kind and date of its price."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from trnsim.arch.catalogue import Catalogue
from trnsim.decide.times.families import TRAINING
from trnsim.demo import examples
from trnsim.formatting import amounts, durations, text_table
from trnsim.place.machine import compared
from trnsim.system.train.best import Effort
from trnsim.system.train.estimate import estimate as train
from trnsim.workload import config as configs

_EFFORT = Effort(budget=8)


def cost_lines(
    config: Path | None = None,
    tokens: float = 1e10,
    instances: int | None = None,
    *,
    as_of: date | None = None,
    rows: Catalogue | None = None,
) -> list[str]:
    """A heading and a line for each platform: time, USD, price kind and date."""
    shape = configs.read(config or examples.path("llama-3.1-8b.json"))
    table: list[tuple[str, ...]] = []
    for name in compared():
        estimate = train(
            shape, name, tokens, instances=instances, effort=_EFFORT, as_of=as_of, rows=rows
        )
        label = name if estimate.basis.validated else f"{name} unvalidated"
        machines = f"{estimate.machine.count} x {estimate.machine.instance.name}"
        usd = "no public price" if estimate.usd is None else f"{amounts(estimate.usd)} USD"
        table.append((label, machines, durations(estimate.time_s), usd, str(estimate.quote)))
    header = ("", "instances", "time (P10 to P90)", "USD (P10 to P90)", "price")
    error = f"{TRAINING.median:.0%} off in the median, {TRAINING.p90:.0%} at P90"
    title = f"4 Cost      {shape.name}, {tokens:.3g} tokens; plans of training were {error}"
    return [
        f"{title} (docs/generated/accuracy-models.md)",
        *[f"            {line}" for line in text_table(header, table).splitlines()],
    ]
