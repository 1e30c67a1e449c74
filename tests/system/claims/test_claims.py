import re
import time

from trnsim.system.claims import claims, counts
from trnsim.system.claims.verdict import ClaimVerdict, figures_of


def test_all_claims_are_there_once():
    ids = [claim.id for claim in claims()]
    assert ids == [f"C{n:02}" for n in range(1, len(ids) + 1)]
    assert len(ids) == 70


def test_every_claim_has_its_sentence_and_its_documents():
    for claim in claims():
        assert claim.quote
        assert claim.says
        assert set(claim.documents) <= {"000", "001", "002", "003"}
        assert claim.documents


def test_what_is_not_checkable_names_what_is_missing_or_stands_in():
    for claim in claims():
        for part in claim.parts:
            if part.verdict is ClaimVerdict.NOT_CHECKABLE:
                assert part.missing or part.bases, (claim.id, part.quantity)


def test_every_figure_states_basis_kind_day_and_source():
    for claim in claims():
        for basis in figures_of(claim):
            assert re.search(r"\w", basis.text)
            assert basis.kind.value
            assert basis.sources
            assert basis.days or "migration" in basis.text or "saved" in basis.text


def test_counts_add_up():
    assert sum(counts(claims()).values()) == 70
    assert all(counts(claims()).values())


def test_it_is_the_same_each_time_and_quick():
    first, started_s = claims(), time.monotonic()
    assert claims() == first
    assert time.monotonic() - started_s < 5
