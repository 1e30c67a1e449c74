"""The host's processors and memory, and a process's share, through psutil (extra `platform`)."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

MISSING: Final = "psutil is not installed: pip install 'trnsim[platform]'"
_PSUTIL_FIELDS: Final = {
    "user": "user",
    "nice": "nice",
    "system": "system",
    "idle": "idle",
    "io_wait": "iowait",
    "irq": "irq",
    "soft_irq": "softirq",
}
"""Fields of neuron-monitor with those of psutil; no system has all of them."""


class UnknownValue(Exception):
    """A value that the host does not give; the text is for the field `error` of a group."""


def counters() -> Any:
    """Seconds of each processor by use, and its context switches, since the host started.

    Raises:
        Unknown: psutil is not installed.
    """
    psutil = _psutil()
    return {
        "processors": [_seconds(times) for times in psutil.cpu_times(percpu=True)],
        "switches": psutil.cpu_stats().ctx_switches,
    }


def vcpu_usage(now: Any, before: Any | None) -> Any:
    """Per cent of each processor's time by use, since `before`, else since the host started."""
    previous = before["processors"] if before else []
    cpus = [
        _percent(cpu, previous[index] if index < len(previous) else {})
        for index, cpu in enumerate(now["processors"])
    ]
    average = {
        name: round(sum(cpu[name] for cpu in cpus) / len(cpus), 2) if cpus else 0.0
        for name in _PSUTIL_FIELDS
    }
    return {
        "average_usage": average,
        "usage_data": {str(index): cpu for index, cpu in enumerate(cpus)},
        "context_switch_count": now["switches"] - (before["switches"] if before else 0),
    }


def memory_info() -> Any:
    """Bytes of memory and swap.

    Raises:
        Unknown: psutil is not installed, or the host does not say.
    """
    psutil = _psutil()
    try:
        memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    except (OSError, RuntimeError) as error:
        raise UnknownValue(str(error)) from error
    return {
        "memory_total_bytes": memory.total,
        "memory_used_bytes": memory.total - memory.available,
        "swap_total_bytes": swap.total,
        "swap_used_bytes": swap.used,
    }


def process_seconds(pid: int) -> dict[str, float]:
    """CPU seconds of a process, as "user" and "system".

    Raises:
        Unknown: psutil is not installed, or the process has ended.
    """
    psutil = _psutil()
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error as error:
        raise UnknownValue(str(error)) from error
    return {"user": times.user, "system": times.system}


def process_percent(now: dict[str, float], before: dict[str, float], period_s: float) -> Any:
    """Per cent of all processors' time that a process used in a period."""
    shared_s = period_s * (_psutil().cpu_count() or 1)
    seconds = {name: max(now[name] - before.get(name, now[name]), 0.0) for name in now}
    return {
        "vcpu_usage": {
            name: round(100 * part / shared_s, 2) if shared_s > 0 else 0.0
            for name, part in seconds.items()
        }
    }


def _seconds(times: Any) -> dict[str, float]:
    return {name: getattr(times, field, 0.0) for name, field in _PSUTIL_FIELDS.items()}


def _percent(now: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    seconds = {name: max(now[name] - before.get(name, 0.0), 0.0) for name in now}
    total = sum(seconds.values())
    return {name: round(100 * part / total, 2) if total else 0.0 for name, part in seconds.items()}


def _psutil() -> Any:
    try:
        return import_module("psutil")
    except ImportError:
        raise UnknownValue(MISSING) from None
