"""Attention that a graph spells out: what is one, and what only looks like it."""

import pytest
from made_graphs import CHIPS, Made

from trnsim.compiler.patterns.attention import ATTENTION
from trnsim.graph.rewriting import rewrite_graph

HEADS, QUERIES, KEYS = 3, 20, 25


def attended(graph):
    found = rewrite_graph(graph, [ATTENTION])
    found.prune()
    return found


def rows(made, count, width, heads=HEADS):
    return made.given(heads, count, width)


def scores_of(made, query, key, *, is_across=False):
    if is_across:
        key = made.graph.transpose(key, (0, 2, 1))
    return made.graph.dot_general(query, key, (2, 1 if is_across else 2))


def spelled(made, scores, value):
    return made.graph.dot_general(made.softmax(scores), value, (2, 1))


def names_of(made, *outputs):
    made.graph.outputs = list(outputs)
    return [node.name for node in attended(made.graph).nodes]


def is_found(made, *outputs):
    names = names_of(made, *outputs)
    return "attention" in names and "exponential" not in names


@pytest.mark.parametrize("is_across", [False, True])
@pytest.mark.parametrize("width", [1, 16, 130])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_products_a_softmax_and_products_are_attention(width, is_across, dtype):
    made = Made(dtype)
    query, key = rows(made, QUERIES, width), rows(made, KEYS, width)
    scores = scores_of(made, query, key, is_across=is_across)
    found = spelled(made, made.of("multiply", scores, 0.25), rows(made, KEYS, 40))
    assert is_found(made, found)
    made.check(found, chip=CHIPS[width % 4])


@pytest.mark.parametrize("form", ["divided", "biased", "biased first", "scaled twice", "wide"])
def test_scores_are_scaled_and_biased_in_many_ways(form):
    made = Made()
    query, key = rows(made, QUERIES, 16), rows(made, KEYS, 16)
    scores = scores_of(made, query, key)
    bias = made.repeated(made.given(QUERIES, KEYS), scores, (1, 2))
    value = rows(made, KEYS, 8)
    if form == "divided":
        scores = made.of("divide", scores, 4.0)
    elif form == "scaled twice":
        scores = made.of("multiply", made.of("divide", scores, 4.0), 0.5)
    elif form == "biased":
        scores = made.of("add", made.of("multiply", scores, 0.25), bias)
    elif form == "biased first":
        scores = made.of("add", bias, scores)
    else:  # heads of a batch, as a framework's products of matrices have them
        scores = made.graph.reshape(scores, (1, HEADS, QUERIES, KEYS))
        weights = made.softmax(made.of("multiply", scores, 0.25))
        weights = made.graph.reshape(weights, (HEADS, QUERIES, KEYS))
        found = made.graph.dot_general(weights, value, (2, 1))
    if form != "wide":
        found = spelled(made, scores, value)
    assert is_found(made, found)
    made.check(found)


def test_a_softmax_in_float32_of_shorter_products_is_one_too():
    made = Made("bfloat16")
    query, key = rows(made, QUERIES, 16), rows(made, KEYS, 16)
    scores = made.of("convert", scores_of(made, query, key), dtype="float32")
    weights = made.of("convert", made.softmax(scores), dtype="bfloat16")
    found = made.graph.dot_general(weights, rows(made, KEYS, 8), (2, 1))
    assert is_found(made, found)
    made.check(found)


OTHER_SCORES = {
    "a negative scale": lambda made, scores, _: made.of("multiply", scores, -0.25),
    "a scaled bias": lambda made, scores, bias: made.of(
        "multiply", made.of("add", scores, bias), 0.5
    ),
    "two biases": lambda made, scores, bias: made.of("add", made.of("add", scores, bias), bias),
    "no products": lambda _made, _scores, bias: bias,
    "another function": lambda made, scores, _: made.of("tanh", scores),
}


def parts(made):
    """Scores, and a bias and values for them."""
    query, key, value = (rows(made, n, 16) for n in (QUERIES, KEYS, KEYS))
    scores = scores_of(made, query, key)
    return scores, made.repeated(made.given(QUERIES, KEYS), scores, (1, 2)), value


@pytest.mark.parametrize("form", OTHER_SCORES.values(), ids=OTHER_SCORES.keys())
def test_other_scores_stay(form):
    made = Made()
    scores, bias, value = parts(made)
    found = spelled(made, form(made, scores, bias), value)
    assert "attention" not in names_of(made, found)
    made.check(found)


def over_rows(made, scores):
    return made.softmax(scores, 1)


def by_another_maximum(made, scores):
    largest = made.repeated(made.given(HEADS, QUERIES), scores, (0, 1))
    powers = made.of("exponential", made.of("subtract", scores, largest))
    total = made.repeated(made.graph.reduce("add", powers, [2]), powers, (0, 1))
    return made.of("divide", powers, total)


def by_another_sum(made, scores):
    largest = made.repeated(made.graph.reduce("maximum", scores, [2]), scores, (0, 1))
    powers = made.of("exponential", made.of("subtract", scores, largest))
    total = made.repeated(made.graph.reduce("add", scores, [2]), powers, (0, 1))
    return made.of("divide", powers, total)


def test_maxima_and_sums_that_are_repeated_along_keys_are_no_softmax():
    """``powers / powers.sum(-1)`` without ``keepdim`` divides row i by the sums of all rows."""
    made = Made()
    query, key, value = (rows(made, KEYS, 16) for _ in range(3))
    scores = scores_of(made, query, key)

    def along_keys(op, tensor):
        reduced = made.graph.reduce(op, tensor, [2])
        return made.repeated(made.graph.reshape(reduced, (HEADS, 1, KEYS)), tensor, (0, 1, 2))

    powers = made.of("exponential", made.of("subtract", scores, along_keys("maximum", scores)))
    weights = made.of("divide", powers, along_keys("add", powers))
    found = made.graph.dot_general(weights, value, (2, 1))
    assert "attention" not in names_of(made, found)


@pytest.mark.parametrize("number", [0.0, float("inf"), float("nan")])
def test_scores_without_a_finite_scale_stay(number):
    made = Made()
    scores, _, value = parts(made)
    found = spelled(made, made.of("multiply", scores, number), value)
    assert "attention" not in names_of(made, found)


@pytest.mark.parametrize("softmax", [over_rows, by_another_maximum, by_another_sum])
def test_other_weights_stay(softmax):
    made = Made()
    scores, _, value = parts(made)
    found = made.graph.dot_general(softmax(made, scores), value, (2, 1))
    assert "attention" not in names_of(made, found)
    if softmax is not by_another_sum:  # sums of either sign divide by next to nothing
        made.check(found)


@pytest.mark.parametrize(("keys", "width", "value_width"), [(0, 4, 5), (7, 0, 5), (7, 4, 0)])
def test_attention_to_what_has_no_elements_stays(keys, width, value_width):
    made = Made()
    query, key = rows(made, QUERIES, width), rows(made, keys, width)
    found = spelled(made, scores_of(made, query, key), rows(made, keys, value_width))
    assert "attention" not in names_of(made, found)
    made.check(found)


def test_weights_and_scores_that_others_read_stay():
    made = Made()
    scores, _, value = parts(made)
    weights = made.softmax(scores)
    found = made.graph.dot_general(weights, value, (2, 1))
    for outputs in ((found, weights), (found, scores)):
        assert "attention" not in names_of(made, *outputs)
        made.check(*outputs)
    assert is_found(made, found)


def test_a_graph_without_attention_is_itself():
    made = Made()
    made.graph.outputs = [made.softmax(made.given(3, 5))]
    assert attended(made.graph) is made.graph


def test_scores_of_attention_that_is_spelled_out_stay_on_the_chip():
    def bytes_of(made, found):
        spans = made.run(found).timeline.spans()
        return sum(span.opcode == "dma_copy" and "512" in span.operands for span in spans)

    made = Made("bfloat16")
    query, key, value = (made.given(8, 512, 64) for _ in range(3))
    found = spelled(made, scores_of(made, query, key), value)
    made.graph.outputs = [found]
    whole = Made("bfloat16")
    whole.graph, whole.arrays = attended(made.graph), made.arrays
    assert bytes_of(whole, whole.graph.outputs[0]) < bytes_of(made, found)
