"""Series of numbers from the reports of neuron-monitor, for Prometheus and OpenTelemetry.

Names and labels are those of neuron-monitor-prometheus.py, as AWS's Grafana page
(aws-neuron-sdk src/examples/neuron-monitor) and Datadog's integration ask for them. Ratios are 0 to
1 where a report has per cent. Counts of a period are added up, once for each time that a group was
measured; a program's series end with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Kind = Literal["gauge", "counter", "info"]

INSTANCE_LABELS: Final = {
    "instance_id": "instance_id",
    "instance_name": "instance_name",
    "instance_type": "instance_type",
    "availability_zone": "instance_availability_zone",
    "region": "instance_region",
    "subnet_id": "subnet_id",
}
"""Labels that every series has, and the field of a report's instance_info that each is."""

_VCPU: Final = {
    "user": ("user", "nice"),
    "system": ("system", "io_wait", "irq", "soft_irq"),
}
"""The host's two usage types and the report's parts of each: AWS's page adds the types up to what
is used, so that idle time is none of them."""

_NO_PLACE: Final = "None"
"""neuron-monitor-prometheus.py's label of memory that has one place alone."""


@dataclass(frozen=True)
class Metric:
    """One name with its kind and its unit in OpenTelemetry's (UCUM) notation."""

    name: str
    kind: Kind
    help: str
    unit: str = ""


METRICS: Final = {
    one.name: one
    for one in (
        Metric("neuroncore_utilization_ratio", "gauge", "Busy part of a core's time", "1"),
        Metric("execution_status", "counter", "Executions by outcome", "{execution}"),
        Metric("execution_errors", "counter", "Errors of executions by kind", "{error}"),
        Metric("execution_latency_seconds", "gauge", "Latency of an execution by percentile", "s"),
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
"""By name; Prometheus adds ``_total`` to a counter's and ``_info`` to an info's."""


@dataclass(frozen=True)
class Series:
    """One value.

    Attributes:
        labels: without those of the instance.
        since_s: when a counter began, seconds since 1970.
    """

    metric: Metric
    labels: Mapping[str, str]
    value: float
    since_s: float = 0.0


@dataclass
class _Counts:
    """Counts of one program so far, the measurement that was added last, and the last latencies."""

    since_s: float
    measured: Mapping[str, Any] = field(default_factory=dict[str, Any])
    by_status: dict[str, float] = field(default_factory=dict[str, float])
    by_error: dict[str, float] = field(default_factory=dict[str, float])
    latency_s: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass
class Collected:
    """The series of the last report.

    Attributes:
        instance: labels of the instance, which every series has.
        series: all others.
    """

    now_s: Callable[[], float] = time.time
    instance: dict[str, str] = field(default_factory=dict[str, str])
    series: tuple[Series, ...] = ()
    _counts: dict[tuple[int, str], _Counts] = field(default_factory=dict[tuple[int, str], _Counts])
    _began_s: float = 0.0
    _errors: dict[tuple[str, str], tuple[float, float]] = field(
        default_factory=dict[tuple[str, str], tuple[float, float]]
    )

    def add(self, report: Mapping[str, Any]) -> None:
        """Take a report in."""
        self._began_s = self._began_s or self.now_s()
        info = report["instance_info"]
        self.instance = {label: str(info.get(name, "")) for label, name in INSTANCE_LABELS.items()}
        programs = report["neuron_runtime_data"]
        alive = {_key(one) for one in programs}
        self._counts = {key: one for key, one in self._counts.items() if key in alive}
        found = [each for one in programs for each in self._program(one)]
        found += self._system(report["system_data"])
        found.append(Series(METRICS["instance"], {}, 1))
        hardware = report["neuron_hardware_info"]
        names = ("neuron_device_count", "neuroncore_per_device_count", "neuron_device_memory_size")
        labels = {name: str(hardware[name]) for name in names}
        found.append(Series(METRICS["neuron_hardware"], labels, 1))
        self.series = tuple(found)

    def _program(self, program: Mapping[str, Any]) -> Iterator[Series]:
        tag = {"runtime_tag": program["neuron_runtime_tag"]}
        groups = program["report"]
        for core, used in (
            groups.get("neuroncore_counters", {}).get("neuroncores_in_use", {}).items()
        ):
            labels = {"neuroncore": core, **tag}
            yield _gauge(
                "neuroncore_utilization_ratio", labels, used["neuroncore_utilization"] / 100
            )
        yield from _memory(groups.get("memory_used", {}), tag)
        usage = groups.get("neuron_runtime_vcpu_usage", {}).get("vcpu_usage", {})
        for kind, percent in usage.items():
            labels = {"usage_type": kind, **tag}
            yield _gauge("neuron_runtime_vcpu_usage_ratio", labels, percent / 100)
        executions = groups.get("execution_stats", {})
        if "execution_summary" in executions:
            yield from self._executions(_key(program), executions, tag)

    def _executions(
        self, key: tuple[int, str], group: Mapping[str, Any], tag: Mapping[str, str]
    ) -> Iterator[Series]:
        counts = self._counts.setdefault(key, _Counts(self.now_s()))
        # A report repeats what is not due; its period, in nanoseconds, tells a new measurement.
        if group != counts.measured:
            counts.measured = group
            _add(counts.by_status, group["execution_summary"])
            _add(counts.by_error, group["error_summary"])
        for kind, count in counts.by_status.items():
            labels = {"status_type": kind, **tag}
            yield Series(METRICS["execution_status"], labels, count, counts.since_s)
        for kind, count in counts.by_error.items():
            labels = {"error_type": kind, **tag}
            yield Series(METRICS["execution_errors"], labels, count, counts.since_s)
        # As with AWS's script, the last latencies stay while nothing is executed.
        counts.latency_s = group["latency_stats"]["total_latency"] or counts.latency_s
        for name, value in counts.latency_s.items():
            yield _gauge("execution_latency_seconds", {"percentile": name, **tag}, value)

    def _system(self, groups: Mapping[str, Any]) -> Iterator[Series]:
        usage = groups.get("vcpu_usage", {})
        if "average_usage" in usage:
            yield _gauge("system_vcpu_count", {}, len(usage["usage_data"]))
            for kind, parts in _VCPU.items():
                percent = min(sum(usage["average_usage"][part] for part in parts), 100)
                yield _gauge("system_vcpu_usage_ratio", {"usage_type": kind}, percent / 100)
        memory = groups.get("memory_info", {})
        for name in ("memory_total", "memory_used", "swap_total", "swap_used"):
            if f"{name}_bytes" in memory:
                yield _gauge(f"system_{name}_bytes", {}, memory[f"{name}_bytes"])
        for device in groups.get("neuron_hw_counters", {}).get("neuron_devices", ()):
            index = str(device["neuron_device_index"])
            for kind, count in device.items():
                if kind != "neuron_device_index":
                    labels = {"event_type": kind, "neuron_device_index": index}
                    since_s = self._since_s((index, kind), count)
                    yield Series(METRICS["hardware_ecc_events"], labels, count, since_s)

    def _since_s(self, event: tuple[str, str], count: float) -> float:
        """When a count of memory errors began: one that went back began anew."""
        before, since_s = self._errors.get(event, (0.0, self._began_s))
        since_s = self.now_s() if count < before else since_s
        self._errors[event] = (count, since_s)
        return since_s


def _key(program: Mapping[str, Any]) -> tuple[int, str]:
    return program["pid"], program["neuron_runtime_tag"]


def _add(counts: dict[str, float], more: Mapping[str, float]) -> None:
    for name, count in more.items():
        counts[name] = counts.get(name, 0) + count


def _gauge(name: str, labels: Mapping[str, str], value: float) -> Series:
    return Series(METRICS[name], labels, value)


def _memory(group: Mapping[str, Any], tag: Mapping[str, str]) -> Iterator[Series]:
    used = group.get("neuron_runtime_used_bytes")
    if used is None:
        return
    for place in ("host", "neuron_device"):
        labels = {"memory_location": place, **tag}
        yield _gauge("neuron_runtime_memory_used_bytes", labels, used[place])
    for core, parts in used["usage_breakdown"]["neuroncore_memory_usage"].items():
        labels = {"neuroncore": core, "memory_location": _NO_PLACE, **tag}
        for kind, count in parts.items():
            yield _gauge(f"neuroncore_memory_usage_{kind}", labels, count)
