from dataclasses import replace
from pathlib import Path

import pytest
from guarded import CANDIDATE, CHAT

from trnsim.decide.guard.limits import limits
from trnsim.decide.guard.split import split
from trnsim.workload.config import read

MODEL = read(Path(__file__).parents[3] / "examples" / "llama-3.1-8b.json")
LAYERS, HIDDEN = 32, 4096


def of(operators, **changed):
    link = {"bytes_per_s": 1e9, "usd_per_gpu_month": 20_000.0} | changed
    return split(limits(replace(CHAT, split=operators)), MODEL, **link)


def test_traffic_time_and_dollars_by_hand():
    found = of(("aten.a", "aten.b"))
    crossings = 2 * LAYERS
    assert found.bytes_per_token == 2 * crossings * HIDDEN * 2
    assert found.step_s == pytest.approx(2 * crossings * 15e-6 + found.bytes_per_token / 1e9)
    assert found.usd_per_month == pytest.approx(60_000 * (1 + found.step_s / 0.010) + 20_000)
    assert found.saving == pytest.approx(1 - found.usd_per_month / 100_000)
    assert found.is_cheaper is (found.saving > 0)


def test_more_tokens_a_step_and_slower_links_take_longer_and_dearer_gpus_cost_more():
    least = of(("aten.a",))
    assert of(("aten.a",), tokens=100).step_s > least.step_s
    assert of(("aten.a",), bytes_per_s=1e8).step_s > least.step_s
    dearer = of(("aten.a",), usd_per_gpu_month=39_000.0)
    assert dearer.usd_per_month - least.usd_per_month == pytest.approx(19_000)
    assert least.is_cheaper
    assert not of(("aten.a",), usd_per_gpu_month=40_000.0).is_cheaper


def test_without_a_price_there_is_no_bill():
    there = replace(CANDIDATE, usd_per_month=None, saving=None)
    found = split(
        limits(replace(CHAT, split=("aten.a",), candidates=(there,))),
        MODEL,
        bytes_per_s=1e9,
        usd_per_gpu_month=1.0,
    )
    assert (found.usd_per_month, found.saving, found.is_cheaper) == (None, None, False)
