"""Metrics of neuron-monitor's exporters with their kinds and units, and series of their values.

Names and labels are those of neuron-monitor-prometheus.py, as AWS's Grafana page
(aws-neuron-sdk src/examples/neuron-monitor) and Datadog's integration ask for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import add
from typing import Final, Literal

Kind = Literal["gauge", "counter", "info"]


@dataclass(frozen=True)
class Metric:
    """A metric of neuron-monitor's exporter.

    Attributes:
        unit: in OpenTelemetry's (UCUM) notation.
        join: function from the values of two programs with the same labels to their common value.
    """

    name: str
    kind: Kind
    help: str
    unit: str = ""
    join: Callable[[float, float], float] = add


METRICS: Final = {
    metric.name: metric
    for metric in (
        Metric("neuroncore_utilization_ratio", "gauge", "Busy part of a core's time", "1", max),
        Metric("execution_status", "counter", "Executions by outcome", "{execution}"),
        Metric("execution_errors", "counter", "Errors of executions by kind", "{error}"),
        Metric("execution_latency_seconds", "gauge", "Latency by percentile", "s", max),
        Metric("neuron_runtime_memory_used_bytes", "gauge", "Memory that a program uses", "By"),
        *(
            Metric(f"neuroncore_memory_usage_{kind}", "gauge", f"Memory of a core: {kind}", "By")
            for kind in (
                "constants", "model_code", "model_shared_scratchpad", "runtime_memory", "tensors",
            )
        ),
        Metric("neuron_runtime_vcpu_usage_ratio", "gauge", "A program's part of the vCPUs", "1"),
        Metric("system_vcpu_count", "gauge", "vCPUs of the host", "{cpu}"),
        Metric("system_vcpu_usage_ratio", "gauge", "Used part of the vCPUs", "1"),
        Metric("system_memory_total_bytes", "gauge", "Memory of the host", "By"),
        Metric("system_memory_used_bytes", "gauge", "Used memory of the host", "By"),
        Metric("system_swap_total_bytes", "gauge", "Swap of the host", "By"),
        Metric("system_swap_used_bytes", "gauge", "Used swap of the host", "By"),
        Metric("hardware_ecc_events", "counter", "Memory errors of a device", "{event}"),
        Metric("instance", "info", "The instance"),
        Metric("neuron_hardware", "info", "The instance's devices"),
    )
}  # fmt: skip
"""Metrics by name; Prometheus adds ``_total`` to the name of a counter, ``_info`` to an info's."""


@dataclass(frozen=True)
class Series:
    """A metric's value for one set of labels.

    Attributes:
        labels: labels of the series, without those of the instance.
        since_s: start of a counter, seconds since 1970.
    """

    metric: Metric
    labels: Mapping[str, str]
    value: float
    since_s: float = 0.0


def gauge(name: str, labels: Mapping[str, str], value: float) -> Series:
    """A value of the gauge called `name`.

    Raises:
        TypeError, ValueError: the value is no number, as in another version's report.
    """
    return Series(METRICS[name], labels, float(value))


def join_gauges(gauges: Iterable[Series]) -> list[Series]:
    """`gauges` with one series for each name and labels: the value for all their programs."""
    sums: dict[tuple[str, tuple[tuple[str, str], ...]], Series] = {}
    for series in gauges:
        key = series.metric.name, tuple(sorted(series.labels.items()))
        value = series.metric.join(sums[key].value, series.value) if key in sums else series.value
        sums[key] = Series(series.metric, series.labels, value)
    return list(sums.values())
