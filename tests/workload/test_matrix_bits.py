from dataclasses import replace

from workload_sizes import GROUPED, MLP, model

from trnsim.workload.architecture import Layer
from trnsim.workload.matrix_bits import MatrixBits, with_own_bits, without_own_bits

WIDE = (MatrixBits("mlp.up", 16, 16),)
TOWER = model(layers=5).decoder


def test_equal_layers_are_divided_where_their_bits_differ():
    found = with_own_bits(TOWER, lambda _, index: WIDE if index in (0, 3) else ())
    assert [(layer.times, layer.own_bits) for layer in found.layers] == [(2, WIDE), (3, ())]
    assert found.order == (0, 1, 1, 0, 1)
    assert found.depth == TOWER.depth


def test_groups_of_an_order_keep_their_layers():
    short, long = (Layer(times, (GROUPED,), MLP, norms) for times, norms in ((2, 1), (3, 2)))
    tower = replace(TOWER, layers=(short, long), order=(1, 0, 1, 0, 1))
    found = with_own_bits(tower, lambda layer, _: WIDE if layer.norms == 1 else ())
    assert [(layer.times, layer.norms, layer.own_bits) for layer in found.layers] == [
        (3, 2, ()),
        (2, 1, WIDE),
    ]
    assert found.order == (0, 1, 0, 1, 0)


def test_a_tower_without_any_is_the_same_one():
    assert with_own_bits(TOWER, lambda *_: ()) is TOWER


def test_layers_of_one_set_of_weights_have_the_first_ones_bits():
    tower = replace(TOWER, layers=(replace(TOWER.layers[0], is_shared=True),))
    found = with_own_bits(tower, lambda _, index: WIDE if index == 0 else ())
    assert [(layer.times, layer.own_bits) for layer in found.layers] == [(5, WIDE)]


def test_a_model_without_own_bits_has_the_same_layers():
    one = model(layers=5)
    wide = replace(one, towers=(with_own_bits(TOWER, lambda *_: WIDE),))
    assert {layer.own_bits for layer in without_own_bits(wide).decoder.layers} == {()}
