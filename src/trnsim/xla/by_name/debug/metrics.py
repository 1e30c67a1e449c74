"""`torch_xla.debug.metrics`, which programs call `met`: counters and metrics of the cuts.

Times are in nanoseconds. CompileTime is the time of trnsim's compiler on this computer, and
ExecuteTime the time of the program on the chip; a transfer's time is not measured and counts as 0.

Source: torch_xla 2.9.0, debug/metrics.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trnsim.device.device_core import target
from trnsim.device.program_line import program_line
from trnsim.errors import BadInput
from trnsim.xla.absent_names import absence_getter
from trnsim.xla.cuts import metric_text
from trnsim.xla.cuts.cutting import cuts
from trnsim.xla.cuts.ledger import (
    CACHED,
    COMPILE_TIME,
    EXECUTE_TIME,
    FROM_DEVICE,
    MARK_STEP,
    TO_DEVICE,
    UNCACHED,
)

__path__: Final[list[str]] = []  # for a plain module Python asks no finder for absent names

_FALLBACK: Final = "aten::"
_SHORT_COUNTERS: Final = (CACHED, MARK_STEP, UNCACHED)
_SHORT_METRICS: Final = (COMPILE_TIME, EXECUTE_TIME, TO_DEVICE, FROM_DEVICE)


class MetricsMisused(BadInput, TypeError):
    """Error of a report of names that are no list."""


def counter_names() -> list[str]:
    """The names of the counters that have counted."""
    return list(cuts.ledger.counters)


def counter_value(name: str) -> int | None:
    """The value of a counter that has counted; None for any other, as in torch_xla."""
    return cuts.ledger.counters.get(name)


def metric_names() -> list[str]:
    """The names of the metrics that have samples."""
    return cuts.ledger.metric_names()


def metric_data(name: str) -> tuple[int, float, tuple[tuple[float, float], ...]] | None:
    """The number of samples of a metric, their sum, and the latest, each with its time."""
    samples = cuts.ledger.metric(name, target().name)
    return (
        None if samples is None else (samples.count, samples.total, tuple(samples.latest_samples))
    )


def metrics_report() -> str:
    """All metrics and counters."""
    return metric_text.report(cuts.ledger, target().name)


def short_metrics_report(
    counter_names: Sequence[str] | None = None, metric_names: Sequence[str] | None = None
) -> str:
    """The metrics and counters of these names; without names, of compilations and steps.

    Raises:
        MetricsMisused: for names that are not a list of text.
    """
    options: dict[str, object] = {"counter_names": counter_names, "metric_names": metric_names}
    for option, names in options.items():
        if names is not None and (isinstance(names, str) or not isinstance(names, Sequence)):
            raise MetricsMisused(
                f"short_metrics_report({option}={names!r}); legal: a list of names",
                fix=f"met.short_metrics_report({option}=[...])",
                line=program_line(),
            )
    fallbacks = executed_fallback_ops()
    counters = (*_SHORT_COUNTERS, *fallbacks) if counter_names is None else counter_names
    metrics = _SHORT_METRICS if metric_names is None else metric_names
    return metric_text.report(cuts.ledger, target().name, counters, metrics)


def executed_fallback_ops() -> list[str]:
    """The counters of operators that the host computed."""
    return [name for name in cuts.ledger.counters if name.startswith(_FALLBACK)]


def clear_counters() -> None:
    """Set the counters to zero."""
    cuts.ledger.counters.clear()


def clear_metrics() -> None:
    """Forget the samples of the metrics."""
    cuts.ledger.clear_metrics()


def clear_all() -> None:
    """Set the counters to zero, and forget the samples of the metrics."""
    clear_counters()
    clear_metrics()


__getattr__ = absence_getter("torch_xla.debug.metrics", __name__)
