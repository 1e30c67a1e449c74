import re
from pathlib import Path

import pytest

from trnsim.fabric.constants import bandwidths, hop_s, host_base_s, rank_bytes_per_s, start_s
from trnsim.facts import Evidence, assumed

PAGE = Path(__file__).parents[2] / "docs" / "generated" / "accuracy-models.md"


def test_the_first_generation_has_the_fitted_latency_of_the_page():
    fitted = re.search(
        r"One constant of programs is fitted: (\d+) us", PAGE.read_text(encoding="utf-8")
    )
    assert start_s("trainium1") == start_s("inferentia2") == pytest.approx(int(fitted[1]) * 1e-6)
    assert hop_s("trainium1") == 0


def test_later_ones_start_as_published():
    assert start_s("trainium2") + 2 * hop_s("trainium2") == pytest.approx(6.16e-6)
    assert start_s("trainium2").provenance.kind is Evidence.DERIVED
    assert start_s("trainium3").provenance.kind is Evidence.ASSUMED


def test_starts_of_the_first_generation_are_known_best():
    first, later = host_base_s("trainium1"), host_base_s("trainium2")
    assert first == later == host_base_s("inferentia2")
    assert first.provenance.spread < later.provenance.spread
    assert first.provenance.spread < host_base_s("trainium1", nodes=2).provenance.spread


def test_bytes_of_later_chips_are_less_certain():
    assert bandwidths("trainium1").provenance.spread < bandwidths("trainium2").provenance.spread


@pytest.mark.parametrize(
    ("chip", "cores", "bytes_per_s", "kind"),
    [
        ("trainium1", 1, 2**30 / 18_930e-6, Evidence.MEASURED),
        ("trainium2", 1, 368e9, Evidence.DOCUMENTED),
        ("trainium2", 2, 2 * 350e9, Evidence.DERIVED),
        ("trainium3", 2, 2 * 502e9, Evidence.ASSUMED),
        ("inferentia1", 1, 50e9, Evidence.ASSUMED),
    ],
)
def test_engines_pass_on_what_is_known_of_them(chip, cores, bytes_per_s, kind):
    found = rank_bytes_per_s(chip, cores, assumed(50e9, "a test"))
    assert found == pytest.approx(bytes_per_s)
    assert found.provenance.kind is kind
