"""Labels of Kubernetes for the series of neuron-monitor: the pod of a core, a device, a program.

Every series of a core, a device or a program has the three labels, empty where no pod holds it, as
all series of a metric have the same labels. AWS documents the fields of the report and no labels;
these are the names that exporters of Kubernetes usually have.

Source: aws-neuron-sdk tools/neuron-sys-tools/neuron-monitor-user-guide.rst, neuron_k8s_info.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_NONE: Final = {"pod": "", "namespace": "", "container": ""}

Labels = Mapping[str, str]


@dataclass(frozen=True)
class PodLabels:
    """The labels of Kubernetes for the series of a report.

    Attributes:
        is_shown: False if series get no labels of Kubernetes.
        cores: labels by the number of a core.
        devices: labels by the number of a device.
    """

    is_shown: bool = False
    cores: Mapping[str, Labels] = field(default_factory=dict[str, Labels])
    devices: Mapping[str, Labels] = field(default_factory=dict[str, Labels])

    def of_core(self, core: str) -> Labels:
        """The labels of a core."""
        return self.cores.get(core, _NONE) if self.is_shown else {}

    def of_device(self, device: str) -> Labels:
        """The labels of a device."""
        return self.devices.get(device, _NONE) if self.is_shown else {}

    def of_program(self, program: Mapping[str, Any]) -> Labels:
        """The labels of a program: those of its first core, since no two pods share a core."""
        groups = program["report"]
        cores = groups.get("neuroncore_counters", {}).get("neuroncores_in_use") or groups.get(
            "memory_used", {}
        ).get("neuron_runtime_used_bytes", {}).get("usage_breakdown", {}).get(
            "neuroncore_memory_usage", {}
        )
        return self.of_core(min(cores, key=int, default=""))


def pod_labels(report: Mapping[str, Any]) -> PodLabels:
    """The labels in a report's `neuron_k8s_info`; empty labels if the report has none.

    Raises:
        AttributeError, KeyError, TypeError: `neuron_k8s_info` is of another form.
    """
    info = report.get("neuron_k8s_info") or {}
    return PodLabels(
        True,
        _by_number(info.get("neuroncores_k8s_info") or {}),
        _by_number(info.get("neurondevices_k8s_info") or {}),
    )


def _by_number(uses: Mapping[str, Any]) -> dict[str, Labels]:
    return {
        number: {
            "pod": str(use["pod_name"]),
            "namespace": str(use["namespace"]),
            "container": ",".join(map(str, use["container_name"])),
        }
        for number, use in uses.items()
    }
