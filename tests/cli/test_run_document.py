"""The answer of a run: six lines a part, the same in full, and the figures of its schema."""

import json

import numpy as np
import pytest
from forked import trnsim
from schema_checks import assert_both_ways, assert_legal

from trnsim.cli.run_document import run_document

PROGRAM = """
import nki, nki.collectives as ncc, nki.isa as nisa, nki.language as nl, numpy as np

@nki.jit
def total(x):
    src, dst = (nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm) for _ in range(2))
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=src, src=x)
    ncc.all_reduce([src], [dst], ncc.ReplicaGroup([[0, 1]]), nl.add)
    nisa.dma_copy(dst=out, src=dst)
    return out

total(np.ones((4, 4), np.float32))
"""


def test_the_answer_of_nothing_has_every_list():
    document = run_document([], "p.py", ["trn2"], "--on", "")
    assert document.values == {
        "script": "p.py", "chips": ["trn2"], "reason": "--on",
        "kernels": [], "ranks": [], "steps": [], "files": [],
    }  # fmt: skip


@pytest.mark.slow
def test_figures_of_kernels_ranks_and_steps_are_those_of_the_schema(tmp_path):
    pytest.importorskip("torch", reason="a step is one of PyTorch")
    (tmp_path / "p.py").write_text(PROGRAM)
    (tmp_path / "step.py").write_text(
        "import torch, torch_neuron\nx = torch.ones(8, 8).to('neuron')\n(x @ x).sum().item()\n"
    )
    (tmp_path / "same.py").write_text("import nki\n@nki.jit\ndef same(x):\n    return x, 7\n")
    np.save(tmp_path / "x.npy", np.ones((4, 4), np.float32))
    answers = []
    for words in (["--ranks", "2", "p.py"], ["step.py"], ["same.py", "--input", "x.npy"]):
        done = trnsim("run", "--json", *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        answers.append(json.loads(done.stdout))
    assert_both_ways(answers, "run/1")
    assert answers[2]["kernels"][0]["outputs"][1] == {"value": "7"}
    stored = json.loads((tmp_path / "trnsim-report" / "total-ranks-0.world.json").read_text())
    assert_legal(stored, "run-ranks/1")
    assert len(stored.pop("lanes")) > 0  # the answer has none: they are for pages
    assert [stored] == answers[0]["ranks"]
