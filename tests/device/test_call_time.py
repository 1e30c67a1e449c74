from dataclasses import dataclass

import pytest

from trnsim.device.call_time import CallTime, TensorSpec, spec_text, time_of
from trnsim.lower import Cost


def costs(*launches_s):
    return tuple(Cost("k", 1e-3, launch_s, 1, 5.0, 8) for launch_s in launches_s)


@pytest.mark.parametrize(
    ("is_one_launch", "launches_s"), [(False, [1e-5, 2e-5, 3e-5]), (True, [1e-5, 0.0, 0.0])]
)
def test_a_compiled_graph_is_started_once_and_a_chain_of_kernels_each(is_one_launch, launches_s):
    time = CallTime(costs(1e-5, 2e-5, 3e-5), is_one_launch=is_one_launch)
    assert time.launches_s == launches_s
    assert time.launch_s == pytest.approx(sum(launches_s))
    assert (time.device_time_s, time.flop) == (pytest.approx(3e-3), 15.0)


def test_a_call_without_work_takes_nothing():
    time = CallTime(())
    assert (time.device_time_s, time.launch_s, time.flop, time.launches_s) == (0, 0, 0, [])


def test_a_call_without_a_time_says_why(made_up):
    time = time_of(made_up("x::none", ()), "trn2")
    assert (time.kernels, time.missing_reason) == ((), "x::none has no time")


def test_a_bug_in_a_call_is_no_missing_time(made_up, monkeypatch):
    monkeypatch.setattr(made_up, "time", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        time_of(made_up("x::broken"), "trn2")


@pytest.mark.parametrize(
    ("dtype", "words"), [("framework.float32", "float32[4, 8]"), ("bfloat16", "bfloat16[4, 8]")]
)
def test_a_tensor_in_words(dtype, words):
    @dataclass(frozen=True, slots=True)
    class Spec(TensorSpec):
        shape: tuple[int, ...]
        dtype: str

    spec = Spec((4, 8), dtype)
    assert spec_text(spec) == words
    assert {spec: 1}[Spec((4, 8), dtype)] == 1
    with pytest.raises(NotImplementedError):
        _ = spec.type
