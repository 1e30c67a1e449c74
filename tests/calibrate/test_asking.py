import pytest
from row_cases import estimated, row

from trnsim.calibrate import asking
from trnsim.calibrate.asking import figures_of_question, rows_of
from trnsim.calibrate.row import Measurement
from trnsim.cli.questions import ask
from trnsim.errors import BadInput, SourceLine

LAYER = "plan layer examples/llama-3.1-8b.json --on trn1"


def said(question, figure="time", line=2):
    return Measurement(question, figure, 0.001, SourceLine("log.csv", line))


def test_a_question_is_asked_once_for_all_its_rows():
    asked = []

    def asking_once(question):
        asked.append(question)
        return ask(question)

    rows, unasked = rows_of([said(LAYER), said(LAYER, line=3)], asking_once)
    assert asked == [LAYER]
    assert [one.measurement.line.line for one in rows] == [2, 3]
    assert unasked == 0


def test_of_too_many_questions_some_are_asked(monkeypatch):
    monkeypatch.setattr(asking, "MOST_SLOW_QUESTIONS", 2)
    monkeypatch.setattr(asking, "figures_of_question", lambda *_: {"time": estimated()})
    rows, unasked = rows_of([said(f"plan {at}", line=at) for at in range(6)], ask)
    assert [one.measurement.line.line for one in rows] == [0, 3]
    assert unasked == 4
    assert rows[0].estimated == row(1.0).estimated


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ("plan layer none.json --on trn1", "cannot read none.json"),
        ("plan layer examples/llama-3.1-8b.json --on trn9", "trn9"),
        ("plan layer examples/llama-3.1-8b.json --on trn1 --bach 2", "No such option"),
        ("prices show trn1", "it begins with 'prices'; legal: plan ..., compile ..., run ..."),
        ("plan layer 'x", "it cannot be parsed: No closing quotation"),
    ],
)
def test_a_question_that_cannot_be_asked_is_refused_with_its_line(question, why):
    with pytest.raises(BadInput, match=r"^log\.csv:7: question ") as caught:
        rows_of([said(question, line=7)], ask)
    assert why in caught.value.reason


def test_a_figure_that_the_answer_lacks_is_refused():
    with pytest.raises(
        BadInput, match=r"log\.csv:2: the answer to .* has no figure ttft; legal: time"
    ):
        rows_of([said(LAYER, "ttft")], ask)


def test_an_estimate_is_without_the_site(monkeypatch, tmp_path):
    before = figures_of_question(LAYER, ask)
    monkeypatch.setenv("TRNSIM_SITE", str(tmp_path / "none.json"))
    assert figures_of_question(LAYER, ask) == before
