import json

import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.errors import BadInput

CONFIG = {
    "model_type": "bert", "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 512, "vocab_size": 1000, "max_position_embeddings": 512,
}  # fmt: skip


def run(*arguments):
    result = CliRunner().invoke(app, ["plan", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """One plan at two batches, as a user keeps them."""
    folder = tmp_path_factory.mktemp("answers")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    for batch in (1, 8):
        on = ("--on", "inf2.xlarge", "--batch", str(batch), "--json")
        (folder / f"{batch}.json").write_text(run("infer", str(folder / "config.json"), *on))
    return folder


def test_figures_inputs_and_causes_of_a_change_are_printed(answers):
    output = run("diff", str(answers / "1.json"), str(answers / "8.json"))
    assert "inf2.xlarge: " in output
    assert "\nlatency_p50_s " in output
    assert "\nwhy:\n  batch: 1 -> 8\n" in output
    assert "  time by cause: estimate.parts_s." in output
    assert "  cost: price +0.0%, instances +0.0%, time -" in output


def test_an_answer_beside_itself_has_not_changed(answers):
    path = str(answers / "1.json")
    assert run("diff", path, path) == "inf2.xlarge: nothing changed\n"


def test_the_json_has_the_numbers_of_the_text(answers):
    paths = [str(answers / f"{batch}.json") for batch in (1, 8)]
    one, eight = (json.loads((answers / f"{batch}.json").read_text()) for batch in (1, 8))
    found = json.loads(run("diff", *paths, "--json"))
    (difference,) = found["differences"]
    (latency,) = [row for row in difference["figures"] if row["path"] == "latency_p50_s"]
    assert latency["old"] == one["latency_p50_s"]["p50"]
    assert latency["ratio"] == eight["latency_p50_s"]["p50"] / one["latency_p50_s"]["p50"]


def test_a_figure_that_hardly_changes_has_no_line(answers, tmp_path):
    moved = json.loads((answers / "1.json").read_text())
    moved["memory_bytes"] *= 1.0001
    (tmp_path / "moved.json").write_text(json.dumps(moved))
    output = run("diff", str(answers / "1.json"), str(tmp_path / "moved.json"))
    assert "memory_bytes" not in output
    assert "1 figure changes by less than 0.05%" in output
    assert "no input differs, so trnsim itself does" in output


def test_a_file_that_is_no_answer_is_refused(answers, tmp_path):
    (tmp_path / "list.json").write_text("[1, 2]")
    with pytest.raises(BadInput, match=r"list\.json holds no answer of trnsim plan"):
        run("diff", str(tmp_path / "list.json"), str(answers / "1.json"))
    with pytest.raises(BadInput, match=r"cannot read .*none\.json"):
        run("diff", "none.json", str(answers / "1.json"))
