"""The bound beside an oracle that cuts nothing.

Where all of a graph is needed both say the same. Where its outputs need a part, the bound is what
the oracle says of the smaller graph, written down by hand, which computes that part alone.
"""

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trnsim.graph import OPERATIONS, Graph, Kind, TensorType
from trnsim.graph.ops.collectives import AllGather, AllReduce, ReduceScatter
from trnsim.graph.ops.contraction import Attention, AttentionBackward, Convolution
from trnsim.graph.ops.control_flow import Case, While
from trnsim.graph.ops.layout import DynamicSlice
from trnsim.graph.ops.reductions import ReduceWindow
from trnsim.lower import bound

sys.path.append(str(Path(__file__).parent))
import bound_oracle

B, S, D, F, HEADS = 3, 10, 16, 24, 4


class Model:
    """A graph with shorthands; every weight is an input of its own."""

    def __init__(self, dtype="bfloat16"):
        self.graph, self.dtype = Graph(), dtype

    def input(self, *shape, dtype=""):
        return self.graph.input(shape, dtype or self.dtype)

    def linear(self, x, wide):
        """[*, D] to [*, wide]."""
        flat = self.graph.reshape(x, (x.type.elements // x.shape[-1], x.shape[-1]))
        made = self.graph.dot_general(flat, self.input(x.shape[-1], wide), (1, 0))
        return self.graph.reshape(made, (*x.shape[:-1], wide))

    def heads(self, x, heads):
        batch, length, wide = x.shape
        split = self.graph.reshape(x, (batch, length, heads, wide // heads))
        return self.graph.transpose(split, (0, 2, 1, 3))

    def attended(self, q, k, v, *, heads=HEADS, is_causal=False):
        """Queries [B, L, D] beside keys and values of their own length."""
        split = [self.heads(one, heads) for one in (q, k, v)]
        made = self.graph.apply_to_all(Attention(0.5, is_causal), split)[0]
        return self.graph.reshape(self.graph.transpose(made, (0, 2, 1, 3)), q.shape)

    def layer(self, x, rows=None, *, is_causal=False, reduced=False):
        """A transformer's layer; `rows` are the tokens whose results are asked for, else all."""
        asked = x if rows is None else rows
        q, k, v = self.linear(asked, D), self.linear(x, D), self.linear(x, D)
        made = self.linear(self.attended(q, k, v, is_causal=is_causal), D)
        made = self.graph.elementwise("add", asked, self.sum(made, reduced))
        inside = self.linear(self.graph.elementwise("gelu", self.linear(made, F)), D)
        return self.graph.elementwise("add", made, self.sum(inside, reduced))

    def sum(self, x, reduced):
        return self.graph.apply(AllReduce(((0, 1),)), x) if reduced else x

    def token(self, x, place):
        """x[:, place]."""
        batch, _, wide = x.shape
        one = self.graph.slice(x, (0, place, 0), (batch, 1, wide))
        return self.graph.reshape(one, (batch, wide))

    def gives(self, *outputs):
        self.graph.outputs = list(outputs)
        return self.graph


def mlp():
    model = Model()
    return model.gives(
        model.linear(model.graph.elementwise("relu", model.linear(model.input(5, D), F)), D)
    )


def encoder(last=None, *, is_causal=False, reduced=False):
    """Two layers, of all tokens or of one: as a graph that cuts, and as one that computes it."""

    def made(model, x):
        return model.layer(x, is_causal=is_causal, reduced=reduced)

    whole = Model()
    states = made(whole, made(whole, whole.input(B, S, D)))
    if last is None:
        return whole.gives(states), None
    small = Model()
    before = made(small, small.input(B, S, D))
    rows = small.graph.slice(before, (0, last, 0), (B, 1, D))
    # Of a causal layer the token at `last` sees no later key: as many as there are for it.
    seen = small.graph.slice(before, (0, 0, 0), (B, last + 1, D)) if is_causal else before
    one = small.layer(seen, rows)
    return (
        whole.gives(whole.linear(whole.token(states, last), 2)),
        small.gives(small.linear(small.token(one, 0), 2)),
    )


def decoding(kv_heads):
    """One token beside a cache; with fewer heads of keys each serves several queries."""
    model = Model()
    graph, past, wide = model.graph, 7, D // HEADS
    x = model.input(B, 1, D)
    q = model.heads(model.linear(x, D), HEADS)
    sides = []
    for _ in range(2):
        new = model.heads(model.linear(x, kv_heads * wide), kv_heads)
        kept = graph.concatenate([model.input(B, kv_heads, past, wide), new], 2)
        spread = graph.broadcast_in_dim(
            kept, (B, kv_heads, HEADS // kv_heads, past + 1, wide), (0, 1, 3, 4)
        )
        sides.append((graph.reshape(spread, (B, HEADS, past + 1, wide)), new))
    (k, new_k), (v, new_v) = sides
    made = graph.apply_to_all(Attention(0.5), [q, k, v])[0]
    return model.gives(model.linear(graph.reshape(made, (B, 1, D)), D), new_k, new_v)


def experts():
    """Each expert multiplies the tokens that were sent to it, as one batch of products."""
    model = Model()
    graph, count, room = model.graph, 4, 6
    tokens = model.input(count * room, D)
    sent = graph.gather(tokens, model.input(count, room, dtype="int32"))
    inside = graph.dot_general(sent, model.input(count, D, F), (2, 1))
    made = graph.dot_general(graph.elementwise("silu", inside), model.input(count, F, D), (2, 1))
    return model.gives(made)


def training():
    """A layer's products forward and backward, with attention and its gradients."""
    model = Model()
    graph = model.graph
    x, w, up = model.input(B * S, D), model.input(D, D), model.input(B * S, D)
    h = graph.dot_general(x, w, (1, 0))
    heads = graph.reshape(h, (B, S, D))
    result, logs = graph.apply_to_all(Attention(0.5, is_causal=True), [heads] * 3)
    grad = graph.reshape(up, (B, S, D))
    slopes = graph.apply_to_all(
        AttentionBackward(0.5, is_causal=True), [heads, heads, heads, grad, result, logs]
    )
    total = graph.elementwise("add", graph.elementwise("add", slopes[0], slopes[1]), slopes[2])
    flat = graph.reshape(total, (B * S, D))
    return model.gives(graph.dot_general(x, flat, (0, 0)), graph.dot_general(flat, w, (1, 1)))


def network(groups=1, stride=2, dilation=1):
    """Convolution, pooling and a classifier of the mean."""
    model = Model()
    graph, ones = model.graph, (1, 1)
    first = Convolution((stride,) * 2, ones, ones, (0, 0), ones, 1)
    x = graph.apply(first, model.input(B, 4, 17, 17), model.input(8, 4, 3, 3))
    sides = (1, 1, 3, 3), (1, 1, 2, 2), (0, 0, 1, 1), (0, 0, 1, 1)
    x = graph.apply(ReduceWindow(*sides, "maximum"), graph.elementwise("relu", x))
    again = Convolution(ones, (dilation,) * 2, (dilation,) * 2, (0, 0), (dilation,) * 2, groups)
    x = graph.apply(again, x, model.input(8, 8 // groups, 3, 3))
    return model.gives(model.linear(graph.reduce("add", x, (2, 3)), 5))


def upsampling():
    """A transposed convolution: the gradient of a strided one."""
    model = Model()
    up = Convolution((1, 1), (1, 1), (1, 1), (1, 1), (1, 1), 1, is_reversed=True)
    return model.gives(model.graph.apply(up, model.input(2, 3, 5, 5), model.input(4, 3, 2, 2)))


def looped(trips):
    """A layer's product as often as a counter says, on stacked weights."""
    condition, body = Graph(), Graph()
    stack = (trips, D, D)
    number, _, _ = (
        condition.input(*one) for one in (((), "int32"), ((5, D), "bfloat16"), (stack, "bfloat16"))
    )
    condition.outputs = [condition.elementwise("compare", number, float(trips), direction="LT")]
    number, x, weights = (
        body.input(*one) for one in (((), "int32"), ((5, D), "bfloat16"), (stack, "bfloat16"))
    )
    zero = body.constant(0.0, TensorType((), "int32"))
    own = body.reshape(body.apply(DynamicSlice((1, D, D)), weights, number, zero, zero), (D, D))
    body.outputs = [body.elementwise("add", number, 1.0), body.dot_general(x, own, (1, 0)), weights]
    model = Model()
    given = model.input(dtype="int32"), model.input(5, D), model.input(*stack)
    made = model.graph.apply_to_all(While(condition, body, trips), given)
    return model.gives(made[1])


WHOLE = {
    "mlp": mlp,
    "encoder": lambda: encoder()[0],
    "causal": lambda: encoder(is_causal=True)[0],
    "decode": lambda: decoding(HEADS),
    "decode with grouped heads": lambda: decoding(1),
    "experts": experts,
    "training": training,
    "strided": network,
    "grouped": lambda: network(groups=4),
    "depthwise, dilated": lambda: network(groups=8, dilation=2),
    "transposed": upsampling,
    "loop": lambda: looped(6),
}


@pytest.mark.parametrize("name", WHOLE)
def test_where_all_is_needed_bound_and_oracle_agree(name):
    graph = WHOLE[name]()
    found = bound(graph, "trn2")
    assert found.flop == bound_oracle.flop(graph) > 0
    assert found.hbm_bytes == bound_oracle.nbytes(graph)


@pytest.mark.parametrize("reduced", [False, True])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("last", [0, 4, S - 1])
def test_one_token_of_the_last_state_is_a_smaller_last_layer(last, is_causal, reduced):
    graph, small = encoder(last, is_causal=is_causal, reduced=reduced)
    found = bound(graph, "trn2").flop
    assert found < bound_oracle.flop(graph)
    if not is_causal or last == S - 1:  # else layers before are cut too
        assert found == bound_oracle.flop(small)


def test_the_mean_of_tokens_needs_them_all():
    model = Model()
    states = model.layer(model.layer(model.input(B, S, D)))
    graph = model.gives(model.linear(model.graph.reduce("add", states, (1,)), 2))
    assert bound(graph, "trn2").flop == bound_oracle.flop(graph)


def image(model):
    """Patches of an image behind a token of the class."""
    graph = model.graph
    cut = Convolution((4, 4), (0, 0), (0, 0), (0, 0), (1, 1), 1)
    patches = graph.apply(cut, model.input(B, 3, 12, 12), model.input(D, 3, 4, 4))
    tokens = graph.transpose(graph.reshape(patches, (B, D, 9)), (0, 2, 1))
    token = graph.broadcast_in_dim(model.input(1, 1, D), (B, 1, D), (0, 1, 2))
    return graph.concatenate([token, tokens], 1)


def test_a_class_token_needs_all_patches():
    whole, small = Model(), Model()
    states = whole.layer(whole.layer(image(whole)))
    graph = whole.gives(whole.linear(whole.token(states, 0), 7))
    before = small.layer(image(small))
    one = small.layer(before, small.graph.slice(before, (0, 0, 0), (B, 1, D)))
    least = small.gives(small.linear(small.token(one, 0), 7))
    assert bound(graph, "trn2").flop == bound_oracle.flop(least)
    assert bound(graph, "trn2").hbm_bytes == bound_oracle.nbytes(graph)


def text(model, end, *, is_small):
    """Tokens' states, of each text that of the end of it: the first place of the number `end`."""
    graph = model.graph
    words, table = model.input(B, S, dtype="int32"), model.input(400, D)
    before = model.layer(graph.gather(table, words), is_causal=True)
    if is_small:
        rows = graph.slice(before, (0, S - 1, 0), (B, 1, D))
        return model.token(model.layer(before, rows), 0)
    states = model.layer(before, is_causal=True)
    is_end = graph.elementwise("compare", words, float(end), dtype="bool", direction="EQ")
    count = graph.iota((B, S), 1)
    places = graph.elementwise("select", is_end, count, float(S), dtype="int32")
    first = graph.reduce("minimum", places, (1,))
    starts = graph.elementwise("multiply", graph.iota((B,), 0), float(S), dtype="int32")
    flat = graph.reshape(states, (B * S, D))
    return graph.gather(flat, graph.elementwise("add", starts, first, dtype="int32"))


def pair(*, is_small):
    """An image and texts, each one vector, and their products."""
    model = Model()
    before = model.layer(image(model))
    rows = model.graph.slice(before, (0, 0, 0), (B, 1, D)) if is_small else None
    pooled = model.token(model.layer(before, rows), 0)
    said = model.linear(text(model, 399, is_small=is_small), 8)
    return model.gives(model.graph.dot_general(model.linear(pooled, 8), said, (1, 1)))


def test_a_pair_of_an_image_and_texts_needs_a_token_of_each():
    assert bound(pair(is_small=False), "trn2").flop == bound_oracle.flop(pair(is_small=True))
    assert bound(pair(is_small=False), "trn2").flop < bound_oracle.flop(pair(is_small=False))


def test_a_gather_of_a_row_that_is_known_needs_that_row():
    model = Model()
    states = model.graph.reshape(model.layer(model.input(1, S, D), is_causal=True), (S, D))
    place = model.graph.constant(S - 1.0, TensorType((1,), "int32"))
    graph = model.gives(model.graph.gather(states, place))
    small = Model()
    x = small.input(1, S, D)
    least = small.gives(small.layer(x, small.graph.slice(x, (0, S - 1, 0), (1, 1, D))))
    assert bound(graph, "trn2").flop == bound_oracle.flop(least)


def test_channels_of_one_group_need_their_own():
    """Of a depthwise convolution two channels are taken: two channels before it are computed."""

    def made(channels, taken):
        model = Model()
        graph, ones, none = model.graph, (1, 1), (0, 0)
        first = Convolution(ones, none, none, none, ones, 1)
        x = graph.apply(first, model.input(B, 4, 6, 6), model.input(channels, 4, 1, 1))
        second = Convolution(ones, ones, ones, none, ones, channels)
        x = graph.apply(second, x, model.input(channels, 1, 3, 3))
        return model.gives(
            graph.slice(x, (0, 1, 0, 0), (B, taken, 6, 6)) if taken < channels else x
        )

    assert bound(made(8, 2), "trn2").flop == bound_oracle.flop(made(2, 2))
    assert bound(made(8, 8), "trn2").flop == bound_oracle.flop(made(8, 8))


def test_windows_of_a_cut_transposed_convolution_are_counted_one_by_one():
    """Every other window meets a gap alone."""
    model = Model()
    up = Convolution((1,), (0,), (0,), (1,), (1,), 1)
    x = model.graph.apply(up, model.input(1, 3, 4), model.input(2, 3, 1))
    graph = model.gives(model.graph.slice(x, (0, 0, 1), (1, 2, 1)))
    assert bound(graph, "trn2").flop == 0
    assert bound(model.gives(x), "trn2").flop == bound_oracle.flop(graph) == 2 * 2 * 3 * 4


def test_shards_need_what_their_ranks_need():
    """Of a sequence cut over ranks and made whole again, the last token of each part."""
    model = Model()
    groups = ((0, 1),)
    x = model.linear(model.input(6, D), D)
    part = model.graph.apply(ReduceScatter(groups, "add", 0), x)
    graph = model.gives(model.graph.slice(part, (2, 0), (1, D)))
    assert bound(graph, "trn2").flop == 2 * 2 * D * D  # a row for each of two ranks
    gathered = model.graph.apply(AllGather(groups, 0), x)
    graph = model.gives(gathered)
    assert bound(graph, "trn2").flop == bound_oracle.flop(graph)


def test_gradients_that_nobody_asks_for_are_not_computed():
    model = Model()
    sides = [model.input(2, S, wide) for wide in (D, D, F, F, F)]
    logs = model.input(2, S, dtype="float32")
    slopes = model.graph.apply_to_all(AttentionBackward(0.5), [*sides, logs])
    assert bound(model.gives(slopes[2]), "trn2").flop == 2 * 2 * S * S * (D + F)
    graph = model.gives(*slopes)
    assert bound(graph, "trn2").flop == bound_oracle.flop(graph)


def test_of_a_loop_the_first_trips_are_needed_and_of_branches_the_cheapest():
    graph = looped(9)
    assert bound(graph, "trn2").flop == 9 * 2 * 5 * D * D
    rows = TensorType((5, D), "bfloat16")
    small, large = Graph(), Graph()
    for branch, times in ((small, 1), (large, 3)):
        x = branch.input(rows.shape, rows.dtype)
        weight = branch.iota((D, D), 0)
        weight = branch.elementwise("convert", weight, dtype="bfloat16")
        made = x
        for _ in range(times):
            made = branch.dot_general(made, weight, (1, 0))
        branch.outputs = [made]
    model = Model()
    made = model.graph.apply_to_all(
        Case((large, small)), [model.input(dtype="int32"), model.input(5, D)]
    )
    graph = model.gives(*made)
    assert bound(graph, "trn2").flop == bound_oracle.flop(graph) == 2 * 5 * D * D


@pytest.mark.parametrize(
    "name", [n for n, one in OPERATIONS.items() if one.kind is Kind.CONTRACTION]
)
def test_every_product_has_its_formula_in_the_oracle(name):
    assert name in bound_oracle.COUNTS
    for example in OPERATIONS[name].examples():
        graph = Graph()
        given_values = [graph.input(one.shape, one.dtype) for one in example.operands]
        graph.outputs = list(graph.apply_to_all(example.operation, given_values))
        found = bound(graph, "trn2")
        assert found.flop == bound_oracle.flop(graph)
        assert found.hbm_bytes <= bound_oracle.nbytes(graph)


def test_an_output_that_is_an_input_does_not_move():
    model = Model()
    x = model.input(5, D)
    graph = model.gives(x, model.graph.slice(x, (0, 0), (1, D)))
    assert bound(graph, "trn2").hbm_bytes <= bound_oracle.nbytes(graph)


def test_products_of_eight_bits_pass_in_half_the_time_where_rows_are_doubled():
    def seconds(dtype, chip):
        model = Model(dtype)
        graph = model.gives(model.graph.dot_general(model.input(5, D), model.input(D, F), (1, 0)))
        return bound(graph, chip).products_s

    assert seconds("float8_e4m3", "trn2") == pytest.approx(seconds("bfloat16", "trn2") / 2)
    assert seconds("float8_e4m3", "trn1") == pytest.approx(seconds("bfloat16", "trn1"))


CUTS = st.tuples(st.integers(0, S - 1), st.integers(1, S), st.booleans(), st.integers(0, 3))


@settings(max_examples=25)
@given(CUTS)
def test_no_bound_is_above_the_oracle(cut):
    start, count, is_causal, kind = cut
    count = min(count, S - start)
    model = Model()
    x = model.layer(model.layer(model.input(B, S, D)), is_causal=is_causal)
    made = model.graph.slice(x, (0, start, 0), (B, count, D))
    outputs = [made, x, model.graph.reduce("add", made, (1,)), model.token(x, start)]
    graph = model.gives(outputs[kind])
    found = bound(graph, "trn2")
    assert 0 < found.flop <= bound_oracle.flop(graph)
    assert found.hbm_bytes <= bound_oracle.nbytes(graph)
