import pytest

from trnsim.device import clock as module
from trnsim.device.call_log import note, recordings
from trnsim.device.clock import Clock, clock


class Mark:
    """What a framework has for a timing event."""


@pytest.fixture(autouse=True)
def watch(monkeypatch):
    monkeypatch.setattr(module, "_clocks", [])
    yield
    recordings[:] = [one for one in recordings if not isinstance(one, Clock)]


@pytest.fixture
def run(made_up, at):
    def run(name="x::add", kernels_s=(1e-3,), times=1):
        for _ in range(times):
            note(made_up(name, kernels_s), 0, at())

    return run


def test_the_time_between_marks_is_that_of_the_calls_between_them(run):
    events = [Mark() for _ in range(3)]
    run(times=7)  # before the first mark: nobody can ask
    first = clock().mark(events[0])
    run(times=2)
    second = clock().mark(events[1])
    run("x::dot", (2e-3, 3e-3))
    third = clock().mark(events[2])
    run()
    assert clock().between(first, second).device_time_s == pytest.approx(2e-3)
    assert clock().between(second, third).device_time_s == pytest.approx(5e-3)
    assert clock().between(first, third).device_time_s == pytest.approx(7e-3)
    assert clock().between(second, second).device_time_s == 0
    assert not clock().between(first, third).missing


def test_a_call_without_a_time_is_named(run):
    start, end = Mark(), Mark()
    first = clock().mark(start)
    run("x::none", (), times=3)
    assert clock().between(first, clock().mark(end)).missing == {"x::none has no time": 3}


def test_marks_that_nobody_holds_are_forgotten_and_their_time_kept(run):
    start = Mark()
    first = clock().mark(start)
    for _ in range(50):
        run()
        clock().mark(Mark())
    end = Mark()
    last = clock().mark(end)
    assert len(clock()._laps) <= 3
    assert clock().between(first, last).device_time_s == pytest.approx(50e-3)
    del start, end
    assert not clock().is_listening
    assert not clock()._laps


def test_a_mark_that_moves_begins_anew(run):
    event, end = Mark(), Mark()
    clock().mark(event)
    run(times=5)
    moved = clock().mark(event)
    run()
    assert clock().between(moved, clock().mark(end)).device_time_s == pytest.approx(1e-3)


def test_many_different_calls_are_turned_into_time(run, monkeypatch):
    monkeypatch.setattr(module, "_MOST_CALLS", 5)
    start, end = Mark(), Mark()
    first = clock().mark(start)
    for number in range(23):
        run(f"x::{number}")
    (lap,) = clock()._laps.values()
    assert len(lap.calls) < 5
    assert clock().between(first, clock().mark(end)).device_time_s == pytest.approx(23e-3)
