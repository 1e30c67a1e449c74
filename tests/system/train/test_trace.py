from itertools import pairwise

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

from trnsim.errors import BadInput
from trnsim.place.machine import machine
from trnsim.system.train import pipeline
from trnsim.system.train.layout import Layout
from trnsim.system.train.step import TrainingSteps
from trnsim.system.train.trace import perfetto


def events(made):
    """By name of a track, its names, beginnings and ends in seconds."""
    names, found = {}, {}
    for packet in Trace.FromString(made).packet:
        track = packet.track_descriptor
        if track.uuid:
            names[track.uuid] = track.name
        if packet.HasField("track_event"):
            event = packet.track_event
            spans = found.setdefault(names[event.track_uuid], [])
            if event.type == event.TYPE_SLICE_BEGIN:
                spans.append([event.name, packet.timestamp / 1e9])
            else:
                spans[-1].append(packet.timestamp / 1e9)
    return found


@pytest.mark.parametrize("virtual", [1, 2])
def test_a_stage_is_a_track_with_its_operations(virtual, llama):
    layout = Layout(
        tensor=16, pipeline=2, virtual=virtual, data=2, is_sequence=True, global_batch=8
    )
    where = machine("trn2")
    found = events(perfetto(llama, where, layout))
    assert sorted(found) == ["stage 0", "stage 1", "transfers"]
    assert [len(found[f"stage {at}"]) for at in (0, 1)] == [2 * 4 * virtual] * 2
    assert found["stage 0"][0][0].startswith("forward 0")
    steps = TrainingSteps(llama, where)
    costs = steps.costs(steps.work(layout), layout)
    end_s = max(end for at in (0, 1) for _, _, end in found[f"stage {at}"])
    assert end_s == pytest.approx(pipeline.step_s("1f1b", 2, virtual, 4, costs), rel=1e-6)
    for spans in (found["stage 0"], found["stage 1"]):
        assert all(one[2] <= other[1] + 1e-9 for one, other in pairwise(spans))
    # Every part but the last hands on, and every one but the first hands back.
    assert len(found["transfers"]) == 2 * 4 * (2 * virtual - 1)


def test_a_trace_that_no_viewer_shows_is_refused(llama):
    layout = Layout(tensor=16, pipeline=2, data=2, global_batch=1 << 20)
    with pytest.raises(BadInput, match="--trace: a step has 2,097,152 operations; at most"):
        perfetto(llama, machine("trn2"), layout)
