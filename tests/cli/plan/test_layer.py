import json
import math
import re

import pytest
from typer.testing import CliRunner

from trnsim.cli.plan import app
from trnsim.errors import BadInput

CONFIG = "examples/llama-3.1-8b.json"
ASKED = ("layer", CONFIG, "--on", "trn1", "--tensor-parallel-size", "32")


def said(*words):
    """What a command prints."""
    found = CliRunner(env={"COLUMNS": "400"}).invoke(app, [*ASKED, *words])
    if found.exception and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found.output


def test_a_layer_has_a_time_with_its_parts_and_its_source():
    found = said()
    assert "weights" in found
    assert "few constants of decode, fitted to" in found


def test_json_has_the_sizes_by_which_a_layer_is_known():
    found = json.loads(said("--json"))
    assert found["layer"].startswith("query 4096 x 128")
    answer = found["answer"]
    assert answer["time_s"] == pytest.approx(sum(answer["parts_s"].values()))


def test_of_layers_that_differ_it_is_the_kind_that_most_have():
    asked = ("layer", "deepseek-v3", "--on", "trn2", "--tensor-parallel-size", "32")
    found = CliRunner(env={"COLUMNS": "400"}).invoke(app, asked).output
    assert "layers alike  58 of 61" in found  # the first three have no experts
    answer = json.loads(CliRunner().invoke(app, (*asked, "--json")).output)
    assert "expert up 7168 x " in answer["layer"]
    assert "layers alike" not in said()


def test_more_tokens_take_longer():
    times = [
        json.loads(said("--sequence", str(count), "--json"))["answer"]["time_s"]
        for count in (128, 1024, 8192)
    ]
    assert times == sorted(times)
    assert times[0] < times[-1]


def test_a_measured_table_answers_first(tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text("phase,batch,tokens,past,time_us\ndecode,1,1,2048,42\n")
    lines = said("--measured", str(file)).splitlines()
    assert [
        line.split(maxsplit=1)[1] for line in lines if line.startswith(("parts", "source"))
    ] == [
        "measured 42 us",
        f"measured: {file}",
    ]


def test_a_time_has_its_interval_and_the_page_a_bar_of_its_parts(tmp_path):
    asked = (*ASKED, "--json")
    answer = json.loads(CliRunner().invoke(app, asked).output)["answer"]
    half = 1.2815515655446004 * answer["spread"]
    low, high = (1e6 * answer["time_s"] * math.exp(sign * half) for sign in (-1, 1))
    line = next(line for line in said().splitlines() if line.startswith("time"))
    assert line.endswith(f"(P10 to P90: {low:.3g} us to {high:.3g} us)")
    page = tmp_path / "page"
    said("--report", str(page))
    shown = re.findall(r'data-of="/answer/parts_s/(\w+)"', (page / "page.html").read_text())
    assert shown == sorted(shown, key=answer["parts_s"].get, reverse=True)
    assert set(shown) == {name for name, time_s in answer["parts_s"].items() if time_s}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--phase", "train"), "--phase is 'train'; legal: encode, prefill or decode"),
        (("--phase", ""), "--phase is ''; legal: encode, prefill or decode"),
    ],
)
def test_what_cannot_be_is_refused(words, message):
    with pytest.raises(BadInput, match=message):
        said(*words)


@pytest.mark.parametrize(("name", "heads", "padded"), [("gpt2-xl", 25, 32), ("vit-base", 12, 16)])
def test_ranks_without_a_head_are_refused(name, heads, padded):
    assert asked(name, "--tensor-parallel-size", str(padded))["tensor_parallel_size"] == padded
    with pytest.raises(BadInput, match=f"{name} has {heads} heads, so that some ranks") as caught:
        asked(name, "--tensor-parallel-size", str(2 * heads))
    assert caught.value.fix == f"--tensor-parallel-size {heads}"


@pytest.mark.parametrize("option", ["--sequence", "--batch", "--tensor-parallel-size"])
def test_a_size_of_none_is_refused_by_its_option(option):
    told = CliRunner().invoke(app, ["layer", "llama-3.1-8b", "--on", "trn1", option, "0"])
    assert f"Invalid value for '{option}': '0' is below 1" in told.stderr


def test_json_has_what_was_asked_for():
    found = json.loads(said("--phase", "decode", "--batch", "4", "--json"))
    sizes = ("platform", "phase", "batch", "tokens", "past", "tensor_parallel_size")
    assert [found[key] for key in sizes] == ["trn1", "decode", 4, 1, 2048, 32]


def asked(*words):
    """What the command answers about a model."""
    found = CliRunner().invoke(app, ["layer", *words, "--on", "trn2", "--json"])
    if found.exception and not isinstance(found.exception, SystemExit):
        raise found.exception
    return json.loads(found.output)


def test_without_a_phase_and_a_length_they_are_those_of_the_model():
    bert, vit, gpt = (asked(name) for name in ("bert-large", "vit-base", "gpt2-xl"))
    assert [bert[key] for key in ("phase", "tokens", "past")] == ["encode", 512, 0]
    assert [vit[key] for key in ("phase", "tokens", "past")] == ["encode", 197, 0]
    assert [gpt[key] for key in ("phase", "tokens", "past")] == ["decode", 1, 1023]
    assert asked("gpt2-xl", "--phase", "prefill")["tokens"] == 1024


@pytest.mark.parametrize("phase", ["decode", "prefill"])
def test_a_model_that_makes_no_tokens_has_one_phase(phase):
    with pytest.raises(BadInput, match=r"legal for bert-large \(bert\): encode") as caught:
        asked("bert-large", "--phase", phase)
    assert caught.value.fix == "leave --phase out"


@pytest.mark.parametrize(
    ("words", "tokens"),
    [(("bert-large", "--sequence", "513"), 513), (("gpt2-xl", "--sequence", "1024"), 1025)],
)
def test_a_token_without_a_learned_position_is_refused(words, tokens):
    with pytest.raises(BadInput, match=f"a sequence of {tokens:,} tokens exceeds"):
        asked(*words)


def test_the_new_token_of_a_step_has_a_position_too():
    message = (
        r"n_positions of gpt2-xl: --sequence 1024 and, in decode, a new one; legal: 1 to 1,023"
    )
    with pytest.raises(BadInput, match=message) as caught:
        asked("gpt2-xl", "--sequence", "1024")
    assert caught.value.fix == "--sequence 1023"


def test_rotary_positions_go_on_beyond_those_of_training():
    assert asked("llama-2-7b", "--sequence", "16383")["past"] == 16383
