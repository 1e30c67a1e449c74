"""The figures that neuron-top shows, of one program or of all, from a report of neuron-monitor."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trnsim.foreign_text import terminal_text


@dataclass(frozen=True)
class Tab:
    """A program, or all of them.

    Attributes:
        name: the tag of the program, or "all".
        pid: None for all programs.
    """

    name: str
    pid: int | None


ALL: Final = Tab("all", None)


@dataclass(frozen=True)
class ReportInstance:
    """The instance of a report.

    Attributes:
        number: its instance id at EC2.
        core_version: "v3d".
        cores_per_device: logical cores of a device.
    """

    name: str
    number: str
    core_version: str
    devices: int
    cores_per_device: int


@dataclass(frozen=True)
class Vcpus:
    """Use of the host's vCPUs in per cent; `error` is the reason if it is unknown."""

    user: float = 0.0
    system: float = 0.0
    error: str = ""


@dataclass(frozen=True)
class TabFigures:
    """The figures of a tab.

    Attributes:
        percent: utilisation of each core in use, the highest of all programs on it.
        flop_per_s: operations per second of each core in use, the highest of all programs on it.
        system: vCPUs that the whole host uses.
        runtime: vCPUs that the programs use.
        host_total_bytes: host memory of the programs.
        host_bytes: that memory by category.
        device_total_bytes: device memory of the programs.
        core_bytes: that memory by core and category.
    """

    percent: Mapping[int, float]
    flop_per_s: Mapping[int, float]
    system: Vcpus
    runtime: Vcpus
    host_total_bytes: int
    host_bytes: Mapping[str, int]
    device_total_bytes: int
    core_bytes: Mapping[int, Mapping[str, int]]

    def device_bytes(self, category: str) -> int:
        """Bytes of one category on all cores."""
        return sum(categories.get(category, 0) for categories in self.core_bytes.values())


def tabs(report: Mapping[str, Any]) -> list[Tab]:
    """The tab of all programs, then a tab for each; tags, which containers choose, as safe text."""
    return [
        ALL,
        *(
            Tab(" ".join(terminal_text(run["neuron_runtime_tag"]).split()), run["pid"])
            for run in report["neuron_runtime_data"]
        ),
    ]


def instance(report: Mapping[str, Any]) -> ReportInstance:
    """The instance of a report."""
    info, hardware = report["instance_info"], report["neuron_hardware_info"]
    return ReportInstance(
        info["instance_type"],
        info["instance_id"],
        hardware["neuroncore_version"],
        hardware["neuron_device_count"],
        hardware["neuroncore_per_device_count"],
    )


def figures(report: Mapping[str, Any], tab: Tab) -> TabFigures:
    """The figures of `tab`; empty if the report lacks its program."""
    programs = [
        run["report"] for run in report["neuron_runtime_data"] if tab.pid in (None, run["pid"])
    ]
    percent: dict[int, float] = {}
    flop_per_s: dict[int, float] = {}
    for program in programs:
        for name, counters in program["neuroncore_counters"]["neuroncores_in_use"].items():
            core = int(name)
            percent[core] = max(percent.get(core, 0.0), counters["neuroncore_utilization"])
            flop_per_s[core] = max(flop_per_s.get(core, 0.0), counters["flops"])
    memory = [program["memory_used"]["neuron_runtime_used_bytes"] for program in programs]
    core_bytes: dict[int, dict[str, int]] = defaultdict(dict)
    for usage in memory:
        for name, parts in usage["usage_breakdown"]["neuroncore_memory_usage"].items():
            _add(core_bytes[int(name)], parts)
    host_bytes: dict[str, int] = {}
    for usage in memory:
        _add(host_bytes, usage["usage_breakdown"]["host"])
    return TabFigures(
        percent,
        flop_per_s,
        _system(report["system_data"]["vcpu_usage"]),
        _runtime([program["neuron_runtime_vcpu_usage"] for program in programs]),
        sum(usage["host"] for usage in memory),
        host_bytes,
        sum(usage["neuron_device"] for usage in memory),
        dict(sorted(core_bytes.items())),
    )


def _add(counts: dict[str, int], added: Mapping[str, int]) -> None:
    for name, count in added.items():
        counts[name] = counts.get(name, 0) + count


def _system(group: Mapping[str, Any]) -> Vcpus:
    if group["error"]:
        return Vcpus(error=group["error"])
    return Vcpus(group["average_usage"]["user"], group["average_usage"]["system"])


def _runtime(groups: Sequence[Mapping[str, Any]]) -> Vcpus:
    """The sum over programs with a known use; a program that has just ended has none."""
    usages = [group["vcpu_usage"] for group in groups if not group["error"]]
    if groups and not usages:
        return Vcpus(error=groups[0]["error"])
    return Vcpus(sum(usage["user"] for usage in usages), sum(usage["system"] for usage in usages))
