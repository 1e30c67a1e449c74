import re

from trnsim.system.claims import Verdict, claims, counts


def test_all_34_claims_are_there_once():
    assert [claim.id for claim in claims()] == [f"C{n:02}" for n in range(1, 35)]


def test_every_claim_names_its_documents():
    for claim in claims():
        assert claim.documents
        assert set(claim.documents) <= {"000", "001", "002", "003"}


def test_what_is_not_checkable_names_what_is_missing():
    for claim in claims():
        for part in claim.parts:
            if part.verdict is Verdict.NOT_CHECKABLE:
                assert part.missing, (claim.id, part.quantity)


def test_every_figure_states_its_basis():
    for claim in claims():
        for part in claim.parts:
            assert all(re.search(r"\w", figure.basis) for figure in part.figures)


def test_counts_add_up():
    assert sum(counts(claims()).values()) == 34
    assert all(counts(claims()).values())
