"""What an estimate says of its own error, beside the page on which it was found."""

import math
import re
from pathlib import Path

import pytest

from trnsim.timing.expectation import UNSEEN, unseen_error

PAGE = Path(__file__).parents[2] / "docs" / "generated" / "accuracy.md"
SIZES = ("under 100 us", "100 us to 1 ms", "over 1 ms")


def test_the_figures_are_those_of_the_page():
    text = PAGE.read_text(encoding="utf-8")
    section = text[text.index("## What to expect") : text.index("| bound by |")]
    for name, one in zip(SIZES, UNSEEN, strict=True):
        rows, median, p90 = re.search(
            rf"^\| {name} \| (\d+) \| ([\d.]+) \| ([\d.]+) \|", section, re.MULTILINE
        ).groups()
        assert (one.rows, one.median_percent, one.p90_percent) == (
            int(rows),
            float(median),
            float(p90),
        )


@pytest.mark.parametrize(
    ("total_time_s", "place"),
    [(0.0, 0), (99.9e-6, 0), (100e-6, 1), (0.999e-3, 1), (1e-3, 2), (3600.0, 2)],
)
def test_each_size_has_its_own_figures(core_v3, total_time_s, place):
    one = UNSEEN[place]
    assert unseen_error(core_v3, total_time_s) == (
        f"kernels {one.words} that the model had not seen were {math.ceil(one.median_percent)} % "
        f"off in the median, {math.ceil(one.p90_percent)} % at P90"
    )


def test_a_core_without_published_times_says_so(core_v2, core_v4):
    assert "no published time of NeuronCore-v4" in unseen_error(core_v4, 1e-3)
    assert "% off" in unseen_error(core_v2, 1e-3)
