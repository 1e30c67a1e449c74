"""Contractions in parts: which are split, and what they give."""

import numpy as np
import pytest
from made_graphs import CHIPS, Made

from trnsim.graph import Graph
from trnsim.graph.ops.contraction import DotGeneral
from trnsim.graph.rewriting import rewrite_graph
from trnsim.lower.lowering import costs
from trnsim.lower.patterns.contractions import PANEL_BYTES, SPLIT_CONTRACTION, panel_bytes


def in_parts(graph):
    return rewrite_graph(graph, [SPLIT_CONTRACTION])


def product(M, K, N, dtype="float32", places=(1, 0)):
    graph = Graph()
    shapes = [(M, K) if places[0] else (K, M), (N, K) if places[1] else (K, N)]
    sides = [graph.input(shape, dtype) for shape in shapes]
    graph.outputs = [graph.dot_general(*sides, places)]
    return graph


def lengths(graph):
    return [
        node.values[0].shape[node.operation.contracting[0]]
        for node in graph.nodes
        if isinstance(node.operation, DotGeneral)
    ]


@pytest.mark.parametrize(
    ("M", "K", "dtype", "wanted"),
    [
        (512, 4096, "float32", [4096]),
        (512, 4097, "float32", [2176, 1921]),
        (2048, 8192, "bfloat16", [8192]),
        (2048, 8193, "bfloat16", [4224, 3969]),
        (8, 128256, "bfloat16", [128256]),
        (1, 2_200_000, "float32", [1100032, 1099968]),
        (512, 3 * 4096, "float32", [4096] * 3),
    ],
)
@pytest.mark.parametrize("places", [(1, 0), (0, 1)])
def test_parts_are_blocks_that_a_panel_holds(M, K, dtype, wanted, places):
    graph = product(M, K, 3, dtype, places)
    made = in_parts(graph)
    assert lengths(made) == wanted
    assert made.inputs == graph.inputs
    assert [one.type for one in made.outputs] == [one.type for one in graph.outputs]
    assert (made is graph) == (len(wanted) == 1)
    for node in made.nodes:
        if isinstance(node.operation, DotGeneral):
            assert panel_bytes(node) <= PANEL_BYTES


@pytest.mark.parametrize(
    ("M", "N", "K", "wanted"),
    [
        (64, 128, 32768, [32768]),
        (64, 128, 32769, [16512, 16257]),
        (1, 256, 58880, [29440, 29440]),
        (16, 128, 58880, [19712, 19712, 19456]),
        (1, 64, 58880, [58880]),
    ],
)
def test_few_rows_leave_room_for_the_columns_of_the_other_operand(M, N, K, wanted):
    made = in_parts(product(M, K, N))
    assert lengths(made) == wanted
    assert all(kernel.device_time_s > 0 for kernel in costs(made))


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("places", [(1, 0), (0, 1), (1, 1)])
def test_the_sum_of_parts_is_the_product(dtype, places):
    graph = product(520, 9000, 3, dtype, places)
    random = np.random.default_rng(0)
    given = [
        random.standard_normal(value.shape).astype(value.type.numpy_dtype())
        for value in graph.inputs
    ]
    (wanted,), (found,) = graph.reference(given), in_parts(graph).reference(given)
    assert found.dtype == wanted.dtype
    near = 1e-5 if dtype == "float32" else 1e-2
    largest = np.abs(wanted.astype(np.float64)).max()
    assert np.abs(found.astype(np.float64) - wanted.astype(np.float64)).max() <= near * largest


@pytest.mark.slow
@pytest.mark.parametrize("is_weight", [True, False])
def test_a_program_of_a_long_contraction_has_its_values(is_weight):
    made = Made("bfloat16")
    x = made.given(516, 3 * 8192 + 1, scale=0.01)
    w = (made.weight if is_weight else made.given)(5, 3 * 8192 + 1, scale=0.01)
    found = made.of("add", made.graph.dot_general(x, w, (1, 1)), made.given(516, 5))
    made.check(found, chip=CHIPS[is_weight])


@pytest.mark.parametrize(
    ("M", "K", "dtype", "nbytes"),
    [(2048, 768, "bfloat16", 6 * 512 * 2), (7, 130, "float32", 2 * 7 * 4)],
)
def test_a_panel_is_a_bank_of_columns_of_all_blocks_of_the_contraction(M, K, dtype, nbytes):
    graph = Graph()
    x, w = graph.input((M, K), dtype), graph.input((K, 64), dtype)
    graph.dot_general(x, w, (1, 0))
    assert panel_bytes(graph.nodes[0]) == nbytes
