"""PyTorch's profiler on programs of the device, as their authors write them."""

import gzip
import json
import threading
import warnings
from collections import Counter
from itertools import pairwise

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch import nn
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, schedule

from trnsim.device import call_log as recorder
from trnsim.device import device_core, hbm
from trnsim.device.device_core import target
from trnsim.device.step_time import step_time
from trnsim.torch.call_recording import recording
from trnsim.torch.profiler.profiling import NotTimed

BOTH = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]
US = 1e6


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(self.up(x).relu())


def a_step():
    """A training step as a function without arguments."""
    model = Model().to("neuron")
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.ones(8, 16).to("neuron")

    def step():
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def rows(found, device=DeviceType.CPU):
    return {row.key: row for row in found.key_averages() if row.device_type == device}


def device_us(found):
    return sum(row.self_device_time_total for row in rows(found, DeviceType.PrivateUse1).values())


def trace_of(found, path, **options):
    found.export_chrome_trace(str(path), **options)
    stored = path.read_bytes()
    return json.loads(gzip.decompress(stored) if path.suffix == ".gz" else stored)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"with_stack": True, "record_shapes": True}])
def test_a_steps_device_time_is_the_recorded_one(options):
    step = a_step()
    with recording() as recorded, profile(activities=BOTH, **options) as found:
        step()
    time = step_time(recorded, target().name)
    rounding = 1e-3 * sum(len(time.times[event.call].kernels) for event in time.events)
    assert device_us(found) == pytest.approx(time.device_time_s * US, abs=rounding)
    by_operator = rows(found)
    assert sum(row.self_device_time_total for row in by_operator.values()) == pytest.approx(
        device_us(found)
    )
    expected = Counter()
    for event in time.events:
        expected[event.call.name.partition(".")[0]] += time.times[event.call].device_time_s * US
    for name, taken_us in expected.items():
        assert by_operator[name].self_device_time_total == pytest.approx(taken_us, abs=rounding)
    assert by_operator["aten::addmm"].count == 2
    assert by_operator["aten::mm"].count == 3


def test_an_operator_has_its_own_time_and_that_of_those_inside():
    layer, x = nn.Linear(16, 8).to("neuron"), torch.ones(4, 16, device="neuron")
    with profile(activities=BOTH) as found:
        layer(x)
    linear, addmm = rows(found)["aten::linear"], rows(found)["aten::addmm"]
    assert addmm.self_device_time_total == addmm.device_time_total > 0
    assert linear.device_time_total == addmm.device_time_total
    assert linear.self_device_time_total == 0
    assert addmm.count == 1
    table = found.key_averages().table(sort_by="self_device_time_total")
    assert "Self NEURON" in table
    assert f"Self NEURON time total: {addmm.device_time_total:.3f}us" in table


def test_what_computes_an_operators_values_on_the_host_is_not_shown():
    x = torch.ones(4, 16, device="neuron")
    with profile(activities=BOTH) as found:
        torch.addmm(x, x @ x.t(), x)
    assert {name for name in rows(found) if name.startswith(("aten::", "trnsim"))} == {
        "aten::t", "aten::transpose", "aten::as_strided", "aten::matmul", "aten::mm", "aten::addmm",
    }  # fmt: skip


def test_a_profiler_of_the_host_alone_sees_what_it_saw():
    with profile(activities=[ProfilerActivity.CPU]) as found:
        assert not any(isinstance(one, recorder.Recording) for one in watching())
        torch.ones(4, device="neuron").add(1)
    assert device_us(found) == 0
    assert "NEURON" not in found.key_averages().table()
    assert not watching()


def watching():
    return [one for one in recorder.recordings if type(one).__name__ == "Launches"]


def test_without_a_choice_of_activities_the_device_is_seen():
    with profile() as found:
        assert watching()
        torch.ones(4, device="neuron").add(1)
    assert not watching()
    assert device_us(found) > 0


def test_the_device_alone_has_kernels_and_no_operators():
    x = torch.ones(4, device="neuron")
    with profile(activities=[ProfilerActivity.PrivateUse1]) as found:
        x.add(1)
    assert not rows(found)
    assert [row.count for row in rows(found, DeviceType.PrivateUse1).values()] == [1]


def test_nothing_is_collected_of_an_activity_with_no_kinds():
    with profile(activities=[ProfilerActivity.CPU, {ProfilerActivity.PrivateUse1: []}]) as found:
        torch.ones(4, device="neuron").add(1)
    assert device_us(found) == 0


def test_the_older_profiler_has_the_same_times():
    x = torch.ones(4, device="neuron")
    with profile(activities=BOTH) as found:
        x.add(1)
    with torch.autograd.profiler.profile(use_device="neuron") as older:
        x.add(1)
    assert device_us(older) == pytest.approx(device_us(found)) != 0
    assert rows(older)["aten::add"].cpu_time_total > 0


# As an error, PyTorch's warning would leave its own profiler half started.
@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events")
def test_each_window_of_a_schedule_has_its_own_calls():
    x = torch.ones(4, device="neuron")
    windows = []
    plan = schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(
        activities=BOTH, schedule=plan, on_trace_ready=lambda p: windows.append(device_us(p))
    ) as found:
        for _ in range(8):
            x.add(1)
            found.step()
    with profile(activities=BOTH) as once:
        x.add(1)
    assert windows == pytest.approx([2 * device_us(once)] * 2)


def test_windows_add_up_when_asked_to():
    x = torch.ones(4, device="neuron")
    plan = schedule(wait=0, warmup=1, active=1, repeat=2)
    with profile(activities=BOTH, schedule=plan, acc_events=True) as found:
        for _ in range(4):
            x.add(1)
            found.step()
    assert rows(found)["aten::add"].count == 2
    assert rows(found, DeviceType.PrivateUse1)["add"].count == 2


def test_a_compiled_graph_is_one_row():
    function = torch.compile(lambda x: (x.exp() @ x).relu(), backend="neuron")
    x = torch.ones(16, 16, device="neuron")
    function(x)
    with recording() as recorded, profile(activities=BOTH) as found:
        function(x)
    (event,) = recorded.events
    kernels = rows(found, DeviceType.PrivateUse1)
    assert list(kernels) == [event.call.name]
    assert rows(found)[event.call.name].self_device_time_total == device_us(found)
    assert device_us(found) == pytest.approx(
        step_time(recorded, target().name).device_time_s * US, abs=1e-3
    )
    assert "aten::exp" not in rows(found)


def test_an_nki_kernel_is_a_row(kernels):
    x = torch.ones(128, 8, device="neuron")
    with recording() as recorded, profile(activities=BOTH) as found:
        kernels.cosine(x)
    assert rows(found)["nki::cosine"].self_device_time_total == device_us(found)
    assert rows(found, DeviceType.PrivateUse1)["cosine"].count == 1
    assert device_us(found) == pytest.approx(
        step_time(recorded, target().name).device_time_s * US, abs=1e-3
    )


def test_what_has_no_time_says_so():
    x = torch.ones(4, device="neuron")
    with profile(activities=BOTH) as found:
        x.nonzero()
        x.add(1)
    with pytest.warns(NotTimed) as caught:
        table = found.key_averages().table()
    (warning,) = caught
    assert str(warning.message) == (
        "no device time, or not all of it, for 1 call; the profile's totals are short by what "
        "it takes: aten::nonzero has no lowering to the chip's instructions yet"
    )
    assert warning.filename == __file__
    assert "not timed: aten::nonzero" in table
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found.key_averages()


def test_calls_of_a_thread_that_is_not_watched_belong_to_the_device_alone():
    x = torch.ones(4, device="neuron")
    with profile(activities=BOTH) as found:
        thread = threading.Thread(target=lambda: x.add(1))
        thread.start()
        thread.join()
    assert "aten::add" not in rows(found)
    assert rows(found, DeviceType.PrivateUse1)["add"].count == 1


def test_nothing_is_noted_after_an_error():
    with pytest.raises(ValueError, match="stop"), profile(activities=BOTH):
        raise ValueError("stop")
    assert not watching()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
@pytest.mark.parametrize("by_python", [False, True])
def test_the_trace_has_the_devices_kernels_after_their_calls(tmp_path, name, by_python):
    step = a_step()
    with profile(activities=BOTH, with_stack=True) as found:
        step()
    trace = trace_of(found, tmp_path / name, use_python_export=by_python)
    events = trace["traceEvents"]
    kernels = [e for e in events if e["pid"] == "neuron:0" and e["ph"] == "X"]
    called = {e["args"]["External id"]: e for e in events if e.get("cat") == "cpu_op"}
    assert sum(kernel["dur"] for kernel in kernels) == pytest.approx(device_us(found))
    nanosecond = 2e-3  # what the file's numbers resolve, so many microseconds after its zero
    for kernel, following in pairwise(kernels):
        assert kernel["ts"] >= called[kernel["args"]["External id"]]["ts"] - nanosecond
        assert following["ts"] >= kernel["ts"] + kernel["dur"] - nanosecond
    starts = {e["id"] for e in events if e.get("cat") == "ac2g" and e["ph"] == "s"}
    ends = {e["id"] for e in events if e.get("cat") == "ac2g" and e["ph"] == "f"}
    assert len(starts) == len(kernels)
    assert starts == ends
    assert not any(e["name"].startswith("trnsim::call") for e in events)
    assert not any("recording.py" in e["name"] and "call_and_record" in e["name"] for e in events)
    assert trace["neuron"]["chip"] == target().name


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "0-1")
    device_core.visible_cores.cache_clear()
    kept = hbm._memories.copy()
    hbm._memories.clear()
    yield
    hbm._memories[:] = kept
    monkeypatch.undo()
    device_core.visible_cores.cache_clear()


@pytest.mark.usefixtures("two_cores")
def test_two_cores_are_two_processes_of_the_trace(tmp_path):
    with profile(activities=BOTH) as found:
        torch.ones(4, device="neuron:0").add(1)
        torch.ones(4, device="neuron:1").add(1)
    events = trace_of(found, tmp_path / "trace.json")["traceEvents"]
    assert {e["pid"] for e in events if e.get("cat") == "kernel"} == {"neuron:0", "neuron:1"}
