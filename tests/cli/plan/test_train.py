import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.errors import BadInput, OutOfMemory

CONFIG = str(Path(__file__).parents[3] / "examples" / "llama-3.1-8b.json")
FIXED = (
    *("--on", "trn2", "--instances", "4", "--tp", "8", "--pp", "4", "--dp", "8", "--zero", "1"),
    *("--recompute", "selective", "--sequence", "4096", "--global-batch", "256"),
    *("--micro-batch", "1", "--vp", "1", "--cp", "1", "--sp"),
)
FEW = ("--zero", "1", "--recompute", "full", "--micro-batch", "1")
"""What leaves a search a few layouts."""


def run(*arguments):
    result = CliRunner(env={"COLUMNS": "400"}).invoke(
        app, ["plan", "train", *arguments], catch_exceptions=False
    )
    assert result.exit_code == 0
    return result.output


def plain(*arguments):
    return json.loads(run(CONFIG, *arguments, "--json"))


def tables(output):
    parts = output.split("\n\n")[1:6]
    return [
        [
            re.split(r"\s{2,}", line.strip())
            for line in part.strip().splitlines()
            if not line.startswith("bound by: ")
        ]
        for part in parts
    ]


def test_runs_layouts_and_shares_of_the_step_have_a_row_a_platform():
    made = tables(run(CONFIG, "--on", "trn2,p5en", *FEW, "--budget", "2"))
    assert [table[0][0] for table in made] == [*["platform"] * 4, "share of the step"]
    for table in made:
        assert [row[0] for row in table[1:]] == ["trn2", "p5en"]
    _, prices, _, _, shares = made
    assert prices[1][-1].startswith("35.76 USD/h capacity_block us-east-2, ap-south-2 2026-10-09")
    assert shares[0][1:] == [
        *("compute", "tensor", "context", "expert", "data", "bubble", "optimizer", "host"),
        "data, hidden",
    ]


def test_one_platform_is_one_object_with_figures_in_si_units():
    found = plain(*FIXED)
    for name in ("step_s", "sequences_per_s", "tokens_per_s_per_chip", "time_s", "usd"):
        figure = found[name]
        assert figure["p10"] < figure["p50"] < figure["p90"]
    assert len(found["memory_bytes"]) == 4
    assert found["sequences_per_s"]["p50"] == pytest.approx(256 / found["step_s"]["p50"])
    assert sum(found["parts_s"].values()) == pytest.approx(found["step_s"]["p50"])
    assert (found["chips"], found["layout"]["tensor"], found["searched"]["layouts"]) == (64, 8, 1)
    both = plain("--on", "trn1,trn2", *FEW, "--budget", "1")
    assert [one["platform"] for one in both] == ["trn1", "trn2"]


def test_types_have_the_names_of_frameworks_too():
    short, long = (plain(*FIXED, "--dtype", name) for name in ("fp32", "float32"))
    assert short["layout"]["dtype"] == "fp32"
    assert short == long


def test_a_run_is_at_least_one_step():
    one = plain(*FIXED, "--tokens", "1")
    assert one["steps"] == 1
    assert one["time_s"]["p50"] == pytest.approx(one["step_s"]["p50"] / one["goodput"])
    assert one["note"].startswith("the run is one step, of 1,048,576 tokens: --global-batch")
    assert "; 1 token in sequences of 4096\n" in run(CONFIG, *FIXED, "--tokens", "1")
    exact = plain(*FIXED, "--tokens", "1048576")
    assert (exact["steps"], exact["note"]) == (1, "")
    assert plain(*FIXED, "--tokens", "1572864")["steps"] == 1.5


LIMITED = ("--on", "trn2", *FEW, "--budget", "1", "--tokens", "1T")


def limited(*arguments):
    return plain(*LIMITED, *arguments)


@pytest.mark.slow
def test_a_deadline_names_the_instances_that_meet_it_at_least_cost():
    found = limited("--deadline-hours", "30d")
    assert found["time_s"]["p50"] <= 30 * 86400
    told = limited("--instances", "1,2,3,4,5,6,7,8,9,10,12,16")
    in_time = [one for one in told if one["time_s"]["p50"] <= 30 * 86400]
    assert found["usd"]["p50"] <= 1.01 * min(one["usd"]["p50"] for one in in_time)
    assert found["limits"] == {
        "deadline_s": 30 * 86400,
        "budget_usd": None,
        "missed": [],
        "is_best": True,
        "feasible": [],
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [("--deadline-hours", "1"), ("--budget-usd", "1k"),
     ("--deadline-hours", "20d", "--budget-usd", "1k"),
     ("--deadline-hours", "1", "--budget-usd", "1")],
)  # fmt: skip
def test_what_is_said_to_be_feasible_is(asked):
    found = limited(*asked)["limits"]
    assert not found["is_best"]
    assert found["missed"]
    assert found["feasible"]
    for options in found["feasible"]:
        assert limited(*options.split())["limits"]["is_best"], options


def test_limits_are_told_above_the_runs_and_choose_the_run_that_is_started():
    asked = (CONFIG, *LIMITED, "--instances", "1,2", "--deadline-hours", "200d")
    lines = run(*asked).splitlines()
    assert lines[2].startswith(
        "cheapest run that keeps a deadline of 200 d: trn2 x 2, 2 x trn2.48xlarge, "
    )
    assert lines[3].startswith("trn2 x 1 misses the deadline: 1 x trn2.48xlarge, ")
    assert "#SBATCH --nodes=2" in run(*asked, "--emit", "sbatch")
    with pytest.raises(BadInput, match=r"^no run .* keeps a deadline of 1 min\n") as caught:
        run(*asked, "--deadline-hours", "1min", "--emit", "sbatch")
    assert caught.value.fix.startswith("--deadline-hours ")


def test_a_budget_needs_a_price():
    asked = ("--on", "trn2u", *FEW, "--budget", "1", "--instances", "1", "--budget-usd", "1M")
    text = run(CONFIG, *asked)
    assert "keeps a budget of 1,000,000 USD; feasible: nothing that has a public price" in text
    assert "trn2u misses the budget: 1 x trn2u.48xlarge, " in text


@pytest.mark.parametrize("option", ["--deadline-hours", "--budget-usd"])
@pytest.mark.parametrize("value", ["0", "-1", "inf", "nan", "x"])
def test_limits_are_positive_numbers(option, value):
    told = CliRunner().invoke(app, ["plan", "train", CONFIG, f"{option}={value}"])
    assert told.exit_code != 0
    assert option in told.output


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize(
    "changed",
    [
        ("--recompute", "full"),
        ("--no-sp",),
        ("--dtype", "fp8"),
        ("--schedule", "zb-h1"),
        ("--optimizer", "adamw-bf16"),
        ("--vp", "2"),
        ("--zero", "3"),
        ("--global-batch", "512"),
        ("--sequence", "8192"),
        ("--micro-batch", "2"),
    ],
)
def test_every_option_moves_the_step(changed):
    assert plain(*FIXED, *changed)["step_s"] != plain(*FIXED)["step_s"]


@pytest.mark.parametrize(
    "changed",
    [
        ("--chip-mtbf-hours", "100"),
        ("--checkpoint-s", "60"),
        ("--recovery-s", "9000"),
        ("--spares", "2"),
        ("--tokens", "2e9"),
    ],
)
def test_what_happens_to_a_run_moves_its_time_and_not_the_step(changed):
    one, other = plain(*FIXED), plain(*FIXED, *changed)
    assert one["step_s"] == other["step_s"]
    assert one["time_s"] != other["time_s"]


@pytest.mark.slow
def test_what_is_not_given_is_searched_and_the_front_is_printed():
    output = run(CONFIG, "--on", "trn2", "--instances", "4", "--budget", "4")
    assert "trn2: runs that no other beats in time, USD and chips at once:" in output
    assert re.search(r"  1 instance, 16 chips: .* USD; ", output)
    assert re.search(r"trn2: [\d,]+ legal layouts, [\d,]+ fit in memory, 4 timed", output)
    found = plain("--on", "trn2", "--instances", "4", *FEW, "--budget", "4")
    assert [one["instances"] for one in found["pareto"]] == [4, 2, 1]


def test_provenance_ends_the_output():
    output = run(CONFIG, "--on", "trn1,trn2", "--tp", "8", *FEW, "--budget", "1")
    assert "trn1: validated by 11 published rows of dense train on trainium1 (" in output
    assert "trn2: carried over from 28 published rows, interval widened" in output
    assert "\nassumed:\n  " in output


def test_another_purchase_kind_is_asked_for_by_name():
    output = run(CONFIG, "--price", "on_demand", "--on", "trn2,p5en", *FEW, "--budget", "1")
    assert "no public price (on_demand)" in output
    assert "63.30 USD/h on_demand us-east-1 2025-06-23..2026-07-20" in output


@pytest.mark.parametrize("given", ["8,000", "8.000", "8.000,5", "8q", "nan", ""])
@pytest.mark.parametrize("option", ["--tokens", "--sequence", "--global-batch", "--instances"])
def test_a_number_that_may_be_another_is_refused(option, given):
    result = CliRunner().invoke(app, ["plan", "train", CONFIG, "--on", "trn1", option, given])
    assert result.exit_code == 2
    assert f"Invalid value for '{option}'" in result.output


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--instances", "-4"), "--instances -4; legal: from 1 to 1,000,000"),
        (("--instances", "0"), "--instances 0; legal: from 1 to 1,000,000"),
        (("--instances", "9" * 18), "legal: from 1 to 1,000,000"),
        (("--tp", "128"), "--tp 128 is more than the 64 ranks of trn2.48xlarge"),
        (("--pp", "5", "--instances", "5"), "has 32 layers, which --pp x --vp = 5 does not divide"),
        (("--ep", "8"), "--ep 8: llama-3.1-8b has no experts; legal: 1"),
        (("--dp", "3"), "ranks would have no work"),
        (("--zero", "7"), "--zero is 7; legal: 0, 1, 2, 3"),
        (("--emit", "make"), "--emit is 'make'; legal: torchrun, sbatch, sagemaker-training"),
    ],
)
def test_what_cannot_be_is_named(given, said):
    with pytest.raises(BadInput) as caught:
        run(CONFIG, "--on", "trn2", *given)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("option", "given", "said", "example"),
    [
        ("--tp", "-8", "'-8' is below 1; legal: whole numbers from 1 on", "1"),
        ("--tp", "0", "'0' is below 1; legal: whole numbers from 1 on", "1"),
        ("--pp", "0", "'0' is below 1; legal: whole numbers from 1 on", "1"),
        ("--vp", "0", "'0' is below 1; legal: whole numbers from 1 on", "1"),
        ("--dp", "0", "'0' is below 1; legal: whole numbers from 1 on", "1"),
        ("--cp", "0", "'0' is below 1; legal: whole numbers from 1 on", "1"),
        ("--ep", "0", "'0' is below 1; legal: whole numbers from 1 on", "1"),
        ("--sequence", "0", "'0' is below 1; legal: whole numbers from 1 on", "8k"),
        ("--global-batch", "0", "'0' is below 1; legal: whole numbers from 1 on", "1k"),
        ("--micro-batch", "0", "'0' is below 1; legal: whole numbers from 1 on", "2"),
        ("--budget", "0", "'0' is below 1; legal: whole numbers from 1 on", "100"),
        ("--spares", "-1", "'-1' is below 0; legal: whole numbers from 0 on", "0"),
        ("--deadline", "0", "'0' is not above 0; legal: numbers above 0", "5min"),
        ("--chip-mtbf-hours", "0", "'0' is not above 0; legal: numbers above 0", "90d"),
        ("--checkpoint-s", "-1s", "'-1s' is below 0; legal: numbers from 0 on", "2min"),
        ("--recovery-s", "-1", "'-1' is below 0; legal: numbers from 0 on", "10min"),
        ("--tokens", "0", "'0' is not above 0; legal: numbers above 0", "10B"),
    ],
)
def test_a_number_below_its_least_is_refused_by_its_option(option, given, said, example):
    result = CliRunner().invoke(app, ["plan", "train", CONFIG, option, given])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"trnsim: error: Invalid value for '{option}': {said}\n")
    assert result.stderr.endswith(f"  fix: for example {option} {example}\n")


def test_what_cannot_train_is_named():
    with pytest.raises(BadInput, match=r"inf1\.6xlarge cannot train"):
        run(CONFIG, "--on", "inf1.6xlarge")
    with pytest.raises(BadInput, match=r"trn1\.2xlarge has no EFA, so 5 of them cannot train"):
        run(CONFIG, "--on", "trn1.2xlarge", "--instances", "5")


def test_too_little_memory_names_the_stage(tmp_path):
    config = json.loads(Path(CONFIG).read_text()) | {"num_hidden_layers": 320}
    path = tmp_path / "large.json"
    path.write_text(json.dumps(config))
    with pytest.raises(OutOfMemory, match=r"stage \d+ of \d+ needs [\d.]+ GiB a rank \("):
        run(str(path), "--on", "trn1", "--instances", "1")


def test_chips_without_work_are_refused():
    with pytest.raises(BadInput, match="65,024 of 65,536 data ranks would have no sequence"):
        run(
            *(CONFIG, "--on", "trn2", "--instances", "1024", "--global-batch", "512"),
            *("--tp", "1", "--pp", "1", "--cp", "1", "--dp", "65536", "--sequence", "8192"),
        )


def test_many_chips_all_have_work():
    asked = ("--on", "trn2", "--instances", "1024", "--global-batch", "512", *FEW, "--budget", "2")
    found = plain(*asked)
    layout = found["layout"]
    assert layout["data"] <= 512
    assert layout["tensor"] * layout["pipeline"] * layout["data"] * layout["context"] == 1024 * 64


def test_fewer_instances_that_do_as_well_are_named():
    asked = ("--on", "trn2", "--global-batch", "8", "--sequence", "4096", "--cp", "1", "--zero")
    asked += ("1", "--micro-batch", "1", "--recompute", "full", "--budget", "2", "--instances")
    found = plain(*asked, "8")
    fewer = found["not_faster_than"]
    assert fewer["instances"] == 4
    assert fewer["time_s"] <= 1.02 * found["time_s"]["p50"]
    assert found["note"].startswith("8 instances are not faster than 4: ")
    assert "trn2: note: 8 instances are not faster than 4: " in run(CONFIG, *asked, "8")
    assert plain(*asked, "4")["not_faster_than"] is None


def test_measured_layers_are_named_by_phase(tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text("phase,batch,tokens,time_us\ntrain,1,4096,20000\n", encoding="utf-8")
    assert (
        f"; measured: {file} (layer)"
        in plain(*FIXED, "--measured", str(file))["estimate"]["sources"]["forward"]
    )
    printed = " ".join(run(CONFIG, *FIXED, "--measured", str(file)).split())
    assert "(layer); backward: few constants of train" in printed
    with pytest.raises(BadInput, match=r"has the times of one platform, and 2 are compared: trn1"):
        run(CONFIG, "--on", "trn1,trn2", "--measured", str(file))


@pytest.mark.slow
def test_a_trace_and_a_file_that_starts_it_are_written(tmp_path):
    made = tmp_path / "step.pftrace"
    output = run(CONFIG, *FIXED, "--trace", str(made), "--emit", "torchrun")
    assert b"stage 3" in made.read_bytes()
    assert output.startswith("#!/bin/sh\n# TP=8 PP=4 DP=8 ZeRO-1")


@pytest.mark.parametrize(
    ("words", "name", "message"),
    [
        (("--on", "trn1,trn2"), "step", "--trace has one pipeline"),
        (("--on", "trn2", "--instances", "1,2"), "step", "--trace has one pipeline"),
        (("--on", "trn2"), "none/step", "cannot write .*none/step"),
    ],
)
def test_a_file_for_the_trace_is_checked_before_the_search(
    words, name, message, tmp_path, monkeypatch
):
    monkeypatch.setattr("trnsim.cli.plan.train.estimate", lambda: None)
    with pytest.raises(BadInput, match=message):
        run(CONFIG, *words, "--trace", str(tmp_path / name))


SMALL = (
    *("--on", "trn2", "--global-batch", "8", "--sequence", "4096", "--cp", "1", "--zero", "1"),
    *("--micro-batch", "1", "--recompute", "full", "--budget", "2"),
)


def test_several_numbers_of_instances_have_a_row_each_and_a_word_from_where_they_do_not_pay():
    output = run(CONFIG, *SMALL, "--instances", "2,4,8")
    for table in tables(output):
        assert [row[0] for row in table[1:]] == ["trn2 x 2", "trn2 x 4", "trn2 x 8"]
    assert "trn2 x 8: note: 8 instances are not faster than 4: " in output
    found = plain(*SMALL, "--instances", "8,4")
    assert [one["instances"] for one in found] == [8, 4]
    assert [one["not_faster_than"] and one["not_faster_than"]["instances"] for one in found] == [
        4,
        None,
    ]
    result = CliRunner().invoke(app, ["plan", "train", CONFIG, *SMALL, "--instances", "8,8"])
    assert result.exit_code == 2
    assert "twice" in result.output


def test_own_prices_and_credits_and_two_kinds_on_purpose(tmp_path):
    own = tmp_path / "own.yaml"
    own.write_text(
        "- {instance: trn2.48xlarge, kind: private, usd_per_hour: 20.5, as_of: 2026-11-01}\n"
        "- {credit_usd: 5e4, until: 2027-01-31, note: activate}\n"
    )
    output = run(CONFIG, *FIXED, "--price", "private", "--prices", str(own))
    assert "20.50 USD/h private any region 2026-11-01 (own price)" in output
    assert output.endswith("credit: 50,000.00 USD until 2027-01-31 (activate)\n")
    two = ("--on", "trn2:capacity_block,p5en:on_demand", *FEW, "--budget", "1")
    with pytest.raises(BadInput) as caught:
        run(CONFIG, *two)
    assert str(caught.value).startswith(
        "trn2 capacity_block against p5en on_demand: different purchase kinds do not compare\n"
        "  fix: name one kind, or add --mixed-prices"
    )
    mixed = run(CONFIG, *two, "--mixed-prices")
    lines = [line for line in mixed.splitlines() if " USD/h " in line]
    assert len(lines) == 2
    assert all(line.endswith(" (mixed prices)") for line in lines)
    assert "prices: mixed prices: capacity_block, on_demand" in mixed
    with pytest.raises(BadInput, match=r"^--price is 'gift'; legal: on_demand, "):
        run(CONFIG, *FIXED, "--price", "gift")
    with pytest.raises(BadInput, match=r"^--on p5en:gift; legal: on_demand, "):
        run(CONFIG, "--on", "p5en:gift")


def test_a_run_that_never_finishes_says_so_and_what_helps():
    given = (*FIXED, "--chip-mtbf-hours", "0.01")
    said = run(CONFIG, *given)
    assert tables(said)[0][1][3:6] == ["never finishes", "-", "-"]
    assert "trn2: note: goodput 0.0%: a failure every " in said
    assert "what helps: --spares" in said
    found = plain(*given)
    assert (found["time_s"], found["usd"], found["pareto"]) == (None, None, [])
    assert "what helps: --spares" in found["note"]
