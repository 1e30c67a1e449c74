import json

import pytest

from trnsim.profile.formats.chrome import chrome


@pytest.fixture
def events(timeline):
    return json.loads(chrome([timeline], "matmul"))["traceEvents"]


def of(events, phase):
    return [event for event in events if event["ph"] == phase]


def test_tracks_are_named(events):
    names = [event["args"]["name"] for event in of(events, "M")]
    assert names == ["matmul, core 0", "Tensor Engine", "Vector Engine", "DMA qDefault"]


def test_every_instruction_is_a_complete_event(events, timeline):
    found = {event["args"]["instruction"]: event for event in of(events, "X")}
    assert found.keys() == set(range(len(timeline)))
    for index, event in found.items():
        span = timeline.span(index)
        assert event["name"] == span.opcode
        assert event["ts"] == pytest.approx(span.start_s * 1e6, abs=1e-3)
        assert event["dur"] == pytest.approx((span.busy_until_s - span.start_s) * 1e6, abs=2e-3)
        assert event["args"]["line"] == str(span.line)
        assert event["args"]["operands"] == span.operands


def test_arrows_come_in_pairs_at_their_slices(events):
    starts = {(e["pid"], e["tid"], e["ts"]) for e in of(events, "X")}
    tails, heads = of(events, "s"), of(events, "f")
    assert [e["id"] for e in tails] == [e["id"] for e in heads]
    assert heads
    for event in (*tails, *heads):
        assert (event["pid"], event["tid"], event["ts"]) in starts


def test_counters_have_a_unit(events):
    units = {event["name"]: next(iter(event["args"])) for event in of(events, "C")}
    assert units == {
        "HBM": "GB/s",
        "SBUF in use": "bytes a partition",
        "PSUM in use": "bytes a partition",
    }
