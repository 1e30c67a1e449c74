"""Times in outputs of tools: profiles, neuron-monitor, nccom-test, and lines of a bill.

| log | what it gives |
|---|---|
| neuron-profile, Neuron Explorer | the total time in a summary, JSON or Summary.parquet |
| neuron-monitor | the median latency of executions on the device, in lines of JSON |
| nccom-test | a time for each size, in its table or its JSON |
| bill | lines of a Cost and Usage Report with a rate of one instance |

Of each log only these fields are read: environments and arguments of programs, which may hold
secrets, are neither kept nor shown.

Sources: aws-neuron-sdk, tools/neuron-explorer/profile-schema-reference.rst (Summary, total_time in
seconds), tools/neuron-sys-tools/neuron-monitor-user-guide.rst (latency_stats, in seconds),
tools/neuron-sys-tools/nccom-test.rst (size(B), time(us)); docs.aws.amazon.com, cur, data
dictionary (line_item_usage_amount, product_instance_type).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, Final

from trnsim.errors import SourceLine
from trnsim.files import check_readable
from trnsim.reader import ForeignRecord, SourcePlace, declared, fault, record

_US: Final = 1e-6
_TOTAL: Final = "total_time"
_SUMMARY: Final = "summary"
_RUNTIMES: Final = "neuron_runtime_data"
_LATENCY: Final = ("report", "execution_stats", "latency_stats", "device_latency")
_TIMESTAMP: Final = "timestamp"
_USAGE: Final = ("line_item_usage_amount", "lineItem/UsageAmount")
BILL_NUMBERS: Final = (*_USAGE, "rate")
"""Fields of a bill that are numbers."""
_SIZE_KEY, _TIME_KEYS = "size(B)", ("time:avg(us)", "time(us)")
_HEADER: Final = re.compile(r"\s*size\(B\)\s.*time")
_MOST_EXECUTIONS: Final = 1e9
_MOST_SHOWN: Final = 3
_EXTRA: Final = "pip install 'trnsim[parquet]'"


@dataclass(frozen=True)
class TimedValue:
    """A time or a rate in a log.

    Attributes:
        value: seconds, or units a second.
        line: where it stands.
        options: options of the value alone, which the command for the log lacks.
        is_rate: whether it is a rate of one instance.
        instance: the instance type that the log names; "" for none.
    """

    value: float
    line: SourceLine
    options: str = ""
    is_rate: bool = False
    instance: str = ""


@dataclass(frozen=True)
class TimedLog:
    """The rows of a tool's log that state a time."""

    path: str
    format: str
    values: tuple[TimedValue, ...]


@dataclass(frozen=True, kw_only=True)
class SummaryFields(ForeignRecord):
    """A summary of a profile."""

    total_time: float = declared(help="time of the program", unit="s", exclusive_minimum=0)


@dataclass(frozen=True, kw_only=True)
class LatencyFields(ForeignRecord):
    """Latencies of executions on a device, as neuron-monitor prints them."""

    p50: float = declared(help="median latency", unit="s", minimum=0)


@dataclass(frozen=True, kw_only=True)
class CollectiveFields(ForeignRecord):
    """A line of nccom-test's JSON."""

    size_bytes: int = declared(help="bytes of the message", exclusive_minimum=0, alias=(_SIZE_KEY,))
    time_us: float = declared(
        help="mean time", unit="us", exclusive_minimum=0, alias=_TIME_KEYS, maximum=_MOST_EXECUTIONS
    )


@dataclass(frozen=True, kw_only=True)
class BilledRate(ForeignRecord):
    """A line of a bill with the rate of the work that its usage did."""

    usage: float = declared(help="usage", unit="hours", exclusive_minimum=0, alias=_USAGE)
    rate: float = declared(help="tokens or items a second of one instance", exclusive_minimum=0)
    instance: str = declared(
        "",
        help="the instance type",
        alias=("product_instance_type", "product/instanceType"),
    )


def of_json(place: SourcePlace) -> TimedLog | None:
    """The times in the JSON of a tool; None for any other value.

    Raises:
        BadInput: a time is missing or not legal.
    """
    path, value = place.document.file, place.value
    summaries = list(_summaries(place))
    if summaries:
        # The program ends with its slowest core.
        times = [(record(SummaryFields, summary).total_time, summary.line) for summary in summaries]
        total_s, line = max(times, key=lambda timed_line: timed_line[0])
        return TimedLog(path, "neuron-profile", (TimedValue(total_s, line),))
    if isinstance(value, list) and value and all(map(_is_report, value)):
        return TimedLog(path, "neuron-monitor", _latencies(place))
    if _is_report(value):
        single_report = SourcePlace(place.document, place.keys, [value])
        return TimedLog(path, "neuron-monitor", _latencies(single_report))
    for inner in (place, *([place.inner("results")] if _has_key(value, "results") else [])):
        if isinstance(inner.value, list) and inner.value and _has_key(inner.value[0], _SIZE_KEY):
            places = [inner.inner(at) for at in range(len(inner.value))]
            rows = [record(CollectiveFields, row) for row in places]
            return TimedLog(
                path,
                "nccom-test",
                tuple(
                    TimedValue(row.time_us * _US, row.line, f"--bytes {row.size_bytes}")
                    for row in rows
                ),
            )
    return None


def of_rows(place: SourcePlace) -> TimedLog | None:
    """The rates in lines of a bill; None for rows of anything else.

    Raises:
        BadInput: a line has no rate, or a field is not legal.
    """
    content = place.value
    if not (
        isinstance(content, list) and content and any(_has_key(content[0], key) for key in _USAGE)
    ):
        return None
    lines = [record(BilledRate, place.inner(at)) for at in range(len(content))]
    values = tuple(
        TimedValue(line.rate, line.line, is_rate=True, instance=line.instance) for line in lines
    )
    return TimedLog(place.document.file, "bill", values)


def is_nccom(text: str) -> bool:
    """True if a line of `text` is the head of nccom-test's table."""
    return any(_HEADER.match(line) for line in text.splitlines())


def nccom(path: str, text: str) -> TimedLog:
    """The times in the table that nccom-test prints.

    Raises:
        BadInput: a line is cut short, or a figure is no positive number.
    """
    lines = text.splitlines()
    start = next(at for at, line in enumerate(lines) if _HEADER.match(line))
    names = lines[start].split()
    size = names.index(_SIZE_KEY)
    time = next((names.index(key) for key in _TIME_KEYS if key in names), None)
    if time is None:
        why = f"the table has no mean time; legal: a column {' or '.join(_TIME_KEYS)}"
        raise fault(path, why, "run nccom-test with --stats avg", start + 1)
    values: list[TimedValue] = []
    for number, line in enumerate(lines[start + 1 :], start + 2):
        cells = line.split()
        if not cells or not cells[0].isdecimal():
            continue
        if len(cells) != len(names):
            why = f"{len(cells)} cells, and the head of the table has {len(names)}"
            raise fault(path, f"{why}: the line is cut short", "run nccom-test again", number)
        values.append(
            TimedValue(
                _positive(path, number, cells[time]) * _US,
                SourceLine(path, number),
                f"--bytes {int(_positive(path, number, cells[size]))}",
            )
        )
    if not values:
        raise fault(path, "a table of nccom-test without a line", "run it again", start + 1)
    return TimedLog(path, "nccom-test", tuple(values))


def parquet(path: Path) -> TimedLog:
    """The total time in the Summary.parquet of a profile.

    Raises:
        BadInput: pyarrow is missing, or it is no such table.
    """
    check_readable(path)
    if find_spec("pyarrow") is None:
        raise fault(path, "Parquet needs pyarrow, which is not installed", fix=_EXTRA)
    arrow: Any = import_module("pyarrow")
    reader: Any = import_module("pyarrow.parquet")
    try:
        table = reader.read_table(path, columns=[_TOTAL])
    except (arrow.ArrowException, OSError, KeyError) as error:
        raise fault(path, "no Parquet table with total_time", "give Summary.parquet") from error
    times = [value for value in table.column(_TOTAL).to_pylist() if value is not None]
    if not times or not all(map(_is_time, times)):
        shown = ", ".join(map(repr, times[:_MOST_SHOWN])) or "empty"
        raise fault(path, f"{_TOTAL} is {shown}; legal: numbers above 0 [s]")
    return TimedLog(
        str(path), "neuron-profile", (TimedValue(float(max(times)), SourceLine(str(path), 1)),)
    )


def _is_time(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 < value < math.inf


def _summaries(place: SourcePlace) -> Iterator[SourcePlace]:
    """The summaries in a value: itself, below "summary", or one for each core."""
    value = place.value
    if not isinstance(value, dict):
        return
    if _TOTAL in value:
        yield place
        return
    for name, inner in value.items():
        if name == _SUMMARY and isinstance(inner, list):
            several = place.inner(name)
            yield from (
                several.inner(at) for at, each in enumerate(inner) if _has_key(each, _TOTAL)
            )
        elif _has_key(inner, _TOTAL) or (isinstance(inner, dict) and _has_key(inner, _SUMMARY)):
            yield from _summaries(place.inner(name))


def _is_report(value: Any) -> bool:
    return _has_key(value, _RUNTIMES)


def _has_key(value: Any, key: str) -> bool:
    return isinstance(value, dict) and key in value


def _latencies(place: SourcePlace) -> tuple[TimedValue, ...]:
    """The median over all reports of the median latency.

    Raises:
        BadInput: the reports run backwards, or none has a latency.
    """
    _check_clock(place)
    latencies_s: list[float] = []
    for at, report in enumerate(place.value):
        runtimes = place.inner(at).inner(_RUNTIMES)
        if not isinstance(runtimes.value, list | None):
            raise runtimes.refused("legal: a list of programs")
        for index in range(len(report[_RUNTIMES] or ())):
            inner: SourcePlace | None = runtimes.inner(index)
            for name in _LATENCY:
                inner = inner.inner(name) if inner and _has_key(inner.value, name) else None
            if inner is not None and inner.value:
                latencies_s.append(record(LatencyFields, inner).p50)
    latencies_s = [latency_s for latency_s in latencies_s if latency_s > 0]
    if not latencies_s:
        raise fault(
            place.document.file,
            "no report has a latency of an execution on the device",
            "let neuron-monitor run while the program does, with execution_stats",
        )
    return (TimedValue(median(latencies_s), SourceLine(place.document.file, 1)),)


def _check_clock(place: SourcePlace) -> None:
    """Refuse reports that are not in the order of time.

    Raises:
        BadInput: with its line.
    """
    times: Sequence[Any] = [report.get(_TIMESTAMP) for report in place.value]
    for at in range(1, len(times)):
        last_time, time = times[at - 1], times[at]
        if (
            type(last_time) is type(time)
            and isinstance(time, int | float | str)
            and time < last_time
        ):
            raise (
                place.inner(at)
                .inner(_TIMESTAMP)
                .refused(
                    f"earlier than {last_time!r} of the report before: the clock ran backwards",
                    "leave out what was measured before it was set",
                )
            )


def _positive(path: str, number: int, text: str) -> float:
    """A positive number of a table.

    Raises:
        BadInput: the number is not positive.
    """
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise fault(path, f"{text[:20]!r} is no number above 0", line=number)
    return value
