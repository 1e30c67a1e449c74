import numpy as np
import pytest
from made_graphs import Made

from trnsim.graph import (
    Graph,
    TensorType,
)
from trnsim.lower import evaluate

PLACES = np.random.default_rng(0).integers(0, 50, 210, np.int32)


@pytest.mark.slow_cases("trn1")
@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_rows_are_gathered_and_added_where_indices_repeat(random, target):
    table = random((50, 64))
    g = Graph()
    t, i = g.input(table.shape, "float32"), g.input(PLACES.shape, "int32")
    g.outputs = [g.gather(t, i)]
    rows = evaluate(g, [table, PLACES], target)[0]
    np.testing.assert_array_equal(rows, table[PLACES])
    g = Graph()
    u, i = g.input(rows.shape, "bfloat16"), g.input(PLACES.shape, "int32")
    g.outputs = [g.scatter(TensorType((50, 64), "bfloat16"), i, u)]
    updates = rows.astype(u.type.numpy_dtype())
    expected = np.zeros((50, 64), np.float32)
    np.add.at(expected, PLACES, updates.astype(np.float32))
    found = evaluate(g, [updates, PLACES], target)[0].astype(np.float32)
    np.testing.assert_allclose(found, expected, rtol=2**-7, atol=1e-3)


@pytest.mark.parametrize(("rows", "registers"), [(1, 1), (4, 4), (5, 4), (130, 6)])
def test_indices_take_four_registers_in_turn(rows, registers):
    made = Made("bfloat16")
    places = made.given(rows, dtype="int32", array=np.arange(rows)[::-1] % 50)
    found = made.graph.gather(made.given(50, 4), places)
    names = made.opcodes(found, chip="trn1")
    assert names.count("register_load") == rows
    assert names.count("register_alloc") == registers
    made.check(found, chip="trn1")


@pytest.mark.parametrize("width", [1, 5])
@pytest.mark.parametrize("op", ["add", "multiply", "maximum", "minimum"])
def test_updates_of_one_row_are_combined_with_what_it_held(random, op, width):
    table, updates = random((50, width)), random((210, width), seed=1)
    g = Graph()
    t, i = g.input(table.shape, "float32"), g.input(PLACES.shape, "int32")
    g.outputs = [g.scatter(t, i, g.input(updates.shape, "float32"), op)]
    expected = table.copy()
    getattr(np, op).at(expected, PLACES, updates)
    found = evaluate(g, [table, PLACES, updates])[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_the_last_assignment_of_a_row_stays_and_other_rows_keep_theirs(target):
    table, updates = np.arange(50, dtype=np.int32) - 99, np.arange(210, dtype=np.int32)
    g = Graph()
    t, i = g.input(table.shape, "int32"), g.input(PLACES.shape, "int32")
    g.outputs = [g.scatter(t, i, g.input(updates.shape, "int32"), "assign")]
    expected = table.copy()
    expected[PLACES] = updates
    found = evaluate(g, [table, PLACES, updates], target)[0]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("target", ["trn1", "trn2"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8"])
def test_each_row_is_gathered_from_by_indices_of_its_own(dtype, target):
    rng = np.random.default_rng(0)
    g = Graph()
    x, i = g.input((3, 70, 20), dtype), g.input((3, 70, 33), "int32")
    g.outputs = [g.gather_in_rows(x, i)]
    values = rng.integers(0, 99, x.shape).astype(x.type.numpy_dtype())
    places = rng.integers(0, 20, i.shape, np.int32)
    found = evaluate(g, [values, places], target)[0]
    np.testing.assert_array_equal(found, np.take_along_axis(values, places, -1))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize(("rows", "count", "width"), [(300, 5000, 3), (77, 4500, 130)])
def test_thousands_of_rows_are_gathered_and_assigned_by_one_transfer(rows, count, width, dtype):
    for is_gathered in (True, False):
        made = Made(dtype)
        places = made.given(count, dtype="int32", array=made.random.integers(0, rows, count))
        table = made.given(rows, width)
        if is_gathered:
            found = made.graph.gather(table, places)
        else:
            found = made.graph.scatter(table, places, made.given(count, width), "assign")
        made.check(found)
        assert made.opcodes(found).count("dma_copy") < 10


@pytest.mark.parametrize("chip", ["trn1", "trn2"])
@pytest.mark.parametrize(
    ("count", "length", "found"), [(1024, 48, 4), (1500, 3, 9), (2051, 130, 1)]
)
def test_many_short_rows_are_gathered_from_together(count, length, found, chip):
    made = Made("bfloat16")
    places = made.random.integers(0, length, (count, found))
    indices = made.given(count, found, dtype="int32", array=places)
    made.check(made.graph.gather_in_rows(made.given(count, length), indices), chip=chip)


@pytest.mark.slow
def test_rows_of_a_long_table_are_told_apart():
    rows = 2**24 + 2  # float32 takes the last two for one another
    g = Graph()
    i, u = g.input((3,), "uint32"), g.input((3,), "float32")
    g.outputs = [g.scatter(TensorType((rows,), "float32"), i, u)]
    indices = np.array([2**24, 2**24 + 1, 2**24], np.uint32)
    (found,) = evaluate(g, [indices, np.array([1, 2, 4], np.float32)])
    np.testing.assert_array_equal(found[-3:], [0, 5, 2])


WIDE = np.random.default_rng(0).integers(-5, 5, (3, 60_001)).astype(np.float32)
"""Rows that no partition of SBUF holds."""
TWICE = np.array([2, 0, 2], np.int32)


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_rows_beyond_a_partition_are_gathered_in_parts(target):
    g = Graph()
    g.outputs = [g.gather(g.input(WIDE.shape, "float32"), g.input(TWICE.shape, "int32"))]
    np.testing.assert_array_equal(evaluate(g, [WIDE, TWICE], target)[0], WIDE[TWICE])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("op", ["add", "assign"])
def test_rows_beyond_a_partition_are_scattered_in_parts(op, dtype):
    type_ = TensorType(WIDE.shape, dtype)
    table = WIDE.astype(type_.numpy_dtype())
    g = Graph()
    t, i, u = g.input(table.shape, dtype), g.input(TWICE.shape, "int32"), g.input(WIDE.shape, dtype)
    g.outputs = [g.scatter(t, i, u, op)]
    expected = np.array(table)
    if op == "add":
        np.add.at(expected, TWICE, table[::-1])
    else:
        expected[TWICE] = table[::-1]
    np.testing.assert_array_equal(evaluate(g, [table, TWICE, table[::-1]])[0], expected)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("width", [19_114, 19_115])
def test_rows_of_which_a_partition_holds_no_three_are_added_in_parts(width, dtype):
    """A sum accesses three of them, of 4 bytes an element, and a partition has 224 KiB."""
    table = WIDE[:, :width].astype(TensorType((1,), dtype).numpy_dtype())
    g = Graph()
    t, i = g.input(table.shape, dtype), g.input(TWICE.shape, "int32")
    g.outputs = [g.scatter(t, i, g.input(table.shape, dtype))]
    expected = np.array(table)
    np.add.at(expected, TWICE, table[::-1])
    np.testing.assert_array_equal(evaluate(g, [table, TWICE, table[::-1]])[0], expected)


@pytest.mark.parametrize("count", [28_667, 28_668, 60_001])
def test_indices_beyond_a_partition_are_gathered_within_rows_in_parts(count):
    rows = np.arange(20, dtype=np.float32).reshape(2, 10)
    places = np.random.default_rng(1).integers(0, 10, (2, count), np.int32)
    g = Graph()
    g.outputs = [g.gather_in_rows(g.input((2, 10), "float32"), g.input(places.shape, "int32"))]
    found = evaluate(g, [rows, places])[0]
    np.testing.assert_array_equal(found, np.take_along_axis(rows, places, 1))


@pytest.mark.parametrize(("op", "number"), [("maximum", -np.inf), ("minimum", np.inf)])
def test_a_row_of_which_all_updates_are_infinite_is_infinite(op, number):
    table, places = np.full((4, 2), number, np.float32), np.array([1, 3, 1], np.int32)
    updates = np.array([[number, number], [5, number], [number, -7]], np.float32)
    g = Graph()
    t, i = g.input(table.shape, "float32"), g.input(places.shape, "int32")
    g.outputs = [g.scatter(t, i, g.input(updates.shape, "float32"), op)]
    expected = table.copy()
    getattr(np, op).at(expected, places, updates)
    np.testing.assert_array_equal(evaluate(g, [table, places, updates])[0], expected)


@pytest.mark.parametrize("less", [0, 1])
def test_rows_as_long_as_a_partition_are_gathered_in_parts(less):
    made, elements = Made(), 192 * 1024 // 4 - less
    places = made.given(2, dtype="int32", array=[2, 0])
    made.check(made.graph.gather(made.given(3, elements), places), chip="trn2")
