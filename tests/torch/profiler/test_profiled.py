"""Which call belongs to which operator, and where its kernels are placed."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch.autograd import DeviceType

from trnsim.device import placement as module
from trnsim.device.call_time import CallTime
from trnsim.device.placement import PlacedKernel
from trnsim.lower import Cost
from trnsim.torch.aten.operator_call import OperatorCall
from trnsim.torch.profiler.profiled import MARK, DeviceEvent, Launch, profiled_window


def event(name, start, end, *, number=0, thread=1, is_python=False):
    answers = {
        "name": name,
        "start_ns": start,
        "end_ns": end,
        "start_thread_id": thread,
        "end_thread_id": thread,
        "correlation_id": number,
        "device_type": DeviceType.CPU,
        "is_async": False,
        "is_python_function": is_python,
    }
    return SimpleNamespace(**{key: lambda value=value: value for key, value in answers.items()})


MM = OperatorCall("aten::mm", (), (), ())


def launch(number, call=MM, core=0, host_ns=0):
    return Launch(number, call, core, host_ns)


@pytest.fixture(autouse=True)
def one_microsecond_a_kernel(monkeypatch):
    cost = Cost("kernel", 1e-6, 0.0, 1, 0.0, 0)
    monkeypatch.setattr(module, "time_of", lambda *_: CallTime((cost,)))


def names(events):
    return [one.name() for one in events]


def test_a_call_belongs_to_the_innermost_operator_around_its_mark():
    events = [
        event("linear", 0, 100),
        event("addmm", 10, 90),
        event("addmm of the host", 20, 50),
        event(f"{MARK}0", 60, 61),
        event("after", 90, 95),
    ]
    found = profiled_window(events, [launch(0)], "trn2")
    assert [span.launcher.name() for span in found.spans] == ["addmm"]
    assert names(found.host_events) == ["linear", "addmm", "after"]
    assert names(found.hidden_events) == ["addmm of the host", f"{MARK}0"]


def test_an_operator_that_was_called_by_another_of_the_device_stays():
    events = [
        event("outer", 0, 100),
        event("inner", 10, 50),
        event(f"{MARK}0", 20, 21),
        event(f"{MARK}1", 60, 61),
    ]
    found = profiled_window(events, [launch(0), launch(1)], "trn2")
    assert [span.launcher.name() for span in found.spans] == ["inner", "outer"]
    assert names(found.host_events) == ["outer", "inner"]


def test_the_name_of_a_function_of_python_is_not_read():
    function = event("", 0, 100, is_python=True)
    function.name = b"\xa0".decode
    found = profiled_window([function, event(f"{MARK}0", 60, 61)], [launch(0)], "trn2")
    assert found.host_events == [function]


def test_a_function_of_python_is_no_operator_and_hidden_inside_one():
    events = [
        event("main", 0, 100, is_python=True),
        event("add", 10, 90),
        event("kernel", 12, 80, is_python=True),
        event(f"{MARK}0", 60, 61),
    ]
    found = profiled_window(events, [launch(0)], "trn2")
    assert [span.launcher.name() for span in found.spans] == ["add"]
    assert names(found.host_events) == ["main", "add"]


def test_events_that_begin_together_nest_in_the_order_of_their_numbers():
    events = [
        event("inner", 0, 10, number=2),
        event(f"{MARK}0", 5, 6, number=3),
        event("outer", 0, 10, number=1),
    ]
    found = profiled_window(events, [launch(0)], "trn2")
    assert [span.launcher.name() for span in found.spans] == ["inner"]


def test_threads_do_not_nest_in_each_other():
    events = [event("add", 0, 100), event(f"{MARK}0", 10, 11, thread=2)]
    (span,) = profiled_window(events, [launch(0, host_ns=12)], "trn2").spans
    assert span.launcher is None
    assert span.start_ns == 12


def test_a_kernel_starts_after_its_call_and_after_the_one_before_it():
    events = [
        event("add", 100, 200),
        event(f"{MARK}0", 150, 151),
        event("add", 300, 400),
        event(f"{MARK}1", 350, 351),
        event("add", 5000, 5100),
        event(f"{MARK}2", 5050, 5051),
    ]
    found = profiled_window(events, [launch(0), launch(1), launch(2)], "trn2")
    assert [(span.start_ns, span.end_ns) for span in found.spans] == [
        (100, 1100),
        (1100, 2100),
        (5000, 6000),
    ]


def test_cores_do_not_wait_for_each_other():
    spans = profiled_window(
        [], [launch(0, core=0, host_ns=5), launch(1, core=1, host_ns=6)], "trn2"
    ).spans
    assert [(span.core, span.start_ns) for span in spans] == [(0, 5), (1, 6)]


def test_a_call_without_a_time_is_named(monkeypatch):
    monkeypatch.setattr(module, "time_of", lambda *_: CallTime((), "no lowering"))
    call = OperatorCall("aten::nonzero", (), (), ())
    found = profiled_window([], [launch(0, call), launch(1, call)], "trn2")
    assert [(span.name, span.end_ns - span.start_ns) for span in found.spans] == [
        ("not timed: aten::nonzero", 0)
    ] * 2
    assert found.missing == {"no lowering": 2}


def test_a_kernel_answers_all_that_an_event_of_kineto_can_be_asked():
    one = DeviceEvent(PlacedKernel("add", 1, 5, 9, event("aten::add", 0, 4, number=7)))
    asked = [name for name in dir(torch._C._autograd._KinetoEvent) if not name.startswith("_")]
    assert all(callable(getattr(one, name)) for name in asked)
    assert (one.start_ns(), one.duration_ns(), one.device_index()) == (5, 4, 1)
    assert one.linked_correlation_id() == 7
    with pytest.raises(AttributeError, match="colour"):
        one.colour()
