import pytest

from trnsim.arch.catalogue import parse, read_rows
from trnsim.system.claims.verdict import (
    Claim,
    Figure,
    Part,
    Verdict,
    awaited,
    between,
    number,
    text,
)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([100], Verdict.REPRODUCED),
        ([110, 90], Verdict.REPRODUCED),
        ([100, 150], Verdict.DEPENDS_ON_BASIS),
        ([89, 111], Verdict.WRONG),
        ([], Verdict.NOT_CHECKABLE),
    ],
)
def test_own_figures_decide(values, verdict):
    part = number("rate", 100, "", *(Figure("basis", value) for value in values))
    assert part.verdict is verdict


@pytest.mark.parametrize(
    ("value", "verdict"), [(100, Verdict.DEPENDS_ON_BASIS), (500, Verdict.NOT_CHECKABLE)]
)
def test_a_proxy_supports_but_does_not_refute(value, verdict):
    part = number("rate", 100, "", Figure("stand-in", value, is_proxy=True))
    assert part.verdict is verdict


def test_an_assumed_input_illustrates_whatever_it_gives():
    guess = Figure("assumed", 100, is_assumed=True)
    assert number("rate", 100, "", guess).verdict is Verdict.ILLUSTRATED
    assert number("rate", 100, "", guess, Figure("row", 50)).verdict is Verdict.WRONG
    assert number("rate", 100, "", guess, Figure("row", 100)).verdict is Verdict.REPRODUCED


def test_a_range_has_no_slack():
    part = between("rate", 30, 40, "%", Figure("a", 30.0), Figure("b", 40.1))
    assert [part.matches(figure) for figure in part.figures] == [True, False]


def test_workloads_on_both_sides_of_a_claim_make_it_depend_on_the_workload():
    figures = (Figure("a", 2.0), Figure("b", 7.0))
    assert Part("rate", 4, 4, "x", figures).verdict is Verdict.WRONG
    of_workloads = Part("rate", 4, 4, "x", figures, is_of_workloads=True)
    assert of_workloads.verdict is Verdict.DEPENDS_ON_BASIS
    above = Part("rate", 1, 1, "x", figures, is_of_workloads=True)
    assert above.verdict is Verdict.WRONG


def test_texts_are_equal_or_not():
    part = number("month", "2025-11", "", Figure("notes", "2025-09"))
    assert part.verdict is Verdict.WRONG


def test_the_weakest_part_decides():
    good, bad = number("a", 1, "", Figure("", 1)), number("b", 1, "", Figure("", 2))
    assert Claim("C", (), "", (good, bad)).verdict is Verdict.WRONG
    assert Claim("C", (), "", (good, number("c", 1, ""))).verdict is Verdict.NOT_CHECKABLE


def test_an_awaited_measurement_is_named_and_then_used():
    rows = read_rows()
    before = awaited(parse(rows), "runs per day", "runs", 10, 10, "")
    assert before.verdict is Verdict.NOT_CHECKABLE
    assert before.missing == ("runs per day",)
    ratio = {"value": 10, "unit": "x", "source": ["kiln"]}
    rows["measurements"].append({"name": "runs per day", "ratio": ratio})
    after = awaited(parse(rows), "runs per day", "runs", 10, 10, "")
    assert after.verdict is Verdict.REPRODUCED
    assert after.missing == ()


def test_figures_as_text():
    assert [text(v) for v in ("new", 1234567.0, 3.04, 12)] == ["new", "1,234,567", "3.04", "12"]
