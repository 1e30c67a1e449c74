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
    place: dict[int, Point] = {}
    waited: list[TrackSlice] = []
    for at, track in enumerate(core.tracks):
        yield metadata("thread_name", rank, at, name=track.name)
        for piece in core.slices(track):
            start = place[piece.instruction] = Point(rank, at, piece.start_ns / _NS_PER_US)
            waited += [piece] if piece.cause >= 0 else []
            lasted_us = (piece.end_ns - piece.start_ns) / _NS_PER_US
            yield span(piece.opcode, start, lasted_us, _arguments(core, piece))
    for piece in waited:
        number = f"{rank}:{piece.instruction}"
        yield from arrow("wait", number, place[piece.cause], place[piece.instruction])
    for quantity in core.counters:
        steps = zip(quantity.times_ns.tolist(), quantity.values.tolist(), strict=True)
        for time_ns, value in steps:
            yield counter(quantity.name, rank, time_ns / _NS_PER_US, quantity.unit, value)


def _arguments(core: CoreTracks, piece: TrackSlice) -> dict[str, Any]:
    arguments: dict[str, Any] = {"instruction": piece.instruction, "operands": piece.operands}
    if piece.line is not None:
        arguments |= {"line": str(piece.line), "source": piece.source}
    if piece.cause >= 0:
        arguments["waited for"] = core.describe(piece.cause)
    return {**arguments, "readable at ns": piece.readable_ns}
