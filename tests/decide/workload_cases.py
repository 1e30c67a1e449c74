"""Workloads that several test files share."""

from dataclasses import replace
from pathlib import Path

from trnsim.decide.inventory.workload import CurrentDeployment, Shape, Workload
from trnsim.errors import SourceLine
from trnsim.system.serve.demand import Slo
from trnsim.workload import config

ROOT = Path(__file__).resolve().parents[2]
LLAMA = ROOT / "examples" / "llama-3.1-8b.json"
SMALL = ROOT / "tests" / "decide" / "small_llama.json"
BERT = ROOT / "tests" / "decide" / "bert.json"


def workload(kind="train", path=None, **changes):
    """A workload of 8 billion parameters, or an encoder where `kind` is "infer"."""
    path = path or (BERT if kind == "infer" else LLAMA)
    volume = (1e11, "items_per_month") if kind == "infer" else (4e11, "tokens_per_month")
    here = "g5.xlarge" if kind == "infer" else "p5.48xlarge"
    made = Workload(
        name="a workload",
        kind=kind,
        model=config.read(path),
        model_path=path,
        volume=volume[0],
        volume_unit=volume[1],
        current=CurrentDeployment(here, 1, "on_demand", 1e5, None),
        line=SourceLine("inventory.csv", 2),
        framework="pytorch",
        is_committed_to_aws=True,
    )
    return replace(made, **changes)


def shaped(kind, *, slo=None, **lengths):
    """A workload whose lengths and promise are given."""
    return workload(kind, shape=Shape(**lengths), slo=Slo(**(slo or {})))
