import pytest
from judged_claims import judged, value

from trnsim.system.claims import ClaimVerdict


def test_chips_are_bounded_by_power_and_announced_but_not_counted(rows):
    claim = judged(rows, "C23")
    assert claim.verdict is ClaimVerdict.DEPENDS_ON_BASIS
    assert value(claim, "at most") == pytest.approx(1.027e6, rel=1e-3)
    besides = [basis.value for basis in claim.besides]
    assert besides == pytest.approx([649.5, 333.5, 51.54, 1.1175], rel=1e-3)


def test_the_site_is_right_and_the_buildings_depend_on_which_are_meant(rows):
    buildings, site, states = judged(rows, "C24").parts
    assert buildings.verdict is ClaimVerdict.DEPENDS_ON_BASIS
    assert site.bases[0].value == pytest.approx(485.6, abs=0.1)
    assert states.verdict is ClaimVerdict.NOT_CHECKABLE  # one source of one unnamed person
    rows["rainier"]["buildings_running"]["value"] = 30
    assert judged(rows, "C24").parts[0].verdict is ClaimVerdict.REPRODUCED


@pytest.mark.parametrize("claim_id", ["C25", "C26"])
def test_what_only_those_concerned_say_supports_and_does_not_prove(rows, claim_id):
    assert {part.verdict for part in judged(rows, claim_id).parts} == {
        ClaimVerdict.DEPENDS_ON_BASIS
    }


def test_a_rank_cannot_be_checked_without_the_others(rows):
    assert judged(rows, "C63").verdict is ClaimVerdict.NOT_CHECKABLE
    assert judged(rows, "C63").parts[0].missing


def test_month_and_ultraservers(rows):
    assert judged(rows, "C62").verdict is ClaimVerdict.REPRODUCED
    assert judged(rows, "C65").besides[0].value == 7812.5
