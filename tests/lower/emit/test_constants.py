"""Tiles that are made once."""

import numpy as np
import pytest
from made_graphs import Made

from trnsim.compiler.program import evaluate_program
from trnsim.lower.emit.constants import Constants, count_row_runs
from trnsim.lower.emit.places.tensor_place import SbufMatrix, TensorPlace
from trnsim.lower.emit.places.walk import Frame


def test_a_tile_is_made_once_for_its_key():
    constants, made = Constants(None, 0), []
    first = constants.get_or_make("a", lambda: made.append("a") or object())
    assert constants.get_or_make("a", lambda: made.append("again")) is first
    assert constants.get_or_make("b", lambda: made.append("b") or object()) is not first
    assert made == ["a", "b"]


def test_a_row_that_several_operations_add_is_loaded_once():
    made = Made()
    x, y, row = made.given(300, 640), made.given(300, 640), made.given(300)
    column = made.graph.broadcast_in_dim(row, (300, 640), (0,))
    sums = [made.of("add", one, column) for one in (x, y)]
    loaded = made.opcodes(*sums).count("dma_copy")
    other = Made()
    x, y = other.given(300, 640), other.given(300, 640)
    columns = [other.graph.broadcast_in_dim(other.given(300), (300, 640), (0,)) for _ in range(2)]
    twice = other.opcodes(*(other.of("add", *pair) for pair in zip((x, y), columns, strict=True)))
    assert loaded < twice.count("dma_copy")
    made.check(*sums)
    assert np.isfinite(loaded)


@pytest.mark.parametrize("is_given", [True, False])
def test_a_column_in_many_runs_is_laid_out_by_few_transfers(is_given):
    """A number for each of 32 groups, repeated over its ten channels; given, or a sum of them."""
    made = Made()
    x = made.given(1, 32, 10, 600)
    numbers = made.given(1, 32) if is_given else made.graph.reduce("add", x, [3])
    if not is_given:
        numbers = made.graph.reduce("add", numbers, [2])
    channels = made.graph.reduce("maximum", x, [3])
    wide = made.graph.broadcast_in_dim(numbers, x.shape, (0, 1))
    largest = made.graph.broadcast_in_dim(channels, x.shape, (0, 1, 2))
    found = made.of("multiply", made.of("subtract", x, largest), wide)
    made.graph.outputs = [found]
    (result,) = evaluate_program(made.graph, made.arrays)
    array = made.arrays[0].astype(np.float64)
    given = made.arrays[1] if is_given else array.sum((2, 3))
    expected = (array - array.max(3, keepdims=True)) * given[:, :, None, None]
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-2)
    assert made.opcodes(found).count("dma_copy") <= 40


def test_a_vector_in_several_columns_of_sbuf_is_read_element_by_element():
    frame = Frame((12, 40), (0, 1), ())
    matrix = SbufMatrix(None, 40)
    beside = TensorPlace(matrix, (12, 40), ((0, 1), (1, 0)), (0, 0))
    assert count_row_runs(beside, frame) == 1
    every_third = TensorPlace(matrix, (12,), ((3, 0),), (0, 0))
    assert count_row_runs(every_third, Frame((12,), (0,), ())) == 12
    along = TensorPlace(matrix, (40,), ((1, 0),), (0, 0))
    assert count_row_runs(along, Frame((40,), (0,), ())) == 1
