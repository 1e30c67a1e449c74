import math
import sys
from pathlib import Path

import pytest

from trnsim.arch import TARGETS
from trnsim.estimate.choice import graph_times, layer_times, pair_times
from trnsim.estimate.program import estimate_program
from trnsim.estimate.question import Question, answer
from trnsim.estimate.site import (
    ALONE_START,
    collective_cause,
    family_of,
    site_collective,
    site_times,
)
from trnsim.facts import Interval
from trnsim.place.machine import machine
from trnsim.site import without
from trnsim.system.train.exchanges import exchanges
from trnsim.workload.config import read
from trnsim.workload.operators import Pass, Phase, Split

sys.path.append(str(Path(__file__).parents[1] / "site"))
from site_cases import write_site

LLAMA = Path(__file__).parents[2] / "examples" / "llama-3.1-8b.json"
FAMILIES = ("decode", "exchanges", "programs")


def asked(on="trn1", phase=Phase.DECODE):
    tokens = 1 if phase is Phase.DECODE else 128
    return answer(Question(read(LLAMA), Pass(phase, 1, tokens, 512), machine(on), Split(8)))


@pytest.fixture
def site(monkeypatch, tmp_path):
    monkeypatch.setenv("TRNSIM_SITE", str(write_site(tmp_path / "site.json", families=FAMILIES)))


@pytest.fixture
def before():
    with without():
        return asked()


with_site = pytest.mark.usefixtures("site")


@with_site
def test_each_cause_has_its_factor_and_the_estimate_says_whose(before):
    after = asked()
    factors = {
        name: after.parts_s[name] / time_s for name, time_s in before.parts_s.items() if time_s
    }
    assert factors.pop("weights") == pytest.approx(2)
    assert {round(factor, 9) for factor in factors.values()} == {1.5}
    assert after.sources["decode"].endswith("; yours, 2026-11-20, 14 rows")
    assert after.sigma == pytest.approx(0.05)


@with_site
def test_a_family_without_rows_keeps_at_least_its_own_interval(monkeypatch):
    after = asked(phase=Phase.PREFILL)
    monkeypatch.setenv("TRNSIM_SITE", "")
    before = asked(phase=Phase.PREFILL)
    # layers have the factor of their chip, exchanges their own
    moved = after.time_s - before.time_s
    layers_s = before.time_s - before.parts_s["exchanges"]
    assert moved == pytest.approx(0.1 * layers_s + 0.5 * before.parts_s["exchanges"])
    assert after.sigma >= 0.99 * before.sigma
    assert "14 rows of other chips or families" in after.sources["prefill"]


@with_site
def test_programs_have_a_factor_and_its_interval():
    target = TARGETS["trn1"]
    after = estimate_program(target, {"Tensor": 0.002, "launch": 0.001})
    assert after.time_s == pytest.approx(0.0045)
    assert after.sigma == pytest.approx(0.05)
    assert "yours, 2026-11-20, 14 rows" in after.sources["program"]


@with_site
def test_exchanges_of_training_have_the_same_factor():
    assert exchanges(machine("trn1")).factor == 1.5
    assert exchanges(machine("p5en")).factor == 1.05


def test_without_a_site_nothing_changes(before):
    times = layer_times(machine("trn1"), "decode")
    assert "yours" not in before.sources["decode"]
    assert site_times(times, machine("trn1").chip).site is None


@with_site
def test_pairs_and_graphs_have_families_of_their_own():
    assert pair_times(machine("inf2"), "bf16").modelled.kind == "pairs"
    times, _ = graph_times(machine("inf2"), "bf16", is_denoiser=True)
    assert times.kind == "diffusion"


def test_gpus_have_families_of_their_own():
    assert family_of(machine("p5en").chip, "decode") == "GPU decode"
    assert family_of(machine("trn1").chip, "decode") == "decode"


@with_site
def test_an_interval_is_that_of_measured_rows():
    after = asked()
    assert math.log(after.quantile_s("p90") / after.time_s) == pytest.approx(
        1.28155 * 0.05, rel=1e-3
    )


@with_site
def test_a_collective_has_the_factor_of_the_floor_that_it_pays():
    chip, own = machine("trn1").chip, Interval(4e-5, 5e-5, 6e-5)
    started, words = site_collective(chip, own, collective_cause("started by the host"))
    assert started.p50 == pytest.approx(7.5e-5)
    assert words == "yours, 2026-11-20, 14 rows"
    assert collective_cause("started by the host") == ALONE_START
    assert collective_cause("started by the host, outlasted by transfers") == ""
    assert math.log(started.p90 / started.p50) == pytest.approx(1.28155 * 0.05, rel=1e-3)


def test_a_collective_without_a_site_is_as_it_was():
    own = Interval(4e-5, 5e-5, 6e-5)
    with without():
        assert site_collective(machine("trn1").chip, own, "") == (own, "")
