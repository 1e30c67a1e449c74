import json
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim import arch
from trnsim.device.last_step import last_step
from trnsim.device.step_document import mfu, step_document
from trnsim.device.step_report import step_report
from trnsim.device.step_time import step_time
from trnsim.document.text import text as text_of
from trnsim.torch.call_recording import recording


def step_text(steps):
    return text_of(step_document(steps))


@pytest.fixture(scope="module")
def training():
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))
    model = model.to("neuron")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(32, 64).to("neuron")
    with recording() as found:
        for _ in range(3):
            optimizer.zero_grad()
            model(x).pow(2).mean().backward()
            optimizer.step()
    return found


def test_the_last_step_ends_with_the_optimizer(training):
    events = last_step(training, "trn2").events
    assert len(events) < len(training.events) / 2
    assert events[-1].phase.value == "optimizer"
    assert [e.phase.value for e in events if e.call.operation == "addmm"] == ["forward"] * 2


def test_without_an_optimizer_everything_is_the_step():
    with recording() as found:
        torch.ones(3, device="neuron").add_(1)
    assert list(last_step(found, "trn2").events) == found.events


def test_the_text_shows_every_chip_and_where_the_time_goes(training):
    text = step_text(
        [step_time(last_step(training, "trn2").events, name) for name in ("trn2", "trn1")]
    )
    lines = text.splitlines()
    assert (
        lines[0] == "device: a logical NeuronCore of trn2: two of its 8 NeuronCores, 24 GiB of HBM"
    )
    assert [line.split()[0] for line in lines[1:4]] == ["chip", "trn2", "trn1"]
    assert any(line.split()[:2] == ["addmm", "2"] for line in lines)
    assert "without a time" not in text


def test_a_chip_of_the_table_stands_in_the_report(training, monkeypatch, tmp_path):
    chip = replace(arch.TARGETS["trn3"], name="trn8", generation_name="")
    monkeypatch.setitem(arch.TARGETS, "trn8", chip)
    report = step_report(training, "trn8")
    report.write(tmp_path)
    text = text_of(report.document)
    lines = text.splitlines()
    assert lines[:2] == [
        "chip: trn8 (as asked)",
        "device: a logical NeuronCore of trn8: two of its 8 NeuronCores, 36 GiB of HBM",
    ]
    assert [line.split()[0] for line in lines[3:8]] == ["trn8", "trn1", "inf2", "trn2", "trn3"]
    assert (tmp_path / "step-trn8.trace.json").is_file()


def test_what_has_no_time_is_listed():
    with recording() as found:
        torch.special.bessel_j0(torch.randn(8, 8, device="neuron"))
    text = step_text([step_time(found, "trn2")])
    assert "without a time, so missing above: 1 call" in text
    assert "aten::special_bessel_j0 has no lowering" in text


def test_files_hold_the_same(training, tmp_path):
    report = step_report(training, "trn1")
    report.write(tmp_path)
    text = text_of(report.document)
    assert (tmp_path / "step.txt").read_text() == text + "\n"
    chips = json.loads((tmp_path / "step.json").read_text())
    assert [chip["target"] for chip in chips] == ["trn1", "inf2", "trn2", "trn3"]
    step = step_time(last_step(training, "trn1").events, "trn1")
    assert chips[0]["device_time_s"] == step.device_time_s
    assert 0 < chips[0]["mfu"] == mfu(step) < 1
    spans = json.loads((tmp_path / "step-trn1.trace.json").read_text())["traceEvents"]
    kernels = [span for span in spans if span["ph"] == "X" and span["tid"] == "kernels"]
    assert sum(span["dur"] for span in kernels) == pytest.approx(step.device_time_s * 1e6)
    assert any(span["ph"] == "C" and span["args"]["bytes"] > 0 for span in spans)
