"""Halves that change places: rotary embeddings, and what only looks like them."""

import numpy as np
import pytest
from made_graphs import CHIPS, Made

from trnsim.compiler.program import evaluate_program
from trnsim.graph import Graph


def queries(made, width, heads=2, tokens=20):
    return made.heads(made.linear(made.given(2, tokens, 96), heads * width), heads)


@pytest.mark.slow_but_every(3)
@pytest.mark.slow_cases("float32-2")
@pytest.mark.parametrize("width", [2, 32, 64, 80, 96, 128, 130])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_queries_of_any_width_are_turned(width, dtype):
    made = Made(dtype)
    query, key = queries(made, width), queries(made, width)
    scores = made.graph.dot_general(made.rotary(query), made.rotary(key), (3, 3))
    made.check(made.rotary(query), scores, chip=CHIPS[width % 4])


@pytest.mark.parametrize("width", [32, 64, 128])
def test_halves_on_partitions_change_places_by_a_product(width):
    made = Made("bfloat16")
    turned = made.rotary(queries(made, width))
    heads = made.attention(turned, turned, turned)
    names = made.opcodes(made.joined(heads))
    without = Made("bfloat16")
    query = queries(without, width)
    plain = without.opcodes(without.joined(without.attention(query, query, query)))
    assert names.count("nc_matmul") > plain.count("nc_matmul")
    assert names.count("nc_transpose") == plain.count("nc_transpose")


@pytest.mark.parametrize("start", [0, 4, 19])
def test_some_tokens_of_each_sequence_are_turned(start):
    made = Made()
    query = queries(made, 32)
    part = made.graph.slice(query, (0, 0, start, 0), (2, 2, 20 - start, 32))
    first = made.graph.slice(query, (0, 0, 0, 0), (2, 2, start + 1, 32))
    made.check(made.graph.concatenate([first, made.rotary(part)], 2))


def test_halves_in_hbm_and_of_one_another_are_concatenated():
    made = Made()
    x, y = made.given(2, 20, 64), made.given(2, 20, 64)
    low, high = (made.graph.slice(x, (0, 0, at), (2, 20, 32)) for at in (0, 32))
    other = made.graph.slice(y, (0, 0, 0), (2, 20, 32))
    negated = made.of("negate", high)
    made.check(
        made.halves(x),
        made.graph.concatenate([negated, other], 2),
        made.graph.concatenate([high, low], 2),
        made.graph.concatenate([low, negated], 2),
        made.graph.concatenate([negated, low], 1),
        made.graph.concatenate([negated, low, low], 2),
        made.of("add", made.graph.concatenate([negated, low], 2), y),
    )


def test_halves_with_steps_are_no_rotation():
    made = Made()
    product = made.linear(made.given(2, 20, 96), 64)
    even = made.graph.slice(product, (0, 0, 0), (2, 20, 32), (1, 1, 2))
    high = made.graph.slice(product, (0, 0, 32), (2, 20, 32))
    found = made.graph.concatenate([made.of("negate", high), even], 2)
    made.check(made.of("add", found, product))


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("width", [32, 64, 128])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_halves_of_what_has_no_room_are_exchanged_on_their_way(width, dtype, monkeypatch):
    monkeypatch.setattr("trnsim.lower.program._resident_bytes", lambda *_: 0)
    made = Made(dtype)
    query, key, value = (queries(made, width) for _ in range(3))
    turned, other = made.rotary(query), made.rotary(key)
    made.check(made.joined(made.attention(turned, other, value)), turned, chip=CHIPS[width % 4])


@pytest.mark.parametrize("number", [64, 65, 300])
def test_many_concatenations_of_concatenations(number):
    graph = Graph()
    rows = [graph.input((1, 8), "float32") for _ in range(4)]
    value = rows[0]
    for place in range(number):
        value = graph.concatenate([value, rows[place % 4]], 0)
    graph.outputs = [graph.elementwise("negate", value)]
    arrays = [np.full((1, 8), place, np.float32) for place in range(4)]
    (found,) = evaluate_program(graph, arrays)
    order = [0, *(place % 4 for place in range(number))]
    np.testing.assert_array_equal(found, -np.repeat(np.float32(order)[:, None], 8, 1))
