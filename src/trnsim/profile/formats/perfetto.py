"""Timelines -> a Perfetto trace, which https://ui.perfetto.dev opens without uploading it.

A process is a core; a track is an engine or a DMA queue. Slices carry operands, source line and
cause; arrows go from an instruction to the instructions that waited for it.

Source of the field numbers: perfetto, protos/perfetto/trace/perfetto_trace.proto.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from trnsim.profile.formats.protobuf import double, fixed64, length_delimited, number, text
from trnsim.profile.formats.spans import packet
from trnsim.profile.formats.tracks import CoreTracks, Counter, Track, TrackSlice
from trnsim.timing import Timeline

_TIMESTAMP, _EVENT, _INTERNED, _FLAGS, _TRACK = 8, 11, 12, 13, 60  # TracePacket
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
            for track, perfetto_track in trace.tracks(core, rank, rank):
                yield perfetto_track.descriptor
                for track_slice in core.slices(track):
                    yield from trace.slice(core, track_slice, perfetto_track)
            yield from trace.counters(core.counters, rank)

    return b"".join(packets())


class PerfettoTrack(NamedTuple):
    """A track that slices are drawn on.

    Attributes:
        flow_offset: number that is added to an instruction's index for its flow number.
    """

    uuid: int
    flow_offset: int
    descriptor: bytes


class SliceNotes(NamedTuple):
    """Further flows and annotations of a slice, added to its instruction's.

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
        """The first packet of the trace."""
        return packet(number(_FLAGS, _CLEARED))

    def process(self, process: int, name: str) -> Iterator[bytes]:
        """The packet that declares process number `process`, to which tracks belong."""
        descriptor = length_delimited(
            _PROCESS, number(_PID, process + 1), text(_PROCESS_NAME, name)
        )
        yield _track(number(_UUID, _process_uuid(process)), descriptor)

    def tracks(
        self, core: CoreTracks, process: int, number_of_core: int, prefix: str = ""
    ) -> Iterator[tuple[Track, PerfettoTrack]]:
        """The engines and queues of a core, as tracks of a process.

        `number_of_core` is its number among all cores of the trace.
        """
        for track in core.tracks:
            uuid, descriptor = self._new_track(process, text(_NAME, prefix + track.name))
            yield track, PerfettoTrack(uuid, number_of_core * _INSTRUCTIONS_A_CORE, descriptor)

    def counters(
        self, counters: Iterable[Counter], process: int, prefix: str = ""
    ) -> Iterator[bytes]:
        """Quantities over time, as tracks of a process."""
        for counter in counters:
            unit = length_delimited(_COUNTER, text(_UNIT_NAME, counter.unit))
            uuid, descriptor = self._new_track(process, text(_NAME, prefix + counter.name), unit)
            yield descriptor
            track_field = number(_TYPE, _COUNT) + number(_TRACK_UUID, uuid)
            steps = zip(counter.times_ns.tolist(), counter.values.tolist(), strict=True)
            for time_ns, value in steps:
                event = length_delimited(_EVENT, track_field, double(_COUNTER_VALUE, value))
                yield packet(number(_TIMESTAMP, time_ns), event)

    def slice(
        self,
        core: CoreTracks,
        track_slice: TrackSlice,
        perfetto_track: PerfettoTrack,
        notes: SliceNotes = _NO_NOTES,
    ) -> Iterator[bytes]:
        """The packets of an instruction's begin and end."""
        track_field = number(_TRACK_UUID, perfetto_track.uuid)
        name = number(_NAME_IID, self._intern(_EVENT_NAMES, track_slice.opcode))
        # An instruction's flow starts in its slice and ends in those that waited for it.
        flows = [fixed64(_FLOWS, perfetto_track.flow_offset + track_slice.instruction + 1)]
        flows += [fixed64(_FLOWS, _BETWEEN_CORES + flow) for flow in notes.flows]
        if track_slice.cause >= 0:
            flows.append(fixed64(_ENDING_FLOWS, perfetto_track.flow_offset + track_slice.cause + 1))
        annotations = self._annotations(core, track_slice, notes)
        event = length_delimited(
            _EVENT, number(_TYPE, _BEGIN), track_field, name, *annotations, *flows
        )
        strings = length_delimited(_INTERNED, *self._new_strings) if self._new_strings else b""
        self._new_strings.clear()
        flags = number(_FLAGS, _NEEDED)
        yield packet(number(_TIMESTAMP, track_slice.start_ns), flags, strings, event)
        end = length_delimited(_EVENT, number(_TYPE, _END), track_field)
        yield packet(number(_TIMESTAMP, track_slice.end_ns), flags, end)

    def _new_track(self, process: int, *fields: bytes) -> tuple[int, bytes]:
        """A new track of a process: its uuid, and the packet that declares it."""
        parent = _process_uuid(process)
        self._track_counts[process] = self._track_counts.get(process, 0) + 1
        uuid = parent + self._track_counts[process]
        return uuid, _track(number(_UUID, uuid), number(_PARENT, parent), *fields)

    def _annotations(
        self, core: CoreTracks, track_slice: TrackSlice, notes: SliceNotes
    ) -> list[bytes]:
        words = {"operands": track_slice.operands, **notes.words}
        if track_slice.line is not None:
            words |= {"line": str(track_slice.line), "source": track_slice.source}
        if track_slice.cause >= 0:
            words["waited for"] = core.describe(track_slice.cause)
        numbers = {
            "instruction": track_slice.instruction,
            "readable at ns": track_slice.readable_ns,
        }
        numbers |= notes.numbers
        annotations = [
            self._annotation(name, number(_A_TEXT_IID, self._intern(_TEXTS, value)))
            for name, value in words.items()
        ]
        annotations += [self._annotation(n, number(_A_INT, value)) for n, value in numbers.items()]
        if track_slice.line is not None:
            file, line = track_slice.line.file, track_slice.line.line
            source_iid = self._intern(
                _SOURCES, f"{file}:{line}", text(_FILE, file), number(_LINE, line)
            )
            annotations.append(number(_SOURCE_IID, source_iid))
        return annotations

    def _annotation(self, name: str, value: bytes) -> bytes:
        name_field = number(_A_NAME_IID, self._intern(_ANNOTATION_NAMES, name))
        return length_delimited(_ANNOTATION, name_field, value)

    def _intern(self, kind: int, value: str, *fields: bytes) -> int:
        """The number of an interned value; its first use also writes its text, or `fields`."""
        if (kind, value) not in self._interned_ids:
            iid = self._interned_ids[kind, value] = len(self._interned_ids) + 1
            content = fields or (text(_VALUE, value),)
            self._new_strings.append(length_delimited(kind, number(_IID, iid), *content))
        return self._interned_ids[kind, value]


def _process_uuid(process: int) -> int:
    """The uuid of the track of a process."""
    return (process + 1) * _TRACKS_A_PROCESS


def _track(*fields: bytes) -> bytes:
    return packet(length_delimited(_TRACK, *fields))
