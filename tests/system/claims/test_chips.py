import pytest
from judged_claims import judged, value, values

from trnsim.arch.catalogue import read_rows
from trnsim.system.claims import ClaimVerdict


@pytest.mark.parametrize(
    ("claim_id", "part", "figures"),
    [
        ("C06", 0, [2563 / 667, 2563 / 1299]),
        ("C15", 0, [2.517]),
        ("C20", 0, [4.5, 5.0]),
        ("C38", 0, [96]),
        ("C51", 0, [667 / 989.5, 2.9 / 3.35, 96 * 2**30 / 80e9]),
    ],
)
def test_figures_are_computed_from_rows(rows, claim_id, part, figures):
    assert values(judged(rows, claim_id), part) == pytest.approx(figures)


def test_trainium2_is_four_times_trainium1_in_one_respect_only(rows):
    claim = judged(rows, "C03")
    assert claim.verdict is ClaimVerdict.DEPENDS_ON_BASIS
    assert value(claim, "BF16") == pytest.approx(667 / 190)
    assert value(claim, "FP8") == pytest.approx(1299 / 190)
    assert value(claim, "capacity") == 3


def test_energy_becomes_checkable_with_a_watt_figure(rows):
    before = judged(rows, "C18")
    assert before.verdict is ClaimVerdict.DEPENDS_ON_BASIS  # on AWS's own word
    assert before.parts[0].missing == ("power of trainium3",)
    power = {"value": 500 * 2517 / 1299 / 1.4, "unit": "W", "source": ["trainium3"]}
    rows["chips"]["trainium3"]["power"] = power
    after = judged(rows, "C18")
    assert value(after, "FP8") == pytest.approx(40)
    # The watts of Trainium2 are an analyst's: in doubt.
    assert after.parts[0].bases[0].doubts
    power["value"] *= 2
    assert value(judged(rows, "C18"), "FP8") == pytest.approx(-30)


def test_trainium4_becomes_checkable_with_a_specification(rows):
    before = judged(rows, "C19")
    assert before.verdict is ClaimVerdict.DEPENDS_ON_BASIS  # as announced
    assert before.parts[0].missing == ("mxfp4 of trainium4",)
    chip = read_rows()["chips"]["trainium3"]
    for dtype, factor in (("mxfp4", 6), ("mxfp8", 3)):
        chip["peak"][dtype]["value"] *= factor
    chip["memory"]["bandwidth"]["value"] *= 4
    rows["chips"]["trainium4"] = chip
    assert judged(rows, "C19").verdict is ClaimVerdict.REPRODUCED


def test_sparsity_would_be_new_if_trainium2_had_none(rows):
    assert judged(rows, "C17").verdict is ClaimVerdict.WRONG
    rows["chips"]["trainium2"]["peak_sparse"] = {}
    assert judged(rows, "C17").verdict is ClaimVerdict.REPRODUCED
    assert judged(rows, "C06").parts[0].missing == ("bf16 of trainium2", "fp8 of trainium2")


def test_cfp8_is_of_the_first_generation_alone(rows):
    part = judged(rows, "C39").parts[-1]
    assert (part.quantity, [b.value for b in part.bases]) == ("cFP8", ["yes", "no"])


def test_micro_scaling_is_of_neither_generation_of_the_notes(rows):
    assert values(judged(rows, "C40")) == ["no", "no"]
    assert judged(rows, "C40").verdict is ClaimVerdict.WRONG


def test_a_gpu_leads_per_chip_until_its_row_says_otherwise(rows):
    assert judged(rows, "C55").verdict is ClaimVerdict.REPRODUCED
    rows["gpus"]["gb300"]["fp8_dense"]["value"] = 2517
    part = judged(rows, "C55").parts[0]
    assert [basis.value for basis in part.bases] == ["as much"]
    assert part.verdict is ClaimVerdict.WRONG


def test_process_and_memory_are_told(rows):
    assert [values(judged(rows, "C49"), part) for part in (0, 1)] == [["3 nm"], ["TSMC"]]
    assert [values(judged(rows, "C66"), part) for part in (0, 1)] == [["HBM3"], ["HBM3e"]]


def test_a_trainium1_has_less_than_an_a100_in_every_respect(rows):
    assert all(ratio < 0.9 for ratio in values(judged(rows, "C50")))
    assert judged(rows, "C50").verdict is ClaimVerdict.WRONG
