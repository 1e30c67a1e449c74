"""Series of numbers from the reports of neuron-monitor, for Prometheus and OpenTelemetry.

Ratios are 0 to 1 where a report has per cent. A program's series end with it. Programs with
the same tag, such as the ranks of a job, have one series together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from trnsim.tools.monitor.executions import Executions
from trnsim.tools.monitor.metrics import METRICS, Series, gauge, join_gauges
from trnsim.tools.monitor.pod_labels import PodLabels, pod_labels

INSTANCE_LABELS: Final = {
    "instance_id": "instance_id",
    "instance_name": "instance_name",
    "instance_type": "instance_type",
    "availability_zone": "instance_availability_zone",
    "region": "instance_region",
    "subnet_id": "subnet_id",
}
"""Labels that every series has, with their fields in a report's instance_info."""

_VCPU_PARTS: Final = {
    "user": ("user", "nice"),
    "system": ("system", "io_wait", "irq", "soft_irq"),
}
"""The two usage types of the host, each with the fields of a report whose sum it is.

No type has the idle time, because AWS's Grafana page shows the sum of the types as the used time.
"""

_NO_LOCATION: Final = "None"
"""Value of `memory_location` for a core's memory, as in neuron-monitor-prometheus.py."""


@dataclass
class CollectedSeries:
    """The series of the last report that was added.

    Attributes:
        now_s: returns the time, seconds since 1970.
        has_pods: whether series of cores, devices and programs have labels of Kubernetes.
        instance: labels of the instance, which every series has.
        series: the series, whose own labels leave those of the instance out.
    """

    now_s: Callable[[], float] = time.time
    has_pods: bool = False
    instance: dict[str, str] = field(default_factory=dict[str, str])
    series: tuple[Series, ...] = ()
    _executions: Executions = field(default_factory=Executions)
    _start_s: float = 0.0
    _errors: dict[tuple[str, str], tuple[float, float]] = field(
        default_factory=dict[tuple[str, str], tuple[float, float]]
    )

    def add(self, report: Mapping[str, Any]) -> None:
        """Replace the series by those of a report.

        Raises:
            AttributeError, IndexError, KeyError, TypeError, ValueError: a part of the report is
                missing or of another kind; the series of the last report stay.
        """
        self._start_s = self._start_s or self.now_s()
        info = report["instance_info"]
        instance = {label: str(info.get(name, "")) for label, name in INSTANCE_LABELS.items()}
        pods = pod_labels(report) if self.has_pods else PodLabels()
        programs = report["neuron_runtime_data"]
        series_list = join_gauges(
            series for program in programs for series in _program_gauges(program, pods)
        )
        self._executions.add(programs, self.now_s(), pods)
        series_list += self._executions.series()
        series_list += self._system_series(report["system_data"], pods)
        series_list.append(Series(METRICS["instance"], {}, 1))
        hardware = report["neuron_hardware_info"]
        names = ("neuron_device_count", "neuroncore_per_device_count", "neuron_device_memory_size")
        labels = {name: str(hardware[name]) for name in names}
        series_list.append(Series(METRICS["neuron_hardware"], labels, 1))
        self.instance, self.series = instance, tuple(series_list)

    def _system_series(self, groups: Mapping[str, Any], pods: PodLabels) -> Iterator[Series]:
        usage = groups.get("vcpu_usage", {})
        if "average_usage" in usage:
            yield gauge("system_vcpu_count", {}, len(usage["usage_data"]))
            for kind, parts in _VCPU_PARTS.items():
                percent = min(sum(usage["average_usage"][part] for part in parts), 100)
                yield gauge("system_vcpu_usage_ratio", {"usage_type": kind}, percent / 100)
        memory = groups.get("memory_info", {})
        for name in ("memory_total", "memory_used", "swap_total", "swap_used"):
            if f"{name}_bytes" in memory:
                yield gauge(f"system_{name}_bytes", {}, memory[f"{name}_bytes"])
        for device in groups.get("neuron_hw_counters", {}).get("neuron_devices", ()):
            index = str(device["neuron_device_index"])
            for kind, count in device.items():
                if kind != "neuron_device_index":
                    labels = {
                        "event_type": kind,
                        "neuron_device_index": index,
                        **pods.of_device(index),
                    }
                    since_s = self._since_s((index, kind), count)
                    yield Series(METRICS["hardware_ecc_events"], labels, count, since_s)

    def _since_s(self, event: tuple[str, str], count: float) -> float:
        """Start of a count of memory errors: now if the count has fallen, as after a reset."""
        before, since_s = self._errors.get(event, (0.0, self._start_s))
        since_s = self.now_s() if count < before else since_s
        self._errors[event] = (count, since_s)
        return since_s


def _program_gauges(program: Mapping[str, Any], pods: PodLabels) -> Iterator[Series]:
    """The gauges of one program: utilisation, memory and vCPUs."""
    tag = {"runtime_tag": program["neuron_runtime_tag"], **pods.of_program(program)}
    groups = program["report"]
    cores = groups.get("neuroncore_counters", {}).get("neuroncores_in_use", {})
    for core, counters in cores.items():
        labels = {"neuroncore": core, **tag, **pods.of_core(core)}
        yield gauge(
            "neuroncore_utilization_ratio", labels, counters["neuroncore_utilization"] / 100
        )
    yield from _memory_gauges(groups.get("memory_used", {}), tag, pods)
    usage = groups.get("neuron_runtime_vcpu_usage", {}).get("vcpu_usage", {})
    for kind, percent in usage.items():
        labels = {"usage_type": kind, **tag}
        yield gauge("neuron_runtime_vcpu_usage_ratio", labels, percent / 100)


def _memory_gauges(
    group: Mapping[str, Any], tag: Mapping[str, str], pods: PodLabels
) -> Iterator[Series]:
    usage = group.get("neuron_runtime_used_bytes")
    if usage is None:
        return
    for location in ("host", "neuron_device"):
        labels = {"memory_location": location, **tag}
        yield gauge("neuron_runtime_memory_used_bytes", labels, usage[location])
    for core, parts in usage["usage_breakdown"]["neuroncore_memory_usage"].items():
        labels = {"neuroncore": core, "memory_location": _NO_LOCATION, **tag, **pods.of_core(core)}
        for kind, count in parts.items():
            yield gauge(f"neuroncore_memory_usage_{kind}", labels, count)
