import json

import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.cli.comparison import Comparison
from trnsim.errors import BadInput, InternalError, OutOfMemory

BERT = {
    "model_type": "bert",
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 2,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
}


def refuse(error):
    def question():
        raise error

    return question


def test_a_refused_platform_leaves_the_answers_of_the_others():
    comparison = Comparison()
    answers = [
        answer
        for name, question in (
            ("trn1 x 1", refuse(OutOfMemory("too small", fix="use two"))),
            ("trn2", lambda: 2),
            ("p5", refuse(BadInput("no"))),
        )
        for answer in comparison.ask(name, question)
    ]
    assert answers == [2]
    comparison.check(answers)
    assert [refusal.values for refusal in comparison.refusals] == [
        {"platform": "trn1 x 1", "reason": "too small", "fix": "use two"},
        {"platform": "p5", "reason": "no", "fix": ""},
    ]
    assert [refusal.note.words for refusal in comparison.refusals] == [
        "trn1 x 1: no answer: too small; fix: use two",
        "p5: no answer: no",
    ]


def test_without_an_answer_the_first_refusal_is_raised():
    comparison = Comparison()
    for reason in ("first", "second"):
        assert comparison.ask(reason, refuse(BadInput(reason))) == []
    with pytest.raises(BadInput, match="first"):
        comparison.check([])
    with pytest.raises(BadInput, match="first"):
        comparison.check([1], needs_all=True)


def test_a_fault_of_trnsim_is_no_refusal():
    with pytest.raises(InternalError):
        Comparison().ask("trn1", refuse(InternalError("a fault")))


def answered(*arguments):
    result = CliRunner().invoke(app, ["plan", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(
    ("command", "options", "platform"),
    [
        ("infer", ("--on", "inf1.xlarge,trn2", "--dtype", "fp8"), "inf1.xlarge"),
        ("train", ("--on", "inf1,trn1.32xlarge", "--budget", "1"), "inf1"),
    ],
)
def test_the_text_and_the_json_name_what_was_refused(tmp_path, command, options, platform):
    config = tmp_path / "bert.json"
    config.write_text(json.dumps(BERT))
    (answer,) = json.loads(answered(command, config, *options, "--json"))
    (refused,) = answer["refused"]
    assert refused["platform"] == platform
    text = " ".join(answered(command, config, *options).split())
    assert f"{platform}: no answer: {refused['reason']}; fix: {refused['fix']}" in text


def test_a_server_that_has_no_room_on_one_platform_is_planned_on_the_other(tmp_path):
    page = tmp_path / "page.html"
    load = ("--input-len", "128", "--output-len", "16", "--num-prompts", "8", "--concurrency", "1")
    ranks = ("--tensor-parallel-size", "8", "--max-num-seqs", "1")
    output = answered(
        *("serve", "llama-3.1-8b", "--on", "g4dn.xlarge,trn1", *load, *ranks, "--report", page)
    )
    assert "g4dn.xlarge: no answer: " in output
    assert "g4dn.xlarge: no answer: " in page.read_text()


def test_logical_cores_that_one_platform_has_not_are_its_refusal_alone():
    load = ("--num-prompts", "8", "--concurrency", "1", "--output-len", "8")
    words = ("serve", "llama-3.1-8b", "--on", "trn1,trn2", "--lnc", "1", *load)
    assert len(json.loads(answered(*words, "--json"))) == 2
    (found,) = json.loads(answered(*words, "--lnc", "2", "--json"))
    assert [found["platform"], found["refused"][0]["platform"]] == ["trn2", "trn1"]


def test_a_file_that_starts_a_run_is_of_every_platform_or_none():
    with pytest.raises(BadInput, match=r"inf1\.24xlarge cannot train"):
        answered("train", "gpt2", "--on", "trn1,inf1", "--budget", "1", "--emit", "torchrun")
