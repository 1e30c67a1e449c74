from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

from trnsim.profile.formats.spans import NamedSpan, perfetto_spans


def test_tracks_of_one_process_have_their_spans():
    made = perfetto_spans("a step", {"one": [NamedSpan("a", 0.0, 1.5)], "two": []})
    packets = Trace.FromString(made).packet
    assert packets[0].track_descriptor.process.process_name == "a step"
    assert [one.track_descriptor.name for one in packets if one.track_descriptor.name] == [
        "one",
        "two",
    ]
    begin, end = (one for one in packets if one.HasField("track_event"))
    assert (begin.timestamp, begin.track_event.name) == (0, "a")
    assert (end.timestamp, end.track_event.type) == (1_500_000_000, end.track_event.TYPE_SLICE_END)
