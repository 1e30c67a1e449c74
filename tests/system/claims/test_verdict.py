import pytest

from trnsim.system.claims.amounts import Absent, Amount, Citation, Grade, WordAmount
from trnsim.system.claims.verdict import (
    Claim,
    ClaimBasis,
    ClaimVerdict,
    besides,
    figure,
    figures_of,
    quantity,
    stand_in,
    text,
)

ROW = Citation(Grade.ROW, "chips/a", "2026-11-21", "a page")
PRICE = Citation(Grade.PRICE, "prices/b", "spot 2026-01", "a list")
GUESS = Citation(Grade.ASSUMED, doubt="assumed: a guess")


def direct(value):
    return ClaimBasis("row", value, (ROW,))


def substitute(value):
    return ClaimBasis("stand-in", value, (ROW,), is_stand_in=True)


def guess(value):
    return ClaimBasis("guess", value, (ROW, GUESS))


@pytest.mark.parametrize(
    ("figures", "verdict"),
    [
        ([100], ClaimVerdict.REPRODUCED),
        ([110, 90], ClaimVerdict.REPRODUCED),
        ([100, 150], ClaimVerdict.DEPENDS_ON_BASIS),
        ([89, 111], ClaimVerdict.WRONG),
        ([], ClaimVerdict.NOT_CHECKABLE),
    ],
)
def test_direct_figures_decide(figures, verdict):
    assert quantity("rate", 100, "", *map(direct, figures)).verdict is verdict


@pytest.mark.parametrize(
    ("value", "verdict"), [(100, ClaimVerdict.DEPENDS_ON_BASIS), (500, ClaimVerdict.NOT_CHECKABLE)]
)
def test_a_stand_in_supports_but_does_not_refute(value, verdict):
    assert quantity("rate", 100, "", substitute(value)).verdict is verdict


def test_a_figure_in_doubt_illustrates_whatever_it_gives():
    for value in (100, 50):
        assert quantity("rate", 100, "", guess(value)).verdict is ClaimVerdict.ILLUSTRATED
    assert quantity("rate", 100, "", guess(100), direct(50)).verdict is ClaimVerdict.WRONG
    assert (
        quantity("rate", 100, "", guess(100), substitute(50)).verdict is ClaimVerdict.NOT_CHECKABLE
    )
    assert quantity("rate", 100, "", guess(50), direct(100)).verdict is ClaimVerdict.REPRODUCED


def test_varied_figures_on_both_sides_of_a_claim_depend_on_which_is_meant():
    figures = [direct(2.0), direct(7.0)]
    assert quantity("rate", 4, "x", *figures).verdict is ClaimVerdict.WRONG
    assert (
        quantity("rate", 4, "x", *figures, is_varied=True).verdict is ClaimVerdict.DEPENDS_ON_BASIS
    )
    assert quantity("rate", 1, "x", *figures, is_varied=True).verdict is ClaimVerdict.WRONG


def test_a_range_has_no_slack():
    part = quantity("rate", (30, 40), "%", direct(30.0), direct(40.1))
    assert [part.matches(basis) for basis in part.bases] == [True, False]
    assert part.claimed == "30 to 40 %"


def test_texts_are_equal_or_not():
    assert quantity("month", "2025-11", "", direct("2025-09")).verdict is ClaimVerdict.WRONG
    assert quantity("month", "2025-11", "", direct("2025-11")).verdict is ClaimVerdict.REPRODUCED


def test_the_weakest_part_decides():
    good, bad = quantity("a", 1, "", direct(1)), quantity("b", 1, "", direct(2))
    assert Claim("C", (), "", "", (good, bad)).verdict is ClaimVerdict.WRONG
    assert (
        Claim("C", (), "", "", (good, quantity("c", 1, ""))).verdict is ClaimVerdict.NOT_CHECKABLE
    )


def test_a_figure_cites_rows_and_days_of_prices_first():
    found = figure("a", lambda: Amount(3.0, (ROW,)) / Amount(2.0, (PRICE,)))
    assert isinstance(found, ClaimBasis)
    assert found.rows == ("chips/a", "prices/b")
    assert found.days == ("spot 2026-01",)
    assert found.sources == ("a page", "a list")
    assert found.kind is Grade.PRICE
    claim = Claim("C", (), "", "", (quantity("x", 1, "", found),), besides(direct(3), "unknown"))
    assert claim.rows == ("chips/a", "prices/b")
    assert claim.sources == ("a page", "a list")
    assert len(list(figures_of(claim))) == 2


def test_an_input_that_is_not_known_is_named():
    def lacks():
        raise Absent("row chips/x")

    part = quantity("rate", 1, "", figure("a", lacks), stand_in("b", lacks), "d")
    assert part.bases == ()
    assert part.missing == ("row chips/x", "d")


def test_a_word_is_a_figure():
    found = figure("a", lambda: WordAmount("yes", (ROW, ROW)))
    assert (found.value, found.origins) == ("yes", (ROW,))


def test_figures_as_text():
    assert [text(v) for v in ("new", 1234567.0, 3.04, 12)] == ["new", "1,234,567", "3.04", "12"]
