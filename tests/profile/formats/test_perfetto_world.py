"""A world's trace, read by Perfetto's own published protocol buffers."""

from collections import defaultdict

import pytest
from made_world import world
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as published

from trnsim.profile.formats.perfetto_world import perfetto_world
from trnsim.profile.measures.collectives import timed_collectives
from trnsim.profile.measures.links import link_rates

EVENT = published.TrackEvent


def trace_of(ran):
    ranks = [run.timelines for run in ran.runs]
    return published.Trace.FromString(perfetto_world(ranks, link_rates(ranks), "beside"))


@pytest.fixture(scope="module")
def ran():
    return world(ranks=4, groups=[[0, 1], [2, 3]], late=(3,), computes=4)


@pytest.fixture(scope="module")
def trace(ran):
    return trace_of(ran)


def tracks(trace):
    """Number of a track -> (name of its process, its own name)."""
    found = {p.track_descriptor.uuid: p.track_descriptor for p in trace.packet}
    return {
        uuid: (found[one.parent_uuid].process.process_name, one.name)
        for uuid, one in found.items()
        if one.parent_uuid
    }


def interned(trace, kind):
    return {one.iid: one for p in trace.packet for one in getattr(p.interned_data, kind)}


def collectives(trace):
    """(process, packet) of each collective, in the order of the file."""
    where, names = tracks(trace), interned(trace, "event_names")
    begins = [p for p in trace.packet if p.track_event.type == EVENT.TYPE_SLICE_BEGIN]
    return [
        (where[p.track_event.track_uuid][0], p)
        for p in begins
        if names[p.track_event.name_iid].name == "all_reduce"
    ]


def test_a_process_is_a_rank_and_one_has_the_links(ran, trace):
    by_process = defaultdict(set)
    for process, name in tracks(trace).values():
        by_process[process].add(name)
    links = "beside, links, HBM, DMA and EFA in collectives"
    assert set(by_process) == {links, *(f"beside, rank {rank}" for rank in range(4))}
    assert by_process[links] == {one.name for one in ran.links}
    for rank in range(4):
        found = by_process[f"beside, rank {rank}"]
        assert {"CC-Core", "Vector Engine", "HBM", "SBUF in use"} <= found
        assert any(name.startswith("DMA ") for name in found)


def test_cores_of_a_rank_share_its_process():
    found = set(tracks(trace_of(world(lnc=2))).values())
    for core in (0, 1):
        assert ("beside, rank 1", f"core {core}, CC-Core") in found


def test_nothing_is_unknown_to_the_published_protos(trace):
    size = len(trace.SerializeToString())
    trace.DiscardUnknownFields()
    assert len(trace.SerializeToString()) == size


def test_arrows_join_the_members_of_a_collective_from_the_last_to_come(trace):
    by_flow = defaultdict(list)
    for process, packet in collectives(trace):
        for flow in packet.track_event.flow_ids:
            by_flow[flow].append(process.removeprefix("beside, rank "))
    assert sorted(ends for ends in by_flow.values() if len(ends) > 1) == [["0", "1"], ["3", "2"]]


def test_a_collective_says_its_algorithm_bytes_and_who_was_late(ran, trace):
    texts = interned(trace, "debug_annotation_string_values")
    names = interned(trace, "debug_annotation_names")
    assert len(collectives(trace)) == 4
    for process, packet in collectives(trace):
        told = {}
        for note in packet.track_event.debug_annotations:
            words = texts[note.string_value_iid].str.decode() if note.string_value_iid else None
            told[names[note.name_iid].name] = words or note.int_value
        rank = int(process[-1])
        ((one,),) = timed_collectives(ran.runs[rank].timelines)
        assert packet.timestamp == round(one.start_s * 1e9)
        assert told["groups"] == "[[0, 1], [2, 3]]"
        assert told["bytes"] == 128 * 512 * 4
        assert told["algorithm"]
        assert told["floor"] == "inside a program"
        assert told["waited ns"] == round(one.waited_s * 1e9)
        assert told["exposed ns"] + told["hidden ns"] == pytest.approx(
            (one.end_s - one.start_s) * 1e9, abs=2
        )
        assert told["last to come"] == ("rank 3, core 0" if rank > 1 else "rank 0, core 0")


def test_links_count_what_passes(trace):
    where = tracks(trace)
    values = defaultdict(list)
    for packet in trace.packet:
        if packet.track_event.type == EVENT.TYPE_COUNTER:
            values[where[packet.track_event.track_uuid]].append(packet.track_event)
    links = [found for (process, _), found in values.items() if "links" in process]
    assert links
    for found in links:
        assert max(one.double_counter_value for one in found) > 0
        assert found[-1].double_counter_value == 0
