import pytest

from trnsim.calibrate.logs.questions import is_questions, questions
from trnsim.errors import BadInput
from trnsim.reader import parse

QUESTION = "plan layer llama-3.1-8b --on trn1"


def document(text, name="log.csv"):
    return parse(text.encode(), name, is_table=True)


def test_rows_have_questions_figures_and_lines():
    (first, other) = questions(
        document(f"question,seconds,figure\ntrnsim  {QUESTION},2ms,\n{QUESTION},0.1,ttft\n")
    )
    assert (first.question, first.value, first.figure) == (QUESTION, 0.002, "time")
    assert (other.figure, str(other.line)) == ("ttft", "log.csv:3")


def test_rows_of_another_table_are_no_questions():
    assert not is_questions(document("step,loss\n1,2\n"))
    assert not is_questions(document("[]", "a.json"))


def test_a_table_without_rows_is_refused():
    with pytest.raises(BadInput, match=r"log\.csv:1: no rows"):
        questions(document("question,seconds\n"))


def test_swapped_columns_are_named():
    with pytest.raises(
        BadInput,
        match=r"log\.csv:2: question is '0\.1' and seconds is 'plan layer "
        r".*: the columns are swapped",
    ):
        questions(document(f"question,seconds\n0.1,{QUESTION}\n"))


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "fast", ""])
def test_seconds_that_are_none_are_refused_with_their_line(seconds):
    with pytest.raises(BadInput, match=r"log\.csv:2: seconds"):
        questions(document(f"question,seconds\n{QUESTION},{seconds}\n"))


@pytest.mark.parametrize(
    "question",
    [
        "run k.py",
        "'run' k.py",
        "trnsim run k.py",
        "compile m.PY:model",
        "compile m.p''y",
        "compile a.json --import m",
    ],
)
def test_a_table_runs_no_program(question):
    with pytest.raises(BadInput, match=r"log\.csv:3: question .* runs a Python program") as refused:
        questions(document(f'question,seconds\n{QUESTION},1\n"{question}",1\n'))
    assert "--question" in str(refused.value)


def test_a_table_may_ask_for_compiled_models_and_what_cannot_be_parsed_is_left_to_who_asks():
    rows = questions(document("question,seconds\ncompile bert-large --on trn1,1\nplan 'x,1\n"))
    assert [row.question for row in rows] == ["compile bert-large --on trn1", "plan 'x"]
