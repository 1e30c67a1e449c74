"""Heads in SBUF: where engines may begin, and what follows what."""

from types import SimpleNamespace

import numpy as np
import pytest

from trnsim import nki
from trnsim.lower.emit.attending.heads import (
    columns_of,
    first_partition,
    head_of,
    is_next_head,
    may_start_at,
    rows_of,
    store_head,
)
from trnsim.lower.emit.places.tensor_place import SbufMatrix, TensorPlace, in_hbm
from trnsim.lower.emit.places.walk import Frame
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl
from trnsim.runner import run


def heads_on_chip(width, heads=4, rows=9, block=128):
    """[heads, rows, width] with heads and widths along the partitions."""
    frame = Frame((heads, rows, width), (0, 2), (1,), block)
    tile = SimpleNamespace(shape=(block, frame.blocks, rows))
    return TensorPlace(SbufMatrix(tile, frame.rows, block), frame.shape, frame.steps(), (0, 0))


@pytest.mark.parametrize("partitions", [1, 31, 32, 33, 64, 65, 128])
@pytest.mark.parametrize("first", [0, 1, 16, 32, 48, 64, 96])
def test_engines_begin_where_the_instruction_set_says(first, partitions):
    # nki.isa: up to 32 partitions from 0, 32, 64 and 96, up to 64 from 0 and 64, more from 0.
    starts = {0, 32, 64, 96} if partitions <= 32 else {0, 64} if partitions <= 64 else {0}
    assert may_start_at(first, partitions) == (first in starts)


@pytest.mark.parametrize(
    ("width", "number", "wanted"), [(64, 1, 64), (32, 3, 96), (16, 1, 0), (48, 1, 0), (96, 1, 0)]
)
def test_a_head_begins_on_its_own_partition_where_engines_do(width, number, wanted):
    assert first_partition(head_of(heads_on_chip(width), (number,)), width) == wanted


def test_a_head_in_hbm_begins_anywhere():
    placed = in_hbm(SimpleNamespace(shape=(3, 5, 32)), (3, 5, 32))
    assert first_partition(head_of(placed, (2,)), 32) == 0
    assert head_of(placed, (2,)).offset == (2 * 5 * 32,)
    assert not is_next_head(placed, (0,), (1,), 32)


def test_heads_follow_within_a_block():
    placed = heads_on_chip(64)
    assert is_next_head(placed, (0,), (1,), 64)
    assert not is_next_head(placed, (1,), (2,), 64)
    assert not is_next_head(placed, (0,), (2,), 64)


@pytest.mark.parametrize("width", [16, 32, 48, 80])
@pytest.mark.parametrize("is_put", [True, False])
def test_rows_and_columns_of_a_head_are_its_own(width, is_put):
    source = np.random.default_rng(0).standard_normal((3, 9, width)).astype(np.float32)
    frame = Frame(source.shape, (0, 2), (1,))

    @nki.jit
    def kernel(given):
        whole = frame.matrix(nl.float32)
        rows = nl.ndarray(source.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        columns = nl.ndarray((3, width, 9), dtype=nl.float32, buffer=nl.shared_hbm)
        for number in range(3):
            tile = nl.ndarray((width, 9), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=given[number].permute((1, 0)))
            if number * width // 128 == ((number + 1) * width - 1) // 128:
                store_head(head_of(whole, (number,)), tile, nl.float32)
        for number in range(3):
            place = whole if is_put else in_hbm(given, source.shape)
            if is_put and number * width // 128 != ((number + 1) * width - 1) // 128:
                place = in_hbm(given, source.shape)
            one = head_of(place, (number,))
            nisa.dma_copy(dst=rows[number], src=rows_of(one, width, 0, 9, nl.float32))
            nisa.dma_copy(dst=columns[number], src=columns_of(one, width, 0, 9, nl.float32))
        return rows, columns

    rows, columns = run(kernel, source).outputs
    np.testing.assert_array_equal(rows, source)
    np.testing.assert_array_equal(columns, source.transpose(0, 2, 1))


@pytest.mark.parametrize("width", [1, 16, 64, 128])
def test_a_head_that_lies_across_in_hbm_is_read_along_its_rows(width):
    source = np.random.default_rng(0).standard_normal((9, width)).astype(np.float32)

    @nki.jit
    def kernel(given):  # [width, rows]
        place = TensorPlace(given, (9, width), ((1,), (9,)), (0,))
        rows = nl.ndarray((7, width), dtype=nl.float32, buffer=nl.shared_hbm)
        columns = nl.ndarray((width, 7), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=rows, src=rows_of(place, width, 2, 7, nl.float32))
        nisa.dma_copy(dst=columns, src=columns_of(place, width, 2, 7, nl.float32))
        return rows, columns

    found = run(kernel, np.ascontiguousarray(source.T))
    rows, columns = found.outputs
    np.testing.assert_array_equal(rows, source[2:9])
    np.testing.assert_array_equal(columns, source[2:9].T)
    loads = [span for span in found.timeline.spans() if "src=HBM" in span.operands]
    assert len(loads) == 2
