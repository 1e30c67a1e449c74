from dataclasses import replace
from datetime import date

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trnsim.arch.catalogue import parse, read_rows
from trnsim.errors import BadInput, OutOfMemory
from trnsim.system.model import LLAMA_3_1_8B, ModelShape
from trnsim.system.platform import compared
from trnsim.system.training import activation_bytes, all_reduce_s, bytes_per_chip, estimate

DAY = date(2026, 10, 15)


def decoder(hidden, layers, heads, kv_heads, intermediate, vocabulary, matrices=3):
    return ModelShape(
        name="test",
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=hidden // heads,
        intermediate=intermediate,
        vocabulary=vocabulary,
        mlp_matrices=matrices,
        final_norm=hidden,
    )


LLAMA_70B = decoder(8192, 80, 64, 8, 28672, 128256)

# aws-neuron-sdk, about-neuron/benchmarks/trn1: training_data_decoder.csv, trn1_trn1n_nlp_data.csv;
# sequences per second of a global batch of 1024. The GPT rows state no length: 2048 is the model's.
PUBLISHED = [
    (LLAMA_3_1_8B, 32, 8192, 16, 47.95),
    (decoder(6144, 50, 48, 48, 24576, 50304, 2), 32, 2048, 16, 100.0),
    (decoder(8192, 56, 64, 64, 32768, 50304, 2), 32, 2048, 32, 47.2),
    (decoder(5120, 40, 40, 40, 13824, 32000), 32, 4096, 16, 60.0),
    (decoder(4096, 32, 32, 32, 11008, 32000), 16, 4096, 4, 81.0),
]


def test_published_trn1_rows_are_met_within_a_quarter():
    errors = []
    for model, instances, sequence, chips, published in PUBLISHED:
        tokens = 1024 * sequence
        run = estimate(
            model,
            "trn1",
            tokens,
            sequence=sequence,
            instances=instances,
            chips_per_replica=chips,
            batch_tokens=tokens,
        )
        errors.append(abs(1024 / run.time_s.p50 / published - 1))
    assert max(errors) < 0.25
    assert np.mean(errors) < 0.16


@pytest.mark.parametrize("on", compared())
def test_percentiles_are_ordered_and_add_up_to_money(on):
    run = estimate(LLAMA_3_1_8B, on, 1e9, as_of=DAY)
    assert 0 < run.time_s.p10 <= run.time_s.p50 <= run.time_s.p90
    if run.usd is not None:
        hours = run.time_s.p50 / 3600 * run.layout.instances
        assert run.usd.p50 == pytest.approx(hours * run.quote.usd_per_hour)
        assert run.usd.p10 <= run.usd.p50 <= run.usd.p90


def test_trn3_is_unvalidated_and_has_no_price():
    run = estimate(LLAMA_3_1_8B, "trn3", 1e9, as_of=DAY)
    assert not run.validated
    assert run.usd is None
    assert run.note == "no public measurement of Trn3 exists"


def test_trn1_is_validated():
    assert estimate(LLAMA_3_1_8B, "trn1", 1e9, as_of=DAY).validated


def test_assumed_inputs_are_listed_with_their_reason():
    run = estimate(LLAMA_3_1_8B, "trn2", 1e9, as_of=DAY)
    assert any(line.startswith("training efficiency = 0.4: carried") for line in run.basis.assumed)


@settings(deadline=None)  # the machine may be busy
@given(st.floats(1e6, 1e13), st.floats(1, 100), st.sampled_from(compared()))
def test_more_tokens_take_longer(tokens, factor, on):
    few = estimate(LLAMA_3_1_8B, on, tokens, as_of=DAY)
    many = estimate(LLAMA_3_1_8B, on, tokens * factor, as_of=DAY)
    assert few.time_s.p50 <= many.time_s.p50 * (1 + 1e-9)


@settings(deadline=None)  # the machine may be busy
@given(st.integers(1, 80), st.integers(1, 20), st.sampled_from(compared()))
def test_more_parameters_take_longer_on_the_same_instances(layers, more, on):
    small = replace(LLAMA_3_1_8B, layers=layers)
    large = replace(LLAMA_3_1_8B, layers=layers + more)
    times = [estimate(m, on, 1e9, instances=16, as_of=DAY).time_s.p50 for m in (small, large)]
    assert times[0] < times[1]


@pytest.mark.parametrize(
    ("section", "path"),
    [
        ("peak", ("chips", "trainium1", "peak", "bf16")),
        ("link", ("chips", "trainium1", "neuronlink", "bandwidth")),
    ],
)
def test_a_better_row_makes_a_faster_run(section, path):
    del section
    rows = read_rows()
    leaf = rows
    for key in path:
        leaf = leaf[key]
    leaf["value"] *= 2
    before = estimate(LLAMA_3_1_8B, "trn1", 1e9, as_of=DAY)
    after = estimate(LLAMA_3_1_8B, "trn1", 1e9, as_of=DAY, rows=parse(rows))
    assert after.time_s.p50 < before.time_s.p50


def test_efa_matters_between_instances():
    rows = read_rows()
    for row in rows["instances"]:
        if row["name"] == "trn1.32xlarge":
            row["efa_gbps"] /= 10
    before = estimate(LLAMA_3_1_8B, "trn1", 1e9, instances=8, as_of=DAY)
    after = estimate(LLAMA_3_1_8B, "trn1", 1e9, instances=8, as_of=DAY, rows=parse(rows))
    assert after.step_terms_s["communication"] > before.step_terms_s["communication"]


def test_a_large_model_gets_the_smallest_number_of_instances_that_fits():
    run = estimate(LLAMA_70B, "trn1", 1e9, as_of=DAY)
    assert run.layout.instances == 3
    assert run.layout.bytes_per_chip <= run.layout.memory_bytes_per_chip
    with pytest.raises(
        OutOfMemory,
        match=r"^test: training needs \d+ GiB of weights, gradients, optimizer state and "
        r"activations; 2 x trn1\.32xlarge has 922 GiB usable\n  fix: use at least 3 instances",
    ):
        estimate(LLAMA_70B, "trn1", 1e9, instances=2, as_of=DAY)


def test_more_instances_shorten_the_run_and_cost_at_least_as_much():
    one, eight = (estimate(LLAMA_3_1_8B, "trn1", 1e10, instances=n, as_of=DAY) for n in (1, 8))
    assert eight.time_s.p50 < one.time_s.p50
    assert eight.usd.p50 >= one.usd.p50
    assert eight.chip_hours >= one.chip_hours


def test_an_instance_without_efa_cannot_be_one_of_several():
    with pytest.raises(BadInput, match=r"^inf2\.48xlarge has no EFA: it cannot train over several"):
        estimate(LLAMA_3_1_8B, "inf2", 1e9, instances=2)


def test_chips_per_replica_must_fit_the_machine():
    with pytest.raises(BadInput, match=r"^chips_per_replica must be one of 1, 2, 4, 8, 16, not 3"):
        estimate(LLAMA_3_1_8B, "trn1", 1e9, chips_per_replica=3)


@pytest.mark.parametrize("name", ["tokens", "sequence", "batch_tokens"])
@pytest.mark.parametrize("value", [0, float("nan"), float("inf")])
def test_numbers_must_be_positive_and_finite(name, value):
    arguments = {"tokens": 1e9} | {name: value}
    with pytest.raises(
        BadInput, match=rf"^{name} must be positive and finite, not {value}"
    ) as caught:
        estimate(LLAMA_3_1_8B, "trn1", **arguments)
    assert caught.value.fix == f"give a positive {name}"


def test_an_all_reduce_of_one_rank_is_free_and_of_two_moves_the_message_once():
    bandwidth, hop = np.array([10.0]), np.array([1.0])
    assert all_reduce_s(100, 1, bandwidth, hop) == 0
    assert all_reduce_s(100, 2, bandwidth, hop) == 2 * (100 / 2 / 10 + 1)


def test_memory_of_training_is_sixteen_bytes_per_parameter_and_activations():
    total = bytes_per_chip(LLAMA_3_1_8B, 1024, 1, 1)
    assert total == 16 * LLAMA_3_1_8B.parameters + activation_bytes(LLAMA_3_1_8B, 1024)
