import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trnsim.arch.catalogue import catalogue
from trnsim.cli import app
from trnsim.cli.plan.shared import (
    answer_pointer,
    bound_note,
    compared_document,
    floor_notes,
    platform_names,
    price_remarks,
)
from trnsim.document.figure import value_at
from trnsim.errors import BadInput
from trnsim.price import quote

CONFIG = str(Path(__file__).parents[3] / "examples" / "llama-3.1-8b.json")


def run(*arguments):
    return CliRunner().invoke(app, ["plan", *arguments], catch_exceptions=False)


@pytest.mark.parametrize("command", ["train", "serve"])
def test_an_unknown_platform_lists_the_legal_ones(command):
    with pytest.raises(BadInput, match=r"^'foo' is no chip, family or instance type; legal: trn1"):
        run(command, CONFIG, "--on", "foo")


def test_exchanges_of_a_plan_say_their_floor():
    assert floor_notes(8) == [
        "collectives run inside a program: the host does not start each of them"
    ]
    assert floor_notes(1) == []
    assert floor_notes(8, lnc=0) == []  # GPUs


@pytest.mark.parametrize(
    ("command", "has_exchanges"),
    [
        (["serve", CONFIG, "--on", "trn1", "--concurrency", "1", "--output-len", "4",
          "--tensor-parallel-size", "8"], True),
        (["train", CONFIG, "--on", "trn1", "--instances", "1", "--tp", "8", "--budget", "4"], True),
        (["infer", CONFIG.replace("llama-3.1-8b", "bert-large"), "--on", "inf2.xlarge"], False),
    ],
    ids=["serve", "train", "infer"],
)  # fmt: skip
def test_a_plan_with_exchanges_says_their_floor(command, has_exchanges):
    result = CliRunner().invoke(app, ["plan", *command])
    assert result.exit_code == 0, result.output
    assert ("collectives run inside a program" in result.stdout) == has_exchanges


def test_no_platform_at_all_is_refused():
    with pytest.raises(BadInput, match=r"^--on names no platform\n  fix: for example --on trn2,p"):
        run("train", CONFIG, "--on", ",")


LLAMA = json.loads(Path(CONFIG).read_text(encoding="utf-8"))
EIGHT = {"num_attention_heads": 8, "head_dim": 128}
SEVEN = {"hidden_size": 1000, "num_attention_heads": 7, "num_key_value_heads": 7, "head_dim": None}
MOE = {"model_type": "mixtral", "num_local_experts": 4}
GPT2 = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024}

WRONG_MODELS = [
    (MOE | {"num_experts_per_tok": 9}, "num_experts_per_tok is 9; legal: 1 to 4: there are 4 ex"),
    (EIGHT | {"num_key_value_heads": 3}, "num_key_value_heads is 3; legal: 1, 2, 4, 8: each"),
    (EIGHT | {"num_key_value_heads": 16}, "num_key_value_heads is 16; legal: 1, 2, 4, 8: each"),
    (SEVEN, "hidden_size is 1000; legal: multiples of 7 heads, or any with head_dim"),
    (
        {"model_type": "mine", "auto_map": {"AutoConfig": "x.Y"}},
        "auto_map is {'AutoConfig': 'x.Y'}; legal: no such key",
    ),
    ({"model_type": None}, "no model_type, so it is no model's configuration"),
    ({"quantization_config": {"quant_method": "own"}}, "quant_method is 'own'; legal: fp8, fbgem"),
    ({"hidden_size": float("nan")}, "not JSON: NaN is no number of JSON"),
]


@pytest.mark.parametrize(("changed", "said"), WRONG_MODELS)
@pytest.mark.parametrize("command", ["train", "serve", "layer"])
def test_a_configuration_that_cannot_be_names_its_field_and_what_is_legal(
    tmp_path, command, changed, said
):
    path = tmp_path / "wrong.json"
    values = {name: value for name, value in (LLAMA | changed).items() if value is not None}
    path.write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(BadInput) as caught:
        run(command, str(path), "--on", "trn1")
    assert said in str(caught.value)


@pytest.mark.parametrize("command", ["train", "serve", "infer", "layer"])
def test_bytes_that_are_no_utf_8_are_named(tmp_path, command):
    path = tmp_path / "wrong.json"
    path.write_bytes(b'{"model_type": "\xff\xfe"}')
    with pytest.raises(BadInput, match=r"wrong\.json:1: byte 0xff is no UTF-8 text"):
        run(command, str(path), "--on", "trn1")


LOAD = ("--request-rate", "1", "--num-prompts", "2", "--output-len", "4")
WRONG_SERVING = [
    (("--instances", "-4"), "instances"),
    (
        ("--tensor-parallel-size", "64"),
        "--tensor-parallel-size of 64 on trn1.32xlarge, which has 3",
    ),
    (("--pipeline-parallel-size", "33"), "--pipeline-parallel-size of 33; llama-3.1-8b has 32 la"),
    (("--expert-parallel-size", "3"), "--expert-parallel-size of 3; llama-3.1-8b has no experts"),
    (("--input-len", "nan"), "--input-len"),
    (("--slo-tpot", "-1"), "slo"),
]


@pytest.mark.parametrize(("given", "said"), WRONG_SERVING)
def test_a_layout_to_serve_that_cannot_be_is_named(given, said):
    with pytest.raises(BadInput) as caught:
        run("serve", CONFIG, "--on", "trn1", *LOAD, *given)
    assert said in str(caught.value)
    assert "legal" in str(caught.value) or "fix:" in str(caught.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"arrival_s": 1, broken', "t.jsonl"),
        ('{"arrival_s": NaN, "input_tokens": 9, "output_tokens": 4}', "t.jsonl"),
        ('{"arrival_s": 1, "input_tokens": 0, "output_tokens": 4}', "t.jsonl"),
    ],
)
def test_a_broken_line_of_a_trace_is_named(tmp_path, line, said):
    path = tmp_path / "t.jsonl"
    good = '{"arrival_s": 0, "input_tokens": 9, "output_tokens": 4}\n'
    path.write_text(good + line + "\n", encoding="utf-8")
    with pytest.raises(BadInput) as caught:
        run("serve", CONFIG, "--on", "trn1", "--trace", str(path))
    assert said in str(caught.value)
    assert "2" in str(caught.value)


def test_experts_and_positions_and_chips_that_cannot_be_are_named(tmp_path):
    path = tmp_path / "moe.json"
    path.write_text(json.dumps(LLAMA | MOE | {"num_experts_per_tok": 2}), encoding="utf-8")
    with pytest.raises(BadInput, match=r"^moe has 4 experts, which --ep 3 does not divide"):
        run("train", str(path), "--on", "trn1", "--instances", "4", "--ep", "3")
    with pytest.raises(BadInput, match=r"^--expert-parallel-size of 3; moe has 4 experts"):
        run("serve", str(path), "--on", "trn1", "--expert-parallel-size", "3")
    small = tmp_path / "gpt2.json"
    small.write_text(json.dumps(GPT2 | {"vocab_size": 50257}), encoding="utf-8")
    with pytest.raises(
        BadInput, match=r"8,192 tokens exceeds n_positions of gpt2; legal: 1 to 1,0"
    ):
        run("train", str(small), "--on", "trn1", "--sequence", "8192")
    with pytest.raises(BadInput, match=r"8,193 tokens; gpt2 has a table of 1,024 positions"):
        run("serve", str(small), "--on", "trn1", "--input-len", "8192", "--output-len", "1")
    with pytest.raises(BadInput, match=r"inf1\.xlarge cannot train"):
        run("train", CONFIG, "--on", "inf1.xlarge")


def weights_bytes(path):
    found = json.loads(
        run("serve", str(path), "--on", "trn1", "--tensor-parallel-size", "8", "--max-num-seqs",
            "1", "--input-len", "4500", "--output-len", "4", "--num-prompts", "1",
            "--concurrency", "1", "--json").output
    )  # fmt: skip
    return found["memory_bytes"]["weights"], found["memory_bytes"]["sequence"]


def test_fp8_weights_and_sliding_windows_count(tmp_path):
    fp8, window = tmp_path / "fp8.json", tmp_path / "window.json"
    fp8.write_text(json.dumps(LLAMA | {"quantization_config": {"quant_method": "fp8"}}))
    window.write_text(json.dumps(LLAMA | {"model_type": "mistral", "sliding_window": 1024}))
    whole, windowed = weights_bytes(CONFIG), weights_bytes(window)
    assert weights_bytes(fp8)[0] < 0.7 * whole[0]
    assert windowed[1] < 0.5 * whole[1]


@pytest.mark.usefixtures("shortest_runs")
def test_two_requests_that_follow_each_other_have_a_throughput():
    asked = ("--on", "trn1", "--tensor-parallel-size", "8", "--max-num-seqs", "1", *LOAD)
    found = json.loads(run("serve", CONFIG, *asked, "--json").output)
    assert found["output_tokens_per_s"]["p50"] > 0
    assert found["usd_per_million_tokens"]["p50"] > 0


def test_a_place_is_that_in_the_document_of_one_answer_or_of_several():
    said = price_remarks([], catalogue())
    for count in (1, 2, 11):
        answers = [{"parts_s": {"a/b": at}} for at in range(count)]
        values = compared_document("t", answers, [], said, "plan-train/1").values
        for at in range(count):
            assert value_at(values, answer_pointer(at, count, "parts_s", "a/b")) == at


def test_each_price_has_words_in_the_order_of_the_quotes():
    quotes = [quote("trn2.48xlarge", kind="capacity_block"), quote("p5.48xlarge", kind="on_demand")]
    assert price_remarks(quotes, catalogue()).prices == (str(quotes[0]), str(quotes[1]))


def test_the_bound_is_the_largest_part_of_each_platform():
    parts = {"trn1": {"compute": 3.0, "host": 1.0}, "trn2": {"host": 0.0}, "p5": {}}
    assert bound_note(parts).words == "bound by: trn1 compute (75%), trn2 -, p5 -"


def test_a_platform_that_is_named_twice_is_compared_once():
    assert platform_names(["trn2,TRN2", "trn2:spot"]) == ["trn2", "trn2:spot"]


def test_what_has_no_price_of_its_kind_says_which_kinds_have():
    names = ("g5.48xlarge", "g5.48xlarge", "trn2u.48xlarge", "p5.48xlarge")
    quotes = [quote(name, kind="capacity_block") for name in names]
    assert price_remarks(quotes, catalogue()).caveats == (
        "g5.48xlarge has none as capacity_block, but as on_demand: --price on_demand",
    )
