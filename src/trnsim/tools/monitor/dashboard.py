"""A page of Grafana over the series of neuron-monitor, by instance and program.

An instance is a target of Prometheus's scrapes (its label `instance`), as emulated instances have
one number at EC2 between them; a program is its runtime tag.
"""

from __future__ import annotations

from typing import Final

from trnsim.grafana import Chart, LabelChoice, page

CHOICES: Final = (
    LabelChoice("instance", "Instance", "instance_info"),
    LabelChoice("runtime_tag", "Program", 'execution_status_total{instance=~"$instance"}'),
)
_HOST_SELECTOR: Final = 'instance=~"$instance"'
_PROGRAM_SELECTOR: Final = f'{_HOST_SELECTOR},runtime_tag=~"$runtime_tag"'
_RATE_WINDOW: Final = "[5m]"
"""Window of rates: five scrapes or more at the usual periods of 15 s to 1 min."""
_MEMORY_TITLES: Final = {
    "tensors": "tensors",
    "constants": "constants",
    "model_code": "model code",
    "model_shared_scratchpad": "scratchpad",
    "runtime_memory": "runtime",
}
"""Titles on the page by the end of a series' name, after ``neuroncore_memory_usage_``."""


def dashboard() -> str:
    """The page as JSON that Grafana imports."""
    rows = (
        ("NeuronCores", _cores()),
        ("Memory", _memory()),
        ("Executions", _executions()),
        ("Errors of the hardware", _hardware()),
        ("Host", _host()),
    )
    return page(
        "Neuron instances",
        "trnsim-neuron-monitor",
        rows,
        choices=CHOICES,
        refresh="10s",
        begins="now-1h",
    )


def _by(*labels: str) -> str:
    """The legend of a line by these labels."""
    return " ".join(f"{{{{{label}}}}}" for label in ("instance", *labels))


def _cores() -> list[Chart]:
    busy = f"neuroncore_utilization_ratio{{{_PROGRAM_SELECTOR}}}"
    return [
        Chart(
            "Utilisation of each core",
            {_by("neuroncore"): f"max by (instance, neuroncore) ({busy})"},
            "percentunit",
        ),
        Chart(
            "Mean utilisation of a program's cores",
            {_by("runtime_tag"): f"avg by (instance, runtime_tag) ({busy})"},
            "percentunit",
        ),
        Chart(
            "Cores in use",
            {_by("runtime_tag"): f"count by (instance, runtime_tag) ({busy})"},
            "short",
            is_stacked=True,
        ),
    ]


def _memory() -> list[Chart]:
    cores = f'{{__name__=~"neuroncore_memory_usage_.+",{_PROGRAM_SELECTOR}}}'
    return [
        Chart(
            "Memory of the devices by category",
            {
                f"{_by('runtime_tag')} {title}": "sum by (instance, runtime_tag) "
                f"(neuroncore_memory_usage_{name}{{{_PROGRAM_SELECTOR}}})"
                for name, title in _MEMORY_TITLES.items()
            },
            "bytes",
            is_stacked=True,
        ),
        Chart(
            "Memory of each core",
            {_by("neuroncore"): f"sum by (instance, neuroncore) ({cores})"},
            "bytes",
        ),
        Chart(
            "Memory of a program",
            {
                _by("runtime_tag", "memory_location"): (
                    "sum by (instance, runtime_tag, memory_location) "
                    f"(neuron_runtime_memory_used_bytes{{{_PROGRAM_SELECTOR}}})"
                )
            },
            "bytes",
        ),
    ]


def _executions() -> list[Chart]:
    return [
        Chart(
            "Executions a second",
            {
                _by("runtime_tag", "status_type"): (
                    "sum by (instance, runtime_tag, status_type) "
                    f"(rate(execution_status_total{{{_PROGRAM_SELECTOR}}}{_RATE_WINDOW}))"
                )
            },
            "short",
        ),
        Chart(
            "Errors a second",
            {
                _by("runtime_tag", "error_type"): (
                    "sum by (instance, runtime_tag, error_type) "
                    f"(rate(execution_errors_total{{{_PROGRAM_SELECTOR}}}{_RATE_WINDOW}))"
                )
            },
            "short",
        ),
        Chart(
            "Latency of an execution",
            {
                _by("runtime_tag", "percentile"): (
                    "max by (instance, runtime_tag, percentile) "
                    f"(execution_latency_seconds{{{_PROGRAM_SELECTOR}}})"
                )
            },
            "s",
        ),
    ]


def _hardware() -> list[Chart]:
    uncorrected = f'{_HOST_SELECTOR},event_type=~"(mem|sram)_ecc_uncorrected"'
    return [
        Chart(
            "ECC events by kind",
            {
                _by("event_type"): (
                    f"sum by (instance, event_type) (hardware_ecc_events_total{{{_HOST_SELECTOR}}})"
                )
            },
            "short",
        ),
        Chart(
            "Uncorrected ECC events by device",
            {
                _by("neuron_device_index"): (
                    "sum by (instance, neuron_device_index) "
                    f"(hardware_ecc_events_total{{{uncorrected}}})"
                )
            },
            "short",
        ),
    ]


def _host() -> list[Chart]:
    system = f"system_vcpu_usage_ratio{{{_HOST_SELECTOR}}}"
    return [
        Chart(
            "vCPUs of the host",
            {_by("usage_type"): f"max by (instance, usage_type) ({system})"},
            "percentunit",
            is_stacked=True,
        ),
        Chart(
            "vCPUs of a program",
            {
                _by("runtime_tag", "usage_type"): (
                    "sum by (instance, runtime_tag, usage_type) "
                    f"(neuron_runtime_vcpu_usage_ratio{{{_PROGRAM_SELECTOR}}})"
                )
            },
            "percentunit",
        ),
        Chart(
            "Memory of the host",
            {
                f"{_by()} {title}": f"max by (instance) (system_{name}_bytes{{{_HOST_SELECTOR}}})"
                for name, title in {
                    "memory_used": "used",
                    "memory_total": "total",
                    "swap_used": "swap used",
                }.items()
            },
            "bytes",
        ),
    ]
