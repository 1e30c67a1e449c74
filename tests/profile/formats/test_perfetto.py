"""The trace, read by Perfetto's own published protocol buffers."""

from collections import Counter

import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as published

from trnsim.profile.formats.perfetto import perfetto

EVENT = published.TrackEvent


@pytest.fixture
def trace(timeline):
    return published.Trace.FromString(perfetto([timeline, timeline], "matmul on trn2"))


def descriptors(trace):
    packets = [p.track_descriptor for p in trace.packet if p.HasField("track_descriptor")]
    return {descriptor.uuid: descriptor for descriptor in packets}


def interned(trace, kind):
    found = {}
    for packet in trace.packet:
        for entry in getattr(packet.interned_data, kind):
            found[entry.iid] = entry
    return found


def begins(trace):
    return [p for p in trace.packet if p.track_event.type == EVENT.TYPE_SLICE_BEGIN]


def test_no_field_is_unknown_to_the_published_protos(trace, timeline):
    encoded = perfetto([timeline, timeline], "matmul on trn2")
    assert len(trace.SerializeToString()) == len(encoded)
    trace.DiscardUnknownFields()
    assert len(trace.SerializeToString()) == len(encoded)


def test_there_is_a_track_for_each_core_engine_and_queue(trace):
    found = descriptors(trace)
    processes = {u: d for u, d in found.items() if d.HasField("process")}
    assert [d.process.process_name for d in processes.values()] == [
        "matmul on trn2, core 0",
        "matmul on trn2, core 1",
    ]
    for uuid in processes:
        names = [d.name for d in found.values() if d.parent_uuid == uuid]
        assert names == [
            "Tensor Engine",
            "Vector Engine",
            "DMA qDefault",
            "HBM",
            "SBUF in use",
            "PSUM in use",
        ]


def test_every_instruction_begins_and_ends_at_its_time(trace, timeline):
    names = interned(trace, "event_names")
    found = Counter((names[p.track_event.name_iid].name, p.timestamp) for p in begins(trace))
    expected = Counter((s.opcode, round(s.start_s * 1e9)) for s in timeline.spans())
    assert found == Counter({key: 2 * n for key, n in expected.items()})
    ends = [p for p in trace.packet if p.track_event.type == EVENT.TYPE_SLICE_END]
    assert sorted(p.timestamp for p in ends) == sorted(
        2 * [round(s.busy_until_s * 1e9) for s in timeline.spans()]
    )


def test_times_of_a_track_never_go_back(trace):
    last = {}
    for packet in trace.packet:
        uuid = packet.track_event.track_uuid
        if uuid:
            assert packet.timestamp >= last.get(uuid, 0)
            last[uuid] = packet.timestamp


def test_slices_carry_operands_source_line_and_cause(trace, timeline):
    texts = interned(trace, "debug_annotation_string_values")
    names = interned(trace, "debug_annotation_names")
    places = interned(trace, "source_locations")
    seen = set()
    for packet in begins(trace):
        told = {}
        for note in packet.track_event.debug_annotations:
            words = texts[note.string_value_iid].str.decode() if note.string_value_iid else None
            told[names[note.name_iid].name] = words or note.int_value
        span = timeline.span(told["instruction"])
        assert told["operands"] == span.operands
        assert told["line"] == str(span.line)
        place = places[packet.track_event.source_location_iid]
        assert (place.file_name, place.line_number) == (span.line.file, span.line.line)
        assert told["readable at ns"] == round(span.end_s * 1e9)
        seen.add(told.get("waited for", "").partition(", ")[2])
    assert {"Tensor Engine", "DMA", ""} <= seen


def test_an_arrow_leads_from_every_cause_to_what_waited(trace):
    flows = {}
    for packet in begins(trace):
        for flow in packet.track_event.flow_ids:
            flows[flow] = packet
    waiting = [p for p in begins(trace) if p.track_event.terminating_flow_ids]
    assert waiting
    for packet in waiting:
        for flow in packet.track_event.terminating_flow_ids:
            assert flows[flow].timestamp <= packet.timestamp
            assert flows[flow].track_event.track_uuid != packet.track_event.track_uuid


def test_counters_count(trace):
    hbm = [u for u, d in descriptors(trace).items() if d.name == "HBM"]
    for uuid in hbm:
        events = [p.track_event for p in trace.packet if p.track_event.track_uuid == uuid]
        assert max(e.double_counter_value for e in events) > 200
        assert events[-1].double_counter_value == 0


def test_an_empty_program_has_a_trace(kernel):
    trace = published.Trace.FromString(perfetto([kernel.timeline()], "nothing"))
    assert not begins(trace)
