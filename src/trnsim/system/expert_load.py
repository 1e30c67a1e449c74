"""Load of the expert rank with the most work, for which the other expert ranks wait.

A unit of load is an assignment: a pair of a token and an expert that the router chose for it.
"""

from __future__ import annotations

import math
from dataclasses import replace

from trnsim.workload.operators import Axis
from trnsim.workload.summary import PartSummary


def imbalance(mean_assignments: float, ranks: int) -> float:
    """``1 + sqrt(2 ln(ranks) / mean)``: assignments of the busiest rank over the mean of ranks.

    Under even routing the counts are Poisson; this is their expected maximum for large means. It is
    at most `ranks`: all assignments on one rank. A router that prefers some experts is worse; the
    auxiliary loss of training works towards even routing.
    """
    return min(1.0 + math.sqrt(2 * math.log(ranks) / max(mean_assignments, 1.0)), float(ranks))


def busiest_summary(summary: PartSummary, factor: float) -> PartSummary:
    """The summary of a rank with `factor` times the mean assignments."""
    products = tuple(
        replace(product, m=product.m * factor) if product.name.startswith("expert ") else product
        for product in summary.products
    )
    exchanges = tuple(
        replace(exchange, nbytes=exchange.nbytes * factor)
        if exchange.axis is Axis.EXPERT
        else exchange
        for exchange in summary.exchanges
    )
    return replace(summary, products=products, exchanges=exchanges)
