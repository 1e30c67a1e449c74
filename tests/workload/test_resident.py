from dataclasses import replace

import pytest
from parameter_formulas import multiplied, of_attention, of_mlp, of_model
from test_attending import with_cross
from workload_sizes import GROUPED, LATENT, experts, model

from trnsim.workload.architecture import PLAIN_MATRICES, Attention, Mlp, Projection
from trnsim.workload.operators import Split
from trnsim.workload.resident import (
    active_parameters,
    cache_bytes,
    parameters,
    state_bytes,
    weights_bytes,
)


def test_a_cache_keeps_keys_and_values_of_every_layer():
    assert cache_bytes(model(), 100) == 3 * 100 * 16 * 2
    assert cache_bytes(model(kv_bits=8), 100) == 3 * 100 * 16
    assert cache_bytes(model(), 100, Split(tensor=2)) == 3 * 100 * 8 * 2
    assert cache_bytes(model(), 100, Split(tensor=8)) == 3 * 100 * 8 * 2  # copied
    assert cache_bytes(model(), 100, Split(context=4)) == 3 * 25 * 16 * 2


def test_a_window_keeps_what_it_sees():
    short = model(replace(GROUPED, window=16))
    assert cache_bytes(short, 100) == 3 * 16 * 16 * 2
    assert cache_bytes(short, 10) == 3 * 10 * 16 * 2


def test_latent_vectors_are_kept_by_every_rank():
    assert cache_bytes(model(LATENT), 100) == 3 * 100 * 15 * 2
    assert cache_bytes(model(LATENT), 100, Split(tensor=6)) == 3 * 100 * 15 * 2


def test_cross_attention_keeps_the_source():
    assert cache_bytes(with_cross(), 100, source=7) == 3 * (100 * 16 + 7 * 64) * 2


def test_keys_and_values_are_no_states():
    assert state_bytes(model()) == state_bytes(with_cross()) == 0


def test_an_encoder_keeps_nothing():
    assert cache_bytes(model(replace(GROUPED, is_causal=False)), 100) == 0


def test_formulas_of_attention_are_those_of_its_matrices():
    assert of_attention(GROUPED, 32) == 32 * 4 * 2 * (8 + 2)
    wide = Attention(8, 2, 4, 6, biases=3, norms=5)
    assert of_attention(wide, 32) == 32 * (8 * 4 + 2 * 4 + 2 * 6 + 8 * 6) + 8
    down = 32 * 20 + 32 * (12 + 3)
    up = 20 * 6 * (5 + 3) + 12 * 6 * (5 + 7)
    assert of_attention(LATENT, 32) == down + up + 6 * 7 * 32 + 32


@pytest.mark.parametrize("attention", [GROUPED, LATENT, replace(LATENT, query_rank=0)])
@pytest.mark.parametrize(
    "mlp",
    [
        Mlp(50),
        Mlp(50, PLAIN_MATRICES, 7),
        experts(16, 2, shared=Mlp(20), shared_gate=32, router_biases=16),
        experts(1, 1),
    ],
)
@pytest.mark.parametrize("is_tied", [False, True])
def test_graphs_have_the_parameters_of_the_formulas(attention, mlp, is_tied):
    whole = model(attention, mlp, is_tied=is_tied)
    assert parameters(whole) == of_model(whole)
    assert active_parameters(whole) == of_model(whole, is_active=True)
    assert weights_bytes(whole) == 2 * of_model(whole)
    assert of_mlp(mlp, 32) >= of_mlp(mlp, 32, is_active=True)


def test_products_outside_the_layers_count():
    one = model()
    more = {
        "input_projections": (Projection("patches", 5, 32, 32),),
        "positions": 9,
        "embedding_parameters": 4,
    }
    larger = replace(one, towers=(replace(one.towers[0], **more),))
    assert parameters(larger) - parameters(one) == 5 * 32 + 32 + 9 * 32 + 4
    assert multiplied(larger) - multiplied(one) == 5 * 32 + 32


def test_layers_of_shared_weights_count_once_and_are_taken_each_time():
    one = model()
    (tower,) = one.towers
    shared = replace(tower.layers[0], is_shared=True)
    whole = replace(one, towers=(replace(tower, layers=(shared,)),))
    assert parameters(whole) == of_model(whole) < parameters(one)
    assert active_parameters(whole) == active_parameters(one)
