import re
from dataclasses import replace

import pytest
from workload_sizes import GROUPED, LATENT, experts, model

from trnsim.errors import BadInput
from trnsim.workload.architecture import Experts, Mlp
from trnsim.workload.kinds import ModelKind


def test_elements_of_keys_and_values():
    assert GROUPED.cached_elements == 16
    assert replace(GROUPED, value_dim=6).cached_elements == 20
    assert LATENT.cached_elements == 15


@pytest.mark.parametrize("per_token", [0, 5])
def test_a_token_takes_no_more_experts_than_there_are(per_token):
    message = f"a token takes {per_token} of 4 experts; legal: 1 to 4"
    with pytest.raises(BadInput, match="^" + re.escape(message)):
        Experts(4, per_token, Mlp(10))


def test_what_a_model_has():
    assert model().decoder.depth == 3
    assert model(mlp=experts()).experts == experts()
    assert model().experts is None
    assert model().bits_of_mlp == 16
    assert model(mlp_bits=4).bits_of_mlp == 4


def test_what_follows_from_the_towers_changes_with_them():
    own = model()
    (tower,) = own.towers
    twice = replace(own, towers=(replace(tower, name="encoder"), tower))
    assert (own.depth, own.kind) == (3, ModelKind.DENSE)
    assert (twice.depth, twice.kind) == (6, ModelKind.ENCODER_DECODER)
    silent = replace(tower, outputs=0)
    assert replace(own, towers=(silent,)).kind is ModelKind.ENCODER
    assert repr(own) == repr(replace(own))
    assert "depth" not in repr(own)
