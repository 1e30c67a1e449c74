import json
from dataclasses import replace

import pytest
from schema_checks import assert_both_ways

from trnsim.device.call_log import note, recording
from trnsim.device.collective_log import CollectiveCall
from trnsim.device.last_step import last_step
from trnsim.device.step_document import mfu, step_document
from trnsim.device.step_report import step_report
from trnsim.device.step_time import step_time
from trnsim.document.text import text as text_of
from trnsim.profile.analysis.step_program import StepProgram


@pytest.fixture(scope="module")
def training(made_up, at):
    with recording() as found:
        for _ in range(3):
            note(made_up("x::dot", (2e-3, 1e-3)), 0, at("up"))
            note(made_up("x::grad", (4e-3,)), 0, at("up", "backward"))
            note(made_up("x::none", ()), 0, at(phase="backward"))
            note(made_up("x::step", (5e-4,)), 0, at(phase="optimizer"))
            note(made_up("x::step", (5e-4,)), 0, at(phase="optimizer"))
        note(made_up("x::evaluate"), 0, at("up"))
    return found


def test_the_text_shows_every_chip_and_where_the_time_goes(training):
    steps = [step_time(last_step(training, "trn2").events, name) for name in ("trn2", "trn1")]
    lines = text_of(step_document(steps)).splitlines()
    assert (
        lines[0] == "device: a logical NeuronCore of trn2: two of its 8 NeuronCores, 24 GiB of HBM"
    )
    assert [line.split()[0] for line in lines[1:4]] == ["chip", "trn2", "trn1"]
    assert [line.split()[1] for line in lines[2:4]] == ["8.000", "16.000"]
    assert ["up", "2", "7.000", "87.5"] in [line.split() for line in lines]
    assert lines[-2:] == ["without a time, so missing above: 1 call", "  1  x::none has no time"]


def test_mfu_is_of_the_peak_and_zero_for_no_time(training):
    step = step_time(last_step(training, "trn2").events, "trn2")
    assert mfu(step) == pytest.approx(5e6 / (8e-3 * 2 * 128 * 128 * 2 * 2.4e9))
    assert mfu(step_time([], "trn2")) == 0


def test_files_hold_the_same(training, tmp_path):
    training.collectives[:] = [CollectiveCall("allreduce", 1 << 20, (0, 1))]
    report = step_report(training, "trn1")
    assert report.write(tmp_path) == tmp_path / "step.html"
    text = text_of(report.document)
    assert text.startswith("chip: trn1 (as asked)\n")
    assert "allreduce" in text
    assert (tmp_path / "step.txt").read_text() == text + "\n"
    assert "allreduce" in (tmp_path / "step.html").read_text()
    chips = json.loads((tmp_path / "step.json").read_text())
    assert [chip["target"] for chip in chips] == ["trn1", "inf2", "trn2", "trn3"]
    assert chips[0]["device_time_s"] == pytest.approx(16e-3)
    assert chips[0]["missing"] == {"x::none has no time": 1}
    assert chips[0]["by_phase"][0] == {
        "name": "backward", "calls": 2, "device_time_s": pytest.approx(8e-3)
    }  # fmt: skip


def traced(report, folder):
    """The events of a step's trace, and its spans: track, name, start and length in us."""
    report.write(folder)
    events = json.loads((folder / "step-trn2.trace.json").read_text())["traceEvents"]
    spans = [(e["tid"], e["name"], round(e["ts"]), round(e["dur"])) for e in events if "dur" in e]
    return events, spans


def test_the_trace_has_kernels_under_their_operator_module_and_phase(training, tmp_path):
    events, spans = traced(step_report(training, "trn2"), tmp_path)
    assert spans[:9] == [
        ("kernels", "dot-0", 10, 2000),
        ("launches", "launch of dot-0", 0, 10),
        ("kernels", "dot-1", 2010, 1000),
        ("launches", "launch of dot-1", 10, 10),
        ("operators", "x::dot", 10, 3000),
        ("modules", "up", 10, 3000),
        ("phases", "forward", 10, 3000),
        ("kernels", "grad-0", 3010, 4000),
        ("launches", "launch of grad-0", 20, 10),
    ]
    assert ("operators", "x::none", 7010, 0) in spans  # without kernels, it takes no time
    counted = [event for event in events if event["ph"] == "C"]
    assert [round(event["ts"]) for event in counted] == [10, 3010, 7010, 7010, 7510]
    assert {tuple(event["args"]) for event in counted} == {("bytes",)}
    sorted_tracks = [event["tid"] for event in events if event["name"] == "thread_sort_index"]
    assert sorted_tracks == ["launches", "kernels", "operators", "modules", "phases"]


def test_a_kernel_of_the_trace_waits_for_its_launch_to_which_an_arrow_leads(made_up, at, tmp_path):
    with recording() as calls:
        for kernels_s in ((3e-6,), (), (5e-5, 1e-6)):
            note(made_up("x::short", kernels_s), 0, at())
    report = step_report(calls, "trn2")
    events, spans = traced(report, tmp_path)
    kernels = [(start, length) for track, _, start, length in spans if track == "kernels"]
    assert kernels == [(10, 3), (20, 50), (70, 1)]
    program = StepProgram.of_data(json.loads((tmp_path / "step.json").read_text())[0]["program"])
    assert program.total_s * 1e6 == pytest.approx(71)
    arrows = [(e["ph"], e["tid"], round(e["ts"])) for e in events if e["ph"] in "sf"]
    tails, heads = arrows[::2], arrows[1::2]
    assert tails == [("s", "launches", 0), ("s", "launches", 10), ("s", "launches", 20)]
    assert heads == [("f", "kernels", 10), ("f", "kernels", 20), ("f", "kernels", 70)]


def test_a_trace_of_one_launch_has_one_arrow(made_up, at, tmp_path):
    with recording() as calls:
        note(made_up("x::graph", (3e-6, 4e-6), is_one_launch=True), 0, at())
    events, spans = traced(step_report(calls, "trn2"), tmp_path)
    assert [track for track, *_ in spans] == [
        *("kernels", "launches", "kernels", "operators", "phases"),
    ]
    assert [event["ph"] for event in events if event["ph"] in "sf"] == ["s", "f"]


def test_a_stored_step_has_its_program_unless_it_is_very_long(training, tmp_path, monkeypatch):
    report = step_report(training, "trn2")
    report.write(tmp_path)
    chips = json.loads((tmp_path / "step.json").read_text())
    for chip in chips:
        program = StepProgram.of_data(chip["program"])
        assert sum(program.times_s) == pytest.approx(chip["device_time_s"])
        assert sum(program.launches_s) == pytest.approx(chip["launch_s"])
        assert max(live for _, live in program.hbm) == chip["peak_hbm_bytes"]
    monkeypatch.setattr("trnsim.device.step_report.MOST_STORED_KERNELS", 4)
    report.write(tmp_path)
    chips = json.loads((tmp_path / "step.json").read_text())
    assert not any("program" in chip for chip in chips)  # of five kernels


CUTS = {
    "cuts": [
        {"line": "a.py:3", "kind": "sync", "cuts": 2, "executions": 2, "compilations": 1,
         "device_time_s": 2e-6},
    ],
    "recompilations": [{"line": "a.py:3", "change": "a shape", "change_line": "a.py:2"}],
}  # fmt: skip


def test_the_figures_are_those_of_the_schema_with_and_without_cuts(training, tmp_path):
    report = step_report(training, "trn2")
    report.write(tmp_path / "without")
    replace(report, framework_values=CUTS).write(tmp_path / "with")
    written = [
        json.loads((tmp_path / name / "step.json").read_text()) for name in ("without", "with")
    ]
    assert not {*CUTS} & {*written[0][0]}
    assert {name: written[1][0][name] for name in CUTS} == CUTS
    assert_both_ways(written, "run-step/1")
