from dataclasses import replace

import pytest

from trnsim.estimate.few import FewConstants
from trnsim.estimate.training import is_one_kernel
from trnsim.system.train.exchanges import exchanges
from trnsim.system.train.layout import Layout
from trnsim.system.train.stages import all_parts
from trnsim.system.train.work import StageWork, passes_with_zero, passes_without_zero
from trnsim.workload.config import from_config
from trnsim.workload.gradients import Recompute

TIMES = FewConstants(1e13, 1e15, 1.0, 0.0, 0.1, "a test")
"""Products alone take time."""


def passes(part, layout, times, between):
    without_zero = passes_without_zero(part, layout, times, between)
    return passes_with_zero(without_zero, part, layout, between)


def layer(model, layout):
    return next(part for part in all_parts(model, layout) if part.is_layer)


def test_backward_takes_twice_forward_and_what_is_computed_again(llama, trn2):
    found = {}
    for recompute in ("none", "selective", "full"):
        layout = Layout(recompute=recompute)
        found[recompute] = passes(layer(llama, layout), layout, TIMES, exchanges(trn2))
    ahead = found["full"].forward.compute_s
    part = layer(llama, Layout()).summary
    core = sum(one.flop for one in part.products if one.name in ("scores", "values")) / part.flop
    extra = {how: one.backward.compute_s / ahead - 2 for how, one in found.items()}
    assert extra == pytest.approx({"none": core / 2, "selective": core, "full": 1.0})


def test_exchanges_are_those_of_both_passes_and_of_the_repetition(llama, trn2):
    made = {}
    for recompute in ("selective", "full"):
        layout = Layout(tensor=8, is_sequence=True, recompute=recompute)
        made[recompute] = passes(layer(llama, layout), layout, TIMES, exchanges(trn2))
    once = made["selective"]
    assert once.forward.tensor_s == pytest.approx(once.backward.tensor_s)
    again = made["full"].backward.tensor_s - once.backward.tensor_s
    assert again == pytest.approx(once.forward.tensor_s)


@pytest.mark.parametrize(
    ("axes", "name"),
    [
        ({"tensor": 4}, "tensor_s"),
        ({"context": 4}, "context_s"),
        ({"data": 4, "expert": 4}, "expert_s"),
    ],
)
def test_each_axis_has_its_own_exchanges(axes, name, mixtral, trn2):
    alone, shared = (
        passes(layer(mixtral, layout), layout, TIMES, exchanges(trn2)).forward
        for layout in (Layout(), Layout(**axes))
    )
    assert getattr(alone, name) == 0.0
    assert getattr(shared, name) > 0.0
    others = {"tensor_s", "context_s", "expert_s"} - {name}
    assert all(getattr(shared, other) == 0.0 for other in others)


def test_zero_3_waits_for_weights_where_computing_is_short(llama, trn2):
    layout = Layout(data=64, zero=3)
    part = layer(llama, layout)
    slow = passes(part, layout, TIMES, exchanges(trn2))
    fast = passes(part, layout, replace(TIMES, flop_per_s=1e17), exchanges(trn2))
    assert slow.forward.data_s == 0.0
    assert fast.backward.data_s > fast.forward.data_s > 0.0


def test_half_of_the_gradients_of_products_with_weights_is_by_weights(llama, trn2):
    layout = Layout(recompute="none")
    part = layer(llama, layout)
    found = passes(part, layout, TIMES, exchanges(trn2))
    weighted = sum(one.flop for one in part.summary.products if one.weight_bits)
    assert found.weights_s == pytest.approx(weighted / 1e13)


def test_work_adds_up():
    one = StageWork(1, 2, 3, 4, 5)
    assert (one + one.scaled(2)).total_s == 45


GPT = {
    "model_type": "gpt2",
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "n_positions": 1024,
    "vocab_size": 50257,
}
BERT = {
    "model_type": "bert",
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "vocab_size": 30522,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
}


@pytest.mark.parametrize(
    ("recompute", "expected"), [("none", True), ("selective", True), ("full", False)]
)
def test_attention_of_llamas_is_one_kernel_unless_all_is_computed_again(llama, recompute, expected):
    kind = llama.decoder.layers[0]
    assert is_one_kernel(kind, Recompute(recompute)) == expected
    assert not is_one_kernel(None, Recompute(recompute))


@pytest.mark.parametrize("config", [GPT, BERT], ids=["dropout", "not causal"])
def test_other_attention_is_not(config):
    kind = from_config(config, "a.json").decoder.layers[0]
    assert not is_one_kernel(kind, Recompute.SELECTIVE)
