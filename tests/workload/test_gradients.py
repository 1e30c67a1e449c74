from dataclasses import replace

import pytest
from workload_sizes import GROUPED, experts, layer_of, model

from trnsim.workload.architecture import PLAIN_MATRICES, Attention, Layer, Mlp, Tower
from trnsim.workload.gradients import (
    KeepPolicy,
    Recompute,
    activation_bytes,
    backward,
    recomputation,
)
from trnsim.workload.mixer import Mixer
from trnsim.workload.operators import Axis, Pass, Phase, Split
from trnsim.workload.passes import summaries

TRAIN = Pass(Phase.TRAIN, 2, 8)


def layer(split=None, **given):
    return layer_of(summaries(model(**given), TRAIN, split or Split()))


@pytest.mark.parametrize("mlp", [Mlp(50), experts(shared=Mlp(20))])
def test_both_gradients_are_twice_the_products(mlp):
    forward = layer(mlp=mlp)
    gradients = backward(forward)
    assert gradients.flop == 2 * forward.flop
    assert gradients.useful_flop == 2 * forward.useful_flop
    assert gradients.weight_bytes == forward.weight_bytes  # read once, by the gradient of inputs
    assert sum(one.elements for one in gradients.elementwise) == 2 * sum(
        one.elements for one in forward.elementwise
    )


def test_a_gradient_has_the_sizes_of_its_product():
    forward, gradients = layer(), backward(layer())
    for place, one in enumerate(forward.products):
        by_input, other = gradients.products[2 * place : 2 * place + 2]
        assert (by_input.m, by_input.k, by_input.n) == (one.m, one.n, one.k)
        assert (other.m, other.k, other.n) == (one.k, one.m, one.n)


def kinds(block):
    return [(one.kind, one.axis, one.times) for one in block.exchanges]


def test_gradients_are_exchanged_as_values_were():
    tensor = Axis.TENSOR
    assert kinds(backward(layer(Split(tensor=2)))) == [("all_reduce", tensor, 1)] * 2
    spread = layer(Split(tensor=2, is_sequence=True))
    assert kinds(backward(spread)) == [("reduce_scatter", tensor, 1), ("all_gather", tensor, 1)] * 2
    context = layer(Split(context=2))
    assert kinds(backward(context)) == [("all_gather", Axis.CONTEXT, 2)]
    routed = layer(Split(expert=2), mlp=experts())
    assert kinds(backward(routed)) == [("all_to_all", Axis.EXPERT, 1)] * 2


def test_recomputation_repeats_nothing_the_core_or_all():
    forward = layer(Split(tensor=2))
    assert recomputation(forward, Recompute.NONE).flop == 0
    core = recomputation(forward, Recompute.SELECTIVE)
    assert core.flop == 2 * (2 * 2 * 4 * 8 * 4 * 8)
    assert core.weight_bytes == 0
    assert core.exchanges == ()
    whole = recomputation(forward, Recompute.FULL)
    assert whole.flop == forward.flop
    assert whole.exchanges == forward.exchanges


HIDDEN, HEADS, SEQUENCE = 12288, 96, 2048
GPT3_LAYER = Layer(
    96, (Attention(HEADS, HEADS, 128, 128),), Mlp(4 * HIDDEN, PLAIN_MATRICES), 4 * HIDDEN
)
GPT3 = Tower("decoder", HIDDEN, (GPT3_LAYER,))
SCORES = 5 * HEADS * SEQUENCE / HIDDEN


@pytest.mark.parametrize("t", [1, 8])
@pytest.mark.parametrize(
    ("recompute", "is_sequence", "expected"),
    [
        (Recompute.NONE, False, lambda t: 10 + 24 / t + SCORES / t),
        (Recompute.NONE, True, lambda t: (34 + SCORES) / t),
        (Recompute.SELECTIVE, False, lambda t: 10 + 24 / t),
        (Recompute.SELECTIVE, True, lambda t: 34 / t),
        (Recompute.FULL, False, lambda t: 2 + 0 * t),
        (Recompute.FULL, True, lambda t: 2 / t),
    ],
)
def test_a_layer_of_gpt3_keeps_what_the_paper_says(t, recompute, is_sequence, expected):
    split = Split(tensor=t, is_sequence=is_sequence)
    found = activation_bytes(
        GPT3, GPT3_LAYER, SEQUENCE, split, KeepPolicy(recompute, has_dropout=True)
    )
    assert found == pytest.approx(HIDDEN * expected(t))


def of(layer_given, kept):
    return activation_bytes(Tower("decoder", 32, ()), layer_given, 8, Split(), kept)


def test_a_gated_layer_without_dropout_keeps_its_own_sizes():
    one = Layer(1, (GROUPED,), Mlp(50), 64)
    queries, results, keys_and_values, between = 32, 32, 16, 3 * 50
    elements = 4 * 32 + queries + results + keys_and_values + between
    assert of(one, KeepPolicy(Recompute.SELECTIVE)) == 2 * elements
    assert of(one, KeepPolicy()) == 2 * elements + 2 * 8 * 8
    assert of(one, KeepPolicy(bits=32)) == 2 * of(one, KeepPolicy())
    routed = replace(one, mlp=experts())
    per_token = 2 * (2 * 32 + 3 * 10)
    assert of(routed, KeepPolicy(Recompute.SELECTIVE)) == 2 * (elements - between + per_token)


def test_a_parallel_layer_keeps_one_input():
    one = Layer(1, (GROUPED,), Mlp(50), 64)
    saved = of(one, KeepPolicy()) - of(replace(one, is_parallel=True), KeepPolicy())
    assert saved == 2 * 2 * 32


def inside_bytes(form, tensor=1):
    """Bytes per token that a rank keeps of a mixer or an attention, without the layer's norm."""
    tower = Tower("decoder", 32, (Layer(1, (form,), None, norms=32),))
    policy = KeepPolicy(Recompute.SELECTIVE)
    return activation_bytes(tower, tower.layers[0], 64, Split(tensor=tensor), policy) - 2 * 2 * 32


def test_a_mixer_keeps_its_rows_and_a_state_for_each_chunk():
    mixer = Mixer(heads=4, groups=2, state=8, head_dim=16, taps=4, chunk=32)
    rows = 2 * (64 + 2 * 2 * 8) + 3 * 64 + 2 * 4
    assert inside_bytes(mixer) == 2 * rows + 4 * 4 * 8 * 16 / 32
    of_rank = 2 * (16 + 2 * 8) + 3 * 16 + 2  # a head and a copy of its group
    assert inside_bytes(mixer, 4) == 2 * of_rank + 4 * 8 * 16 / 32
    inverse = inside_bytes(replace(mixer, is_delta=True)) - inside_bytes(mixer)
    assert inverse == 2 * 4 * 32


def test_a_gate_of_attention_keeps_itself_and_the_results_before_it():
    gated = replace(GROUPED, has_gate=True)
    assert inside_bytes(gated) - inside_bytes(GROUPED) == 2 * 2 * 8 * 4


def test_forms_beside_each_other_keep_one_input():
    forms = (GROUPED, Mixer(heads=4, groups=2, state=8, head_dim=16, taps=4, chunk=32))
    kept = []
    for is_beside in (False, True):
        tower = Tower("decoder", 32, (Layer(1, forms, Mlp(50), norms=64, is_beside=is_beside),))
        policy = KeepPolicy(Recompute.SELECTIVE)
        kept.append(activation_bytes(tower, tower.layers[0], 64, Split(), policy))
    assert kept[0] - kept[1] == 2 * 2 * 32
