import pytest
from answer_cases import compiled, infer, serve, train

from trnsim.decide.why.answers import answers
from trnsim.errors import BadInput


@pytest.mark.parametrize(
    ("plain", "kind", "name"),
    [
        (infer(), "plan infer", "trn2"),
        (train(), "plan train", "trn2"),
        (serve(), "plan serve", "trn2"),
        (compiled(), "compile", "trn2"),
        ({"workloads": [{"name": "chat", "verdict": "go"}]}, "assess", "chat"),
    ],
)
def test_an_answer_is_of_the_command_whose_fields_it_has(plain, kind, name):
    (found,) = answers(plain, "a.json").values()
    assert (found.kind, found.name) == (kind, name)


def test_answers_are_kept_by_platform():
    assert list(answers([infer(), infer(platform="trn1")], "a.json")) == ["trn2", "trn1"]


def test_answers_about_one_platform_are_named_with_their_instances():
    several = [train(instances=2), train(instances=4), train(platform="trn1")]
    assert list(answers(several, "a.json")) == ["trn2 x 2", "trn2 x 4", "trn1"]


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        (3, "a.json holds no answer of trnsim; legal: the JSON of compile, plan infer, "),
        ([], "a.json holds no answer"),
        ("text", "a.json holds no answer"),
        ([1, 2], "a.json holds no answer"),
        ({"workloads": 3}, "a.json holds no answer"),
        ({"platform": 3}, "a.json holds no answer"),
        ([infer(), infer()], "a.json answers twice for trn2 x None; legal: one answer for each"),
        ({"platform": "trn2"}, r"a.json: no answer of a known command; legal: compile \(has "),
    ],
)
def test_what_is_no_answer_is_refused(plain, said):
    with pytest.raises(BadInput, match=said):
        answers(plain, "a.json")
