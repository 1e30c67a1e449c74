import pytest

from trnsim.device import call_log as module
from trnsim.device.call_log import (
    Recording,
    StepPhase,
    note,
    note_collective,
    note_from_host,
    note_to_host,
    record_whole_program,
    recording,
    recordings,
    without_recording,
)
from trnsim.device.collective_log import CollectiveCall
from trnsim.device.hbm import device_memory


def test_calls_are_kept_in_order_with_their_place_and_the_hbm_in_use(made_up, at):
    with recording() as found:
        note(made_up("x::add"), 0, at("encoder"))
        note(made_up("x::mul"), 0, at("encoder.0", "backward"))
        note(made_up("x::step"), 1, at(phase="optimizer"))
    assert [(e.call.operation, e.module, e.phase) for e in found.events] == [
        ("add", "encoder", StepPhase.forward),
        ("mul", "encoder.0", StepPhase.backward),
        ("step", "", StepPhase.optimizer),
    ]
    assert {event.live_bytes for event in found.events} == {device_memory(0).live_bytes}


def test_calls_that_are_equal_become_one(made_up, at):
    with recording() as found:
        for _ in range(3):
            note(made_up("x::add"), 0, at())
    assert len({id(event.call) for event in found.events}) == 1


def test_nothing_is_recorded_outside_or_where_something_larger_will_be(made_up, at):
    with recording() as outer, recording() as inner:
        with without_recording():
            note(made_up("x::part"), 0, at())
            note_from_host(1)
        note(made_up("x::whole"), 0, at())
    note(made_up("x::after"), 0, at())
    for found in (outer, inner):
        assert [event.call.operation for event in found.events] == ["whole"]
        assert found not in recordings
        assert found.from_host_bytes == 0


def test_a_recording_that_begins_within_another_ends_alone(made_up, at):
    with recording() as outer:
        with recording() as inner:
            pass
        assert recordings == [outer]
        note(made_up("x::add"), 0, at())
    assert (len(outer.events), inner.events, recordings) == (1, [], [])


def test_an_error_ends_a_recording():
    with pytest.raises(KeyError), recording() as found:
        raise KeyError(len(found.events))
    assert not recordings


def test_transfers_and_collectives_are_written_down():
    exchanged = CollectiveCall("allreduce", 64, (0, 1))
    with recording() as found:
        note_from_host(3)
        note_from_host(4)
        note_to_host(5)
        note_collective(exchanged)
    assert (found.from_host_bytes, found.to_host_bytes) == (7, 5)
    assert found.collectives == [exchanged]


def test_who_does_not_listen_is_asked_for_nothing(made_up, monkeypatch):
    class Deaf(Recording):
        is_listening = False

    deaf = Deaf()
    monkeypatch.setattr(module, "recordings", [deaf])
    note(made_up("x::add"), 0, lambda: pytest.fail("nobody asked for a place"))
    assert not deaf.events


@pytest.mark.parametrize(("value", "is_asked"), [("1", True), ("0", False), (None, False)])
def test_the_whole_program_is_recorded_where_it_is_asked_for(monkeypatch, value, is_asked):
    monkeypatch.setattr(module, "whole_program", [])
    monkeypatch.setattr(module, "recordings", [])
    monkeypatch.delenv("TRNSIM_RECORD", raising=False)
    if value is not None:
        monkeypatch.setenv("TRNSIM_RECORD", value)
    assert record_whole_program() is is_asked
    assert record_whole_program() is is_asked  # a second framework shares it
    assert module.recordings == module.whole_program
    assert len(module.recordings) == is_asked


def test_a_collective_is_awaited_by_the_call_that_touches_its_tensors():
    with module.recording() as found:
        module.note_collective("first", [1, 2], is_async=True)
        module.note_collective("waited for", [3])
        assert module.are_collectives_under_way()
        found.events += ["call"] * 2
        module.note_buffer_use([7])
        module.note_buffer_use([2])
        found.events += ["call"]
        module.note_buffer_use([1])  # it has ended by now
        module.note_collective("never", [4], is_async=True)
    assert [(one.begun, one.awaited) for one in found.spans] == [(0, 2), (0, 0), (3, None)]
    assert not module.are_collectives_under_way()
