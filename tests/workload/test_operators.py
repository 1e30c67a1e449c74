import re

import pytest

from trnsim.errors import BadInput
from trnsim.workload.operators import Cache, Elementwise, Pass, Phase, Product, Split, bytes_of
from trnsim.workload.summary import PartSummary


def test_a_product_counts_flop_weights_and_activations():
    one = Product("up", 3, 4, 5, 2, weight_bits=8, causal=0.5)
    assert one.flop == 2 * 3 * 4 * 5 * 2
    assert one.useful_flop == one.flop / 2
    assert one.weight_bytes == 4 * 5 * 2
    assert one.activation_elements == 2 * 3 * (4 + 5)
    computed = Product("scores", 3, 4, 5)
    assert computed.weight_bytes == 0
    assert computed.activation_elements == 3 * 4 + 4 * 5 + 3 * 5


def test_a_block_adds_up():
    product = Product("up", 3, 4, 5, weight_bits=16, causal=0.5)
    block = PartSummary("layer", 2, (product, product), (Elementwise("norm", 6, 8.0),))
    assert block.flop == 2 * product.flop
    assert block.useful_flop == product.flop
    assert block.weight_bytes == 2 * 40 + 8


def test_caches_add_up():
    assert Cache(1, 2) + Cache(3, 4) == Cache(4, 6)


def test_bytes_of_short_elements():
    assert bytes_of(3, 4.25) == 1.59375


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0, 1), "batch of a pass is 0; legal: whole numbers from 1"),
        ((1, -4), "tokens of a pass is -4; legal: whole numbers from 1"),
        ((True, 1), "batch of a pass is True; legal: whole numbers from 1"),
        ((1, float("nan")), "tokens of a pass is nan; legal: whole numbers from 1"),
        ((1, 1, -1), "past of a pass is -1; legal: whole numbers from 0"),
        ((1, 1, 0, 2.5), "source of a pass is 2.5; legal: whole numbers from 0"),
    ],
)
def test_a_pass_has_whole_sizes(sizes, message):
    with pytest.raises(BadInput, match="^" + re.escape(message)):
        Pass(Phase.TRAIN, *sizes)


@pytest.mark.parametrize("axis", ["tensor", "expert", "context"])
def test_a_split_has_whole_ranks(axis):
    with pytest.raises(BadInput, match=f"^{axis} ranks are 0; legal: whole numbers from 1"):
        Split(**{axis: 0})


def test_ranks_of_a_layer():
    assert Split(4, 8, 2).ranks == 8
