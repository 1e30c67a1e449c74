import pytest

from trnsim.errors import BadInput, NotModelled
from trnsim.jax import snapshots
from trnsim.jax.snapshots import register_hlo_snapshot_callback


@pytest.fixture(autouse=True)
def nobody():
    yield
    register_hlo_snapshot_callback(None)


def test_the_callback_is_asked_with_the_number_of_each_execution():
    calls = []
    register_hlo_snapshot_callback(lambda *words: calls.append(words) or "")
    assert len(snapshots.callbacks) == 1
    for name, device in (("step", 0), ("step", 0), ("step", 1), ("other", 0)):
        snapshots.ask_snapshot(name, device)
    assert calls == [("step", 0, 0), ("step", 0, 1), ("step", 1, 0), ("other", 0, 0)]


def test_a_snapshot_that_is_wanted_is_refused_by_name():
    register_hlo_snapshot_callback(lambda *_: "inputs outputs")
    with pytest.raises(NotModelled, match="a snapshot of 'inputs outputs' of step, execution 0"):
        snapshots.ask_snapshot("step")


def test_none_asks_nobody():
    register_hlo_snapshot_callback(None)
    assert snapshots.callbacks == []
    snapshots.ask_snapshot("step")


def test_what_cannot_be_called_is_refused():
    with pytest.raises(BadInput, match="register_hlo_snapshot_callback of 'x'; legal: a function"):
        register_hlo_snapshot_callback("x")
