"""The report of counters and metrics, in torch_xla's form.

Times are in nanoseconds, as its `metric_data` has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trnsim.xla.cuts.ledger import Ledger, Samples

_PERCENTILES: Final = (1, 5, 10, 20, 50, 80, 90, 95, 99)
_TIMES: Final = ("Time",)
_NS_PER_US: Final = 1e3


def report(
    ledger: Ledger,
    target: str,
    counters: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
) -> str:
    """The metrics and counters of these names as text; None stands for all names.

    Times of executions are times on the chip `target`.
    """
    lines: list[str] = []
    for name in ledger.metric_names() if metrics is None else metrics:
        samples = ledger.metric(name, target)
        if samples is not None:
            lines += _metric_lines(name, samples)
    for name in ledger.counters if counters is None else counters:
        if name in ledger.counters:
            lines += [f"Counter: {name}", f"  Value: {ledger.counters[name]}"]
    return "".join(f"{line}\n" for line in lines)


def _metric_lines(name: str, samples: Samples) -> list[str]:
    is_time = name.endswith(_TIMES)
    text_of = time_text if is_time else _number_text
    lines = [
        f"Metric: {name}",
        f"  TotalSamples: {samples.count}",
        f"  Accumulator: {text_of(samples.total)}",
    ]
    latest_samples = samples.latest_samples
    span_s = latest_samples[-1][0] - latest_samples[0][0] if latest_samples else 0.0
    if span_s > 0:
        sample_sum = sum(value for _, value in latest_samples)
        lines.append(f"  ValueRate: {text_of(sample_sum / span_s)} / second")
        lines.append(f"  Rate: {len(latest_samples) / span_s:.6g} / second")
    values = sorted(value for _, value in latest_samples)
    if values:
        shares = [
            f"{share}%={text_of(values[min(share * len(values) // 100, len(values) - 1)])}"
            for share in _PERCENTILES
        ]
        lines.append(f"  Percentiles: {'; '.join(shares)}")
    return lines


def time_text(time_ns: float) -> str:
    """Nanoseconds as torch_xla writes them: "122ms634.339us", "01d02h03m04s005ms006.000us".

    Source: torch_xla 2.9.0, `MetricFnTime`.
    """
    ms, us = divmod(time_ns / _NS_PER_US, 1e3)
    seconds, ms = divmod(ms, 1e3)
    minutes, seconds = divmod(seconds, 60.0)
    hours, minutes = divmod(minutes, 60.0)
    days, hours = divmod(hours, 24.0)
    parts = [(days, "d", 2), (hours, "h", 2), (minutes, "m", 2), (seconds, "s", 2), (ms, "ms", 3)]
    start = next((index for index, (value, _, _) in enumerate(parts) if value), len(parts))
    text = "".join(f"{int(value):0{width}d}{unit}" for value, unit, width in parts[start:])
    return f"{text}{us:07.3f}us"


def _number_text(value: float) -> str:
    return f"{value:.2f}"
