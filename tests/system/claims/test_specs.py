import pytest

from trnsim.arch.catalogue import parse, read_rows
from trnsim.system.claims import Verdict, claims


def judged(rows, claim_id):
    return next(claim for claim in claims(parse(rows)) if claim.id == claim_id)


@pytest.fixture
def rows():
    return read_rows()


@pytest.mark.parametrize(
    ("claim_id", "figures"),
    [
        ("C01", [3.04]),
        ("C04", [20.784, 1.5, 46.4]),
        ("C05", [83.136, 6, 185.6, 12.8]),
        ("C06", [2563 / 667, 2563 / 1299]),
        ("C16", [144, 362.448]),
        ("C21", [360, 1080, 1440, 360]),
        ("C29", [12]),
    ],
)
def test_figures_are_computed_from_rows(rows, claim_id, figures):
    found = [f.value for part in judged(rows, claim_id).parts for f in part.figures]
    assert found == pytest.approx(figures)


def test_a_changed_peak_changes_figure_and_verdict(rows):
    assert judged(rows, "C01").verdict is Verdict.REPRODUCED
    rows["chips"]["trainium1"]["peak"]["cfp8"]["value"] = 380
    changed = judged(rows, "C01")
    assert changed.parts[0].figures[0].value == pytest.approx(6.08)
    assert changed.verdict is Verdict.WRONG


def test_a_changed_count_changes_the_verdict(rows):
    for row in rows["instances"]:
        if row["accelerator"] == "inferentia2":
            row["count"] *= 2
    assert judged(rows, "C29").verdict is Verdict.WRONG


def test_energy_becomes_checkable_with_a_watt_figure(rows):
    before = judged(rows, "C18")
    assert before.verdict is Verdict.NOT_CHECKABLE
    assert before.parts[0].missing == ("watts of trainium3",)
    power = {"value": 500 * 2517 / 1299 / 1.4, "unit": "W", "source": ["trainium3"]}
    rows["chips"]["trainium3"]["power"] = power
    after = judged(rows, "C18")
    assert after.parts[0].figures[0].value == pytest.approx(40)
    assert after.verdict is Verdict.DEPENDS_ON_BASIS


def test_trainium4_becomes_checkable_with_a_specification(rows):
    assert judged(rows, "C19").parts[0].missing == (
        "a specification of Trainium4 (announced, no spec sheet)",
    )
    chip = read_rows()["chips"]["trainium3"]
    for dtype, factor in (("mxfp4", 6), ("mxfp8", 3)):
        chip["peak"][dtype]["value"] *= factor
    chip["memory"]["bandwidth"]["value"] *= 4
    rows["chips"]["trainium4"] = chip
    assert judged(rows, "C19").verdict is Verdict.REPRODUCED


def test_sparsity_would_be_new_if_trainium2_had_none(rows):
    assert judged(rows, "C17").verdict is Verdict.WRONG
    rows["chips"]["trainium2"]["peak_sparse"] = {}
    assert judged(rows, "C17").verdict is Verdict.REPRODUCED
    assert judged(rows, "C06").parts[0].missing == ("a sparse peak of trainium2",)


def test_neurons_own_tables_make_inf2_checkable(rows):
    claim = judged(rows, "C28")
    assert claim.verdict is Verdict.DEPENDS_ON_BASIS
    throughput, latency = (part.figures for part in claim.parts[2:])
    assert throughput[0].value == pytest.approx(2.265, abs=0.001)
    assert throughput[1].value == pytest.approx(7.019, abs=0.001)
    assert latency[1].value == pytest.approx(10.51, abs=0.01)
