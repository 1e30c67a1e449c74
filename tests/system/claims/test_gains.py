import math

import pytest
from judged_claims import judged, value, values
from workload_rates import WORKLOADS

from trnsim.system.claims import ClaimVerdict
from trnsim.system.claims.amounts import Grade
from trnsim.system.claims.rates import stored_rates

WORKLOAD_CLAIMS = ("C07", "C08", "C09", "C10", "C53", "C68")


def test_price_performance_is_shown_on_every_basis_that_of_the_documents_day_first(rows):
    found = values(judged(rows, "C07"))
    assert found[:2] == pytest.approx([30.47, 36.40], abs=0.01)  # December 2025
    for expected in (63.09, 138.10, -52.38):  # December 2024, October 2026, measured
        assert any(one == pytest.approx(expected, abs=0.01) for one in found)
    first = judged(rows, "C07").parts[0].bases[0]
    assert first.days == ("capacity_block 2025-12-04", "capacity_block 2026-01-31..2026-07-22")
    assert first.caveats == ()


def test_two_kinds_of_purchase_are_in_doubt(rows):
    for claim_id in ("C07", "C08", "C09", "C10", "C11", "C27", "C30", "C53", "C67", "C68"):
        for part in judged(rows, claim_id).parts:
            for basis in part.bases:
                kinds = {day.split()[0] for day in basis.days if basis.kind is Grade.PRICE}
                is_mixed = len(kinds) > 1
                assert is_mixed == ("two kinds of purchase" in basis.doubts)
                assert is_mixed == any(one.startswith("mixed prices") for one in basis.caveats)


def test_half_of_an_h100_is_two_kinds_of_purchase(rows):
    claim = judged(rows, "C09")
    mixed = [basis.value for basis in claim.parts[0].bases
             if "two kinds of purchase" in basis.doubts]  # fmt: skip
    assert mixed == pytest.approx([48.19, 26.98], abs=0.01)
    assert claim.verdict is ClaimVerdict.NOT_CHECKABLE
    assert values(claim) == values(judged(rows, "C10"))
    # Were a block of P5 as dear as its hour on demand, half would be supported.
    for row in rows["prices"]:
        if row["instance"] == "p5.48xlarge" and row["kind"] == "capacity_block":
            row["usd_per_hour"] = 55.04
    assert judged(rows, "C09").verdict is ClaimVerdict.DEPENDS_ON_BASIS


@pytest.mark.parametrize("claim_id", WORKLOAD_CLAIMS)
def test_workloads_of_the_planner_stand_beside_peak_per_usd(rows, claim_id):
    bases = judged(rows, claim_id).parts[0].bases
    names = [one.name for one in WORKLOADS if claim_id != "C68" or one.does == "train"]
    for name in names:
        assert any(b.text.startswith(name) and b.kind is Grade.MODEL for b in bases)
    assert any("geometric mean" in basis.text for basis in bases)
    assert any(basis.text.startswith("peak BF16 per USD") for basis in bases)


def test_a_planned_figure_is_found_again_by_hand(rows):
    rates = stored_rates()["serve Llama 3 8B"]
    ours, theirs = (rates[name]["per_s"] for name in ("trn2.48xlarge", "p5en.48xlarge"))
    by_hand = 100 * ((ours / 35.7608) / (theirs / 36.18) - 1)
    claim = judged(rows, "C07")
    assert value(claim, "serve Llama 3 8B", "p5en") == pytest.approx(by_hand)
    single = [basis.value for basis in claim.parts[0].bases
              if basis.text.startswith(tuple(one.name for one in WORKLOADS))
              and "p5en" in basis.text]  # fmt: skip
    assert len(single) == 10
    mean = math.prod(1 + one / 100 for one in single) ** 0.1
    assert value(claim, "10 workloads", "p5en") == pytest.approx(100 * (mean - 1))


def test_assumed_inputs_of_the_planner_are_named(rows):
    claim = judged(rows, "C54")
    planned = claim.parts[0].bases[1]
    assert planned.kind is Grade.MODEL
    assert planned.doubts == (
        "assumed for p4d.24xlarge: part of the memory's bandwidth, launch of an operator s",
    )
    assert claim.verdict is ClaimVerdict.NOT_CHECKABLE


def test_a_trainium1_is_cheaper_than_an_a100_as_long_as_its_price_is(rows):
    assert judged(rows, "C67").verdict is ClaimVerdict.REPRODUCED
    for row in rows["prices"]:
        if (row["instance"], row["kind"]) == ("trn1.32xlarge", "on_demand"):
            row["usd_per_hour"] = 50.0
    assert judged(rows, "C67").verdict is ClaimVerdict.WRONG


def test_without_a_price_of_ours_it_is_named(rows):
    rows["prices"] = [p for p in rows["prices"] if p["instance"] != "trn2.48xlarge"]
    part = judged(rows, "C53").parts[0]
    assert part.verdict is ClaimVerdict.NOT_CHECKABLE
    assert part.missing == ("capacity_block prices of trn2.48xlarge and p5.48xlarge",)
