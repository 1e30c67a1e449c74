"""Throughput of instances in each of ten workloads, from ``rates.json``.

The planner takes a minute for all of them, so that its answers are stored;
``bench/system/claims.py`` recomputes the file. The rates hold for the catalogue that
ships with trnsim: for a row that differs from it there is no rate.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any, Final

from trnsim.arch.catalogue import catalogue
from trnsim.system.claims.amounts import Absent, Amount, Citation, Grade, citations
from trnsim.system.claims.rows import RowReader

SOURCES: Final = {
    "train": "trnsim plan train: the layout of least time, sequences of 8192 or as many as fit",
    "serve": "trnsim plan serve: kept busy, 2048 tokens in, 256 out",
    "infer": "trnsim plan infer",
}


@cache
def stored_rates() -> dict[str, Any]:
    """``rates.json``: the planner's answers by workload and instance (bench/system/claims.py)."""
    text = (resources.files("trnsim.system.claims") / "rates.json").read_text(encoding="utf-8")
    rates: dict[str, Any] = json.loads(text)
    return rates


def rate(rows: RowReader, workload: str, instance: str) -> Amount:
    """Tokens or items that one instance does in a second.

    Raises:
        Absent: the catalogue has no such row, the row differs from the one that ships, or the
            model does not fit on the instance.
    """
    entry = stored_rates()[workload].get(instance)
    if entry is None:
        raise Absent(f"room for '{workload}' on {instance}")
    row, chip = rows.instance(instance), rows.chip(rows.instance(instance).accelerator)
    shipped_catalogue = catalogue()
    if row != shipped_catalogue.instance(instance) or chip != shipped_catalogue.accelerator(
        chip.name
    ):
        raise Absent(f"a rate of '{workload}' on {instance} as its row now is")
    source = SOURCES[workload.split(maxsplit=1)[0]]
    assumed_names = ", ".join(entry["assumed"])
    doubt = f"assumed for {instance}: {assumed_names}" if assumed_names else ""
    day = str(shipped_catalogue.generated)
    names = (f"instances/{instance}", f"{'chips' if chip.is_neuron else 'gpus'}/{chip.name}")
    origins = tuple(Citation(Grade.MODEL, name, day, source, doubt) for name in names)
    return Amount(entry["per_s"], origins)


def geometric_mean(amounts: Sequence[Amount]) -> Amount:
    """The geometric mean of amounts: the same ratio whichever instance is the reference."""
    logs = [math.log(amount.value) for amount in amounts]
    origins = citations(origin for amount in amounts for origin in amount.origins)
    return Amount(math.exp(sum(logs) / len(logs)), origins)
