"""Rows out of parts: the time of a row, its bound, and the one constant, chosen without its model.

The constant is the latency of a small all-reduce inside an instance. Nothing else is fitted: no
factor for a model, a family or a class.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from model_estimate import exchange_s
from model_rows import CLASSES, DECODE, SEVERAL, TRAINING

from trnsim import arch
from trnsim.fabric.collective_time import collective_time

LATENCIES_S = np.arange(0.0, 200e-6, 1e-6)
"""What the latency may be."""
INSIDE = 0.8
"""The share of published times that P10 to P90 shall hold."""
UPDATE_BYTES = 2 + 2 + 4 + 4 + 2 + 4 + 4
"""A parameter's in an update: weight and gradient in bfloat16 and two moments in float32 are read,
weight and moments written (Kingma and Ba, arXiv:1412.6980, algorithm 1; the dtypes are assumed)."""


@dataclass
class Row:
    """A case with what its parts take.

    Attributes:
        case: the case.
        parts: an `Estimate` for each of its parts.
    """

    case: object
    parts: list

    def seconds(self, latency_s):
        """The row's time with a latency of small exchanges."""
        case = self.case
        total = self.update_s(latency_s)
        for part, found in zip(case.parts, self.parts, strict=True):
            exchanges = sum(exchange_s(one, case.target, latency_s) for one in found.exchanges)
            total += part.times * (found.seconds + found.launch_s + exchanges)
        return total

    def update_s(self, latency_s):
        """A training step's gradients, added up over ranks that have the same, and its update."""
        if self.case.kind not in (TRAINING, SEVERAL):
            return 0.0
        nbytes = max(found.weight_bytes for found in self.parts)
        gradients = ("all_reduce", nbytes, self.case.replicas)
        core = arch.target(self.case.target).core
        update = nbytes / 2 * UPDATE_BYTES / core.dma_bytes_per_s
        return update + exchange_s(gradients, self.case.target, latency_s)

    @property
    def exchanges(self):
        """How many exchanges the row has."""
        pairs = zip(self.case.parts, self.parts, strict=True)
        return sum(part.times * sum(e[2] > 1 for e in found.exchanges) for part, found in pairs)

    @property
    def bound(self):
        """(seconds, what binds): no estimate can be below."""
        sides = dict.fromkeys(("products", "HBM", "links"), 0.0)
        total = 0.0
        for part, found in zip(self.case.parts, self.parts, strict=True):
            links = sum(_least_s(one, self.case.target) for one in found.exchanges)
            mine = {"products": found.products_s, "HBM": found.hbm_s, "links": links}
            total += part.times * max(mine.values())
            for what, seconds in mine.items():
                sides[what] += part.times * seconds
        return total, max(sides, key=sides.get)


def _least_s(exchange, target):
    """The bytes of an exchange over the links at their published bandwidth."""
    kind, nbytes, ranks = exchange
    return collective_time(kind, nbytes, ranks, target).least_s


@dataclass
class Result:
    """A row's estimate, with the constant of the other models' rows.

    Attributes:
        row: the row.
        latency_s: the constant.
        spread: the largest error that the other models' rows have in four cases of five, as a
            logarithm.
    """

    row: Row
    latency_s: float
    spread: float

    @property
    def estimate_s(self):
        """The estimate."""
        return self.row.seconds(self.latency_s)

    @property
    def error(self):
        """(estimate - published) / published."""
        return self.estimate_s / self.row.case.published_s - 1

    @property
    def interval_s(self):
        """P10 and P90."""
        factor = float(np.exp(self.spread))
        return self.estimate_s / factor, self.estimate_s * factor

    @property
    def is_inside(self):
        """Whether the published time lies between P10 and P90."""
        low, high = self.interval_s
        return low <= self.row.case.published_s <= high

    @property
    def width(self):
        """P10 to P90 as a share of the estimate."""
        low, high = self.interval_s
        return (high - low) / self.estimate_s

    @property
    def share(self):
        """The constant's part of the estimate."""
        return self.row.exchanges * self.latency_s / self.estimate_s


def latency(rows):
    """The latency at which the median error of decode rows is least; None without such rows."""
    fitted = [row for row in rows if row.case.kind == DECODE and row.exchanges]
    if not fitted:
        return None
    published = np.array([row.case.published_s for row in fitted])
    errors = [
        np.median(np.abs(np.log(np.array([row.seconds(one) for row in fitted]) / published)))
        for one in LATENCIES_S
    ]
    return float(LATENCIES_S[int(np.argmin(errors))])


def leave_one_out(rows):
    """A result for each row, whose constant and spread are chosen without the row's model."""
    models = {row.case.model for row in rows}
    results = {}
    for model in models:
        others = [row for row in rows if row.case.model != model]
        found = latency(others) or 0.0
        judged = [row for row in others if row.case.kind in CLASSES]
        errors = [abs(np.log(row.seconds(found) / row.case.published_s)) for row in judged]
        spread = float(np.quantile(errors, INSIDE)) if errors else float("nan")
        for row in rows:
            if row.case.model == model:
                results[row.case.row["id"]] = Result(row, found, spread)
    return [results[row.case.row["id"]] for row in rows]
