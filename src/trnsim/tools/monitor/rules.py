"""Alerts of Prometheus for operators of instances, over the series of neuron-monitor.

The label `instance` of Prometheus's scrapes identifies an instance. Thresholds without a source
are choices, to be edited.
"""

from __future__ import annotations

from typing import Final

from trnsim.alert_rules import Alert, rule_file

IDLE_UTILISATION: Final = 0.05
"""Utilisation of its busiest core below which a program counts as idle; a choice."""
MAX_FAILED_SHARE: Final = 0.01
"""Share of executions that may fail; a choice."""
CORRECTED_ERRORS_PER_HOUR: Final = 100
"""Corrected memory errors of a device in an hour from which an alert is raised; a choice."""

_HOST_LABELS: Final = ("instance",)
_DEVICE_LABELS: Final = ("instance", "neuron_device_index")
_PROGRAM_LABELS: Final = ("instance", "runtime_tag")


def rules() -> str:
    """A rule file of Prometheus."""
    return rule_file([("neuron", alerts())])


def alerts() -> tuple[Alert, ...]:
    """All alerts."""
    return (*_memory_errors(), *_programs(), *_exporters())


def _by(labels: tuple[str, ...], inner: str, operation: str = "sum") -> str:
    return f"{operation} by ({', '.join(labels)}) ({inner})"


def _ecc(kind: str, window: str) -> str:
    events = f'hardware_ecc_events_total{{event_type=~"(mem|sram)_ecc_{kind}"}}'
    return _by(_DEVICE_LABELS, f"increase({events}[{window}])")


def _memory_errors() -> tuple[Alert, ...]:
    return (
        Alert(
            "NeuronUncorrectedEcc",
            f"{_ecc('uncorrected', '10m')} > 0",
            for_minutes=0,
            severity="page",
            summary="a Neuron device lost data in its memory in the last 10 minutes",
            action=(
                "drain the instance, replace it, and restart programs from their last checkpoint"
            ),
            by=_DEVICE_LABELS,
        ),
        Alert(
            "NeuronCorrectedEcc",
            f"{_ecc('corrected', '1h')} > {CORRECTED_ERRORS_PER_HOUR}",
            for_minutes=0,
            severity="ticket",
            summary=(
                f"a Neuron device corrected more than {CORRECTED_ERRORS_PER_HOUR} memory errors in "
                "an hour"
            ),
            action="plan to replace the instance",
            by=_DEVICE_LABELS,
        ),
    )


def _programs() -> tuple[Alert, ...]:
    executions = "rate(execution_status_total{}[15m])"
    failures = _by(_PROGRAM_LABELS, executions.replace("{}", '{status_type!="completed"}'))
    total = _by(_PROGRAM_LABELS, executions.replace("{}", ""))
    hardware = 'increase(execution_errors_total{error_type="hardware"}[10m])'
    peak = "max_over_time(neuroncore_utilization_ratio[15m])"
    return (
        Alert(
            "NeuronExecutionsFail",
            f"{failures} / {total} > {MAX_FAILED_SHARE:g}",
            for_minutes=5,
            severity="page",
            summary=f"more than {MAX_FAILED_SHARE:.0%} of a program's executions fail",
            action="read the program's log; execution_errors_total has the kinds of its errors",
            by=_PROGRAM_LABELS,
        ),
        Alert(
            "NeuronHardwareError",
            f"{_by(_PROGRAM_LABELS, hardware)} > 0",
            for_minutes=0,
            severity="page",
            summary=(
                "executions of a program ended with an error of the hardware in the last 10 minutes"
            ),
            action="look for NEURON_HW_ERR in the driver's log, and drain the instance",
            by=_PROGRAM_LABELS,
        ),
        Alert(
            "NeuronCoresIdle",
            f"{_by(_PROGRAM_LABELS, peak, 'max')} < {IDLE_UTILISATION:g}",
            for_minutes=15,
            severity="ticket",
            summary=(
                f"a program holds cores, and the busiest is used less than {IDLE_UTILISATION:.0%}"
            ),
            action="end the program, or find out what it waits for",
            by=_PROGRAM_LABELS,
        ),
    )


def _exporters() -> tuple[Alert, ...]:
    absence = f"{_by(_HOST_LABELS, 'max_over_time(instance_info[6h])', 'max')} unless "
    return (
        Alert(
            "NeuronExporterGone",
            absence + _by(_HOST_LABELS, "instance_info", "max"),
            for_minutes=5,
            severity="page",
            summary="an instance that was scraped in the last 6 hours is scraped no more",
            action=(
                "look at neuron-monitor-prometheus on the instance; where it was ended on purpose, "
                "silence this for 6 hours"
            ),
            by=_HOST_LABELS,
        ),
        Alert(
            "NeuronExporterStale",
            # Used memory changes from one report to the next by itself, if only by a page.
            f"{_by(_HOST_LABELS, 'changes(system_memory_used_bytes[10m])', 'max')} == 0",
            for_minutes=5,
            severity="ticket",
            summary="an instance is scraped, but its figures do not change",
            action="look at neuron-monitor, whose reports the exporter repeats",
            by=_HOST_LABELS,
        ),
        Alert(
            "NeuronNothingScraped",
            "absent(instance_info)",
            for_minutes=10,
            severity="page",
            summary="no instance is scraped",
            action="look at the targets of Prometheus",
        ),
    )
