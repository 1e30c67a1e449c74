"""Speeds of single passes are the planner's, at the batch that gives most within the latency."""

import pytest
from workload_cases import shaped

from trnsim.decide.times.passing import BATCHES, speed
from trnsim.errors import BadInput
from trnsim.system.infer.estimate import estimate
from trnsim.system.infer.parts import InputSizes

INF2 = "inf2.xlarge"


def planned(given, batch):
    return estimate(given.model_path, INF2, InputSizes(batch=batch, sequence=128))


def test_a_batch_that_is_given_is_kept():
    given = shaped("infer", sequence=128, batch=8)
    found = speed(given, INF2)
    assert found.units_per_s == planned(given, 8).items_per_s.p50
    assert found.family == "encoders and ViT"
    assert found.is_validated


def test_the_batch_of_most_items_is_taken():
    given = shaped("infer", sequence=128)
    most = max(planned(given, batch).items_per_s.p50 for batch in BATCHES)
    assert speed(given, INF2).units_per_s == most


def test_a_latency_bounds_the_batch():
    limit_s = planned(shaped("infer"), 4).latency_s.p50
    found = speed(shaped("infer", sequence=128, slo={"latency_s": limit_s}), INF2)
    assert found.is_met
    assert "batch 4" in found.layout


def test_where_no_batch_keeps_the_latency_it_is_missed():
    found = speed(shaped("infer", sequence=128, slo={"latency_s": 1e-6}), INF2)
    assert found.is_met is False
    assert "batch 1" in found.layout


def test_what_cannot_run_is_refused():
    with pytest.raises(BadInput, match="reads no images"):
        speed(shaped("infer", image=224), INF2)
