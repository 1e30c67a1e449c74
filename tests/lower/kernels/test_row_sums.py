from types import SimpleNamespace

import numpy as np
import pytest
from made_graphs import Made

from trnsim.arch import target
from trnsim.compiler.program import evaluate_program
from trnsim.graph import Graph, TensorType
from trnsim.lower.kernels import row_sums

RANDOM = np.random.default_rng(0)


def added(rows, count, width, *, chip="trn1", dtype="float32", has_table=True):
    """A scatter's result, its sums in float64, and the largest of those."""
    places = RANDOM.integers(0, rows, count, np.int32)
    g = Graph()
    shape = (rows, width)
    table_type = TensorType(shape, dtype)
    table = RANDOM.standard_normal(shape).astype(table_type.numpy_dtype())
    updates = RANDOM.standard_normal((count, width)).astype(table.dtype)
    t = g.input(shape, dtype) if has_table else table_type
    i, u = g.input(places.shape, "int32"), g.input(updates.shape, dtype)
    g.outputs = [g.scatter(t, i, u)]
    arrays = [table, places, updates] if has_table else [places, updates]
    expected = table.astype(np.float64) if has_table else np.zeros(shape)
    np.add.at(expected, places, updates.astype(np.float64))
    (found,) = evaluate_program(g, arrays, chip)
    return found.astype(np.float64), expected


@pytest.mark.parametrize("has_table", [False, True])
@pytest.mark.parametrize(
    ("rows", "count", "width"),
    [(1, 1, 1), (50, 210, 3), (129, 257, 64), (300, 260, 130)],
)
def test_sums_by_row_are_those_of_float64(rows, count, width, has_table):
    found, expected = added(rows, count, width, has_table=has_table)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.slow_cases("trn3")
@pytest.mark.parametrize("chip", ["trn1", "trn3"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_sums_of_short_formats_are_rounded_once(chip, dtype):
    found, expected = added(40, 400, 5, chip=chip, dtype=dtype)
    # half a unit in the last place of the result, above float32's sums
    spacing = 2.0 ** -(8 if dtype == "bfloat16" else 11)
    np.testing.assert_allclose(found, expected, rtol=spacing, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "count", "width"), [(2500, 3000, 8), (200, 16500, 2), (70, 140, 700)]
)
def test_long_tables_many_updates_and_wide_rows_are_added_in_parts(rows, count, width):
    found, expected = added(rows, count, width)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("chip", ["trn2", "trn3"])
@pytest.mark.parametrize(
    ("dtype", "rows", "count", "width", "are_products"),
    [
        ("bfloat16", 1000, 128, 1024, True),
        ("bfloat16", 20_000, 512, 64, False),
        ("float32", 30_000, 1024, 64, False),
        ("float32", 1000, 128, 64, True),
    ],
)
def test_a_table_that_is_rounded_costs_transfers_its_bytes(
    monkeypatch, chip, dtype, rows, count, width, are_products
):
    monkeypatch.setattr(row_sums, "current_core", lambda: SimpleNamespace(core=target(chip).core))
    assert row_sums.are_products_faster(rows, count, width, dtype) is are_products


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
@pytest.mark.parametrize(("rows", "width"), [(1, 5), (3, 129), (700, 7)])
def test_a_table_of_any_size_is_rounded_once(rows, width, dtype):
    made = Made(dtype)
    places = made.given(2, dtype="int32", array=np.array([rows - 1, 0]))
    updates = made.given(2, width)
    made.check(made.graph.scatter(TensorType((rows, width), dtype), places, updates, "maximum"))


def opcodes(rows, count, width, chip):
    made = Made("bfloat16")
    places = made.given(count, dtype="int32", array=np.arange(count) % rows)
    updates = made.given(count, width)
    found = made.graph.scatter(TensorType((rows, width), "bfloat16"), places, updates)
    return made.opcodes(found, chip=chip)


def test_a_long_table_with_few_updates_is_written_row_by_row():
    assert "register_load" not in opcodes(500, 300, 16, "trn1")
    assert opcodes(20_000, 5, 16, "trn1").count("register_load") == 10
