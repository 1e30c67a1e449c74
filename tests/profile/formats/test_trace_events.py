import json

import pytest

from trnsim.profile.formats.trace_events import Point, arrow, as_json, counter, metadata, span


def test_a_span_is_a_complete_event():
    start = Point(3, "kernels", 1.5)
    plain = {"ph": "X", "name": "add", "pid": 3, "tid": "kernels", "ts": 1.5, "dur": 0.25}
    assert span("add", start, 0.25) == plain
    assert span("add", start, 0.25, {}, "kernel") == {**plain, "args": {}, "cat": "kernel"}
    assert span("add", start, 0.25, {"line": "a.py:1"})["args"] == {"line": "a.py:1"}


def test_a_counter_belongs_to_a_process():
    event = {"ph": "C", "name": "HBM", "pid": 0, "ts": 2.0, "args": {"bytes": 64}}
    assert counter("HBM", 0, 2.0, "bytes", 64) == event


def test_an_arrow_has_both_ends_under_one_number():
    tail, head = arrow("wait", "0:7", Point(0, 1, 2.0), Point("neuron:0", 4, 5.0))
    shared = {"name": "wait", "cat": "wait", "id": "0:7"}
    assert tail == {"ph": "s", **shared, "pid": 0, "tid": 1, "ts": 2.0}
    assert head == {"ph": "f", "bp": "e", **shared, "pid": "neuron:0", "tid": 4, "ts": 5.0}


def test_a_process_and_a_track_have_a_name():
    event = {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "DMA"}}
    assert metadata("thread_name", 1, 2, name="DMA") == event
    assert metadata("process_name", "neuron:0", name="x")["tid"] == 0


def test_a_trace_is_strict_json():
    events = [counter("HBM", 0, 0.0, "bytes", 1)]
    assert json.loads(as_json(iter(events))) == {"displayTimeUnit": "ns", "traceEvents": events}
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json([counter("HBM", 0, float("nan"), "bytes", 1)])
