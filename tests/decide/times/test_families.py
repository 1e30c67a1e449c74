"""Families of published times are those of the page that `bench/system/page.py` writes."""

import re
from pathlib import Path

import pytest

from trnsim.arch.catalogue import catalogue
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


def chip(name):
    return catalogue().accelerator(name)


@pytest.mark.parametrize("family", [ENCODERS, TPOT])
def test_inference_is_validated_on_chips_with_published_times(family):
    assert family.is_validated(chip("trainium1"))
    assert family.is_validated(chip("inferentia2"))
    assert not family.is_validated(chip("trainium2"))
    assert not family.is_validated(chip("inferentia1"))
    assert not family.is_validated(chip("h100"))


def test_networks_of_images_are_validated_on_the_chip_of_their_rows_alone():
    assert NETWORKS.is_validated(chip("inferentia2"))
    assert not NETWORKS.is_validated(chip("trainium1"))


def test_training_is_validated_on_a_chip_that_trains():
    assert TRAINING.is_validated(chip("trainium1"))
    assert not TRAINING.is_validated(chip("inferentia2"))


@pytest.mark.parametrize("family", [CLIP, TTFT, DIFFUSION])
def test_a_family_with_wide_errors_is_validated_nowhere(family):
    assert not family.is_validated(chip("trainium1"))
