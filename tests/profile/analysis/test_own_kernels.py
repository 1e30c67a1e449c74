import math
import sys
from pathlib import Path

import pytest

from trnsim.arch import TARGETS
from trnsim.facts import Interval
from trnsim.profile.analysis.own_kernels import chip_of, own_interval

sys.path.append(str(Path(__file__).parents[2] / "site"))
from site_cases import write_site

OWN = Interval(8e-6, 1e-5, 1.3e-5)


def test_without_a_site_nothing_changes(monkeypatch):
    monkeypatch.setenv("TRNSIM_SITE", "")
    assert own_interval(TARGETS["trn1"].core, 1e-5, OWN, "10 % off") == (OWN, "10 % off")


def test_a_site_moves_the_interval_and_is_told(monkeypatch, tmp_path):
    site = write_site(tmp_path / "site.json", families=("kernels",))
    monkeypatch.setenv("TRNSIM_SITE", str(site))
    interval, told = own_interval(TARGETS["trn1"].core, 1e-5, OWN, "10 % off")
    assert interval.p50 == pytest.approx(1.5e-5)
    assert math.log(interval.p90 / interval.p50) == pytest.approx(1.28155 * 0.05, rel=1e-4)
    assert told == "yours, 2026-11-20, 14 rows: P50 15 us; without them 10 % off"


def test_a_core_without_rows_keeps_at_least_its_own_interval(monkeypatch, tmp_path):
    site = write_site(tmp_path / "site.json", families=("decode",), sigma=0.01)
    monkeypatch.setenv("TRNSIM_SITE", str(site))
    interval, told = own_interval(TARGETS["trn2"].core, 1e-5, OWN, "10 % off")
    assert interval.p90 / interval.p10 >= 0.999 * OWN.p90 / OWN.p10
    assert "of other chips or families" in told


def test_a_core_is_that_of_its_first_chip():
    assert chip_of(TARGETS["inf2"].core) == "trainium1"
    assert chip_of(TARGETS["trn2"].core) == "trainium2"
