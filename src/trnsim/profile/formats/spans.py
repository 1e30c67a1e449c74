"""Named spans on tracks -> a Perfetto trace, which https://ui.perfetto.dev opens.

Source of the field numbers: perfetto, protos/perfetto/trace/perfetto_trace.proto.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from trnsim.profile.formats.protobuf import length_delimited, number, text

_PACKET_FIELD: Final = 1  # Trace.packet
_TIMESTAMP, _SEQUENCE, _EVENT, _TRACK = 8, 10, 11, 60  # TracePacket
_UUID, _NAME, _PROCESS, _PARENT = 1, 2, 3, 5  # TrackDescriptor
_PID, _PROCESS_NAME = 1, 6  # ProcessDescriptor
_TYPE, _TRACK_UUID, _EVENT_NAME = 9, 11, 23  # TrackEvent
_BEGIN, _END = 1, 2  # TrackEvent.Type
_ONE_SEQUENCE: Final = 1
_NS_PER_S: Final = 1e9


class NamedSpan(NamedTuple):
    """A named stretch of time: its start and end, in seconds."""

    name: str
    start_s: float
    end_s: float


def perfetto_spans(title: str, tracks: Mapping[str, Sequence[NamedSpan]]) -> bytes:
    """The trace of one process with these tracks."""
    return b"".join(_packets(title, tracks))


def _packets(title: str, tracks: Mapping[str, Sequence[NamedSpan]]) -> Iterator[bytes]:
    process = length_delimited(_PROCESS, number(_PID, 1), text(_PROCESS_NAME, title))
    yield packet(length_delimited(_TRACK, number(_UUID, 1), process))
    for uuid, (name, spans) in enumerate(tracks.items(), start=2):
        yield packet(
            length_delimited(_TRACK, number(_UUID, uuid), number(_PARENT, 1), text(_NAME, name))
        )
        track_field = number(_TRACK_UUID, uuid)
        for span in spans:
            begin = length_delimited(
                _EVENT, number(_TYPE, _BEGIN), track_field, text(_EVENT_NAME, span.name)
            )
            yield packet(_timestamp(span.start_s), begin)
            yield packet(
                _timestamp(span.end_s), length_delimited(_EVENT, number(_TYPE, _END), track_field)
            )


def _timestamp(time_s: float) -> bytes:
    return number(_TIMESTAMP, round(time_s * _NS_PER_S))


def packet(*fields: bytes) -> bytes:
    """A packet of the one sequence of a trace."""
    return length_delimited(_PACKET_FIELD, number(_SEQUENCE, _ONE_SEQUENCE), *fields)
