import re
from dataclasses import replace

import pytest
from workload_sizes import GROUPED, LATENT, experts, model

from trnsim.errors import BadInput
from trnsim.workload.architecture import PLAIN, Attention, Experts, Matrix, Mlp


def test_parameters_of_attention():
    assert GROUPED.parameters(32) == 32 * 4 * 2 * (8 + 2)
    assert GROUPED.cached == 16
    wide = Attention(8, 2, 4, 6, biases=3, norms=5)
    assert wide.parameters(32) == 32 * (8 * 4 + 2 * 4 + 2 * 6 + 8 * 6) + 8
    assert wide.cached == 20


def test_parameters_of_latent_attention():
    down = 32 * 20 + 32 * (12 + 3)
    up = 20 * 6 * (5 + 3) + 12 * 6 * (5 + 7)
    assert LATENT.parameters(32) == down + up + 6 * 7 * 32 + 32
    assert LATENT.cached == 15
    whole = replace(LATENT, query_rank=0)
    assert whole.parameters(32) == 32 * 15 + 32 * 48 + 12 * 72 + 42 * 32 + 32


def test_parameters_of_an_mlp_and_of_experts():
    assert Mlp(50).parameters(32) == 3 * 32 * 50
    assert Mlp(50, PLAIN, 7).parameters(32) == 2 * 32 * 50 + 7
    mixed = experts(16, 2, shared=Mlp(20), shared_gate=32, router_biases=16)
    fixed = 32 * 16 + 16 + 3 * 32 * 20 + 32
    assert mixed.parameters(32) == 16 * 960 + fixed
    assert mixed.active_parameters(32) == 2 * 960 + fixed


def test_tokens_meet_experts():
    assert experts(16, 2).met(1) == pytest.approx(2)
    assert experts(16, 16).met(1) == 16
    assert experts(16, 2).met(1e6) == 16


@pytest.mark.parametrize("per_token", [0, 5])
def test_a_token_takes_no_more_experts_than_there_are(per_token):
    message = f"a token takes {per_token} of 4 experts; legal: 1 to 4"
    with pytest.raises(BadInput, match="^" + re.escape(message)):
        Experts(4, per_token, Mlp(10))


def test_a_tower_adds_up():
    layer = GROUPED.parameters(32) + 3 * 32 * 50 + 64
    assert model().parameters == 3 * layer + 2 * 100 * 32 + 32
    assert model(is_tied=True).parameters == 3 * layer + 100 * 32 + 32
    assert model().multiplied_parameters == 3 * layer + 100 * 32 + 32
    assert model(is_tied=True).multiplied_parameters == 3 * layer + 100 * 32 + 32
    assert model(mlp=experts()).active_parameters < model(mlp=experts()).parameters


def test_products_outside_the_layers_count():
    one = model()
    tower = replace(one.towers[0], before=(Matrix("patches", 5, 32, 32),), positions=9, extra=4)
    assert tower.parameters - one.parameters == 5 * 32 + 32 + 9 * 32 + 4


def test_what_a_model_has():
    assert model().decoder.depth == 3
    assert model(mlp=experts()).experts == experts()
    assert model(mlp=experts()).has_experts
    assert not model().has_experts
    assert model().bits_of_mlp == 16
    assert model(mlp_bits=4).bits_of_mlp == 4
