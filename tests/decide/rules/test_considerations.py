"""What a migration has to consider, and what flips each."""

from dataclasses import replace

import pytest
from rule_cases import BEST, rule

from trnsim.decide.decision import ProgramFinding

FFT = ProgramFinding("train.py", 12, "operator", "aten::fft_fft")


@pytest.mark.parametrize(
    ("name", "quiet", "loud", "text"),
    [
        ("support of operators", {"findings": ()}, {"findings": (FFT,)}, "train.py:12 aten::fft"),
        (
            "engineering time",
            {"staff_weeks": 12.0},
            {"staff_weeks": 11.0},
            "12 engineer-weeks",
        ),
        ("lock-in to AWS", {}, {"other_clouds": ("gcp",)}, "runs on gcp besides"),
        (
            "verification of the performance",
            {},
            {"best": replace(BEST, is_validated=False)},
            "'training' are off by 7%, P90 22%",
        ),
    ],
)
def test_one_input_flips_a_consideration(name, quiet, loud, text):
    assert rule(name, **quiet).applies is False
    assert rule(name, **loud).applies is True
    assert text in rule(name, **loud).evidence


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("support of operators", {"findings": None}),
        ("engineering time", {}),
        ("verification of the performance", {"best": None}),
    ],
)
def test_what_is_not_given_is_not_told(name, changes):
    assert rule(name, **changes).applies is None
