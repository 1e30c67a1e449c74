import gc

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.device import clock as clocks
from trnsim.device.call_log import recordings
from trnsim.device.clock import Clock, clock


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(clocks, "_clocks", [])
    yield
    recordings[:] = [one for one in recordings if not isinstance(one, Clock)]


def timed():
    event = torch.neuron.Event(enable_timing=True)
    event.record()
    return event


def laps():
    return clock()._laps


@pytest.mark.slow
def test_a_clock_keeps_no_more_than_the_events_that_are_held():
    x = torch.ones(64, device="neuron")
    first = timed()
    sizes = []
    for _ in range(50):
        start = timed()
        x + 1
        end = timed()
        assert start.elapsed_time(end) > 0
        sizes.append((len(laps()), sum(len(lap.calls) for lap in laps().values())))
    assert max(sizes) <= (4, 2)
    assert first.elapsed_time(end) == pytest.approx(50 * start.elapsed_time(end))
    del first, start, end
    gc.collect()
    assert not laps()
    x + 1
    assert not laps()


def test_calls_that_are_all_different_are_turned_into_time(monkeypatch):
    monkeypatch.setattr(clocks, "_MOST_CALLS", 5)
    x = torch.ones(64, device="neuron")
    start = timed()
    for number in range(23):
        x + float(number)  # each a call of its own, all of one time
    (lap,) = laps().values()
    assert len(lap.calls) < 5
    end = timed()
    once = timed()
    x + 0.5
    after = timed()
    assert start.elapsed_time(end) == pytest.approx(23 * once.elapsed_time(after))


def test_what_ran_before_the_first_event_is_not_kept():
    x = torch.ones(64, device="neuron")
    x + 1
    assert not recordings
    event = timed()
    x + 1
    assert [sum(lap.calls.values()) for lap in laps().values()] == [1]
    event.record()  # the same event, later
    assert [sum(lap.calls.values()) for lap in laps().values()] == [0]
