"""Families of published times are those of the page that `bench/system/page.py` writes."""

import re
from pathlib import Path

import pytest

from trnsim.decide.times.families import (
    CLIP,
    DIFFUSION,
    ENCODERS,
    FAMILIES,
    NETWORKS,
    TPOT,
    TRAINING,
    TTFT,
)

PAGE = Path(__file__).resolve().parents[3] / "docs" / "generated" / "accuracy-models.md"


def rows():
    """Median and P90 by family, of the page's first table."""
    found = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 9 and re.fullmatch(r"\d+ of \d+", cells[2]):
            found.setdefault(cells[1], (float(cells[4]) / 100, float(cells[5]) / 100))
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_errors_are_those_of_the_page(family):
    assert (family.median, family.p90) == pytest.approx(rows()[family.name])


def test_all_families_of_the_page_are_there():
    assert {one.name for one in FAMILIES} == rows().keys() - {"all"}


@pytest.mark.parametrize("family", [ENCODERS, TPOT, NETWORKS, DIFFUSION, TRAINING])
def test_a_family_with_small_errors_supports_decisions(family):
    assert family.is_accurate


@pytest.mark.parametrize("family", [CLIP, TTFT])
def test_a_family_with_wide_errors_supports_none(family):
    assert not family.is_accurate
