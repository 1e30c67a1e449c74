from dataclasses import replace

import numpy as np
import pytest
from ml_dtypes import bfloat16, float8_e4m3

from trnsim.graph import Graph, TensorType
from trnsim.graph.ops.layout import DynamicSlice, DynamicUpdateSlice
from trnsim.graph.ops.lookup import Gather, Scatter
from trnsim.lower.legal.indexing import _Rows
from trnsim.lower.legalize import legalize

LARGEST = 2**31 - 1
# Shape, size of the slice, where it is to start.
SLICES = [
    ((5, 40), (2, 13), (3, -4)),
    ((5, 40), (2, 13), (-LARGEST, LARGEST)),
    ((5, 40), (5, 40), (9, 9)),
    ((5, 40), (5, 13), (0, 30)),
    ((5, 40), (1, 40), (7, 0)),
    ((3, 4, 5, 6), (3, 2, 5, 6), (1, 3, 0, 0)),
    ((3, 4, 5, 6), (2, 2, 2, 6), (1, 3, 2, 0)),
    ((1, 1), (1, 1), (1, 1)),
    ((7,), (1,), (6,)),
    ((), (), ()),
]


def counted(*shape, dtype=np.float32):
    return (np.arange(np.prod(shape, dtype=int)) - 7).reshape(shape).astype(dtype)


def scalars(starts, dtype=np.int32):
    return [np.array(start, dtype) for start in starts]


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("chip", ["trn1", "trn2"])
@pytest.mark.parametrize(("shape", "sizes", "starts"), SLICES)
def test_a_dynamic_slice_is_moved_inside(agree, shape, sizes, starts, chip):
    agree(DynamicSlice(sizes), counted(*shape), *scalars(starts), chip=chip)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("chip", ["trn1", "trn2"])
@pytest.mark.parametrize(("shape", "sizes", "starts"), SLICES)
def test_a_dynamic_update_is_moved_inside(agree, shape, sizes, starts, chip):
    update = -counted(*sizes) - 100
    agree(DynamicUpdateSlice(), counted(*shape), update, *scalars(starts), chip=chip)


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float16", "int8", "uint8", "int16", "uint32", "bool"]
)
def test_slices_of_every_type_move_as_they_are(agree, dtype):
    kind = TensorType((), dtype).numpy_dtype()
    whole, part = counted(5, 8, dtype=kind), counted(2, 3, dtype=kind)
    agree(DynamicSlice((2, 3)), whole, *scalars((2, 9)))
    agree(DynamicUpdateSlice(), whole, part, *scalars((2, 9)))


def test_slices_keep_what_is_no_number(agree):
    whole = np.array([[np.nan, np.inf, -0.0], [1, -np.inf, 3e38]], np.float32)
    agree(DynamicSlice((2, 2)), whole, *scalars((0, 1)))
    agree(DynamicUpdateSlice(), whole, whole[:1, :2], *scalars((1, 1)))
    agree(DynamicSlice((2, 2)), whole.astype(float8_e4m3), *scalars((0, 1)))


@pytest.mark.parametrize(
    ("dtype", "start"),
    [(np.uint32, 2**32 - 1), (np.uint8, 200), (np.int8, 127), (np.int8, -5), (np.uint32, 2**31)],
)
def test_a_start_is_compared_in_its_own_type(agree, dtype, start):
    agree(DynamicSlice((2,)), counted(300), *scalars([start], dtype))


def test_rows_are_as_wide_as_what_lies_together():
    rows = _Rows((3, 4, 5, 6), (2, 1, 5, 6))
    assert (rows.outer, rows.width, rows.parts, rows.slice_rows) == (2, 30, 1, (2, 1, 1))
    whole = _Rows((4, 6), (4, 6))
    assert (whole.outer, whole.table, whole.slice_rows) == (0, (1, 24), (1,))


def test_what_is_wider_than_a_partition_takes_several_rows(agree):
    rows = _Rows((2, 3, 4096), (1, 3, 4096))
    assert (rows.width, rows.parts) == (4096, 3)
    assert _Rows((1, 4097), (1, 4097)).width == 241
    agree(DynamicSlice((1, 3, 4096)), counted(2, 3, 4096), *scalars((1, 0, 0)))


def test_a_run_of_few_divisors_is_not_moved_element_by_element(agree):
    assert [(rows.width, rows.parts) for rows in (_Rows((2, n), (1, n)) for n in (8191, 9998))] == [
        (8191, 1),
        (4999, 2),
    ]
    agree(DynamicSlice((1, 8191)), counted(2, 8191), *scalars((1, 0)))
    agree(DynamicUpdateSlice(), counted(2, 8191), -counted(1, 8191), *scalars((1, 0)))


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["trn1", "trn2"])
def test_a_run_of_few_divisors_that_no_partition_holds_moves_in_parts(agree, chip):
    agree(DynamicSlice((1, 65537)), counted(2, 65537), *scalars((1, 0)), chip=chip)
    agree(DynamicUpdateSlice(), counted(2, 65537), -counted(1, 65537), *scalars((1, 0)), chip=chip)


# Offset dimensions, collapsed, batching of the operand, of the indices, map, dimension, sizes.
GATHERS = [
    (((0, 2), (1,), (), (), (1,), 0, (3, 1, 2)), (3, 6, 2), (1, 5)),
    (((1,), (0,), (), (), (0, 1), 1, (1, 4)), (6, 9), (4, 2)),
    (((0,), (1,), (), (), (1, 0), 0, (4, 1)), (6, 9), (2, 4, 3)),
    (((2,), (), (0,), (0,), (1,), 2, (1, 3)), (4, 9), (4, 5, 1)),
    (((), (1,), (0,), (1,), (1,), 0, (1, 1)), (4, 9), (1, 4)),
    (((1, 2), (), (0,), (1,), (1, 2), 2, (1, 2, 3)), (4, 5, 6), (3, 4, 2)),
    (((0, 1), (), (), (), (0,), 0, (2, 4)), (6, 4), (1,)),
    (((1,), (), (), (), (), 1, (4,)), (4,), (3, 0)),
]


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize(("attributes", "shape", "places"), GATHERS)
def test_gather_by_any_numbers_of_dimensions(agree, attributes, shape, places, chip):
    indices = np.random.default_rng(0).integers(-4, 14, places, np.int32)
    agree(Gather(*attributes, is_in_bounds=False), counted(*shape), indices, chip=chip)


@pytest.mark.parametrize("row", [7, 20000])
def test_elements_of_rows_are_clamped(agree, row):
    op = replace(Gather.in_rows((2, row)), is_in_bounds=False)
    indices = np.array([[-1, 0, row, row - 1], [LARGEST, -LARGEST - 1, 1, 5]], np.int32)
    agree(op, counted(2, row), indices)


def test_elements_of_rows_that_no_partition_holds_are_rows_of_their_own(agree):
    agree(Gather.in_rows((2, 20000)), counted(2, 20000), np.array([[0, 19999], [7, 8]], np.int32))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16])
def test_indices_of_few_bits_reach_the_descriptors(agree, dtype):
    agree(Gather.rows((9, 6), (3,)), counted(9, 6), np.array([8, 0, 8], dtype))
    rows = Scatter.rows((9, 6), (3,), "assign", None)
    agree(rows, counted(3, 6), np.array([8, 0, 8], dtype), counted(9, 6))


def test_rows_clamped_stay_one_gather_of_rows():
    graph, op = Graph(), replace(Gather.rows((9, 6), (2,)), is_in_bounds=False)
    graph.outputs = [graph.apply(op, graph.input((9, 6), "float32"), graph.input((2,), "int32"))]
    (gather,) = [n for n in legalize(graph).nodes if isinstance(n.operation, Gather)]
    assert gather.operation == Gather.rows((9, 6), (2, 1, 1))


# Window dimensions, inserted, batching of the operand, of the indices, map, dimension.
SCATTERS = [
    (((0, 2), (1,), (), (), (1,), 0), (3, 5, 2), (1, 5), (3, 6, 2)),
    (((1,), (0,), (), (), (0, 1), 1), (4, 4), (4, 2), (6, 9)),
    (((0,), (1,), (), (), (1, 0), 0), (4, 4, 3), (2, 4, 3), (6, 9)),
    (((2,), (), (0,), (0,), (1,), 2), (4, 5, 3), (4, 5, 1), (4, 9)),
    (((), (0, 1), (), (), (0, 1), 0), (40,), (2, 40), (4, 9)),
    (((0, 1), (), (), (), (1,), 0), (6, 4), (1,), (6, 4)),
    (((0, 1), (), (), (), (), 0), (6, 4), (0,), (6, 4)),
    (((), (), (), (), (), 0), (), (0,), ()),
]


@pytest.mark.slow_but_every(4)
@pytest.mark.parametrize("op", ["add", "multiply", "maximum", "minimum", "assign"])
@pytest.mark.parametrize("chip", ["trn1", "trn2"])
@pytest.mark.parametrize(("attributes", "shape", "places", "table"), SCATTERS)
def test_scatter_leaves_out_what_is_out_of_bounds(
    agree, attributes, shape, places, table, op, chip
):
    rng = np.random.default_rng(1)
    updates, whole = (rng.integers(-3, 4, one).astype(np.float32) for one in (shape, table))
    indices = rng.integers(-3, 10, places, np.int32)
    agree(Scatter(None, op, *attributes, is_in_bounds=False), updates, indices, whole, chip=chip)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize(
    "index",
    [np.array([one], np.int32) for one in (3, 4, 5, -1, LARGEST, -LARGEST - 1)]
    + [np.array([one], np.uint32) for one in (4, 5, 2**31, 2**32 - 1)],
)
def test_a_window_at_the_edge_is_written_and_one_beyond_is_not(agree, index):
    windows = ((0, 1), (), (), (), (0,), 0)
    op = Scatter(TensorType((6, 4), "float32"), "add", *windows, is_in_bounds=False)
    agree(op, counted(2, 4) - 100, index)
    agree(replace(op, type=None, op="assign"), counted(2, 4) - 100, index, counted(6, 4))


def test_rows_out_of_bounds_are_left_out_though_they_are_no_numbers(agree):
    op = replace(Scatter.rows((4, 3), (3,), "assign", None), is_in_bounds=False)
    updates = np.array([[1, 2, 3], [np.nan] * 3, [np.inf] * 3], np.float32)
    agree(op, updates, np.array([2, 4, -1], np.int32), counted(4, 3))


@pytest.mark.slow_but_every(5)
@pytest.mark.parametrize("op", ["add", "multiply", "maximum", "minimum", "assign"])
@pytest.mark.parametrize("chip", ["trn1", "trn2"])
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int16", "int8", "uint8"])
def test_integers_are_scattered_modulo_their_bits(agree, dtype, chip, op):
    rng, limits = np.random.default_rng(2), np.iinfo(dtype)
    updates = rng.integers(limits.min, limits.max, (9, 4), dtype, endpoint=True)
    table = rng.integers(limits.min, limits.max, (6, 9), dtype, endpoint=True)
    windows = ((1,), (0,), (), (), (0, 1), 1)
    indices = np.array([[0, 0], [0, 2], [5, 6], [2, 5], *[[1, 1]] * 5], np.int32)
    agree(Scatter(None, op, *windows, is_in_bounds=False), updates, indices, table, chip=chip)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("op", ["add", "multiply", "maximum", "minimum", "assign"])
@pytest.mark.parametrize("dtype", [np.bool_, bfloat16])
def test_scatter_of_truth_values_and_short_floats(agree, dtype, op):
    rng = np.random.default_rng(2)
    updates, table = (rng.integers(0, 2, shape).astype(dtype) for shape in ((9, 4), (6, 9)))
    windows = ((1,), (0,), (), (), (0, 1), 1)
    indices = np.array([[0, 0], [0, 2], [5, 6], [2, 5], *[[1, 1]] * 5], np.int32)
    agree(Scatter(None, op, *windows, is_in_bounds=False), updates, indices, table)


def test_nothing_scattered_is_the_operand():
    op = Scatter(None, "add", (1,), (0,), (), (), (0,), 1, is_in_bounds=False)
    graph = Graph()
    given = [graph.input(s, d) for s, d in (((0, 4), "float32"), ((0, 1), "int32"))]
    table = graph.input((6, 4), "float32")
    graph.outputs = [graph.apply(op, *given, table)]
    rebuilt = legalize(graph)
    assert (rebuilt.nodes, rebuilt.outputs) == ([], [rebuilt.inputs[2]])


@pytest.mark.parametrize(("length", "count"), [(5000, 1), (2049, 1), (5000, 2)])
def test_few_elements_of_long_rows_are_read_each_by_itself(agree, length, count):
    places = np.resize(np.array([0, length - 1, length // 2], np.int32), (9, count))
    agree(Gather.in_rows((9, length)), counted(9, length), places)
