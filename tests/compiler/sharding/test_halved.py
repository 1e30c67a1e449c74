"""Both halves together give what the whole graph gives."""

import os

import numpy as np
import pytest
from graphs_by_chance import Chance
from hypothesis import given, settings
from hypothesis import strategies as st
from made_graphs import Made, assert_near
from two_cores import EXCHANGES, halves_of, rules_by_chance, values_of

from trnsim import arch
from trnsim.compiler.sharding.halved import halve_by_rules, halve_graph
from trnsim.compiler.sharding.rules import SplitRule, split_rules
from trnsim.compiler.sharding.splits import SUM, WHOLE
from trnsim.errors import InternalError
from trnsim.graph import Graph
from trnsim.graph.ops.contraction import Convolution
from trnsim.graph.ops.reductions import Sort

NEAR = {"float32": 1e-5, "float16": 1e-2, "bfloat16": 6e-2}
MANY = int(os.environ.get("TRNSIM_GRAPHS", "150"))
CORE = arch.paired(arch.target("trn2"))


def check(made, rules=None):
    """Its values by halves beside those of the whole."""
    with np.errstate(all="ignore"):
        found, wanted = values_of(made.graph, made.arrays, rules), made.graph.reference(made.arrays)
    results = {one.dtype for node in made.graph.nodes for one in node.results}
    assert_near(found, wanted, max(NEAR.get(one, 0) for one in results | {"float32"}))


RANDOM = st.randoms(use_true_random=False)


@pytest.mark.slow
@settings(max_examples=MANY)
@given(RANDOM, st.integers(1, 12))
def test_any_ways_of_a_graph_by_chance_give_what_its_reference_says(random, operations):
    made = Chance(random)
    graph = made.made(operations)
    check(made, rules_by_chance(graph, random))
    check(made)


def mlp(made, tokens=4, width=6):
    x = made.given(tokens, width)
    up = made.of("gelu", made.linear(x, 4 * width))
    return made.layer_norm(made.of("add", x, made.linear(up, width)))


def block(made, tokens=4, heads=2):
    x = made.given(2, tokens, 8 * heads)
    normed = made.rms_norm(x)
    query, key, value = (made.heads(made.linear(normed, 8 * heads), heads) for _ in range(3))
    attended = made.attention(made.rotary(query), made.rotary(key), value, is_causal=True)
    return made.of("add", x, made.linear(made.joined(attended), 8 * heads))


def decode(made, heads=4, past=7):
    x = made.given(2, 1, 32)
    query, key, value = (made.heads(made.linear(x, 8 * heads), heads) for _ in range(3))
    keys, values = (
        made.graph.concatenate([made.given(2, heads, past, 8), one], 2) for one in (key, value)
    )
    return made.linear(made.joined(made.attention(query, keys, values)), 32), keys, values


def convolutions(made, groups=1):
    image = made.given(2, 4, 9, 9)
    found = image
    for strides in ((1, 1), (2, 2)):
        kernels = made.weight(8, found.shape[1] // groups, 3, 3)
        both = (1, 1)
        operation = Convolution(strides, both, both, (0, 0), both, groups)
        found = made.of("relu", made.graph.apply(operation, found, kernels))
    return made.graph.reduce("add", found, [2, 3])


def embedding(made):
    table, places = (
        made.weight(10, 6),
        made.given(3, 4, dtype="int32", array=np.arange(12).reshape(3, 4) % 10),
    )
    return made.softmax(made.linear(made.graph.gather(table, places), 10))


PARTS = {
    "mlp": mlp,
    "an odd mlp": lambda made: mlp(made, 3, 5),
    "attention": block,
    "attention of odd lengths": lambda made: block(made, 5, 3),
    "decode": decode,
    "decode with one head": lambda made: decode(made, 1, 8),
    "convolutions": convolutions,
    "convolutions in groups": lambda made: convolutions(made, 4),
    "embedding": embedding,
}


@pytest.mark.slow_but_every(3)
@pytest.mark.slow_cases(
    "attention-float32",
    "attention-bfloat16",
    "attention of odd lengths-float32",
    "attention of odd lengths-bfloat16",
)
@settings(max_examples=8)
@given(random=RANDOM)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("part", PARTS)
def test_parts_of_models_give_what_they_give_whole(part, dtype, random):
    made = Made(dtype)
    found = PARTS[part](made)
    made.graph.outputs = list(found) if isinstance(found, tuple) else [found]
    check(made)
    check(made, rules_by_chance(made.graph, random))


def test_an_input_is_read_as_each_reader_wants_it():
    graph = Graph()
    x, w = graph.input((4, 6), "float32"), graph.input((6, 4), "float32")
    product, power = graph.dot_general(x, w, (1, 0)), graph.elementwise("square", x)
    graph.outputs = [product, power]
    rules = [split_rules(graph.nodes[0])[3], split_rules(graph.nodes[1])[1]]
    half = halve_by_rules(graph, {w.number}, rules)
    assert half.inputs == ((x.number, 1), (w.number, 0), (x.number, 0))
    assert [value.shape for value in half.graph.inputs] == [(4, 3), (3, 4), (2, 6)]
    assert half.weights == {half.graph.inputs[1].number}
    assert half.outputs == (WHOLE, 0)  # a sum is an output when it is whole


def test_what_is_gathered_twice_is_exchanged_once():
    graph = Graph()
    made = graph.elementwise("exponential", graph.input((4, 3), "float32"))
    graph.outputs = [graph.elementwise(name, made) for name in ("negate", "square")]
    rules = [split_rules(graph.nodes[0])[1], *(split_rules(node)[0] for node in graph.nodes[1:])]
    nodes = halves_of(graph, rules)[0].graph.nodes
    assert sum(isinstance(node.operation, EXCHANGES) for node in nodes) == 1


def test_half_of_a_widened_value_is_cut_before_it_is_widened():
    made = Made("bfloat16")
    graph = made.graph
    narrow = graph.reduce("add", made.given(6, 10, 5), (2,))
    wide = made.of("convert", narrow, dtype="float32")
    half_sums = graph.reduce("add", made.of("square", wide), (1,))
    graph.outputs = [made.of("multiply", wide, 2.0), half_sums]
    rules = [split_rules(node)[0] for node in graph.nodes]
    rules[2] = SplitRule((1,), (1,))  # each core squares its half of the columns
    rules[3] = SplitRule((1,), (SUM,))
    check(made, rules)
    nodes = halves_of(graph, rules)[0].graph.nodes
    cut = next(node for node in nodes if node.name == "slice")
    assert (cut.values[0].dtype, cut.result.shape) == ("bfloat16", (6, 5))
    assert [node.name for node in nodes if node.result.shape == (6, 5)][:2] == ["slice", "convert"]


def test_a_sum_of_what_nothing_summed_is_refused():
    graph = Graph()
    graph.outputs = [graph.elementwise("negate", graph.input((4, 3), "float32"))]
    with pytest.raises(InternalError, match="%0 is needed as partial sums, which nothing gives"):
        halve_by_rules(graph, (), [SplitRule((SUM,), (SUM,))])


def test_what_both_cores_do_all_of_is_named():
    made = Made("float32")
    (x,) = made.graph.apply_to_all(Sort(0), [made.given(4097)])
    made.graph.outputs = [made.linear(made.graph.reshape(x, (1, 4097)), 256)]
    half = halve_graph(made.graph, made.weights, CORE)
    assert half.repeated[0] == "sort"
    assert half.is_split
