import pytest
from judged_claims import judged, value, values

from trnsim.system.claims import ClaimVerdict
from trnsim.system.claims.amounts import Grade
from trnsim.system.claims.rates import stored_rates


def test_neurons_own_tables_judge_inf2(rows):
    claim = judged(rows, "C28")
    assert claim.verdict is ClaimVerdict.DEPENDS_ON_BASIS
    assert value(claim, "BERT base, in batches", part=2) == pytest.approx(2.265, abs=0.001)
    assert value(claim, "BERT base, real time", part=2) == pytest.approx(7.019, abs=0.001)
    assert value(claim, "BERT base, real time", part=3) == pytest.approx(10.51, abs=0.01)
    measured = claim.parts[2].bases[0]
    assert measured.kind is Grade.MEASURED
    assert len(measured.sources) == 2


def test_inf1_has_figures_of_the_planner(rows):
    claim = judged(rows, "C27")
    rates = stored_rates()["infer BERT base"]
    by_hand = rates["inf1.xlarge"]["per_s"] / rates["g4dn.xlarge"]["per_s"]
    assert value(claim, "BERT base") == pytest.approx(by_hand)
    assert value(claim, "at the claimed throughput", part=1) == pytest.approx(81.15, abs=0.01)
    saved = 100 * (1 - 0.228 / 0.526 / by_hand)
    assert value(claim, "infer BERT base", part=1) == pytest.approx(saved)
    assert claim.parts[0].verdict is ClaimVerdict.ILLUSTRATED
    assert claim.verdict is ClaimVerdict.NOT_CHECKABLE


def test_inf2_has_figures_of_the_planner_beside_peaks(rows):
    claim = judged(rows, "C30")
    rates = stored_rates()["infer ViT base"]
    ours, theirs = (rates[name]["per_s"] for name in ("inf2.xlarge", "g5.xlarge"))
    by_hand = 100 * ((ours / 0.7582) / (theirs / 1.006) - 1)
    assert value(claim, "ViT base", "g5.xlarge") == pytest.approx(by_hand)
    peaks = [basis for basis in claim.parts[0].bases if basis.text.startswith("peak")]
    # The peaks of A10G and L4 were recalled and not checked; T4's are of its datasheet.
    assert [bool(basis.doubts) for basis in peaks] == [True, True, False]


def test_customers_are_believed_as_far_as_their_word_goes(rows):
    claim = judged(rows, "C32")
    assert claim.parts[0].missing == ("Metagenomi's own report, with its inputs",)
    assert [part.verdict for part in claim.parts[1:]] == [ClaimVerdict.DEPENDS_ON_BASIS] * 2
    assert values(claim, 1) == [2]
