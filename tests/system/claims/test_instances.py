import pytest
from judged_claims import judged, values

from trnsim.system.claims import ClaimVerdict


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize(
    ("claim_id", "figures"),
    [
        ("C01", [[3.04]]),
        ("C02", [[512], [0.8, 1.6]]),
        ("C04", [[20.784], [1.5], [46.4]]),
        ("C05", [[83.136], [6], [185.6], [12.8]]),
        ("C16", [[144], [362.448]]),
        ("C21", [[360, 360, 1080, 1440]]),
        ("C29", [[12]]),
        ("C35", [[64], [4]]),
        ("C36", [[16]]),
        ("C37", [[16]]),
        ("C52", [[1], [16], [8]]),
        ("C56", [[362.448 / 360, 362.448 / 360]]),
    ],
)
def test_figures_are_computed_from_rows(rows, claim_id, figures):
    claim = judged(rows, claim_id)
    found = [values(claim, part) for part in range(len(claim.parts))]
    assert found == [pytest.approx(one) for one in figures]


def test_a_changed_peak_changes_figure_and_verdict(rows):
    assert judged(rows, "C01").verdict is ClaimVerdict.REPRODUCED
    rows["chips"]["trainium1"]["peak"]["cfp8"]["value"] = 380
    changed = judged(rows, "C01")
    assert values(changed) == pytest.approx([6.08])
    assert changed.verdict is ClaimVerdict.WRONG
    assert changed.besides[0].value == pytest.approx(2)


def test_a_changed_count_changes_the_verdict(rows):
    for row in rows["instances"]:
        if row["accelerator"] == "inferentia2":
            row["count"] *= 2
    assert judged(rows, "C29").verdict is ClaimVerdict.WRONG


def test_the_documents_own_rack_would_not_be_comparable(rows):
    assert judged(rows, "C56").verdict is ClaimVerdict.REPRODUCED
    for name in ("gb300_nvl72", "gb200_nvl72"):
        rows["systems"][name]["fp8_dense"]["value"] = 540
    assert judged(rows, "C56").verdict is ClaimVerdict.WRONG


def test_instances_have_the_chips_of_their_generation(rows):
    assert judged(rows, "C42").verdict is ClaimVerdict.REPRODUCED
