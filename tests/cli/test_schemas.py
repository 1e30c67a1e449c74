"""The JSON of each command beside its schema: no answer is illegal, and no field never occurs."""

import json
from pathlib import Path

import pytest
from schema_checks import assert_both_ways
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.cli.why_document import why_document
from trnsim.decide.why.explain import (
    AnswerChange,
    AnswerComparison,
    AnswerDifference,
    TimeDifference,
    TimeTerm,
)
from trnsim.decide.why.times import Time
from trnsim.document.values import document_json
from trnsim.gate.baselines import Baselines, Key
from trnsim.gate.kernel_time import DrawnConstant, KernelLineTime, KernelTime

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
LLAMA, BERT = str(EXAMPLES / "llama-3.1-8b.json"), str(EXAMPLES / "bert-large.json")
PROTEINS = str(ROOT / "tests" / "decide" / "companies" / "proteins" / "inventory.csv")
SMALL, SORT, LARGE = "a smaller model", "sort.mlir", "inventory.csv"
MEASURED, SINGLE = "measured.csv", "single.csv"
CHECKED, BASELINES, TUNED = "checked.py", "baselines.toml", "tuned.py"
"""Names of files that the tests write."""
OLD_KERNEL = "old_kernel.py"
OLD_SOURCE = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def twice(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    for i in nl.dynamic_range(2):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.quantize_mx(tile, tile, tile) if tile is None else nisa.dma_copy(out, tile)
    return out
"""
CHECKED_SOURCE = """import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


def copied(x, partitions):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((partitions, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    nisa.dma_copy(out, tile)
    return out


@nki.jit
def small(x):
    return copied(x, x.shape[0])


@nki.jit
def large(x):
    return copied(x, 129)


@nki.jit
def loose(x):
    return copied(x, x.shape[0])


small_inputs = large_inputs = (np.ones((4, 8), np.float32),)


def small_reference(x):
    return x[0]
"""
TUNED_SOURCE = (
    CHECKED_SOURCE.split("@nki.jit", maxsplit=1)[0]
    + "".join(
        f"""
@nki.jit
def {name}(x, partitions={own}):
    return copied(x, partitions)


{name}_inputs = (np.ones((4, 8), np.float32),)
{name}_parameters = {{"partitions": [4, {own}]}}
"""
        for name, own in (("narrow", 4), ("wide", 129))
    ).replace("[4, 4]", "[4, 129]")
    + """
@nki.jit
def wrong(x, times=2):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.zeros(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    for _ in range(times):
        nisa.dma_copy(tile, x)
    nisa.dma_copy(out, tile)
    return out


wrong_inputs = narrow_inputs
wrong_parameters = {"times": [2, 1, 0]}


def wrong_reference(x):
    return x
"""
)
SORTED = """func.func @main(%x: tensor<4x30xf32>) -> tensor<4x30xf32> {
  %y = "stablehlo.sort"(%x) <{dimension = 1 : i64}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }) : (tensor<4x30xf32>) -> tensor<4x30xf32>
  return %y : tensor<4x30xf32>
}
"""
TOO_LARGE = (
    "workload,model_config,kind,tokens_per_month,current_instance,usd_per_month\n"
    "chat,large.json,serve,6000000000,g4dn.xlarge,80000\n"
)
"""A workload that its own instance does not hold."""
FIXED = ("--global-batch", "256", "--zero", "1", "--micro-batch", "1", "--budget", "2")
SERVED = ("--tensor-parallel-size", "8", "--max-num-seqs", "4", "--output-len", "16")
ANSWERS = {
    "assess/1": [
        ["assess", PROTEINS, "--on", "trn1.32xlarge"],
        ["assess", str(EXAMPLES / "inventory.csv"), "--on", "inf2"],
        ["assess", LARGE, "--on", "trn1.32xlarge"],
    ],
    "calibrate/1": [["calibrate", MEASURED], ["calibrate", SINGLE]],
    "calibrate-suggest/1": [
        ["calibrate", "--suggest", f"plan layer {LLAMA} --on {on}"] for on in ("trn1", "trn3")
    ],
    "check/1": [
        ["check", CHECKED, "--baseline", BASELINES, "--max-us", "1"],
        ["check", CHECKED],
    ],
    "chips/1": [["chips"], ["explain", "trn2"]],
    "claims/1": [["claims"], ["explain", "C07"]],
    "compile/1": [
        ["compile", BERT, "--on", "trn1", "--explain"],
        ["compile", LLAMA, "--tp", "32", "--past", "100"],
        ["compile", BERT, "--on", "trn1,trn2", "--lnc", "2"],
        ["compile", SORT, "--explain"],
    ],
    "explain-instruction/1": [["explain", "nc_matmul"]],
    "explain-list/1": [["explain"]],
    "explain-prices/1": [["explain", "price"]],
    "instances/1": [["instances"], ["explain", "trn2.48xlarge"]],
    "instances-for/1": [
        ["instances", "--for", LLAMA],
        ["instances", "--for", LLAMA, "--tokens", "100000", "--sequences", "4096"],
    ],
    "migrate/1": [
        ["migrate", OLD_KERNEL, "--shape", "x=128x64", "--output", "new.py"],
        ["migrate", OLD_KERNEL],
    ],
    "models/1": [["models"]],
    "plan-collective/1": [
        ["plan", "collective", "all_reduce", "--bytes", "1024", "--on", "trn2,p5.48xlarge"],
        ["plan", "collective", "all_reduce", "--bytes", "8", "--on", "trn1,trn2", "--lnc", "2"],
    ],
    "plan-infer/1": [
        ["plan", "infer", BERT, "--on", "inf2.xlarge,trn2"],
        ["plan", "infer", BERT, "--on", "inf1.xlarge,trn2", "--dtype", "fp8"],
    ],
    "plan-layer/1": [["plan", "layer", LLAMA, "--on", "trn1"]],
    "plan-serve/1": [
        ["plan", "serve", LLAMA, "--on", "trn2,g4dn.xlarge", "--concurrency", "2",
         "--output-len", "8"],
        ["plan", "serve", SMALL, "--on", "trn1", "--tensor-parallel-size", "8", "--max-num-seqs",
         "1", "--concurrency", "1", "--output-len", "16", "--input-len", "128", "--num-prompts",
         "24"],
        ["plan", "serve", SMALL, "--on", "trn3", "--tensor-parallel-size", "8", "--max-num-seqs",
         "1", "--concurrency", "1", "--output-len", "1", "--num-prompts", "4"],
        ["plan", "serve", SMALL, "--on", "trn1", *SERVED, "--request-rate", "5", "--slo-ttft",
         "1"],
        ["plan", "serve", SMALL, "--on", "trn3", *SERVED],
        ["plan", "serve", SMALL, "--on", "trn3", *SERVED, "--slo-tpot", "1e-5", "--request-rate",
         "1"],
    ],
    "plan-train/1": [
        ["plan", "train", LLAMA, "--on", "trn2", "--instances", "4,8", *FIXED, "--deadline-hours",
         "1", "--budget-usd", "1k"],
        ["plan", "train", LLAMA, "--on", "trn2u.48xlarge", "--instances", "8", *FIXED[2:],
         "--global-batch",
         "8", "--sequence", "4096", "--cp", "1", "--recompute", "full"],
        ["plan", "train", LLAMA, "--on", "trn2,inf1", "--instances", "4", "--budget", "4",
         "--budget-usd", "1M"],
        ["plan", "train", LLAMA, "--on", "trn2u.48xlarge", "--instances", "4", "--budget", "4",
         "--deadline-hours", "30d"],
        ["plan", "train", LLAMA, "--on", "trn2", "--instances", "4", *FIXED, "--chip-mtbf-hours",
         "0.01"],
    ],
    "prices-compare/1": [
        ["prices", "compare", "trn2.48xlarge", "p5en.48xlarge"],
        ["prices", "compare", "trn2u.48xlarge", "trn2.48xlarge"],
    ],
    "prices-show/1": [["prices", "show"]],
    "tune/1": [["tune", TUNED, "--kernel", name] for name in ("narrow", "wide", "wrong")],
    "why/1": [
        ["why", f"plan infer {BERT} --on inf2.xlarge,trn1",
         f"plan infer {BERT} --on inf2.xlarge,trn2 --batch 8"],
        ["why", f"plan layer {LLAMA} --on trn1", f"plan layer {LLAMA} --on trn2"],
    ],
}  # fmt: skip


def write_files():
    row = f"question,seconds\nplan layer {LLAMA} --on trn1,0.002\n"
    Path(SINGLE).write_text(row)
    others = f"plan layer {LLAMA} --on trn1 --batch 2,0.002\nplan infer {BERT} --on inf2,1e-6\n"
    Path(MEASURED).write_text(row + others)
    Path(SORT).write_text(SORTED)
    Path(OLD_KERNEL).write_text(OLD_SOURCE)
    Path(LARGE).write_text(TOO_LARGE)
    Path(CHECKED).write_text(CHECKED_SOURCE)
    Path(TUNED).write_text(TUNED_SOURCE)
    write_baselines()
    Path("large.json").write_text(Path(LLAMA).read_text())


def write_baselines():
    """Baselines of another trnsim: of a kernel that is gone, and with other constants."""
    time = KernelTime(
        chip="trn2",
        model="0.0.9+0",
        constants={"launch_s": DrawnConstant(1e-6, 0.1), "gone_s": DrawnConstant(1e-6, 0.1)},
        source="another",
        inputs="",
        time_us=3.0,
        draws_us=(3.0, 3.1),
        lines=(KernelLineTime(CHECKED, 9, "nisa.dma_copy(tile, y)", 1.0, 1.0),),
    )
    keys = Key(CHECKED, "small", "trn2"), Key(CHECKED, "earlier", "trn2")
    Baselines(Path(BASELINES), dict.fromkeys(keys, time)).write()


def unlike_answers():
    """Two answers that have nothing in common, and no intervals."""
    sizes = dict.fromkeys(("batch", "tokens", "past"))
    old, new = (Time("step", "train", p50_s, sizes=sizes) for p50_s in (0.0, 1.0))
    terms = TimeTerm("host", None, 1.0, 1.0), TimeTerm("device", 0.0, None, 0.0)
    sources = AnswerChange("train", None, "few"), AnswerChange("serve", "few", None)
    times = TimeDifference(old, new, terms, sources, ((), ()))
    figures = (AnswerChange("name", "a", "b"),)
    changes = AnswerDifference("trn2", (times,), inputs=(), figures=figures, cost={})
    kinds = "plan train", "plan train"
    document = why_document(AnswerComparison(kinds, (changes,), (), ()), ("a", "b"))
    return json.loads(document_json(document))


@pytest.mark.slow_but(
    "chips/1", "instances/1", "migrate/1", "models/1", "plan-layer/1", "prices-compare/1"
)
@pytest.mark.parametrize("name", ANSWERS)
def test_answers_are_those_that_the_schema_describes(name, tmp_path, monkeypatch):
    small = tmp_path / "small.json"
    sizes = {"hidden_size": 1024, "num_hidden_layers": 4, "intermediate_size": 2048}
    values = json.loads(Path(LLAMA).read_text()) | sizes | {"vocab_size": 8000}
    small.write_text(json.dumps(values))
    monkeypatch.chdir(tmp_path)
    write_files()
    found = [unlike_answers()] if name == "why/1" else []
    for given in ANSWERS[name]:
        words = [str(small) if word == SMALL else word for word in given]
        result = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
        found.append(json.loads(result.output))
    assert_both_ways(found, name)


@pytest.mark.slow
def test_reports_have_figures_by_their_schemas(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files()
    scenario = (EXAMPLES / "fleet.yaml").read_text()
    no_power = "".join(
        line for line in scenario.splitlines(keepends=True) if "_per_kwh" not in line
        and "watts_per_chip" not in line
    )  # fmt: skip
    Path("no_power.yaml").write_text(no_power)
    options = ("--policy", "threshold", "--draws", "2")
    for name, commands in (
        ("assess-report/1", ANSWERS["assess/1"]),
        (
            "plan-fleet/1",
            [
                ["plan", "fleet", file, *options]
                for file in (str(EXAMPLES / "fleet.yaml"), "no_power.yaml")
            ],
        ),
    ):
        found = []
        for words in commands:
            given = [*words, "--report", str(tmp_path)]
            CliRunner().invoke(app, given, catch_exceptions=False)
            found.append(json.loads((tmp_path / "figures.json").read_text()))
        assert_both_ways(found, name)
