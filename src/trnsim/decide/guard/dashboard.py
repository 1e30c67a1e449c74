"""Grafana dashboard of the moved workloads: measured figures beside predicted ones."""

from __future__ import annotations

from collections.abc import Sequence

from trnsim.decide.guard.alerts import FAILED_MATCHER, rate_of, selector, utilisation_of
from trnsim.decide.guard.limits import WorkloadLimits
from trnsim.grafana import Chart, page


def dashboard(all_limits: Sequence[WorkloadLimits]) -> str:
    """The page as JSON that Grafana imports, with a row for each workload."""
    rows = [
        (f"{limits.workload.name} on {limits.candidate.instance}", _panels(limits))
        for limits in all_limits
    ]
    return page("Moved workloads", "trnsim-guard", rows)


def _panels(limits: WorkloadLimits) -> list[Chart]:
    matchers, unit, failed_selector = (
        selector(limits),
        limits.unit,
        selector(limits, FAILED_MATCHER),
    )
    charts: list[Chart] = []
    if limits.rate is not None and limits.slowest_rate is not None:
        promised_values = {
            "predicted P50": f"vector({limits.rate:.6g})",
            "slowest predicted": f"vector({limits.slowest_rate:.6g})",
        }
        if limits.break_even_rate is not None:
            promised_values["costs as much as today"] = f"vector({limits.break_even_rate:.6g})"
        title = f"{unit} a second of an instance".capitalize()
        charts.append(Chart(title, {"counted": rate_of(limits), **promised_values}, "short"))
        charts.append(_cost(limits))
    charts += [
        Chart("Utilisation of the cores", {"mean": utilisation_of(limits)}, "percentunit"),
        Chart(
            "Executions a second that fail",
            {"failed": f"sum(rate(execution_status_total{failed_selector}[15m])) or vector(0)"},
            "short",
        ),
        Chart(
            "Memory errors",
            {"{{event_type}}": f"sum by (event_type) (hardware_ecc_events_total{matchers})"},
            "short",
        ),
        Chart(
            "Latency of an execution",
            {"{{percentile}}": f"max by (percentile) (execution_latency_seconds{matchers})"},
            "s",
        ),
    ]
    return charts


def _cost(limits: WorkloadLimits) -> Chart:
    """Chart of USD for a million units: counted, at the decision's price; predicted; today's."""
    price, today = limits.candidate.price, limits.today_usd_per_unit
    lines: dict[str, str] = {}
    if price is not None:
        usd_per_s = price.usd_per_hour / 3600
        lines["counted"] = f"{usd_per_s * 1e6:.6g} / ({rate_of(limits)})"
    if limits.usd_per_unit is not None:
        lines["predicted"] = f"vector({limits.usd_per_unit * 1e6:.6g})"
    if today is not None:
        lines["today"] = f"vector({today * 1e6:.6g})"
    return Chart(f"USD of a million {limits.unit}", lines, "currencyUSD")
