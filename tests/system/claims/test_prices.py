import pytest
from judged_claims import judged, price, value, values

from trnsim.system.claims import ClaimVerdict


def test_the_cut_is_that_of_june_2025(rows):
    assert values(judged(rows, "C12")) == pytest.approx([44.02], abs=0.01)
    rows["prices"] = [p for p in rows["prices"] if p["usd_per_hour"] != 98.32]
    assert judged(rows, "C12").verdict is ClaimVerdict.NOT_CHECKABLE


def test_an_h100_costs_three_to_four_as_a_block_and_not_on_demand(rows):
    claim = judged(rows, "C13")
    assert claim.verdict is ClaimVerdict.DEPENDS_ON_BASIS
    assert value(claim, "on_demand") == pytest.approx(6.88)
    assert value(claim, "capacity_block", "2025-12-04") == pytest.approx(3.933)
    assert [part.claimed for part in claim.parts] == ["3 to 4 USD/h"]


def test_the_table_is_wrong_at_every_price(rows):
    claim = judged(rows, "C14")
    assert {part.verdict for part in claim.parts} == {ClaimVerdict.WRONG}
    assert value(claim, "on_demand") == pytest.approx(1.34375)
    rows["prices"] = [p for p in rows["prices"] if p["instance"] != "trn2.48xlarge"]
    part = judged(rows, "C14").parts[1]
    assert part.verdict is ClaimVerdict.NOT_CHECKABLE
    assert part.missing == ("any price of trn2.48xlarge",)


def test_a_price_of_trn3_makes_its_claim_checkable(rows):
    before = judged(rows, "C22")
    assert before.verdict is ClaimVerdict.NOT_CHECKABLE
    assert before.parts[0].missing == ("any price of Trn3 Gen2 UltraServer",)
    assert [basis.value for basis in before.besides] == pytest.approx([457.14, 304.76], abs=0.01)
    rows["prices"].append(price("Trn3 Gen2 UltraServer", "capacity_block", 380))
    assert judged(rows, "C22").verdict is ClaimVerdict.REPRODUCED


def test_a_price_of_trn3_of_another_kind_is_not_compared(rows):
    rows["prices"].append(price("Trn3 Gen2 UltraServer", "on_demand", 380))
    assert judged(rows, "C22").verdict is ClaimVerdict.NOT_CHECKABLE
