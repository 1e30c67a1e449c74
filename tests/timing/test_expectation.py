"""What an estimate says of its own error, beside the page on which it was found."""

import math
import re
from pathlib import Path

import pytest

from trnsim.timing.expectation import OUTSIDE, unseen_error
from trnsim.timing.interval import errors

PAGE = Path(__file__).parents[2] / "docs" / "generated" / "accuracy.md"
SIZES = ("under 100 us", "100 us to 1 ms", "over 1 ms")


def test_the_figures_are_those_of_the_page():
    text = PAGE.read_text(encoding="utf-8")
    section = text[text.index("## Each kernel left out") : text.index("| bound by |")]
    for name, size in zip(SIZES, errors().unseen, strict=True):
        rows, median, p90 = re.search(
            rf"^\| {name} \| (\d+) \| ([\d.]+) \| ([\d.]+) \|", section, re.MULTILINE
        ).groups()
        assert (size.rows, size.median_percent, size.p90_percent) == (
            int(rows),
            float(median),
            float(p90),
        )
    assert f"more than {OUTSIDE.median_percent:.0f} % off" in text


@pytest.mark.parametrize(
    ("total_time_s", "place"),
    [(0.0, 0), (99.9e-6, 0), (100e-6, 1), (0.999e-3, 1), (1e-3, 2), (3600.0, 2)],
)
def test_each_size_has_its_own_figures(core_v3, total_time_s, place):
    size = errors().unseen[place]
    median, p90 = math.ceil(size.median_percent), math.ceil(size.p90_percent)
    assert unseen_error(core_v3, total_time_s, "nki-library") == (
        f"published kernels {size.words}, each estimated without its own time, were {median} % off "
        f"in the median, {p90} % at P90"
    )


def test_a_kernel_of_ones_own_is_first_compared_with_those_of_other_people(core_v2, core_v3):
    size = errors().unseen[1]
    median, p90 = math.ceil(size.median_percent), math.ceil(size.p90_percent)
    expected = (
        "kernels of other people were 29 % off in the median; published kernels of 100 us to 1 ms, "
        f"each estimated without its own time, {median} % in the median, {p90} % at P90"
    )
    assert unseen_error(core_v3, 2e-4) == expected
    # nki-library has no times of Trn1.
    assert unseen_error(core_v2, 2e-4, "nki-library") == expected


def test_a_core_without_published_times_says_so(core_v2, core_v4):
    assert "no published time of NeuronCore-v4" in unseen_error(core_v4, 1e-3)
    assert "% off" in unseen_error(core_v2, 1e-3)
