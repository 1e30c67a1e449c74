"""Limits follow from the formulas of their room, found again by hand."""

import math
from dataclasses import replace

import pytest
from pilot_cases import paired_run

from trnsim.decide.pilot.thresholds import (
    Money,
    break_even,
    loss_band,
    thresholds,
    unit_roundoff,
)
from trnsim.system.serve.demand import Slo

MONEY = Money(bill=100_000.0, migration_usd=60_000.0, limit_months=12.0, ratio=0.8)


def by_name(runs, money=MONEY, **slo):
    return {one.name: one for one in thresholds(runs, money, Slo(**slo))}


@pytest.mark.parametrize(("dtype", "bits"), [("fp32", 24), ("fp16", 11), ("bf16", 8), ("fp8", 4)])
def test_the_unit_roundoff_is_half_the_distance_to_the_next_number(dtype, bits):
    assert unit_roundoff(dtype) == 2.0**-bits


def test_limits_of_a_training_run_by_hand():
    found = by_name(paired_run())
    assert found["loss"].limit == pytest.approx(2**-8 + 3 * math.sqrt(2) * 0.003)
    assert found["logits"].limit == pytest.approx(2**-8 * 8)  # 32 layers, two sums each
    assert found["throughput P10"].limit == 2e4
    # 5,000 USD a month of the move leave 95 % of the bill; 80 % are needed at 0.3 of the rate
    assert found["throughput break-even"].limit == pytest.approx(0.3 * 0.8 / 0.95)
    assert found["USD a month"].limit == pytest.approx(95_000)
    assert "failed requests" not in found


def test_a_dearer_place_must_be_faster():
    runs = paired_run()
    dear = replace(MONEY, ratio=1.6)
    assert break_even(runs.today, runs.there, dear) == pytest.approx(0.3 * 1.6 / 0.95)


def test_a_bill_that_never_pays_has_no_break_even():
    small = replace(MONEY, bill=5000.0)
    assert small.budget == 0
    assert not {"throughput break-even", "USD a month"} & by_name(paired_run(), small).keys()


def test_promises_of_a_service_are_thresholds():
    runs = paired_run()
    serving = replace(runs, run=replace(runs.run, kind="serve"))
    found = by_name(serving, ttft_s=2.0, tpot_s=0.1)
    assert found["TTFT P99"].limit == 2.0
    assert found["TPOT P99"].limit == 0.1
    assert found["failed requests"].limit == 0.01
    assert "loss" not in found
    passing = replace(runs, run=replace(runs.run, kind="infer"))
    assert by_name(passing, latency_s=0.5, percentile=90)["latency P90"].limit == 0.5


def test_a_promise_is_judged_at_the_next_percentile_of_logs():
    ranks = [Slo(percentile=one).reported_percentile for one in (50, 51, 90, 95, 99, 99.9)]
    assert ranks == [50, 90, 90, 99, 99, 99]


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("train", set()),
        ("serve", {"TTFT P99", "TPOT P99", "failed requests"}),
        ("infer", {"latency P99", "failed requests"}),
    ],
)
def test_only_limits_of_the_kind_are_thresholds(kind, names):
    runs = paired_run()
    found = by_name(
        replace(runs, run=replace(runs.run, kind=kind)), ttft_s=2.0, tpot_s=0.1, latency_s=3.0
    )
    others = {"loss", "logits", "throughput P10", "throughput break-even", "USD a month"}
    assert found.keys() - others == names


def test_more_noise_widens_the_band():
    assert loss_band("bf16", 0.01) > loss_band("bf16", 0.001) > loss_band("fp32", 0.001)
