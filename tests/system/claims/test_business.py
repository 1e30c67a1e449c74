import pytest
from judged_claims import judged, value, values

from trnsim.system.claims import ClaimVerdict


@pytest.mark.parametrize(("claim_id", "figures"), [("C31", [12_500, 10_000]), ("C64", [8, 10])])
def test_thresholds_with_an_assumed_migration_illustrate(rows, claim_id, figures):
    claim = judged(rows, claim_id)
    assert values(claim) == pytest.approx(figures)
    assert claim.verdict is ClaimVerdict.ILLUSTRATED
    assert all(
        basis.doubts == ("assumed: what a migration costs",) for basis in claim.parts[0].bases
    )
    assert claim.parts[0].missing


def test_chips_that_pay_for_a_migration(rows):
    claim = judged(rows, "C33")
    by_hand = 60_000 / (12 * 0.3) * 0.7 / (35.7608 / 16 * 730)
    assert value(claim, "30% saved") == pytest.approx(by_hand)
    assert claim.verdict is ClaimVerdict.ILLUSTRATED


def test_the_release_was_in_september(rows):
    month, *versions = judged(rows, "C34").parts
    assert month.bases[0].value == "2025-09"
    assert {part.verdict for part in versions} == {ClaimVerdict.REPRODUCED}
    rows["releases"][0]["date"] = "2025-11-03"
    assert judged(rows, "C34").verdict is ClaimVerdict.REPRODUCED


def test_expert_parallelism_was_for_inference(rows):
    verdicts = [part.verdict for part in judged(rows, "C57").parts]
    assert verdicts == [ClaimVerdict.REPRODUCED, ClaimVerdict.REPRODUCED, ClaimVerdict.WRONG]


@pytest.mark.parametrize(
    ("claim_id", "first"),
    [
        ("C43", "2022"),
        ("C44", "2024"),
        ("C45", "2025-12"),
        ("C46", "2019"),
        ("C47", "2023"),
        ("C59", "2025"),
    ],
)
def test_dates_are_of_other_documents_than_the_claims(rows, claim_id, first):
    claim = judged(rows, claim_id)
    assert values(claim) == [first]
    assert claim.verdict is ClaimVerdict.REPRODUCED
    assert not any("Leitfaden" in source for source in claim.sources)


def test_generations_are_counted(rows):
    assert values(judged(rows, "C48")) == [2]
    assert values(judged(rows, "C69")) == [3]
    del rows["chips"]["inferentia1"]
    assert judged(rows, "C48").verdict is ClaimVerdict.WRONG


def test_sums(rows):
    assert values(judged(rows, "C60"), 1) == [350, 370]
    assert values(judged(rows, "C61")) == pytest.approx([8, 6.75])
    assert judged(rows, "C61").verdict is ClaimVerdict.DEPENDS_ON_BASIS
    assert judged(rows, "C41").verdict is ClaimVerdict.NOT_CHECKABLE
    assert judged(rows, "C58").verdict is ClaimVerdict.REPRODUCED
