"""Lanes of a stored step or graph over time, from the trace that its command wrote beside it.

`NAME.json` has the sums, `NAME-CHIP.trace.json` the spans. Where the trace is missing, or is not
trnsim's, the answer is shown without lanes.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from trnsim.document.lanes import Lane, LaneSpan
from trnsim.profile.analysis.step_lanes import PHASES
from trnsim.profile.units import time_text

_US: Final = 1e-6
_MOST_BYTES: Final = 1 << 28
_PHASE_TRACK: Final = "phases"
"""The track of a step that names the phase of its kernels."""
_LEFT_OUT: Final = (_PHASE_TRACK, "modules", "operators")
"""Tracks of a step that repeat its kernels under other names."""
_TRACK_KINDS: Final = {"launches": "launch"}
"""The kind of all spans of a track, by the track's thread."""
_Track = tuple[Any, Any]
"""Process and thread of a track."""


def stored_lanes(answer: Path, machine: str) -> list[Lane]:
    """The lanes of an answer on a chip; none without a trace beside it."""
    events = _events(answer.with_name(f"{answer.stem}-{machine}.trace.json"))
    tracks: dict[_Track, list[LaneSpan]] = defaultdict(list)
    for event in events:
        if event.get("ph") == "X":
            tracks[event["pid"], event["tid"]].append(_span(event))
    names = _names(events)
    phases = next((spans for (_, name), spans in tracks.items() if name == _PHASE_TRACK), [])
    return [
        Lane(
            names.get(track, str(track[1])), _add_colours(spans, phases, _TRACK_KINDS.get(track[1]))
        )
        for track, spans in tracks.items()
        if track[1] not in _LEFT_OUT
    ]


def _events(trace: Path) -> list[Mapping[str, Any]]:
    """The events of a trace; [] if the file is missing or is no trace."""
    try:
        if trace.stat().st_size > _MOST_BYTES:
            return []
        rows = json.loads(trace.read_bytes())["traceEvents"]
        return rows if all(map(_is_event, rows)) else []
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return []


def _is_event(row: Any) -> bool:
    """True for an event that can be read: a span (X) has a track and times, a name (M) a track."""
    if not isinstance(row, dict) or row.get("ph") not in ("X", "M"):
        return isinstance(row, dict)
    times = (row.get("ts"), row.get("dur")) if row["ph"] == "X" else ()
    is_placed = all(isinstance(row.get(name), int | str) for name in ("pid", "tid", "name"))
    return is_placed and all(
        isinstance(time, int | float) and math.isfinite(time) and time >= 0 for time in times
    )


def _span(event: Mapping[str, Any]) -> LaneSpan:
    length_s = event["dur"] * _US
    words = f"{event['name']}: {time_text(length_s)}"
    return LaneSpan(event["ts"] * _US, length_s, str(event["name"]), words)


def _names(events: Iterable[Mapping[str, Any]]) -> dict[_Track, str]:
    """Names of tracks, with their core where there are several."""
    cores: dict[Any, str] = {}
    names: dict[_Track, str] = {}
    for event in events:
        if event.get("ph") != "M" or not isinstance(event.get("args"), dict):
            continue
        name = str(event["args"].get("name", ""))
        if event.get("name") == "process_name":
            cores[event.get("pid")] = name.rpartition(", ")[2]
        elif event.get("name") == "thread_name":
            names[event.get("pid"), event.get("tid")] = name
    if len(cores) < 2:  # noqa: PLR2004  one core needs no name
        return names
    return {track: f"{cores.get(track[0], '')}, {name}" for track, name in names.items()}


def _add_colours(
    spans: Sequence[LaneSpan], phases: Sequence[LaneSpan], track_kind: str | None
) -> list[LaneSpan]:
    """Spans in order of time; the kind of each is its track's, else its phase, else "work"."""
    phases = sorted(phases, key=lambda phase: phase.start_s)
    starts = [phase.start_s for phase in phases]
    lanes = []
    for span in sorted(spans, key=lambda span: span.start_s):
        number = bisect_right(starts, span.start_s) - 1
        kind = phases[number].kind if number >= 0 and phases[number].kind in PHASES else "work"
        lanes.append(LaneSpan(span.start_s, span.length_s, track_kind or kind, span.words))
    return lanes
