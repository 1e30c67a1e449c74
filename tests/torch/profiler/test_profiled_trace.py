import json
import os
from types import SimpleNamespace

import pytest

pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.device.placement import PlacedKernel
from trnsim.torch.profiler.profiled import ProfiledWindow
from trnsim.torch.profiler.profiled_trace import add_device_rows


def host(number, *, python_id=-1):
    answers = {
        "correlation_id": number,
        "is_python_function": python_id >= 0,
        "python_id": python_id,
        "start_ns": 3_000_000,
        "device_resource_id": 42,
    }
    return SimpleNamespace(**{key: lambda value=value: value for key, value in answers.items()})


def rewritten(tmp_path, events, found):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"baseTimeNanoseconds": 1_000_000, "traceEvents": events}))
    add_device_rows(path, found, "trn2")
    return json.loads(path.read_text())


def test_hidden_events_are_found_by_their_numbers(tmp_path):
    events = [
        {"name": "kept", "cat": "cpu_op", "args": {"External id": 1}},
        {"name": "hidden", "cat": "cpu_op", "args": {"External id": 2}},
        {"name": "kept too", "cat": "python_function", "args": {"Python id": 2}},
        {"name": "hidden", "cat": "python_function", "args": {"Python id": 1}},
        {"name": "no number"},
    ]
    found = ProfiledWindow([], [host(2), host(9, python_id=1)], [])
    names = [event["name"] for event in rewritten(tmp_path, events, found)["traceEvents"]]
    assert names == ["kept", "kept too", "no number"]


def test_a_kernel_is_a_slice_with_an_arrow_to_it(tmp_path):
    span = PlacedKernel("dot_general", 0, 4_000_000, 4_002_500, host(7))
    trace = rewritten(tmp_path, [], ProfiledWindow([], [], [span]))
    kernel, start, end = trace["traceEvents"][-3:]
    assert (kernel["ts"], kernel["dur"], kernel["pid"]) == (3000.0, 2.5, "neuron:0")
    assert kernel["args"] == {"device": 0, "stream": 0, "External id": 7, "correlation": 7}
    assert (start["ph"], start["pid"], start["tid"], start["ts"]) == ("s", os.getpid(), 42, 2000.0)
    assert (end["ph"], end["pid"], end["id"]) == ("f", "neuron:0", start["id"])
    about = {event["name"]: event["args"] for event in trace["traceEvents"] if event["ph"] == "M"}
    assert about["process_name"] == {"name": "neuron:0"}
    assert about["process_labels"] == {"labels": "trn2, estimated"}


def test_what_has_no_time_is_listed(tmp_path):
    span = PlacedKernel("not timed: aten::nonzero", 0, 5, 5, None, "no lowering")
    trace = rewritten(tmp_path, [], ProfiledWindow([], [], [span]))
    assert trace["neuron"]["not_timed"] == {"no lowering": 1}
    assert trace["traceEvents"][-1]["args"]["not timed"] == "no lowering"
