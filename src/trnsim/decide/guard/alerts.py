"""Alert rules for Prometheus: they fire where measurements fall short of a decision's promises.

Rates and errors come from the metrics of neuron-monitor and of the server.

Names of Neuron's metrics follow neuron-monitor-prometheus.py (aws-neuron-sdk,
tools/neuron-sys-tools/neuron-monitor-user-guide.rst, and its Grafana page); the server's are vLLM's
(docs.vllm.ai, design/metrics). Training and inference without tokens have no common exporter: their
programs count in `training_tokens_total` and `inference_items_total`. Every series of a workload
has the label `workload`, which the scrape configuration gives it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from trnsim.alert_rules import Alert, rule_file
from trnsim.decide.guard.limits import WorkloadLimits

COUNTERS: Final = {
    "serve": ("vllm:generation_tokens_total", "vllm_generation_tokens_total"),
    "train": ("training_tokens_total",),
    "infer": ("inference_items_total",),
}
"""Names of the counter of work of each kind of workload; the first that exists counts.

prometheus_client writes a colon as an underscore if a scrape asks for OpenMetrics, as Prometheus
does by default, but not if it asks for names in UTF-8.
"""

BUSY_UTILISATION: Final = 0.8
"""Utilisation above which the chips, and not demand, limit a rate; a choice."""
FAILED_MATCHER: Final = 'status_type!="completed"'
"""PromQL matcher of executions that failed."""
MAX_FAILED_SHARE: Final = 0.01
"""Share of executions that may fail; a choice."""


def rate_of(limits: WorkloadLimits) -> str:
    """PromQL expression of the tokens or items a second of one instance, on average."""
    matchers = selector(limits)
    rates = [f"rate({counter}{matchers}[15m])" for counter in COUNTERS[limits.workload.kind]]
    return f"sum({' or '.join(rates)}) / count(instance_info{matchers})"


def utilisation_of(limits: WorkloadLimits) -> str:
    """PromQL expression of the mean utilisation of the workload's NeuronCores."""
    return f"avg(neuroncore_utilization_ratio{selector(limits)})"


def selector(limits: WorkloadLimits, *further: str) -> str:
    """PromQL label matchers in braces: the workload's label, and `further` matchers."""
    name = json.dumps(limits.workload.name, ensure_ascii=False)  # PromQL has the escapes of JSON
    return "{" + ",".join([f"workload={name}", *further]) + "}"


def alerts(limits: WorkloadLimits) -> tuple[Alert, ...]:
    """Alert rules of a workload."""
    return (*_drift(limits), *_health(limits))


def rules(all_limits: Sequence[WorkloadLimits]) -> str:
    """Rule file of Prometheus with a group for each workload."""
    groups = [(limits.workload.name, alerts(limits)) for limits in all_limits]
    return rule_file(groups, label="workload")


def _drift(limits: WorkloadLimits) -> list[Alert]:
    """Rules about throughput; none if the volume is in hours or has no predicted time."""
    if limits.rate is None or limits.slowest_rate is None:
        return []
    instance, unit = limits.candidate.instance, limits.unit
    busy_condition = f"{utilisation_of(limits)} > {BUSY_UTILISATION:g}"
    drift_alerts = [
        Alert(
            "ThroughputBelowPrediction",
            f"{rate_of(limits)} < {limits.slowest_rate:.6g} and {busy_condition}",
            for_minutes=30,
            severity="ticket",
            summary=(
                f"{limits.workload.name}: an instance does less than {limits.slowest_rate:.4g} "
                f"{unit} a second, the slowest that was predicted (P50 {limits.rate:.4g})"
            ),
            action=(
                f"run `trnsim pilot read` with the server's logs: the model of {instance} is off"
            ),
        )
    ]
    if limits.break_even_rate is not None:
        drift_alerts.append(
            Alert(
                "CostAboveGpu",
                f"{rate_of(limits)} < {limits.break_even_rate:.6g} and {busy_condition}",
                for_minutes=60,
                severity="page",
                summary=(
                    f"{limits.workload.name}: below {limits.break_even_rate:.4g} {unit} a second "
                    f"an instance costs more than {limits.workload.today.instance} did"
                ),
                action="fall back to the GPUs that are kept (fallback.md)",
            )
        )
    return drift_alerts


def _health(limits: WorkloadLimits) -> list[Alert]:
    """Rules about errors and missing metrics, which need no prediction."""
    matchers, name = selector(limits), limits.workload.name
    failures = selector(limits, FAILED_MATCHER)
    ecc = selector(limits, 'event_type=~"(mem|sram)_ecc_uncorrected"')
    total = f"sum(rate(execution_status_total{matchers}[15m]))"
    return [
        Alert(
            "UncorrectedEcc",
            f"sum by (neuron_device_index) (increase(hardware_ecc_events_total{ecc}[10m])) > 0",
            for_minutes=0,
            severity="page",
            summary=f"{name}: a device lost data in its memory",
            action="drain the instance, replace it, and restart from the last checkpoint",
            by=("neuron_device_index",),
        ),
        Alert(
            "ExecutionErrors",
            f"sum(rate(execution_status_total{failures}[15m])) / {total} > {MAX_FAILED_SHARE:g}",
            for_minutes=15,
            severity="page",
            summary=f"{name}: more than {MAX_FAILED_SHARE:.0%} of executions fail",
            action="fall back to the GPUs that are kept (fallback.md)",
        ),
        Alert(
            "NoMetrics",
            f"absent(instance_info{matchers})",
            for_minutes=10,
            severity="page",
            summary=f"{name}: nothing is scraped",
            action="look at neuron-monitor and its exporter on the instances",
        ),
    ]
