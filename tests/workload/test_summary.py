from dataclasses import replace

import pytest

from trnsim.graph import Graph
from trnsim.graph.ops.contraction import Attention, Convolution
from trnsim.graph.origin import Origin
from trnsim.workload.operators import Elementwise, Product
from trnsim.workload.summary import CAST, PartSummary, captured_summaries


class Made:
    """A graph, operation by operation, with modules that call them."""

    def __init__(self):
        self.graph, self.weights = Graph(), set()

    def given(self, *shape, dtype="bfloat16"):
        return self.graph.input(shape, dtype)

    def weight(self, *shape, dtype="bfloat16"):
        found = self.given(*shape, dtype=dtype)
        self.weights.add(found.number)
        return found

    def within(self, module):
        self.graph.current_origin = Origin(module, "aten::linear")

    def linear(self, value, outputs):
        """By a weight [outputs, inputs], as PyTorch keeps it."""
        matrix = self.graph.transpose(self.weight(outputs, value.shape[-1]), (1, 0))
        return self.graph.dot_general(value, matrix, (1, 0))

    def blocks(self, *outputs, **options):
        self.graph.outputs[:] = outputs
        return captured_summaries(self.graph, self.weights, **options)


@pytest.fixture
def made():
    return Made()


def test_a_part_has_the_sums_of_its_operators():
    products = Product("up", 3, 4, 5, weight_bits=8), Product("scores", 3, 4, 6, causal=0.5)
    part = PartSummary("layer", 2, products, (Elementwise("norm", 12.0, 7.0),))
    assert (part.flop, part.useful_flop) == (2 * 60 + 2 * 72, 2 * 60 + 72)
    assert part.weight_bytes == 20 + 7
    fewer = replace(part, products=products[:1])
    assert (fewer.flop, fewer.weight_bytes) == (120, 27)


def test_equal_layers_are_one_block(made):
    value = made.given(6, 8)
    made.within("embedding")
    value = made.linear(value, 4)
    for place in range(3):
        made.within(f"model.layers.{place}.mlp")
        value = made.graph.elementwise("tanh", made.linear(value, 4))
    made.within("head")
    value = made.linear(value, 9)
    found = made.blocks(value)
    assert [(one.name, one.times) for one in found] == [
        ("embedding", 1),
        ("layer", 3),
        ("outside", 1),
    ]
    product = found[1].products[0]
    assert (product.m, product.k, product.n, product.times) == (6, 4, 4, 1)
    assert (product.weight_bits, product.bits) == (16, 16)
    assert found[1].resident_bytes == 4 * 4 * 2
    assert sum(one.elements for one in found[1].elementwise) == 2 * 6 * 4


def test_layers_that_differ_are_apart(made):
    value = made.given(6, 8)
    for place, outputs in enumerate((8, 8, 4)):
        made.within(f"stages.{place}")
        value = made.linear(value, outputs)
    assert [one.times for one in made.blocks(value)] == [2, 1]


def test_a_weight_on_the_left_is_the_columns(made):
    value = made.given(8, 6)
    found = made.graph.dot_general(made.weight(5, 8), value, (1, 0))
    (block,) = made.blocks(found)
    (product,) = block.products
    assert (product.m, product.k, product.n) == (6, 8, 5)
    assert product.weight_bytes == 5 * 8 * 2


def test_a_weight_for_all_of_a_batch_is_read_once(made):
    value = made.given(3, 6, 8)
    matrix = made.graph.broadcast_in_dim(made.weight(8, 5), (3, 8, 5), (1, 2))
    found = made.graph.dot_general(value, matrix, (2, 1))
    (product,) = made.blocks(found)[0].products
    assert (product.m, product.k, product.n, product.times) == (18, 8, 5, 1)
    assert product.weight_bytes == 8 * 5 * 2


def test_computed_matrices_are_no_weights(made):
    found = made.graph.dot_general(made.given(3, 6, 8), made.given(3, 8, 5), (2, 1))
    (product,) = made.blocks(found)[0].products
    assert (product.m, product.times, product.weight_bits) == (6, 3, 0)
    assert product.flop == 2 * 3 * 6 * 8 * 5


@pytest.mark.parametrize(("is_causal", "share"), [(False, 1.0), (True, 0.55)])
def test_attention_is_two_products(made, is_causal, share):
    query, key, value = (made.given(2, 10, 4) for _ in range(3))
    found = made.graph.apply(Attention(0.5, is_causal), query, key, value)
    scores, values = made.blocks(found)[0].products
    assert (scores.m, scores.k, scores.n, scores.times) == (10, 4, 10, 2)
    assert (values.m, values.k, values.n, values.times) == (10, 10, 4, 2)
    assert scores.causal == pytest.approx(share)


def test_a_convolution_has_a_row_for_each_place(made):
    plain = Convolution((2, 2), (0, 0), (0, 0), (0, 0), (1, 1), 2)
    found = made.graph.apply(plain, made.given(3, 4, 9, 9), made.weight(6, 2, 3, 3))
    (product,) = made.blocks(found)[0].products
    assert (product.m, product.k, product.n, product.times) == (3 * 4 * 4, 2 * 9, 3, 2)
    assert product.weight_bytes == 6 * 2 * 9 * 2


def test_a_lookup_reads_what_it_gives(made):
    table, words = made.weight(100, 8), made.given(5, dtype="int32")
    (block,) = made.blocks(made.graph.gather(table, words))
    (one,) = block.elementwise
    assert (one.name, one.elements, one.weight_bytes) == ("lookup", 2 * 5 * 8, 0)
    assert block.resident_bytes == 100 * 8 * 2


def test_a_tied_table_is_held_once(made):
    table, words = made.weight(100, 8), made.given(5, dtype="int32")
    looked_up = made.graph.gather(table, words)
    made.within("layers.0")
    inner = made.linear(looked_up, 8)
    made.within("head")
    scores = made.graph.dot_general(inner, made.graph.transpose(table, (1, 0)), (1, 0))
    first, _, last = made.blocks(scores)
    assert (first.resident_bytes, last.resident_bytes) == (1600, 0)
    assert last.weight_bytes == 1600


def test_keys_and_values_are_read_and_written(made):
    past, new = made.given(2, 4, 7, 3), made.given(2, 4, 1, 3)
    new = made.graph.elementwise("negate", new)
    whole = made.graph.concatenate([past, new], 2)
    (block,) = made.blocks(whole, new, is_generating=True)
    assert block.cache.written_bytes == 2 * 4 * 3 * 2 + 2 * 4 * 8 * 3 * 2
    assert block.cache.read_bytes == 2 * 4 * 3 * 2 + 2 * 4 * 7 * 3 * 2
    assert made.blocks(whole, new)[0].cache.read_bytes == 0


def test_a_weight_in_another_type_is_the_weight(made):
    value = made.given(6, 8, dtype="float32")
    wide = made.graph.elementwise("convert", made.weight(8, 5), dtype="float32")
    found = made.graph.dot_general(value, wide, (1, 0))
    (block,) = made.blocks(found)
    assert block.products[0].weight_bits == 16
    assert block.products[0].bits == 32
    assert block.elementwise == ()


def test_a_cast_is_named_so_whatever_operator_it_is_part_of(made):
    made.within("layers.0.norm")
    value = made.graph.elementwise("convert", made.given(4, 8), dtype="float32")
    (block,) = made.blocks(made.graph.elementwise("relu", value))
    assert [(one.name, one.elements) for one in block.elementwise] == [(CAST, 64), ("linear", 64)]


def test_experts_take_the_rows_that_are_no_filling(made):
    graph = made.graph
    stacked = graph.reshape(made.weight(4, 6, 8), (24, 8))
    chosen = graph.reshape(graph.gather(stacked, made.given(18, dtype="int32")), (3, 6, 8))
    padded = graph.pad(made.given(5, 8), (0, 0), (1, 0))
    tiles = graph.reshape(graph.gather(padded, made.given(6, dtype="int32")), (3, 2, 8))
    (block,) = made.blocks(graph.dot_general(tiles, chosen, (2, 2)))
    (product,) = block.products
    met = 4 * (1 - (3 / 4) ** 5)
    assert product.flop == pytest.approx(2 * 5 * 8 * 6)
    assert product.times == pytest.approx(met)
    assert product.weight_bytes == pytest.approx(met * 6 * 8 * 2)
    assert block.resident_bytes == 4 * 6 * 8 * 2
