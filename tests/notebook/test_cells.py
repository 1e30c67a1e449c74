"""A notebook of a user, run by nbconvert: a kernel, a mistake, a summary, a plan and a step."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-notebook" / "bin" / "python"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON.exists(), reason="make .venv-notebook/.made installs nbconvert"),
]
KERNEL = """\
import numpy as np
import trnsim
from trnsim import api
from nki import isa as nisa, jit, language as nl


@jit
def scaled(x, rows):
    tile = nl.ndarray((rows, 64), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


run = trnsim.run(scaled, np.ones((128, 64), np.float32), 128)
run
"""
STEP = """\
import torch, torch_neuron
weights = torch.ones(4, 4, device="neuron", requires_grad=True)
(weights @ weights).sum().backward()
print(weights.grad.device, weights.grad.sum().item())
"""
CELLS = {
    "kernel": KERNEL,
    "mistake": "trnsim.run(scaled, np.ones((256, 64), np.float32), 256)",
    "printed": "print(run)",
    "summary": "run.summary",
    "plan": 'api.plan_collective("all_reduce", 1 << 20, on=["trn2"], ranks=16)',
    "step": STEP,
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """The outputs of each cell, by its name."""
    folder = tmp_path_factory.mktemp("notebook")
    cells = [
        {"cell_type": "code", "id": name, "source": source, "metadata": {}, "outputs": [],
         "execution_count": None}
        for name, source in CELLS.items()
    ]  # fmt: skip
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (folder / "user.ipynb").write_text(json.dumps(notebook))
    options = ("--to", "notebook", "--execute", "--allow-errors", "--output", "ran")
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "TRNSIM_STATE": "off"}
    environment |= {name: str(folder) for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR")}
    subprocess.run(
        [PYTHON, "-m", "nbconvert", *options, "user.ipynb"],
        check=True, capture_output=True, cwd=folder, env=environment,
    )  # fmt: skip
    ran = json.loads((folder / "ran.ipynb").read_text())
    return {cell["id"]: cell["outputs"] for cell in ran["cells"]}


def text(output, kind="text/plain"):
    found = output["data"][kind] if "data" in output else output["text"]
    return found if isinstance(found, str) else "".join(found)


def test_a_run_is_its_page(outputs):
    (shown,) = outputs["kernel"]
    assert text(shown).startswith("<Run of scaled on trn2: 1")
    page = text(shown, "text/html")
    assert page.startswith("<p>scaled on trn2: ")
    assert page.count("<iframe srcdoc=") == 1
    assert len(page) < 2_000_000


def test_a_mistake_has_the_users_frames_with_the_numbers_of_their_cells(outputs):
    (error,) = outputs["mistake"]
    assert error["ename"] == "IllegalInstruction"
    lines = "\n".join(error["traceback"]).splitlines()
    assert len(lines) <= 16, lines
    shown = "\n".join(lines)
    assert "In[1]" in shown
    assert "In[2]" in shown
    assert "site-packages" not in shown
    assert "ipykernel" not in shown
    assert "has 256 partitions; legal on NeuronCore-v3: at most 128" in shown


def test_printed_a_run_is_a_line(outputs):
    (line,) = outputs["printed"]
    assert text(line).startswith("scaled on trn2: ")
    assert text(line).count("\n") == 1


def test_a_summary_and_a_plan_are_their_pages(outputs):
    for name, words in (("summary", "bound by"), ("plan", "all_reduce")):
        (shown,) = outputs[name]
        page = text(shown, "text/html")
        assert page.startswith("<p>"), name
        assert words in page.partition("</p>")[0], name
        assert page.count("<iframe srcdoc=") == 1, name


def test_a_step_of_pytorch_runs_on_the_device(outputs):
    if "No module named 'torch'" in str(outputs["step"]):
        pytest.skip("the environment has no torch")
    printed = "".join(text(output) for output in outputs["step"] if "text" in output)
    assert "neuron:0 128.0" in printed
