from datetime import date

import pytest

from trnsim.errors import BadInput
from trnsim.facts import Evidence
from trnsim.system.machine import machine
from trnsim.system.train.best import Effort
from trnsim.system.train.candidates import Asked
from trnsim.system.train.estimate import estimate, usual, usual_batch
from trnsim.system.train.run import Reliability

DAY = date(2026, 10, 15)
QUICK = Effort(budget=4, processes=1)


def of(model, on, tokens=1e9, **given):
    return estimate(model, on, tokens, effort=QUICK, as_of=DAY, **given)


@pytest.mark.parametrize("on", ["trn1", "trn2", "trn3", "p5en"])
def test_percentiles_are_ordered_and_add_up_to_money(on, llama):
    found = of(llama, on)
    assert found.time_s.p10 < found.time_s.p50 < found.time_s.p90
    if found.usd is None:
        assert found.quote.usd_per_hour is None
    else:
        hours = found.time_s.p50 / 3600
        assert found.usd.p50 == pytest.approx(hours * found.instances * found.quote.usd_per_hour)
    assert found.chip_hours == pytest.approx(found.time_s.p50 * found.chips / 3600)


def test_a_run_is_its_steps_and_what_is_lost(llama):
    found = of(llama, "trn2", instances=4)
    layout = found.step.layout
    steps = 1e9 / (layout.global_batch * layout.sequence)
    assert found.time_s.p50 == pytest.approx(steps * found.step.step_s.p50 / found.goodput.goodput)
    assert found.tokens_per_s == pytest.approx(1e9 / found.time_s.p50)
    worse = of(llama, "trn2", instances=4, reliability=Reliability(chip_mtbf_s=1e6))
    assert worse.time_s.p50 > found.time_s.p50
    assert worse.step == found.step


def test_twice_the_tokens_take_twice_as_long(llama):
    assert of(llama, "trn2", 2e9).time_s.p50 == pytest.approx(2 * of(llama, "trn2").time_s.p50)


def test_only_chips_that_were_measured_are_validated(llama):
    assert of(llama, "trn1").validated
    found = of(llama, "trn3")
    assert not found.validated
    carried = "training efficiency = 0.69: extrapolated from Trn1 and Inf2: "
    assert any(one.startswith(carried) for one in found.basis.assumed)
    assert found.basis.counts[Evidence.ASSUMED] == 2


@pytest.mark.parametrize("tokens", [0, -1.0, float("nan"), float("inf")])
def test_tokens_are_positive_and_finite(tokens, llama):
    with pytest.raises(BadInput, match="tokens must be positive and finite"):
        of(llama, "trn1", tokens)


@pytest.mark.parametrize(("on", "batch"), [("trn2", 512), ("trn3", 576), ("p5en", 512)])
def test_the_usual_batch_is_what_ranks_can_share(on, batch):
    assert usual_batch(machine(on), 8192) == batch


def test_the_usual_sequence_is_one_that_the_model_knows(make_llama):
    assert usual(make_llama(max_position_embeddings=2048), machine("trn2")).sequence == 2048
    assert usual(make_llama(), machine("trn2")) == Asked(512, 8192)
