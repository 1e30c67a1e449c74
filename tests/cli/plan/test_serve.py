import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.errors import BadInput, OutOfMemory

CONFIG = str(Path(__file__).parents[3] / "examples" / "llama-3.1-8b.json")
SMALL = ("--input-len", "128", "--output-len", "16", "--num-prompts", "24")
FIXED = ("--tensor-parallel-size", "8", "--max-num-seqs", "4")


def run(*arguments):
    result = CliRunner(env={"COLUMNS": "400"}).invoke(
        app, ["plan", "serve", CONFIG, *arguments], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return result.output


def test_a_model_of_short_sequences_is_planned_without_lengths():
    """GPT-2 has 1,024 positions: fewer than the usual prompt and answer."""
    usual = ("serve", "gpt2", "--on", "trn2", "--num-prompts", "8", "--concurrency", "1")
    result = CliRunner().invoke(app, ["plan", *usual, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    answer = json.loads(result.output)
    assert answer["max_model_len"] == 1024
    assert (answer["input_tokens"], answer["output_tokens"]) == (8 * 768, 8 * 256)


def test_one_platform_is_one_object_and_several_are_a_list():
    one = json.loads(run("--on", "trn1", *FIXED, *SMALL, "--concurrency", "4", "--json"))
    assert one["platform"] == "trn1"
    assert one["ttft_p50_s"]["p10"] < one["ttft_p50_s"]["p90"]
    several = json.loads(run("--on", "trn1,p5en", *FIXED, *SMALL, "--concurrency", "4", "--json"))
    assert [each["platform"] for each in several] == ["trn1", "p5en"]


@pytest.mark.slow
def test_every_platform_is_compared_when_none_is_named():
    output = run(*FIXED, "--input-len", "128", "--output-len", "16")
    for name in ("trn1", "trn2", "trn3", "p5en"):
        assert f"\n{name} " in output


DRAWN = ("--request-rate", "30")
GUESSED = ("--num-speculative-tokens", "3", "--speculative-acceptance", "0.7")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("on", "load"),
    [
        ("trn1", ("--concurrency", "6")),
        ("p5en", ("--concurrency", "6")),
        ("trn1", (*DRAWN, "--burstiness", "0.3")),
        ("p5en", (*DRAWN, "--prefix-len", "64", "--num-prefixes", "2")),
        ("trn1", (*DRAWN, *GUESSED)),
    ],
)
def test_a_run_and_the_replay_of_its_trace_print_the_same(tmp_path, on, load):
    """All but the most load, which for a drawn load is that of its distribution."""
    lengths = ("--input-len", "lognormal:100:0.8", "--output-len", "uniform:1:60")
    speculation = load[2:] if "--num-speculative-tokens" in load else ()
    trace, again = tmp_path / "t.jsonl", tmp_path / "again.jsonl"
    common = ("--on", on, "--json", "--slo-ttft", "0.5", "--seed", "3", *speculation, *FIXED)
    drawn = load[:2] if speculation else load
    first = run(*common, *lengths, *drawn, "--instances", "1", "--num-prompts", "60",
                "--save-trace", str(trace))  # fmt: skip
    second = run(*common, "--instances", "1", "--trace", str(trace), "--save-trace", str(again))
    found, replayed = json.loads(first), json.loads(second)
    for name in ("capacity", "curve", "max_requests_per_s_within_slo", "not_faster_than"):
        assert (found.pop(name) is None) is (replayed.pop(name) is None)
    assert found == replayed
    assert trace.read_bytes() == again.read_bytes()


def test_commands_are_printed_for_the_layout():
    output = run("--on", "trn2,p5en", *FIXED, *SMALL, "--concurrency", "4", "--emit", "vllm")
    neuron, gpu = output.split("\n\n")
    assert "--tensor-parallel-size 8" in neuron
    assert "num_seqs_buckets" in neuron
    assert shlex.split(gpu)[:3] == ["vllm", "serve", "llama-3.1-8b"]


def test_what_is_set_is_what_is_deployed():
    found = json.loads(
        run(
            *("--on", "trn2", "--json", *SMALL, "--concurrency", "4", "--lnc", "1"),
            *("--tensor-parallel-size", "16", "--max-num-seqs", "4", "--max-model-len", "512"),
            *("--buckets", "256,512", "--num-seqs-buckets", "1,4", "--block-size", "64"),
            *("--data-parallel-size", "2", "--prefill-replicas", "1", "--quantization", "fp8"),
        )
    )
    expected = {
        "lnc": 1, "tensor_parallel_size": 16, "max_num_seqs": 4, "max_model_len": 512,
        "buckets": [256, 512], "num_seqs_buckets": [1, 4], "block_size": 64,
        "data_parallel_size": 2, "prefill_replicas": 1, "requests": 24,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected


BAD = [
    ("--concurrency 3 --request-rate 2", r"both --concurrency and --request-rate given; legal: on"),
    ("--output-len 0", r"--output-len is 0; a request has at least 1 token"),
    ("--max-num-seqs 0", r"--max-num-seqs is 0; legal: whole numbers from 1 on"),
    ("--max-model-len 512 --input-len 500 --prefix-len 7 --output-len 6",
     "--max-model-len is 512, and a request has 513 tokens: 507 of the prompt .* legal: 513"),
    ("--router foo", r"--router is 'foo'; legal: round-robin or least-work"),
    ("--spare foo", r"--spare is 'foo'; legal: instance, replica, none"),
    ("--emit foo", r"--emit is 'foo'; legal: vllm"),
    ("--buckets 128,256", r"--buckets: the largest of 128,256 does not hold the longest sequence "),
    ("--tensor-parallel-size 100", r"--tensor-parallel-size of 100 on trn1.32xlarge, which has 32"),
    ("--trace no.jsonl", r"cannot read no.jsonl"),
    ("--trace x --input-len 5", r"both --trace and --input-len given; legal: one of them"),
    ("--trace x --prefix-len 5", r"both --trace and --prefix-len given; legal: one of them"),
    ("--trace x --num-prefixes 2", r"both --trace and --num-prefixes given; legal: one of them"),
    ("--trace x --burstiness 0.5", r"both --trace and --burstiness given; legal: one of them"),
    ("--speculative-model qwen3-4b",
     r"--speculative-model without --num-speculative-tokens: nothing is drafted"),
    ("--speculative-acceptance 0", r"--speculative-acceptance without --num-speculative-tokens: "),
    ("--num-prefixes 2", r"--num-prefixes without --prefix-len: nothing is shared"),
    ("--concurrency 2 --burstiness 0.5", r"--burstiness without --request-rate: nothing arrives"),
    ("--expert-imbalance 1.5", r"--expert-imbalance: llama-3.1-8b has no experts"),
    ("--save-trace x", r"--save-trace of a load that follows from the layout, which is searched"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "message"), BAD)
def test_bad_input_names_the_option_and_what_is_legal(given, message):
    with pytest.raises(BadInput, match=f"^{message}"):
        run("--on", "trn1", *given.split())


def test_a_chip_without_the_memory_says_what_takes_it():
    with pytest.raises(OutOfMemory, match=r"^llama-3.1-8b: a NeuronCore needs .* weights 3.74 GiB"):
        run("--on", "inf1.xlarge")


RANGES = [
    ("--request-rate", "0", "'0' is not above 0; legal: numbers above 0"),
    ("--concurrency", "0", "'0' is below 1; legal: whole numbers from 1 on"),
    ("--num-prompts", "0", "'0' is below 1; legal: whole numbers from 1 on"),
    ("--seed", "-1", "'-1' is below 0; legal: whole numbers from 0 on"),
]


@pytest.mark.parametrize(("option", "value", "message"), RANGES)
def test_a_number_out_of_range_names_its_option(option, value, message):
    told = CliRunner().invoke(app, ["plan", "serve", CONFIG, option, value])
    assert f"'{option}': {message}" in told.output


@pytest.mark.parametrize(
    ("on", "name", "message"),
    [
        ("trn1,p5en", "t", r"^--save-trace has one platform\n  fix: name one: --on trn2"),
        ("trn1", "none/t", "cannot write .*none/t"),
    ],
)
def test_a_file_for_the_trace_is_checked_before_a_layout_is_tried(
    on, name, message, tmp_path, monkeypatch
):
    monkeypatch.setattr("trnsim.cli.plan.serve.plan", None)
    with pytest.raises(BadInput, match=message):
        run("--on", on, *FIXED, *SMALL, "--concurrency", "4", "--save-trace", str(tmp_path / name))


@pytest.mark.parametrize("option", ["--max-num-seqs", "--instances", "--lnc", "--block-size"])
def test_a_number_with_a_separator_is_refused(option):
    result = CliRunner().invoke(app, ["plan", "serve", CONFIG, "--on", "trn1", option, "8.000"])
    assert result.exit_code == 2
    assert "may have a separator of thousands" in " ".join(result.output.split())


def test_measured_layers_are_named_by_phase_and_move_the_times(tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text(
        "phase,batch,tokens,past,time_us\n"
        "decode,1,1,0,5000\ndecode,8,1,0,5000\ndecode,1,1,4095,5000\ndecode,8,1,4095,5000\n",
        encoding="utf-8",
    )
    asked = ("--on", "trn1", *FIXED, *SMALL, "--concurrency", "4")
    found = json.loads(run(*asked, "--measured", str(file), "--json"))
    assert found["sources"]["decode"].endswith(f"measured: {file} (layer)")
    assert found["sources"]["prefill"].startswith("few constants of prefill")
    assert found["tpot_p50_s"]["p50"] > 32 * 5e-3
    assert "; decode: few constants of" in " ".join(run(*asked, "--measured", str(file)).split())
    file.write_text("phase,batch,tokens,time_us\nprefill,64,7,5000\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"is met: this plan asks for prefill and decode of 4 seq"):
        run(*asked, "--measured", str(file))
    with pytest.raises(BadInput, match=r"layer is missing: this plan has \d kinds of lay"):
        run("--on", "trn1", *SMALL, "--measured", str(file))


def test_own_prices_win_and_two_kinds_are_marked(tmp_path):
    own = tmp_path / "own.csv"
    own.write_text(
        "instance,kind,usd_per_hour,as_of\ntrn1.32xlarge,on_demand,5,2026-11-01\n", encoding="utf-8"
    )
    asked = (*FIXED, *SMALL, "--concurrency", "4")
    found = json.loads(
        run("--on", "trn1", *asked, "--price", "on_demand", "--prices", str(own), "--json")
    )
    assert found["price"].startswith("5.00 USD/h on_demand any region 2026-11-01")
    assert (found["price_caveats"], found["credits"]) == ([], [])
    two = ("--on", "trn1:on_demand,p5en", *asked)
    with pytest.raises(BadInput, match="trn1 on_demand against p5en capacity_block: different"):
        run(*two)
    printed = run(*two, "--mixed-prices")
    assert printed.count("(mixed prices)") == 2
    assert "mixed prices: on_demand, capacity_block" in printed


def test_fewer_ranks_that_do_as_well_are_named(tmp_path):
    config = json.loads(Path(CONFIG).read_text(encoding="utf-8"))
    config |= {"hidden_size": 1024, "num_hidden_layers": 4, "intermediate_size": 2048}
    path = tmp_path / "small.json"
    path.write_text(json.dumps(config | {"vocab_size": 8000}), encoding="utf-8")
    asked = ["plan", "serve", str(path), "--on", "trn1", "--tensor-parallel-size", "8", *SMALL]
    asked += ["--max-num-seqs", "1", "--concurrency", "1"]
    found = json.loads(CliRunner().invoke(app, [*asked, "--json"]).output)
    assert found["not_faster_than"]["tensor_parallel_size"] == 1
    printed = CliRunner().invoke(app, asked).output
    assert "  note: TP8 is not faster than TP1: a request takes " in printed
