"""Programs of whole graphs: their values beside the reference, on every chip."""

import os

import numpy as np
import pytest
from attention_by_chance import AttentionByChance
from graphs_by_chance import Chance
from hypothesis import given, settings
from hypothesis import strategies as st
from made_graphs import CHIPS, Made, assert_near
from test_registry import EXAMPLES, arrays_of, assert_uniform, finite, graph_of
from test_registry import assert_near as assert_nearly_equal

from trnsim.compiler import compile  # noqa: A004  the compilers' name
from trnsim.compiler.program import evaluate_program
from trnsim.errors import IllegalInstruction, NotModelled
from trnsim.graph import Graph, Kind
from trnsim.graph.ops.layout import Reinterpret, Transpose
from trnsim.graph.ops.leaves import Rng
from trnsim.graph.ops.reductions import Reduce

NEAR = {"float32": 1e-3, "float16": 1e-2, "bfloat16": 6e-2}
MANY = int(os.environ.get("TRNSIM_GRAPHS", "0"))
"""Graphs by chance: the same 30 each time, or with TRNSIM_GRAPHS=200 as many new ones."""


@pytest.mark.slow
@settings(max_examples=MANY or 30, derandomize=not MANY)
@given(st.randoms(use_true_random=False), st.sampled_from(CHIPS), st.integers(1, 10))
def test_a_graph_by_chance_gives_what_its_reference_says(random, chip, operations):
    made = Chance(random)
    graph = made.made(operations)
    program = compile(graph, chip, weights=frozenset(made.weights))
    assert not program.notes
    assert program.device_time_s >= program.bound.seconds
    found = evaluate_program(graph, made.arrays, chip, frozenset(made.weights))
    with np.errstate(all="ignore"):
        wanted = graph.reference(made.arrays)
    results = {one.dtype for node in graph.nodes for one in node.results}
    near = 0 if made.is_whole else max(NEAR.get(dtype, 0) for dtype in results | {"float32"})
    assert_near(found, wanted, near)


@pytest.mark.slow
@settings(max_examples=MANY or 30, derandomize=not MANY)
@given(st.randoms(use_true_random=False), st.sampled_from(CHIPS))
def test_an_attention_by_chance_gives_what_its_reference_says(random, chip):
    chance = AttentionByChance(random)
    near = 0.1 if chance.made.dtype == "bfloat16" else 1e-3
    chance.made.check(*chance.outputs(), chip=chip, near=near)


@pytest.mark.slow_cases("rng_bit_generator-0", "rng_bit_generator-1")
@pytest.mark.parametrize(
    ("example", "chip"),
    [
        pytest.param(
            *one.values,
            ("trn1", "trn2", "trn3")[place % 3],
            id=one.id,
            marks=() if one.id.endswith("-0") or place % 4 == 1 else pytest.mark.slow,
        )
        for place, one in enumerate(EXAMPLES)
    ],
)
def test_a_program_of_one_operation_gives_what_the_reference_says(example, chip):
    if chip == "trn1" and isinstance(example.operation, Transpose | Reduce):
        example = finite(example)  # its transposes are products
    graph, arrays = graph_of(example), arrays_of(example)
    types = [*example.operands, *(value.type for value in graph.outputs)]
    if example.operation.kind in (Kind.COLLECTIVE, Kind.CONTROL):
        with pytest.raises(NotModelled, match=f"^{example.operation.name} has no kernel yet"):
            evaluate_program(graph, arrays, chip)
        return
    if chip != "trn3" and any(one.dtype == "float8_e4m3fn" for one in types):
        with pytest.raises(IllegalInstruction, match="float8_e4m3fn on NeuronCore"):
            evaluate_program(graph, arrays, chip)
        return
    found = evaluate_program(graph, arrays, chip)
    if isinstance(example.operation, Rng):  # no values are promised
        assert_uniform(found[0])
        return
    with np.errstate(all="ignore"):
        wanted = graph.reference(arrays)
    for ours, theirs in zip(found, wanted, strict=True):
        assert_nearly_equal(
            ours, theirs, example.operation.tolerance, example.operation.tolerance_floor
        )


@pytest.mark.parametrize("chip", CHIPS)
def test_a_result_without_dimensions_has_none(chip):
    made = Made()
    x = made.given(3, 40)
    total = made.graph.reduce("add", x, [0, 1])
    (found,) = made.check(total, chip=chip)
    assert found.shape == ()


def test_one_tensor_may_be_several_results_and_an_input_one():
    made = Made()
    x = made.given(3, 40)
    twice = made.of("add", x, x)
    made.check(twice, twice, x, made.graph.reshape(twice, (120,)), made.graph.reshape(x, (40, 3)))


@pytest.mark.parametrize(("given", "to"), [("float32", "int32"), ("bfloat16", "int32")])
def test_bytes_are_read_as_another_type_where_they_lie(given, to):
    made = Made(given)
    x = made.given(3, 40)
    bits = made.graph.apply(Reinterpret(to), made.of("negate", x))
    own = made.graph.apply(Reinterpret(to), x)
    made.check(bits, own, made.of("and", bits, own))


@pytest.mark.slow_cases("bool")
@pytest.mark.parametrize("dtype", ["float8_e4m3", "float8_e5m2", "int8", "uint8", "int32", "bool"])
def test_every_type_passes_through_views(dtype):
    for chip in CHIPS:
        graph, rng = Graph(), np.random.default_rng(0)
        x = graph.input((3, 130, 5), dtype)
        array = rng.integers(0, 2, x.shape).astype(x.type.numpy_dtype())
        turned = graph.apply(Transpose((2, 0, 1)), x)
        every = graph.slice(turned, (1, 0, 3), (2, 3, 43), (2, 1, 3))
        wide = graph.broadcast_in_dim(every, (2, 4, 3, 43), (0, 2, 3))
        both = graph.elementwise("maximum" if dtype != "bool" else "or", wide, wide)
        across = graph.apply(Transpose((3, 2, 1, 0)), both)
        graph.outputs = [turned, every, wide, both, across, graph.concatenate([x, x], 1)]
        found = evaluate_program(graph, [array], chip)
        for ours, theirs in zip(found, graph.reference([array]), strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("dtype", ["float8_e4m3", "float8_e5m2", "float16", "bfloat16"])
@pytest.mark.parametrize("chip", CHIPS)
def test_products_of_short_formats_are_those_of_their_numbers(dtype, chip):
    made = Made(dtype)
    x, w = (made.given(n, 130, array=made.random.integers(-1, 2, (n, 130))) for n in (20, 140))
    found = made.graph.dot_general(x, w, (1, 1), dtype="float32")
    flipped = made.graph.dot_general(w, x, (1, 1), dtype="float32")
    made.dtype = ""
    made.check(found, made.of("add", flipped, 1.0), chip=chip)


@pytest.mark.parametrize("shape", [(8,), (4, 8)])
def test_what_each_operation_reads_twice_is_looked_at_once(shape):
    made = Made()
    found = made.given(*shape, scale=2.0**-100)
    for _ in range(200):
        found = made.of("add", found, found)
    made.check(found)


def test_what_has_no_elements_is_left_out_of_a_program():
    graph = Graph()
    rows, places = graph.input((0, 3), "float32"), graph.input((0,), "int32")
    table = graph.input((5, 3), "float32")
    wide = graph.elementwise("add", rows, 1.0)
    put = graph.scatter(graph.elementwise("exponential", table), places, wide, "assign")
    total = graph.reduce("multiply", rows, (0,))
    graph.outputs = [wide, put, graph.concatenate([wide, put], 0), total]
    arrays = [np.zeros((0, 3), np.float32), np.zeros(0, np.int32), np.eye(5, 3, dtype=np.float32)]
    found, wanted = evaluate_program(graph, arrays), graph.reference(arrays)
    assert [(one.shape, one.dtype) for one in found] == [(one.shape, one.dtype) for one in wanted]
    assert_near(found, wanted, 1e-5)
    program = compile(graph, "trn2")
    assert (program.programs, program.notes) == (1, ())
    assert program.device_time_s > 0
