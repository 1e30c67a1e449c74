"""A page of Grafana over the series of neuron-monitor, by instance and program.

An instance is a target of Prometheus's scrapes (the label `instance`), as all emulated instances
have the same EC2 instance id; a program is its runtime tag.
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
_HOST_MEMORY_TITLES: Final = {
    "memory_used": "used",
    "memory_total": "total",
    "swap_used": "swap used",
}
"""Titles on the page by the middle of a series' name, ``system_NAME_bytes``."""


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
        start="now-1h",
    )


def _lines(operation: str, series: str, *labels: str) -> dict[str, str]:
    """A line for each instance and value of the labels: its legend, and its query."""
    names = ("instance", *labels)
    legend = " ".join(f"{{{{{name}}}}}" for name in names)
    return {legend: f"{operation} by ({', '.join(names)}) ({series})"}


def _cores() -> list[Chart]:
    utilisation = f"neuroncore_utilization_ratio{{{_PROGRAM_SELECTOR}}}"
    return [
        Chart("Utilisation of each core", _lines("max", utilisation, "neuroncore"), "percentunit"),
        Chart(
            "Mean utilisation of a program's cores",
            _lines("avg", utilisation, "runtime_tag"),
            "percentunit",
        ),
        Chart(
            "Cores in use", _lines("count", utilisation, "runtime_tag"), "short", is_stacked=True
        ),
    ]


def _memory() -> list[Chart]:
    cores = f'{{__name__=~"neuroncore_memory_usage_.+",{_PROGRAM_SELECTOR}}}'
    memory_metric = f"neuron_runtime_memory_used_bytes{{{_PROGRAM_SELECTOR}}}"
    by_category: dict[str, str] = {}
    for name, title in _MEMORY_TITLES.items():
        series = f"neuroncore_memory_usage_{name}{{{_PROGRAM_SELECTOR}}}"
        for legend, query in _lines("sum", series, "runtime_tag").items():
            by_category[f"{legend} {title}"] = query
    return [
        Chart("Memory of the devices by category", by_category, "bytes", is_stacked=True),
        Chart("Memory of each core", _lines("sum", cores, "neuroncore"), "bytes"),
        Chart(
            "Memory of a program",
            _lines("sum", memory_metric, "runtime_tag", "memory_location"),
            "bytes",
        ),
    ]


def _executions() -> list[Chart]:
    executions = f"rate(execution_status_total{{{_PROGRAM_SELECTOR}}}{_RATE_WINDOW})"
    errors = f"rate(execution_errors_total{{{_PROGRAM_SELECTOR}}}{_RATE_WINDOW})"
    latency = f"execution_latency_seconds{{{_PROGRAM_SELECTOR}}}"
    return [
        Chart(
            "Executions a second",
            _lines("sum", executions, "runtime_tag", "status_type"),
            "short",
        ),
        Chart("Errors a second", _lines("sum", errors, "runtime_tag", "error_type"), "short"),
        Chart("Latency of an execution", _lines("max", latency, "runtime_tag", "percentile"), "s"),
    ]


def _hardware() -> list[Chart]:
    events = f"hardware_ecc_events_total{{{_HOST_SELECTOR}}}"
    kinds = 'event_type=~"(mem|sram)_ecc_uncorrected"'
    uncorrected = f"hardware_ecc_events_total{{{_HOST_SELECTOR},{kinds}}}"
    return [
        Chart("ECC events by kind", _lines("sum", events, "event_type"), "short"),
        Chart(
            "Uncorrected ECC events by device",
            _lines("sum", uncorrected, "neuron_device_index"),
            "short",
        ),
    ]


def _host() -> list[Chart]:
    system = f"system_vcpu_usage_ratio{{{_HOST_SELECTOR}}}"
    program = f"neuron_runtime_vcpu_usage_ratio{{{_PROGRAM_SELECTOR}}}"
    memory: dict[str, str] = {}
    for name, title in _HOST_MEMORY_TITLES.items():
        for legend, query in _lines("max", f"system_{name}_bytes{{{_HOST_SELECTOR}}}").items():
            memory[f"{legend} {title}"] = query
    return [
        Chart(
            "vCPUs of the host",
            _lines("max", system, "usage_type"),
            "percentunit",
            is_stacked=True,
        ),
        Chart(
            "vCPUs of a program",
            _lines("sum", program, "runtime_tag", "usage_type"),
            "percentunit",
        ),
        Chart("Memory of the host", memory, "bytes"),
    ]
