import json

import pytest

from trnsim.profile.formats.stored_lanes import stored_lanes


def span(tid, name, start, length, pid=0):
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": start, "dur": length}


STEP = [
    span("kernels", "dot", 0.0, 2.0),
    span("kernels", "add", 2.0, 1.0),
    span("phases", "forward", 0.0, 2.0),
    span("phases", "optimizer", 2.0, 1.0),
    span("modules", "layer", 0.0, 3.0),
    {"ph": "C", "name": "HBM", "pid": 0, "ts": 0, "args": {"bytes": 1}},
]


def lanes(folder, events, machine="trn2"):
    text = events if isinstance(events, str) else json.dumps({"traceEvents": events})
    (folder / "step-trn2.trace.json").write_text(text)
    return stored_lanes(folder / "step.json", machine)


def test_kernels_of_a_step_have_the_colours_of_their_phases(tmp_path):
    (lane,) = lanes(tmp_path, STEP)
    assert lane.name == "kernels"
    assert [(row.kind, row.start_s, row.words) for row in lane.spans] == [
        ("forward", 0.0, "dot: 2 us"),
        ("optimizer", 2e-6, "add: 1 us"),
    ]


def test_launches_of_a_step_have_a_colour_of_their_own(tmp_path):
    launch = {**span(0, "launch of dot", 0.0, 1.0), "tid": "launches"}
    assert [
        (lane.name, [row.kind for row in lane.spans]) for lane in lanes(tmp_path, [*STEP, launch])
    ] == [("kernels", ["forward", "optimizer"]), ("launches", ["launch"])]


def test_engines_of_several_cores_have_their_cores_names(tmp_path):
    events = [span(0, "nc_matmul", 1.0, 1.0, core) for core in (0, 1)]
    for core in (0, 1):
        names = {"process_name": f"llama on trn2, core {core}", "thread_name": "Tensor Engine"}
        events += [
            {"ph": "M", "name": kind, "pid": core, "tid": 0, "args": {"name": name}}
            for kind, name in names.items()
        ]
    assert [lane.name for lane in lanes(tmp_path, events)] == [
        "core 0, Tensor Engine",
        "core 1, Tensor Engine",
    ]
    assert [row.kind for row in lanes(tmp_path, events)[0].spans] == ["work"]
    assert [lane.name for lane in lanes(tmp_path, events[:1] + events[2:4])] == ["Tensor Engine"]


@pytest.mark.parametrize(
    "events",
    ["", "{", "[]", '{"traceEvents": 3}', [3], [{"ph": "X"}], [span(0, "a", -1.0, 1.0)],
     [span(0, "a", 0.0, "x")], [span([], "a", 0.0, 1.0)], [span(0, "a", 10**400, 1.0)],
     [{"ph": "M", "name": "thread_name", "pid": [], "tid": 0, "args": {"name": "a"}}]],
)  # fmt: skip
def test_what_is_no_trace_has_no_lanes(tmp_path, events):
    assert lanes(tmp_path, events) == []


def test_an_answer_without_a_trace_has_no_lanes(tmp_path):
    assert stored_lanes(tmp_path / "step.json", "trn2") == []
    assert lanes(tmp_path, STEP, "trn3") == []
