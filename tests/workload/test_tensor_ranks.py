"""Tensor ranks that divide the heads of layers."""

import pytest
from workload_sizes import GROUPED, MLP, model

from trnsim.workload.architecture import Layer, Tower
from trnsim.workload.mixer import Mixer
from trnsim.workload.tensor_ranks import divides_heads, legal_ranks

SIX_IN_THREE = Mixer(heads=6, groups=3, state=4, head_dim=4, taps=4, chunk=4)


def tower(*forms):
    return Tower("decoder", 32, tuple(Layer(1, (form,), MLP, 1) for form in forms))


@pytest.mark.parametrize(
    ("forms", "expected"),
    [((GROUPED,), [1, 2, 4, 8]), ((SIX_IN_THREE,), [1, 3, 6]), ((GROUPED, SIX_IN_THREE), [1])],
)
def test_ranks_divide_the_heads_of_all_layers(forms, expected):
    assert legal_ranks([tower(*forms)]) == expected
    assert [ranks for ranks in range(1, 9) if divides_heads([tower(*forms)], ranks)] == expected


def test_all_towers_count():
    assert legal_ranks([*model().towers, tower(SIX_IN_THREE)]) == [1]


def test_layers_without_heads_are_whole_on_one_rank():
    assert legal_ranks([tower()]) == [1]
