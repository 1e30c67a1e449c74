"""Programs of torch_xla through `neuron_parallel_compile` and the persistent cache."""

import json
import os
import re
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

TRAIN = """
import torch, torch_xla, torch_xla.core.xla_model as xm
device = torch_xla.device()
model = torch.nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    model(torch.ones(3, 4).to(device)).square().mean().backward()
    optimizer.step()
    torch_xla.sync()
"""
REFUSED = """
import torch, torch_xla
x = torch.rand(4).to(torch_xla.device())
y = torch.fft.fft(x)
z = (x + 10) * y
torch_xla.sync()
"""


def ran(folder, *words):
    known = {name: value for name, value in os.environ.items() if name != "NEURON_CC_FLAGS"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *words],
        env=known | {"NEURON_COMPILE_CACHE_URL": str(folder / "cache")},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_a_run_finds_the_graphs_compiled_that_its_trial_run_stored(tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    done = ran(tmp_path, "-m", "trnsim", "neuron_parallel_compile", sys.executable, "train.py")
    stored = done.stderr.count("Extracting graphs")
    assert stored > 0
    assert f"Total successful compilations: {stored}" in done.stdout
    again = ran(tmp_path, "train.py")
    assert again.stderr.count("Using a cached neff at") == stored
    assert len(list((tmp_path / "cache").rglob("model.neff"))) == stored
    other = ran(
        tmp_path, "-c", TRAIN.replace("(3, 4)", "(5, 4)")
    )  # another shape is compiled, and kept
    assert "Using a cached neff at" not in other.stderr
    assert len(list((tmp_path / "cache").rglob("model.neff"))) > stored


def test_an_operator_that_awss_compiler_refuses_is_analyzed(tmp_path):
    """aws-neuron-sdk analyze_for_training.rst: a product of complex numbers."""
    (tmp_path / "refused.py").write_text(REFUSED)
    command = ("-m", "trnsim", "neuron_parallel_compile", "--command", "analyze")
    ran(tmp_path, *command, sys.executable, "refused.py")
    report = json.loads((tmp_path / "model_analysis_result" / "result.json").read_text())
    line = REFUSED.splitlines().index("z = (x + 10) * y") + 1
    assert report["supported_operators"]["aten"]["aten::add"] == 1
    assert {
        "kind": "aten::mul",
        "failureAt": "neuronx-cc",
        "call": f"refused.py {line}",
    } in report["unsupported_operators"]["aten"]
    assert re.fullmatch(r"\d+\.\d\d%", report["support_percentage"])
