"""Timelines -> Chrome's trace events in JSON: chrome://tracing, Perfetto and others open them.

Source: "Trace Event Format", Google: complete events (X), counters (C), flows (s, f), metadata (M);
times are microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from trnsim.profile.formats.tracks import CoreTracks, Slice

if TYPE_CHECKING:
    from trnsim.timing import Timeline

_NS_PER_US: Final = 1e3
Event = dict[str, Any]


def chrome(timelines: Sequence[Timeline], title: str) -> str:
    """The trace of a run, by core, as JSON."""
    events = [
        event
        for rank, timeline in enumerate(timelines)
        for event in _core(CoreTracks(timeline, rank), rank, title)
    ]
    trace = {"displayTimeUnit": "ns", "traceEvents": events}
    return json.dumps(trace, allow_nan=False, separators=(",", ":"))


def _core(core: CoreTracks, rank: int, title: str) -> Iterator[Event]:
    yield _meta(rank, 0, "process_name", f"{title}, {core.name}")
    place: dict[int, Event] = {}
    arrows: list[Slice] = []
    for at, track in enumerate(core.tracks):
        yield _meta(rank, at, "thread_name", track.name)
        for piece in core.slices(track):
            where = {"pid": rank, "tid": at, "ts": piece.start_ns / _NS_PER_US}
            place[piece.instruction] = where
            arrows += [piece] if piece.cause >= 0 else []
            lasted_us = (piece.end_ns - piece.start_ns) / _NS_PER_US
            name = {"ph": "X", "name": piece.opcode, "dur": lasted_us}
            yield {**name, **where, "args": _told(core, piece)}
    for piece in arrows:
        flow = {"name": "wait", "cat": "wait", "id": f"{rank}:{piece.instruction}"}
        yield {"ph": "s", **flow, **place[piece.cause]}
        # bp=e: the arrow ends at the slice that begins there, not at the next one.
        yield {"ph": "f", "bp": "e", **flow, **place[piece.instruction]}
    for counter in core.counters:
        steps = zip(counter.times_ns.tolist(), counter.values.tolist(), strict=True)
        for time_ns, value in steps:
            when = {"pid": rank, "ts": time_ns / _NS_PER_US}
            yield {"ph": "C", "name": counter.name, **when, "args": {counter.unit: value}}


def _meta(rank: int, track: int, kind: str, name: str) -> Event:
    return {"ph": "M", "pid": rank, "tid": track, "name": kind, "args": {"name": name}}


def _told(core: CoreTracks, piece: Slice) -> dict[str, Any]:
    found: dict[str, Any] = {"instruction": piece.instruction, "operands": piece.operands}
    if piece.line is not None:
        found |= {"line": str(piece.line), "source": piece.source}
    if piece.cause >= 0:
        found["waited for"] = core.describe(piece.cause)
    return {**found, "readable at ns": piece.readable_ns}
