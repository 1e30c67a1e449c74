"""Every kind of page that a command writes, by a call as small as the kind allows."""

import json
import os
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from trnsim.cli import app

ROOT = Path(__file__).parents[2]
EXAMPLES, COMPANIES = ROOT / "examples", ROOT / "tests" / "decide" / "companies"
LLAMA, BERT = str(EXAMPLES / "llama-3.1-8b.json"), str(EXAMPLES / "bert-large.json")
PROTEINS = str(COMPANIES / "proteins" / "inventory.csv")
SOFTMAX = str(EXAMPLES / "tune" / "softmax.py")
SMALL, MEASURED = "small.json", "measured.csv"
SERVED = ("--tensor-parallel-size", "8", "--max-num-seqs", "4", "--output-len", "16")
XLA = """
import torch
import torch_xla

device = torch_xla.device()
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
model = model.to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.randn(16, 64).to(device)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if loss.item() > 1e9:
        break
    torch_xla.sync()
"""
COMMANDS = {
    "assess": ["assess", PROTEINS, "--on", "trn1.32xlarge"],
    "calibrate": ["calibrate", MEASURED],
    "check": ["check", SOFTMAX, "--on", "trn2,trn3"],
    "chips": ["chips"],
    "claims": ["claims"],
    "compile": ["compile", SMALL, "--tp", "2", "--past", "100"],
    "explain": ["explain", "nc_matmul"],
    "fleet": ["plan", "fleet", str(EXAMPLES / "fleet.yaml"), "--policy", "threshold", "--draws",
              "2"],
    "instances": ["instances"],
    "instances-for": ["instances", "--for", LLAMA],
    "job-check": ["job", "check", str(EXAMPLES / "jobs" / "train.sbatch")],
    "job-price": ["job", "price", str(EXAMPLES / "jobs" / "mended.sbatch")],
    "job-diff": ["job", "diff", str(EXAMPLES / "jobs" / "train.sbatch"),
                 str(EXAMPLES / "jobs" / "mended.sbatch")],
    "migrate": ["migrate", str(EXAMPLES / "kernel_of_0_2.py")],
    "models": ["models"],
    "plan-collective": ["plan", "collective", "all_reduce", "--bytes", "1MiB", "--on",
                        "trn2.48xlarge,p5en.48xlarge", "--ranks", "8"],
    "plan-infer": ["plan", "infer", BERT, "--on", "trn1,trn2,inf2.xlarge"],
    "plan-layer": ["plan", "layer", LLAMA, "--on", "trn2"],
    "plan-serve": ["plan", "serve", SMALL, "--on", "trn2", *SERVED, "--concurrency", "2"],
    "plan-serve-load": ["plan", "serve", SMALL, "--on", "trn1", *SERVED, "--request-rate", "5",
                        "--slo-ttft", "1"],
    "plan-train": ["plan", "train", LLAMA, "--on", "trn2,p5en", "--budget", "2"],
    "prices": ["prices", "show"],
    "prices-compare": ["prices", "compare", "trn2.48xlarge", "p5en.48xlarge"],
    "run-chips": ["run", str(EXAMPLES / "attention.py"), "--on", "trn1,trn2,trn3"],
    "run-ranks": ["run", str(EXAMPLES / "ring_matmul.py")],
    "tune": ["tune", SOFTMAX, "--on", "trn2", "--runs", "2"],
    "why": ["why", f"plan layer {LLAMA} --on trn1", f"plan layer {LLAMA} --on trn2"],
}  # fmt: skip
PREPARED = {
    "profile-summary": ["plan", "train", LLAMA, "--on", "trn2", "--budget", "2"],
    "profile-diff": ["plan", "infer", BERT, "--on", "trn2"],
}
"""What is stored as stored.json before the command of a kind is called."""
COMMANDS |= {
    "profile-summary": ["profile", "summary", "stored.json"],
    "profile-diff": ["profile", "diff", "stored.json", "stored.json"],
}
PROGRAMS = {
    "launch": ["launch", "--on", "trn2.48xlarge", "--ranks-per-node", "2", "--report", "report",
               "--", sys.executable, str(EXAMPLES / "train_ranks.py"), "whole.pt"],
    "step-jax": ["run", str(EXAMPLES / "train_jax.py"), "--report", "report"],
    "step-torch": ["run", str(EXAMPLES / "train_loop.py"), "--report", "report"],
    "step-xla": ["run", "xla.py", "--report", "report"],
}  # fmt: skip
"""What needs a process of its own, as a framework is loaded by it."""
LIBRARIES = {"launch": "torch", "step-jax": "jax", "step-torch": "torch", "step-xla": "torch"}
KINDS = (*COMMANDS, *PROGRAMS)


def written_by(kind, folder):
    """The pages of a kind, which its command writes to `folder`, the current one."""
    sizes = {"hidden_size": 1024, "num_hidden_layers": 4, "intermediate_size": 2048}
    values = json.loads(Path(LLAMA).read_text()) | sizes | {"vocab_size": 8000}
    Path(SMALL).write_text(json.dumps(values))
    Path("xla.py").write_text(XLA)
    Path(MEASURED).write_text(f"question,seconds\nplan layer {LLAMA} --on trn1,0.002\n")
    if kind in PREPARED:
        CliRunner().invoke(app, [*PREPARED[kind], "--output", "stored.json"])
    if kind in COMMANDS:
        done = CliRunner().invoke(app, [*COMMANDS[kind], "--report", "report"])
        assert done.exit_code in {0, 1}, done.output
        assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    else:
        source = {"PYTHONPATH": str(ROOT / "src")}
        subprocess.run(
            [sys.executable, "-m", "trnsim", *PROGRAMS[kind]],
            check=True, timeout=300, env=os.environ | source, capture_output=True,
        )  # fmt: skip
    pages = sorted((folder / "report").rglob("*.html"))
    assert pages
    return pages
