"""Timelines -> a Perfetto trace, which https://ui.perfetto.dev opens without uploading it.

A process is a core, a track an engine or a DMA queue. Slices carry operands, source line and cause;
arrows go from an instruction to those that waited for it.

Source of the field numbers: perfetto, protos/perfetto/trace/perfetto_trace.proto.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from trnsim.profile.formats.protobuf import block, double, fixed64, number, text
from trnsim.profile.formats.tracks import CoreTracks, Counter, Track, TrackSlice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.timing import Timeline

_PACKET: Final = 1  # Trace.packet
_TIMESTAMP, _SEQUENCE, _EVENT, _INTERNED, _FLAGS, _TRACK = 8, 10, 11, 12, 13, 60  # TracePacket
_UUID, _NAME, _PROCESS, _PARENT, _COUNTER = 1, 2, 3, 5, 8  # TrackDescriptor
_PID, _PROCESS_NAME = 1, 6  # ProcessDescriptor
_UNIT_NAME = 6  # CounterDescriptor
_ANNOTATION, _TYPE, _NAME_IID, _TRACK_UUID = 4, 9, 10, 11  # TrackEvent
_SOURCE_IID, _COUNTER_VALUE, _FLOWS, _ENDING_FLOWS = 34, 44, 47, 48  # TrackEvent
_BEGIN, _END, _COUNT = 1, 2, 4  # TrackEvent.Type
_A_NAME_IID, _A_INT, _A_TEXT_IID = 1, 4, 17  # DebugAnnotation
_EVENT_NAMES, _ANNOTATION_NAMES, _SOURCES, _TEXTS = 2, 3, 4, 29  # InternedData
_IID, _VALUE, _FILE, _LINE = 1, 2, 2, 4  # EventName, DebugAnnotationName, SourceLocation
_CLEARED, _NEEDED = 1, 2  # SequenceFlags
_ONE_SEQUENCE: Final = 1
_TRACKS_A_CORE: Final = 1 << 20
_INSTRUCTIONS_A_CORE: Final = 1 << 40


def perfetto(timelines: Sequence[Timeline], title: str) -> bytes:
    """The trace of a run in Perfetto's protocol buffers; `timelines` are its cores'."""
    return b"".join(_Trace(timelines, title).packets())


class _Trace:
    """A trace being written, with the interned strings that its packets refer to by number."""

    def __init__(self, timelines: Sequence[Timeline], title: str) -> None:
        self._timelines = timelines
        self._title = title
        self._numbers: dict[tuple[int, str], int] = {}
        self._new: list[bytes] = []

    def packets(self) -> Iterator[bytes]:
        """Every packet of the trace."""
        yield _packet(number(_FLAGS, _CLEARED))
        for rank, timeline in enumerate(self._timelines):
            yield from self._core(CoreTracks(timeline, rank), rank)

    def _core(self, core: CoreTracks, rank: int) -> Iterator[bytes]:
        base = (rank + 1) * _TRACKS_A_CORE
        name = f"{self._title}, {core.name}"
        process = block(_PROCESS, number(_PID, rank + 1), text(_PROCESS_NAME, name))
        yield _track(number(_UUID, base), process)
        for at, track in enumerate(core.tracks):
            uuid = base + 1 + at
            yield _track(number(_UUID, uuid), number(_PARENT, base), text(_NAME, track.name))
            yield from self._slices(core, track, uuid, rank * _INSTRUCTIONS_A_CORE)
        for at, counter in enumerate(core.counters):
            uuid = base + 1 + len(core.tracks) + at
            unit = block(_COUNTER, text(_UNIT_NAME, counter.unit))
            named = text(_NAME, counter.name)
            yield _track(number(_UUID, uuid), number(_PARENT, base), named, unit)
            yield from _values(counter, uuid)

    def _slices(self, core: CoreTracks, track: Track, uuid: int, first: int) -> Iterator[bytes]:
        on_track = number(_TRACK_UUID, uuid)
        end = block(_EVENT, number(_TYPE, _END), on_track)
        for piece in core.slices(track):
            name = number(_NAME_IID, self._named(_EVENT_NAMES, piece.opcode))
            # An instruction's flow starts in its slice and ends in those that waited for it.
            flows = [fixed64(_FLOWS, first + piece.instruction + 1)]
            if piece.cause >= 0:
                flows.append(fixed64(_ENDING_FLOWS, first + piece.cause + 1))
            told = self._annotations(core, piece)
            event = block(_EVENT, number(_TYPE, _BEGIN), on_track, name, *told, *flows)
            new = block(_INTERNED, *self._new) if self._new else b""
            self._new.clear()
            flags = number(_FLAGS, _NEEDED)
            yield _packet(number(_TIMESTAMP, piece.start_ns), flags, new, event)
            yield _packet(number(_TIMESTAMP, piece.end_ns), flags, end)

    def _annotations(self, core: CoreTracks, piece: TrackSlice) -> list[bytes]:
        words = {"operands": piece.operands}
        if piece.line is not None:
            words |= {"line": str(piece.line), "source": piece.source}
        if piece.cause >= 0:
            words["waited for"] = core.describe(piece.cause)
        numbers = {"instruction": piece.instruction, "readable at ns": piece.readable_ns}
        found = [
            self._annotation(name, number(_A_TEXT_IID, self._named(_TEXTS, value)))
            for name, value in words.items()
        ]
        found += [self._annotation(n, number(_A_INT, value)) for n, value in numbers.items()]
        if piece.line is not None:
            place = self._place(piece.line.file, piece.line.line)
            found.append(number(_SOURCE_IID, place))
        return found

    def _annotation(self, name: str, value: bytes) -> bytes:
        named = number(_A_NAME_IID, self._named(_ANNOTATION_NAMES, name))
        return block(_ANNOTATION, named, value)

    def _named(self, kind: int, value: str) -> int:
        """The number of an interned string; its first use also writes the string."""
        known = self._numbers.get((kind, value))
        if known is not None:
            return known
        iid = self._numbers[kind, value] = len(self._numbers) + 1
        self._new.append(block(kind, number(_IID, iid), text(_VALUE, value)))
        return iid

    def _place(self, file: str, line: int) -> int:
        key = (_SOURCES, f"{file}:{line}")
        if key not in self._numbers:
            iid = self._numbers[key] = len(self._numbers) + 1
            where = (number(_IID, iid), text(_FILE, file), number(_LINE, line))
            self._new.append(block(_SOURCES, *where))
        return self._numbers[key]


def _values(counter: Counter, uuid: int) -> Iterator[bytes]:
    on_track = number(_TYPE, _COUNT) + number(_TRACK_UUID, uuid)
    for time_ns, value in zip(counter.times_ns.tolist(), counter.values.tolist(), strict=True):
        event = block(_EVENT, on_track, double(_COUNTER_VALUE, value))
        yield _packet(number(_TIMESTAMP, time_ns), event)


def _track(*fields: bytes) -> bytes:
    return _packet(block(_TRACK, *fields))


def _packet(*fields: bytes) -> bytes:
    return block(_PACKET, number(_SEQUENCE, _ONE_SEQUENCE), *fields)
