import math
from dataclasses import dataclass, field, replace

import pytest

from trnsim.estimate.ported import (
    BLOCK_ROWS,
    COPIES,
    ROUTED_S,
    ROUTING,
    SUM_PASSES,
    SUMS,
    PortedConstants,
    PortedTimes,
    facts,
    ported_times,
)
from trnsim.estimate.times import LayerTime
from trnsim.workload.config import from_config
from trnsim.workload.operators import WHOLE, Pass, Phase, Split
from trnsim.workload.passes import summaries

MIXTURE = {
    "model_type": "mixtral", "hidden_size": 1024, "intermediate_size": 512,
    "vocab_size": 32000, "num_hidden_layers": 2, "num_attention_heads": 16,
    "num_key_value_heads": 8, "num_local_experts": 32, "num_experts_per_tok": 4,
}  # fmt: skip
MODEL = from_config(MIXTURE, "mixture.json")
DENSE = from_config(MIXTURE | {"model_type": "llama"}, "dense.json")
HBM = 1e12


@dataclass
class Tuned:
    """Times of a test, which keep the summaries that they were asked about."""

    asked: list = field(default_factory=list)

    def forward(self, summary, _):
        self.asked.append(summary)
        return LayerTime(1e-3, {"products": 1e-3}, 0.3, "a test")

    def backward(self, summary, model_pass):
        return self.forward(summary, model_pass)


def times(model=MODEL, split=WHOLE, constants=None):
    made = ported_times(Tuned(), model, split, HBM)
    return replace(made, constants=constants) if constants else made


def layer(model_pass, model=MODEL, split=WHOLE):
    return next(one for one in summaries(model, model_pass, split) if one.name == "layer")


def asked(model_pass, split=WHOLE, model=MODEL):
    """Experts' products as the tuned form is asked about them, and the parts of the port."""
    made = times(model, split)
    found = made.forward(layer(model_pass, model, split), model_pass)
    products = [one for one in made.tuned.asked[0].products if one.name.startswith("expert ")]
    return products, found.parts_s


def decode(batch):
    return Pass(Phase.DECODE, batch, 1, 100)


@pytest.mark.parametrize(("batch", "matrices"), [(1, 4), (7, 28)])
def test_a_step_of_few_tokens_gathers_the_experts_of_each(batch, matrices):
    products, parts = asked(decode(batch))
    assert {(one.times, one.m) for one in products} == {(matrices, 1)}
    elements = 2 * 1024 * 512 + 512 * 1024
    assert parts[COPIES] == pytest.approx(2 * 2 * matrices * elements / HBM)
    assert parts[SUMS] == 0


@pytest.mark.parametrize("batch", [8, 64])
def test_a_step_of_many_tokens_reads_all_experts_and_multiplies_all_tokens(batch):
    products, parts = asked(decode(batch))
    assert {(one.times, one.m) for one in products} == {(32, batch)}
    assert parts[COPIES] == 0


@pytest.mark.parametrize(("batch", "matrices", "passes"), [(1, 4, 2 * 1 + 2 * 2), (8, 32, 2 * 2)])
def test_quantized_experts_are_widened_before_they_are_multiplied(batch, matrices, passes):
    model = replace(MODEL, weight_bits=8)
    _, parts = asked(decode(batch), model=model)
    assert parts[COPIES] == pytest.approx(passes * matrices * 3 * 1024 * 512 / HBM)


def test_a_prompt_takes_blocks_enough_for_the_worst_router():
    given = Pass(Phase.PREFILL, 1, 1000)
    products, parts = asked(given)
    blocks = math.ceil(1000 * 4 / BLOCK_ROWS) + 32 - 1
    assert {(one.times, one.m) for one in products} == {(blocks, 512)}
    assert parts[SUMS] == pytest.approx(SUM_PASSES * blocks * 1000 * 1024 * 2 / HBM)


def test_a_prompt_of_less_than_a_block_is_taken_by_all_experts():
    products, parts = asked(Pass(Phase.PREFILL, 1, 100))
    assert {(one.times, one.m) for one in products} == {(32, 100)}
    assert parts[SUMS] == 0


def test_ranks_of_experts_have_fewer_of_them():
    split = Split(expert=4)
    assert times(split=split).experts == 8
    products, _ = asked(decode(8), split=split)
    assert {one.times for one in products} == {8}


def test_every_layer_with_experts_takes_its_fixed_time_and_no_other_part_does():
    given = decode(2)
    slower = PortedConstants(routed_s=2 * ROUTED_S)
    for summary in summaries(MODEL, given, WHOLE):
        usual, longer = (
            times(constants=constants).forward(summary, given)
            for constants in (PortedConstants(), slower)
        )
        more_s = ROUTED_S if summary.name == "layer" else 0.0
        assert longer.time_s - usual.time_s == pytest.approx(more_s)
        assert (ROUTING in usual.parts_s) == (summary.name == "layer")


def test_parts_add_up_and_the_source_says_whose_rows_they_rest_on():
    found = times().forward(layer(decode(2)), decode(2))
    assert sum(found.parts_s.values()) == pytest.approx(found.time_s)
    assert found.source.startswith("a test; as ported: ")


def test_a_model_without_experts_has_no_times_of_its_own():
    assert isinstance(times(DENSE), Tuned)


def test_gradients_are_those_of_the_tuned_form():
    assert isinstance(times(), PortedTimes)
    assert times().backward(layer(decode(2)), decode(2)).time_s == 1e-3


def test_each_constant_has_a_source():
    assert all(fact.provenance.source for fact in facts().values())
