import json

import pytest

from trnsim.device.compiled_program import CompiledProgram
from trnsim.graph import Graph
from trnsim.lower import costs, memory_plan


def compiled(missing=(), said=()):
    graph = Graph()
    x, w = graph.input((16, 32), "float32"), graph.input((32, 8), "float32")
    product = graph.dot_general(x, w, (1, 0))
    graph.outputs = [graph.elementwise("relu", graph.transpose(product, (1, 0)))]
    plan = memory_plan(graph)
    kernels = costs(graph, "trn2")
    return CompiledProgram("model", "trn2", ("mm", "relu"), missing, plan, kernels, said)


@pytest.fixture(scope="module")
def program():
    return compiled()


def test_its_time_is_that_of_its_kernels(program):
    assert len(program.kernels) > 1
    assert program.device_time_s == sum(kernel.device_time_s for kernel in program.kernels)


def test_the_text_says_where_time_and_memory_go(program):
    text = program.text()
    assert text.startswith("model on trn2: 2 operators, 8.19e-06 GFLOP")
    assert "dot_general" in text
    assert "HBM at the peak" in text
    assert "no lowering" not in text


def test_what_has_no_lowering_is_named():
    lines = compiled(("svd has none", "qr has none")).text().splitlines()
    assert lines[-3].startswith("no lowering, so no time: the total is short")
    assert lines[-2:] == ["  svd has none", "  qr has none"]


def test_what_aws_compiler_would_say_is_said(program, tmp_path):
    found = compiled(said=("NCC_EVRF013: topk\n  fix: cast", "--no-cache has no effect"))
    lines = found.text().splitlines()
    assert lines[-5:-2] == ["", "neuronx-cc", "  NCC_EVRF013: topk"]
    assert lines[-2:] == ["    fix: cast", "  --no-cache has no effect"]
    assert "neuronx-cc" not in program.text()
    _, figures, _ = found.write(tmp_path)
    assert json.loads(figures.read_text())["neuronx_cc"] == [*found.said]


def test_files_hold_the_same(program, tmp_path):
    text, figures, trace = program.write(tmp_path / "out")
    assert text.read_text() == program.text() + "\n"
    stored = json.loads(figures.read_text())
    assert stored["device_time_s"] == program.device_time_s
    assert stored["arena"]["bytes"] == program.plan.arena.nbytes
    events = json.loads(trace.read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert [event["name"] for event in spans] == [kernel.name for kernel in program.kernels]
    assert sum(event["dur"] for event in spans) == pytest.approx(program.device_time_s * 1e6)
    ends = [event["ts"] + event["dur"] for event in spans]
    assert [event["ts"] for event in spans] == pytest.approx([0, *ends[:-1]])
    peak = max(event["args"]["bytes"] for event in events if event["ph"] == "C")
    assert peak == program.plan.peak_bytes
