import json

import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.errors import BadInput
from trnsim.workload.model_names import shipped


def run(*arguments):
    result = CliRunner().invoke(app, [*arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_every_model_has_a_line_of_at_most_100_columns():
    lines = run("models").splitlines()
    names = {line.split()[0] for line in lines if line}
    assert {model.name for model in shipped()} <= names
    assert max(map(len, lines)) <= 100


def test_json_has_sizes_and_the_published_number():
    rows = {row["name"]: row for row in json.loads(run("models", "--json"))}
    llama = rows["llama-3.1-8b"]
    sizes = [llama[key] for key in ("layers", "heads", "kv_heads", "tokens", "parameters")]
    assert sizes == [32, 32, 8, 131072, 8030261248]
    assert rows["deepseek-v3"]["kv_heads"] is None
    assert rows["vit-base"]["tokens"] is None


@pytest.mark.parametrize(("name", "published"), [("gpt-oss-20b", 3.61e9), ("gpt-oss-120b", 5.13e9)])
def test_active_parameters_of_gpt_oss_are_its_cards_and_the_input_embedding(name, published):
    rows = {row["name"]: row for row in json.loads(run("models", "--json"))}
    embedding = 201_088 * 2880  # vocab_size and hidden_size of both config.json
    assert rows[name]["active_parameters"] - embedding == pytest.approx(published, abs=5e6)


@pytest.fixture(autouse=True)
def _no_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))


@pytest.mark.slow_cases("instances", "plan-infer")
@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "infer", "bert-large", "--on", "trn1"),
        ("plan", "layer", "Qwen/Qwen3-8B", "--on", "trn2"),
        ("instances", "--for", "mixtral-8x7b", "--tokens", "8k"),
    ],
    ids=["plan-infer", "plan-layer", "instances"],
)
def test_commands_take_a_name(arguments):
    assert run(*arguments)


def test_text_names_a_model_and_not_the_file_that_ships():
    told = run("plan", "infer", "BERT-base", "--on", "trn1")
    assert told.startswith("bert-base: batches of 1 sequence on each copy")


def test_what_vllm_serves_is_an_id():
    emitted = run("plan", "serve", "llama-3.2-1b", "--on", "trn2", "--tensor-parallel-size", "4",
                  "--max-num-seqs", "1", "--concurrency", "1", "--num-prompts", "4", "--output-len",
                  "8", "--emit", "vllm")  # fmt: skip
    assert "meta-llama/Llama-3.2-1B" in emitted


def test_an_unknown_name_is_refused_with_near_ones():
    with pytest.raises(BadInput, match=r"fix: perhaps .*Llama-3\.1-8B.* or "):
        run("plan", "train", "llama-3.1-8")


@pytest.mark.slow
def test_a_model_is_compiled_by_its_name():
    told = run("compile", "meta-llama/Llama-3.2-1B", "--tp", "8", "--past", "100")
    assert "llama (llama-3.2-1b), decode, batch 1, 100 keys in the cache" in told
