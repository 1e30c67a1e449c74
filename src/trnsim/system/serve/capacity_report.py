"""The capacity answer as the values of the `--json` document of ``trnsim plan serve``."""

from __future__ import annotations

from typing import Any

from trnsim.facts import Interval
from trnsim.system.serve.answer import CapacityAnswer
from trnsim.system.serve.curve import CurvePoint
from trnsim.system.serve.demand import Slo
from trnsim.system.serve.nearest import Nearest
from trnsim.system.serve.plan import ServingPlan
from trnsim.system.serve.ranking import layout


def capacity_values(plan: ServingPlan) -> dict[str, Any]:
    """The capacity of a plan, its load curve, and its cost an hour."""
    answer = plan.answer
    has_slo = answer is not None and answer.has_slo
    return {
        "max_requests_per_s_within_slo": plan.most_per_s if has_slo else None,
        "usd_per_hour": plan.usd_per_hour,
        "capacity": None if answer is None else _capacity(answer),
        "curve": [] if answer is None else [_point(plan, point) for point in answer.curve],
    }


def most_per_s(answer: CapacityAnswer) -> Interval:
    """Capacity of the fleet in requests a second; slow steps (P90) give its P10."""
    return answer.unit_per_s.scaled(answer.sizing.units)


def instances_for_rate(answer: CapacityAnswer) -> dict[str, int | None] | None:
    """Instances for the demand's rate, by quantile of their number; None without a rate.

    The P10 of their number belongs to the P90 of the capacity, and the reverse.
    """
    rate_per_s = answer.sizing.rate_per_s
    if rate_per_s is None:
        return None
    capacity_quantiles = {"p10": "p90", "p50": "p50", "p90": "p10"}
    return {
        name: answer.instances_for(rate_per_s, quantile)
        for name, quantile in capacity_quantiles.items()
    }


def _capacity(answer: CapacityAnswer) -> dict[str, Any]:
    capacity, sizing = answer.capacity, answer.sizing
    return {
        "limits": _limits(capacity.limits),
        "is_knee": not answer.has_slo,
        "binding": capacity.binding,
        "requests_per_s": most_per_s(answer),
        "requests_per_s_with_spare_lost": sizing.promised_per_s,
        "requested_per_s": sizing.rate_per_s,
        "headroom": sizing.headroom,
        "instances_for_rate": instances_for_rate(answer),
        "spare": str(sizing.spare),
        "sampling_error": capacity.error,
        "requests_run": capacity.requests,
        "nearest": None if answer.nearest is None else _nearest(answer.nearest),
    }


def _limits(slo: Slo) -> dict[str, float]:
    """Limits in seconds, by figure: ``ttft_p99_s``."""
    return {f"{name}_p{slo.reported_percentile}_s": limit for name, limit in slo.by_name.items()}


def _nearest(nearest: Nearest) -> dict[str, Any]:
    """The layout and loosened SLO nearest to an SLO that no layout keeps, and what was missed."""
    return {
        "layout": layout(nearest.test.deployment),
        "missed": [
            {"latency": limit.name, "limit_s": limit.limit_s, "least_s": limit.least_s}
            for limit in nearest.missed_limits
        ],
        "limits": _limits(nearest.slo),
        "requests_per_s": nearest.most_per_s,
        "instances": list(nearest.instance_types),
    }


def _point(plan: ServingPlan, point: CurvePoint) -> dict[str, Any]:
    return {
        "requests_per_s": point.requests_per_s,
        **point.latencies_s,
        "output_tokens_per_s": point.output_tokens_per_s,
        "utilisation": point.utilisation,
        "usd_per_hour": plan.usd_per_hour,
        "usd_per_million_tokens": point.usd_per_million_tokens,
        "is_kept": point.is_kept,
    }
