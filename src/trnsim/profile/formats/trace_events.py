"""Chrome's trace events; every trace in that format is written with these functions.

chrome://tracing, Perfetto and others open such traces.

Source: "Trace Event Format", Google: complete events (X), counters (C), flows (s, f), metadata (M);
times are microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

TraceEvent = dict[str, Any]
"""One event as a JSON object."""


class Point(NamedTuple):
    """A point of a trace: process, track and time."""

    process: int | str
    track: int | str
    time_us: float


def span(
    name: str,
    start: Point,
    length_us: float,
    arguments: Mapping[str, Any] | None = None,
    category: str = "",
) -> TraceEvent:
    """A span of time on a track; viewers show `arguments` when it is selected."""
    event = {"ph": "X", "name": name, **_point_fields(start), "dur": length_us}
    if category:
        event["cat"] = category
    return event if arguments is None else {**event, "args": dict(arguments)}


def counter(name: str, process: int | str, time_us: float, unit: str, value: float) -> TraceEvent:
    """A quantity of a process, which has `value` from `time_us` on."""
    return {"ph": "C", "name": name, "pid": process, "ts": time_us, "args": {unit: value}}


def arrow(name: str, number: int | str, tail: Point, head: Point) -> tuple[TraceEvent, TraceEvent]:
    """An arrow between the spans that begin at two points; `number` is unique in the trace."""
    flow = {"name": name, "cat": name, "id": number}
    # bp=e: the arrow ends at the span that begins there, not at the next one.
    return {"ph": "s", **flow, **_point_fields(tail)}, {
        "ph": "f",
        "bp": "e",
        **flow,
        **_point_fields(head),
    }


def metadata(kind: str, process: int | str, track: int | str = 0, **arguments: Any) -> TraceEvent:
    """Metadata of a process or a track, such as "process_name" or "thread_name"."""
    return {"ph": "M", "name": kind, "pid": process, "tid": track, "args": arguments}


def as_json(events: Iterable[TraceEvent]) -> str:
    """The trace file's content."""
    trace = {"displayTimeUnit": "ns", "traceEvents": list(events)}
    return json.dumps(trace, allow_nan=False, separators=(",", ":"))


def _point_fields(point: Point) -> TraceEvent:
    return {"pid": point.process, "tid": point.track, "ts": point.time_us}
