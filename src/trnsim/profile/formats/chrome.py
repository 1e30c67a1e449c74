"""Timelines -> Chrome's trace events: a process per core, a track per engine or DMA queue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from trnsim.profile.formats.trace_events import (
    Point,
    TraceEvent,
    arrow,
    as_json,
    counter,
    metadata,
    span,
)
from trnsim.profile.formats.tracks import CoreTracks, TrackSlice
from trnsim.timing import Timeline

_NS_PER_US: Final = 1e3


def chrome(timelines: Sequence[Timeline], title: str) -> str:
    """The trace of a run as JSON; `timelines` are its cores'."""
    return as_json(
        event
        for rank, timeline in enumerate(timelines)
        for event in _core(CoreTracks(timeline, rank), rank, title)
    )


def _core(core: CoreTracks, rank: int, title: str) -> Iterator[TraceEvent]:
    yield metadata("process_name", rank, name=f"{title}, {core.name}")
    points: dict[int, Point] = {}
    waited_slices: list[TrackSlice] = []
    for thread, track in enumerate(core.tracks):
        yield metadata("thread_name", rank, thread, name=track.name)
        for track_slice in core.slices(track):
            start = Point(rank, thread, track_slice.start_ns / _NS_PER_US)
            points[track_slice.instruction] = start
            waited_slices += [track_slice] if track_slice.cause >= 0 else []
            lasted_us = (track_slice.end_ns - track_slice.start_ns) / _NS_PER_US
            yield span(track_slice.opcode, start, lasted_us, _arguments(core, track_slice))
    for track_slice in waited_slices:
        number = f"{rank}:{track_slice.instruction}"
        yield from arrow("wait", number, points[track_slice.cause], points[track_slice.instruction])
    for quantity in core.counters:
        steps = zip(quantity.times_ns.tolist(), quantity.values.tolist(), strict=True)
        for time_ns, value in steps:
            yield counter(quantity.name, rank, time_ns / _NS_PER_US, quantity.unit, value)


def _arguments(core: CoreTracks, track_slice: TrackSlice) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "instruction": track_slice.instruction,
        "operands": track_slice.operands,
    }
    if track_slice.line is not None:
        arguments |= {"line": str(track_slice.line), "source": track_slice.source}
    if track_slice.cause >= 0:
        arguments["waited for"] = core.describe(track_slice.cause)
    return {**arguments, "readable at ns": track_slice.readable_ns}
