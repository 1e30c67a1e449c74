"""The rules of Inferentia: none of training, each flipped by one input."""

from dataclasses import replace

import pytest
from rule_cases import BEST, evidence, rule

from trnsim.decide.inventory.workload import CurrentDeployment
from trnsim.decide.rules.inferentia import inferentia
from trnsim.system.serve.demand import Slo


def test_training_has_none():
    assert inferentia(evidence()) == ()


def paid(usd):
    return {"current": CurrentDeployment("g5.xlarge", 1, "on_demand", usd, None)}


@pytest.mark.parametrize(
    ("name", "holds", "fails"),
    [
        ("high volume", {"volume": 1e8}, {"volume": 9e7}),
        ("latency-tolerant batch", {}, {"slo": Slo(latency_s=0.1)}),
        (
            "standard architecture",
            {"best": replace(BEST, family="encoders and ViT")},
            {"best": replace(BEST, family="CNN and diffusion")},
        ),
        ("10,000 USD a month", paid(10_000.0), paid(9_999.0)),
        ("100,000 USD a month", paid(100_000.0), paid(99_999.0)),
    ],
)
def test_one_input_flips_a_rule(name, holds, fails):
    assert rule(name, "infer", **holds).applies is True
    assert rule(name, "infer", **fails).applies is False


def test_hours_of_gpus_say_nothing_of_volume():
    assert rule("high volume", "serve", volume_unit="gpu_hours").applies is None


def test_without_a_place_no_architecture_is_judged():
    assert rule("standard architecture", "serve", best=None).applies is None
