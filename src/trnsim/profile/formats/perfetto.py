"""Timelines -> a Perfetto trace, which https://ui.perfetto.dev opens without uploading it.

A process is a core; a track is an engine or a DMA queue. Slices carry operands, source line and
cause; arrows go from an instruction to those that waited for it.

Source of the field numbers: perfetto, protos/perfetto/trace/perfetto_trace.proto.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from trnsim.profile.formats.protobuf import block, double, fixed64, number, text
from trnsim.profile.formats.tracks import CoreTracks, Counter, Track, TrackSlice
from trnsim.timing import Timeline

_PACKET_FIELD: Final = 1  # Trace.packet
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
_TRACKS_A_PROCESS: Final = 1 << 20
_INSTRUCTIONS_A_CORE: Final = 1 << 40
_BETWEEN_CORES: Final = 1 << 62


def perfetto(timelines: Sequence[Timeline], title: str) -> bytes:
    """The trace of a run in Perfetto's protocol buffers; `timelines` are its cores'."""
    trace = PerfettoTrace()

    def packets() -> Iterator[bytes]:
        yield trace.begin()
        for rank, timeline in enumerate(timelines):
            core = CoreTracks(timeline, rank)
            yield from trace.process(rank, f"{title}, {core.name}")
            for track, place in trace.tracks(core, rank, rank):
                yield place.descriptor
                for piece in core.slices(track):
                    yield from trace.slice(core, piece, place)
            yield from trace.counters(core.counters, rank)

    return b"".join(packets())


class TrackPlace(NamedTuple):
    """A track that slices are drawn on.

    Attributes:
        uuid: the track's number.
        first: offset of the flow numbers of its core's instructions.
        descriptor: the packet that makes the track.
    """

    uuid: int
    first: int
    descriptor: bytes


class SliceNotes(NamedTuple):
    """Flows and annotations of a slice beside those of its instruction.

    Attributes:
        flows: numbers of arrows between slices of several cores.
        words: annotations that are text.
        numbers: annotations that are integers.
    """

    flows: Sequence[int] = ()
    words: Mapping[str, str] = {}
    numbers: Mapping[str, int] = {}


_NO_NOTES: Final = SliceNotes()


class PerfettoTrace:
    """A trace being written, with the interned strings that its packets refer to by number."""

    def __init__(self) -> None:
        self._interned_ids: dict[tuple[int, str], int] = {}
        self._new_strings: list[bytes] = []
        self._track_counts: dict[int, int] = {}

    def begin(self) -> bytes:
        """The first packet."""
        return _packet(number(_FLAGS, _CLEARED))

    def process(self, process: int, name: str) -> Iterator[bytes]:
        """Process number `process`, to which tracks belong."""
        descriptor = block(_PROCESS, number(_PID, process + 1), text(_PROCESS_NAME, name))
        yield _track(number(_UUID, _process_uuid(process)), descriptor)

    def tracks(
        self, core: CoreTracks, process: int, number_of_core: int, prefix: str = ""
    ) -> Iterator[tuple[Track, TrackPlace]]:
        """The engines and queues of a core, as tracks of a process.

        `number_of_core` is its number among all cores of the trace.
        """
        for track in core.tracks:
            uuid, descriptor = self._new_track(process, text(_NAME, prefix + track.name))
            yield track, TrackPlace(uuid, number_of_core * _INSTRUCTIONS_A_CORE, descriptor)

    def counters(
        self, counters: Iterable[Counter], process: int, prefix: str = ""
    ) -> Iterator[bytes]:
        """Quantities over time, as tracks of a process."""
        for counter in counters:
            unit = block(_COUNTER, text(_UNIT_NAME, counter.unit))
            uuid, descriptor = self._new_track(process, text(_NAME, prefix + counter.name), unit)
            yield descriptor
            on_track = number(_TYPE, _COUNT) + number(_TRACK_UUID, uuid)
            steps = zip(counter.times_ns.tolist(), counter.values.tolist(), strict=True)
            for time_ns, value in steps:
                event = block(_EVENT, on_track, double(_COUNTER_VALUE, value))
                yield _packet(number(_TIMESTAMP, time_ns), event)

    def slice(
        self, core: CoreTracks, piece: TrackSlice, place: TrackPlace, notes: SliceNotes = _NO_NOTES
    ) -> Iterator[bytes]:
        """Begin and end of an instruction."""
        on_track = number(_TRACK_UUID, place.uuid)
        name = number(_NAME_IID, self._intern(_EVENT_NAMES, piece.opcode))
        # An instruction's flow starts in its slice and ends in those that waited for it.
        flows = [fixed64(_FLOWS, place.first + piece.instruction + 1)]
        flows += [fixed64(_FLOWS, _BETWEEN_CORES + flow) for flow in notes.flows]
        if piece.cause >= 0:
            flows.append(fixed64(_ENDING_FLOWS, place.first + piece.cause + 1))
        annotations = self._annotations(core, piece, notes)
        event = block(_EVENT, number(_TYPE, _BEGIN), on_track, name, *annotations, *flows)
        new = block(_INTERNED, *self._new_strings) if self._new_strings else b""
        self._new_strings.clear()
        flags = number(_FLAGS, _NEEDED)
        yield _packet(number(_TIMESTAMP, piece.start_ns), flags, new, event)
        end = block(_EVENT, number(_TYPE, _END), on_track)
        yield _packet(number(_TIMESTAMP, piece.end_ns), flags, end)

    def _new_track(self, process: int, *fields: bytes) -> tuple[int, bytes]:
        """A new track of a process: its number and its packet."""
        base = _process_uuid(process)
        used = self._track_counts[process] = self._track_counts.get(process, 0) + 1
        uuid = base + used
        return uuid, _track(number(_UUID, uuid), number(_PARENT, base), *fields)

    def _annotations(self, core: CoreTracks, piece: TrackSlice, notes: SliceNotes) -> list[bytes]:
        words = {"operands": piece.operands, **notes.words}
        if piece.line is not None:
            words |= {"line": str(piece.line), "source": piece.source}
        if piece.cause >= 0:
            words["waited for"] = core.describe(piece.cause)
        numbers = {"instruction": piece.instruction, "readable at ns": piece.readable_ns}
        numbers |= notes.numbers
        annotations = [
            self._annotation(name, number(_A_TEXT_IID, self._intern(_TEXTS, value)))
            for name, value in words.items()
        ]
        annotations += [self._annotation(n, number(_A_INT, value)) for n, value in numbers.items()]
        if piece.line is not None:
            file, line = piece.line.file, piece.line.line
            place = self._intern(_SOURCES, f"{file}:{line}", text(_FILE, file), number(_LINE, line))
            annotations.append(number(_SOURCE_IID, place))
        return annotations

    def _annotation(self, name: str, value: bytes) -> bytes:
        named = number(_A_NAME_IID, self._intern(_ANNOTATION_NAMES, name))
        return block(_ANNOTATION, named, value)

    def _intern(self, kind: int, value: str, *fields: bytes) -> int:
        """The number of an interned value; its first use also writes it: its text, or `fields`."""
        if (kind, value) not in self._interned_ids:
            iid = self._interned_ids[kind, value] = len(self._interned_ids) + 1
            content = fields or (text(_VALUE, value),)
            self._new_strings.append(block(kind, number(_IID, iid), *content))
        return self._interned_ids[kind, value]


def _process_uuid(process: int) -> int:
    """The number of a process's own track."""
    return (process + 1) * _TRACKS_A_PROCESS


def _track(*fields: bytes) -> bytes:
    return _packet(block(_TRACK, *fields))


def _packet(*fields: bytes) -> bytes:
    return block(_PACKET_FIELD, number(_SEQUENCE, _ONE_SEQUENCE), *fields)
