import pytest

from trnsim.arch.catalogue import parse, read_rows
from trnsim.system.claims import Verdict, claims


def judged(rows, claim_id):
    return next(claim for claim in claims(parse(rows)) if claim.id == claim_id)


def price(instance, kind, usd_per_hour, as_of="2026-11-20"):
    return {
        "instance": instance,
        "kind": kind,
        "usd_per_hour": usd_per_hour,
        "region": "us-east-1",
        "as_of": as_of,
        "source": ["kiln"],
    }


@pytest.fixture
def rows():
    return read_rows()


def figures(claim):
    return [figure.value for part in claim.parts for figure in part.figures]


def test_price_performance_is_shown_on_every_basis(rows):
    found = figures(judged(rows, "C07"))
    assert len(found) > 20
    for expected in (30.48, 36.40, 63.09, 138.10, -52.38):
        assert any(value == pytest.approx(expected, abs=0.01) for value in found)


def test_no_basis_mixes_purchase_kinds_silently(rows):
    for claim in claims(parse(rows)):
        for part in claim.parts:
            for figure in part.figures:
                kinds = {k for k in ("on_demand", "capacity_block", "spot") if k in figure.basis}
                assert len(kinds) < 2 or "two purchase kinds" in figure.basis


def test_half_and_a_quarter_of_an_h100_are_one_price_on_two_dates(rows):
    found = figures(judged(rows, "C09"))
    assert found == figures(judged(rows, "C10"))
    assert found[:2] == pytest.approx([48.19, 26.98], abs=0.01)


def test_the_cut_and_what_is_left(rows):
    assert figures(judged(rows, "C12")) == pytest.approx([44.02], abs=0.01)
    found = figures(judged(rows, "C13"))
    assert found[0] == pytest.approx(6.88)  # on demand
    assert any(value == pytest.approx(3.933) for value in found)  # a block, 2025-12-04
    assert judged(rows, "C13").verdict is Verdict.DEPENDS_ON_BASIS


def test_a_new_price_row_changes_the_verdict(rows):
    rows["prices"].append(price("p5.48xlarge", "on_demand", 28.0))
    assert judged(rows, "C12").verdict is Verdict.WRONG


def test_a_price_of_trn3_makes_its_claim_checkable(rows):
    before = judged(rows, "C22")
    assert before.verdict is Verdict.NOT_CHECKABLE
    assert before.parts[0].missing == ("any price of Trn3 Gen2 UltraServer",)
    assert "305 to 457 USD/h" in before.implied[0]
    rows["prices"].append(price("Trn3 Gen2 UltraServer", "capacity_block", 380))
    assert judged(rows, "C22").verdict is Verdict.REPRODUCED


def test_without_prices_the_table_is_not_checkable(rows):
    rows["prices"] = [p for p in rows["prices"] if p["instance"] != "trn2.48xlarge"]
    part = judged(rows, "C14").parts[1]
    assert part.verdict is Verdict.NOT_CHECKABLE
    assert part.missing == ("any price of trn2.48xlarge",)


def test_inf1_saves_more_than_claimed_at_todays_prices(rows):
    claim = judged(rows, "C27")
    assert figures(claim) == pytest.approx([81.15], abs=0.01)
    assert claim.verdict is Verdict.NOT_CHECKABLE
