import pytest

from trnsim.arch.catalogue import parse, read_rows
from trnsim.system.claims import Verdict, claims


def judged(rows, claim_id):
    return next(claim for claim in claims(parse(rows)) if claim.id == claim_id)


@pytest.fixture
def rows():
    return read_rows()


def measurement(name, value):
    return {"name": name, "ratio": {"value": value, "unit": "x", "source": ["rain"]}}


def test_the_site_is_right_and_the_buildings_depend_on_which_are_meant(rows):
    buildings, site = judged(rows, "C24").parts
    assert buildings.verdict is Verdict.DEPENDS_ON_BASIS
    assert site.figures[0].value == pytest.approx(485.6, abs=0.1)
    rows["rainier"]["buildings_running"]["value"] = 30
    assert judged(rows, "C24").verdict is Verdict.REPRODUCED


def test_chips_are_bounded_by_power_but_not_counted(rows):
    claim = judged(rows, "C23")
    assert claim.verdict is Verdict.NOT_CHECKABLE
    assert claim.parts[0].figures[0].value == pytest.approx(1.027e6, rel=1e-3)
    rows["measurements"].append(measurement(claim.parts[0].missing[0], 490_000))
    assert judged(rows, "C23").verdict is Verdict.REPRODUCED


@pytest.mark.parametrize("claim_id", ["C25", "C26", "C32"])
def test_published_measurements_would_settle_it(rows, claim_id):
    claim = judged(rows, claim_id)
    assert claim.verdict is Verdict.NOT_CHECKABLE
    for part in claim.parts:
        rows["measurements"].append(measurement(part.missing[0], part.low))
    assert judged(rows, claim_id).verdict is Verdict.REPRODUCED


def test_thresholds_follow_from_an_assumed_migration(rows):
    spend = [figure.value for figure in judged(rows, "C31").parts[0].figures]
    assert judged(rows, "C31").verdict is Verdict.ILLUSTRATED
    assert spend == pytest.approx([12_500, 10_000])
    chips = judged(rows, "C33").parts[0].figures
    assert all(figure.is_assumed and "assumed" in figure.basis for figure in chips)


def test_the_release_was_in_september(rows):
    month, *versions = judged(rows, "C34").parts
    assert month.figures[0].value == "2025-09"
    assert {part.verdict for part in versions} == {Verdict.REPRODUCED}
    rows["releases"][0]["date"] = "2025-11-03"
    assert judged(rows, "C34").verdict is Verdict.REPRODUCED
