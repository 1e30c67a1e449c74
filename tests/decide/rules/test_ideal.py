"""One input changed flips the ideal condition that it should, and the text says so."""

from dataclasses import replace

import pytest
from rule_cases import BEST, rule

from trnsim.facts import Interval


@pytest.mark.parametrize(
    ("name", "changes", "text"),
    [
        ("training of a transformer", {"kind": "serve"}, "kind is serve"),
        ("more than 100 chips", {"chips": 100}, "100 chips"),
        ("PyTorch or JAX", {"framework": "cuda"}, "cuda"),
        (
            "a saving of 30 to 50 %",
            {"best": replace(BEST, saving=Interval(0.1, 0.29, 0.3))},
            "29% on trn1.32xlarge at P50",
        ),
        ("committed to AWS", {"is_committed_to_aws": False}, "committed_to_aws is no"),
    ],
)
def test_one_input_flips_a_condition(name, changes, text):
    assert rule(name).applies
    flipped = rule(name, **changes)
    assert flipped.applies is False or flipped.applies is None
    assert text in flipped.evidence or flipped.applies is None


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("more than 100 chips", {"kind": "serve"}),
        ("PyTorch or JAX", {"framework": None}),
        ("a saving of 30 to 50 %", {"best": None}),
        ("committed to AWS", {"is_committed_to_aws": None}),
    ],
)
def test_what_is_not_given_is_not_told(name, changes):
    assert rule(name, **changes).applies is None


@pytest.mark.parametrize(("chips", "applies"), [(100, False), (101, True)])
def test_more_than_a_hundred_is_more_than_a_hundred(chips, applies):
    assert rule("more than 100 chips", chips=chips).applies is applies
