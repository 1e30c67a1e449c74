import pytest

from trnsim.system.claims.amounts import (
    Amount,
    Citation,
    Grade,
    citations,
    percent_less,
    percent_more,
)

ROW, OTHER = Citation(Grade.ROW, "chips/a"), Citation(Grade.PRICE, "prices/b")
ONE, TWO = Amount(3.0, (ROW,)), Amount(2.0, (OTHER,))


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        (ONE + TWO, 5),
        (ONE - TWO, 1),
        (ONE * TWO, 6),
        (ONE / TWO, 1.5),
        (percent_less(TWO, ONE), 100 / 3),
        (percent_more(ONE, TWO), 50),
    ],
)
def test_arithmetic_joins_what_both_sides_cite(amount, expected):
    assert amount.value == pytest.approx(expected)
    assert set(amount.origins) == {ROW, OTHER}


@pytest.mark.parametrize(
    ("amount", "expected"),
    [(2 * ONE, 6), (1 - ONE, -2), (6 / ONE, 2), (ONE / 2, 1.5), (ONE + 1, 4)],
)
def test_plain_numbers_cite_nothing(amount, expected):
    assert amount == Amount(expected, (ROW,))


def test_an_origin_is_cited_once():
    assert (ONE * ONE / TWO).origins == (ROW, OTHER)
    assert citations([ROW, OTHER, ROW]) == (ROW, OTHER)
