import json
import re

import pytest
from typer.testing import CliRunner

from trnsim.arch.catalogue import catalogue
from trnsim.cli import app
from trnsim.errors import BadInput

DAY = ("--as-of", "2026-11-20")


def run(*arguments):
    result = CliRunner().invoke(app, ["instances", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "small.json"
    sizes = {
        "model_type": "llama",
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 128256,
        "max_position_embeddings": 8192,
        "torch_dtype": "bfloat16",
    }
    path.write_text(json.dumps(sizes))
    return str(path)


def line_of(output, name):
    return next(line for line in output.splitlines() if line.startswith(f"{name} ")).split()


def test_every_instance_has_a_line_with_its_kind_of_price():
    output = run(*DAY)
    lines = output.splitlines()
    assert len(lines) == 1 + len(catalogue().instances) + 3
    assert max(map(len, lines)) <= 100
    assert line_of(output, "trn2.48xlarge")[-2:] == ["35.761", "capacity_block"]
    assert line_of(output, "trn1.32xlarge")[-5:] == ["21.5", "on_demand", "123", "d", "old"]
    assert line_of(output, "trn2u.48xlarge")[-2:] == ["none", "-"]


def test_one_kind_is_asked_for():
    assert line_of(run("--price", "on_demand", *DAY), "trn2.48xlarge")[-2:] == ["none", "-"]
    assert line_of(run("--price", "spot", *DAY), "p5.48xlarge")[-2:] == ["20.784", "spot"]


def test_json_has_memory_peaks_and_price():
    found = {one["name"]: one for one in json.loads(run("--json", *DAY))}
    assert found["trn2.48xlarge"]["memory_bytes"] == 1536 * 2**30
    assert found["trn2.48xlarge"]["peak_flop_per_s"]["bf16"] == 16 * 667e12
    assert found["trn2.48xlarge"]["price_kind"] == "capacity_block"
    assert found["trn1.32xlarge"]["is_price_stale"]
    assert found["Trn3 Gen2 UltraServer"]["usd_per_hour"] is None


def test_instances_that_hold_a_model(model):
    output = run("--for", model, *DAY)
    assert output.startswith(
        "small: weights 14.96 GiB; keys and values of 1 x 8,192 tokens 1 GiB\n"
    )
    assert max(map(len, output.splitlines())) <= 100
    assert line_of(output, "trn2.3xlarge")[3] == "1"
    assert line_of(output, "inf2.xlarge")[3] == "1"
    assert line_of(output, "g5.xlarge")[3] == "1"
    assert line_of(output, "g4dn.xlarge")[3] == "2"


def test_the_price_is_that_of_all_instances_that_are_needed(model):
    held = {one["name"]: one for one in json.loads(run("--for", model, "--json", *DAY))}
    t4 = held["g4dn.xlarge"]
    assert t4["instances"] == 2
    assert t4["usd_per_hour"] == pytest.approx(2 * 0.526)
    assert t4["needed_bytes_per_rank"] <= t4["usable_bytes_per_rank"]


def test_an_encoder_needs_no_tokens(tmp_path):
    path = tmp_path / "t5.json"
    path.write_text(
        json.dumps(
            {
                "model_type": "t5",
                "d_model": 512,
                "d_kv": 64,
                "d_ff": 2048,
                "num_layers": 6,
                "num_heads": 8,
                "vocab_size": 32128,
            }
        )
    )
    with pytest.raises(BadInput, match="t5 states no longest sequence") as refused:
        run("--for", str(path))
    assert refused.value.fix == "give --tokens"
    assert "t5: weights" in run("--for", str(path), "--tokens", "512")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tokens", "8k"], "--tokens without --for"),
        (["--sequences", "2"], "--sequences without --for"),
        (["--price", "cheap"], "--price is 'cheap'; legal: on_demand, "),
        (["--as-of", "x"], "--as-of is 'x'; legal: a day up to "),
        (["--for", "none.json"], "cannot read none.json: No such file"),
    ],
)
def test_what_cannot_be_listed_is_refused(arguments, message):
    with pytest.raises(BadInput) as refused:
        run(*arguments)
    assert refused.value.reason.startswith(message)


def test_a_sequence_beyond_learned_positions_is_refused():
    with pytest.raises(BadInput, match=r"^a sequence of 1,025 tokens exceeds n_positions of gpt2;"):
        run("--for", "gpt2", "--tokens", "1025")


@pytest.mark.parametrize("option", ["--tokens", "--sequences"])
def test_a_count_below_one_names_its_option(model, option):
    told = CliRunner().invoke(app, ["instances", "--for", model, option, "0"])
    assert f"'{option}': '0' is below 1; legal: whole numbers from 1 on" in told.output


def test_names_are_whole_and_numbers_stand_on_the_right_of_the_page(tmp_path):
    run(*DAY, "--report", str(tmp_path))
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert ">Trn2 UltraServer (u-trn2x64)</td>" in page
    rows = (tmp_path / "table.csv").read_text(encoding="utf-8").splitlines()
    assert rows[0] == "instance,chips,GiB,TB/s,PF/s,USD/h,kind,remark"
    assert any(row.startswith("Trn2 UltraServer (u-trn2x64),64 trainium2,") for row in rows)
    heads = re.findall(r'<th class="(\w+)"[^>]*>([^<]*)<', page)
    numbers = [name for kind, name in heads if kind == "number"]
    assert numbers == ["GiB", "TB/s", "PF/s", "USD/h"]
