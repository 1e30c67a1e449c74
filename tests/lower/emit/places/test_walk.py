"""Frames, spans and runs, beside all elements one by one; tiles beside numpy's."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim import nki
from trnsim.lower.emit.places.spans import tile_spans
from trnsim.lower.emit.places.tensor_place import SbufMatrix, TensorPlace, in_hbm
from trnsim.lower.emit.places.walk import (
    Frame,
    TileSpan,
    count_transfers,
    covers_pending_result,
    frame_in_hbm,
    frame_of,
    gather_slice,
    has_loadable_columns,
    is_aligned,
    load_tile,
    repeat_partitions,
    row_major_frame,
    runs,
    slice_of,
    write_span,
)
from trnsim.lower.kernels.tiles import new
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl
from trnsim.runner import run


@given(st.permutations(range(3)), st.integers(0, 23), st.data())
def test_runs_are_the_elements_of_a_range_in_order(order, start, data):
    shape = (2, 3, 4)
    placed = in_hbm(SimpleNamespace(shape=(24,)), shape).transposed(order)
    lengths = [(placed.shape[dim], placed.steps[dim]) for dim in range(3)]
    count = data.draw(st.integers(1, 24 - start))
    wanted = np.arange(24).reshape(shape).transpose(order).ravel()[start : start + count]
    found = np.full(count, -1)
    for at, length, begin, step in runs(lengths, start, count, 1):
        found[at : at + length] = begin[0] + step[0] * np.arange(length)
    np.testing.assert_array_equal(found, wanted)


def test_what_nothing_moves_is_one_run():
    assert list(runs([], 5, 7, 2)) == [(0, 7, (0, 0), (0, 0))]


def test_a_frames_steps_number_its_rows_and_columns():
    frame = Frame((2, 3, 5), (2, 0), (1,), 128)
    assert frame.steps() == ((1, 0), (0, 1), (2, 0))
    assert (frame.rows, frame.columns, frame.blocks) == (10, 3, 1)
    assert frame.flipped() == Frame((2, 3, 5), (1,), (2, 0))
    assert Frame((300,), (0,), ()).blocks == 3
    assert Frame((300,), (0,), (), 96).blocks == 4
    replicated = Frame((4,), (), (0,), is_replicated=True)
    assert (replicated.rows, replicated.blocks, replicated.columns) == (128, 1, 4)


def on_chip(shape, steps, offset=(0, 0), *, rows=128, block=128, is_replicated=False):
    tile = SimpleNamespace(shape=(min(block, rows), -(-rows // block), 64))
    return TensorPlace(SbufMatrix(tile, rows, block, is_replicated), shape, steps, offset)


def test_the_frame_of_a_place_is_its_own_order():
    frame = Frame((3, 8, 5), (1, 0), (2,), 96)
    placed = on_chip(frame.shape, frame.steps(), rows=24, block=96)
    assert frame_of(placed) == frame
    wide = placed.repeated((3, 7, 8, 5), (0, 2, 3))
    assert frame_of(wide) == Frame((3, 7, 8, 5), (2, 0), (1, 3), 96)


def test_the_frame_in_hbm_is_the_matrix_or_the_last_dimension():
    matrix = SimpleNamespace(shape=(24, 5))
    frame = Frame((3, 8, 5), (1, 0), (2,))
    steps = tuple((p * 5 + f,) for p, f in frame.steps())
    assert frame_in_hbm(TensorPlace(matrix, frame.shape, steps, (0,))) == frame
    whole = in_hbm(SimpleNamespace(shape=(3, 8, 5)), (3, 8, 5))
    assert frame_in_hbm(whole) == row_major_frame((3, 8, 5))
    assert row_major_frame((3, 8, 5), 2) == Frame((3, 8, 5), (0,), (1, 2))
    assert row_major_frame(()) == Frame((), (), ())


def test_aligned_is_partition_by_partition():
    frame = Frame((200, 40), (0,), (1,))
    whole = on_chip((200, 40), frame.steps(), rows=200)
    assert is_aligned(whole, frame)
    assert not is_aligned(whole, frame.flipped())
    assert not is_aligned(in_hbm(SimpleNamespace(shape=(200, 40)), (200, 40)), frame)
    assert not is_aligned(whole, Frame((200, 40), (0,), (1,), 96))
    later = whole.sliced((72, 40), (128, 0), (1, 1))
    assert is_aligned(later, Frame((72, 40), (0,), (1,)))
    within = whole.sliced((100, 40), (1, 0), (1, 1))
    assert not is_aligned(within, Frame((100, 40), (0,), (1,)))
    apart = whole.sliced((100, 40), (0, 0), (2, 1))
    assert not is_aligned(apart, Frame((100, 40), (0,), (1,)))
    same = on_chip((200, 40), ((0, 0), (0, 1)), is_replicated=True)
    assert is_aligned(same, frame)


def test_transfers_move_rows_whose_columns_lie_along_columns():
    frame = Frame((6, 40), (0,), (1,))
    placed = on_chip((6, 40), frame.steps(), rows=6)
    assert has_loadable_columns(placed, frame)
    assert not has_loadable_columns(placed, frame.flipped())
    assert has_loadable_columns(in_hbm(SimpleNamespace(shape=(6, 40)), (6, 40)), frame.flipped())
    # Of two dimensions along the partitions, neither frame has one alone.
    both = on_chip((6, 5, 8), ((5, 0), (1, 0), (0, 1)), rows=30)
    across = Frame((6, 5, 8), (1,), (0, 2))
    assert not has_loadable_columns(both, across)


def test_what_is_pending_is_read_whole_or_computed_before():
    frame = Frame((2, 20, 30), (2,), (0, 1))
    pending = TensorPlace(SimpleNamespace(frame=frame, block=128, is_replicated=False),
                     frame.shape, frame.steps(), (0, 0))  # fmt: skip
    assert covers_pending_result(pending)
    assert covers_pending_result(pending.transposed((1, 0, 2)).transposed((1, 0, 2)))
    assert covers_pending_result(pending.reshaped((40, 30)))
    assert covers_pending_result(
        pending.transposed((1, 0, 2))
    )  # whose frame is the same rows and columns
    assert not covers_pending_result(pending.sliced((2, 20, 15), (0, 0, 15), (1, 1, 1)))
    assert not covers_pending_result(pending.sliced((2, 20, 15), (0, 0, 0), (1, 1, 1)))
    assert not covers_pending_result(pending.sliced((2, 20, 15), (0, 0, 0), (1, 1, 2)))
    assert not covers_pending_result(pending.sliced((2, 10, 30), (0, 0, 0), (1, 1, 1)))
    assert not covers_pending_result(pending.repeated((2, 20, 3, 30), (0, 1, 3)))


SOURCE = np.arange(300 * 12, dtype=np.float32).reshape(300, 12)


def moved(frame, view):
    """Elements of a view of [300, 12] as tiles brought by transfers and written back."""

    @nki.jit
    def kernel(source):
        out = nl.ndarray(frame.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        placed, target = view(in_hbm(source, (300, 12))), in_hbm(out, frame.shape)
        for span in tile_spans(frame, 0, frame.columns, 1, 7):
            tile = load_tile(placed, frame, span, nl.float32)
            if tile.shape[2] != span.columns:
                wide = new((span.partitions, 1, span.columns))
                nisa.tensor_copy(dst=wide, src=tile.broadcast(2, span.columns))
                tile = wide
            write_span(target, frame, span, tile)
        return out

    return run(kernel, SOURCE).outputs


@pytest.mark.slow_cases("frame0")
@pytest.mark.parametrize("frame", [Frame((300, 12), (0,), (1,)), Frame((300, 12), (0,), (1,), 96)])
def test_tiles_hold_the_elements_of_their_span(frame):
    np.testing.assert_array_equal(moved(frame, lambda placed: placed), SOURCE)


def test_tiles_of_other_orders_hold_the_elements_of_their_span():
    turned = Frame((12, 300), (1,), (0,))
    found = moved(turned, lambda placed: placed.transposed((1, 0)))
    np.testing.assert_array_equal(found, SOURCE.T)
    split = Frame((10, 30, 3, 4), (2, 0), (1, 3))
    found = moved(split, lambda placed: placed.reshaped((10, 30, 3, 4)))
    np.testing.assert_array_equal(found, SOURCE.reshape(10, 30, 3, 4))
    apart = Frame((100, 6), (0,), (1,))
    found = moved(apart, lambda placed: placed.sliced((100, 6), (2, 1), (3, 2)))
    np.testing.assert_array_equal(found, SOURCE[2::3, 1::2])


def test_tiles_of_repeats_hold_one_column():
    wide = Frame((300, 12), (0,), (1,))
    first = [(300, 1), (0, 3), (1, 1)]
    found = moved(wide, lambda placed: placed.sliced(*first).repeated((300, 12), (0, 1)))
    np.testing.assert_array_equal(found, np.repeat(SOURCE[:, 3:4], 12, 1))


def test_tiles_come_from_other_partitions_too():
    frame = Frame((100, 12), (0,), (1,))

    @nki.jit
    def kernel(source):
        whole = Frame((300, 12), (0,), (1,)).matrix(nl.float32)
        for span in tile_spans(Frame((300, 12), (0,), (1,)), 0, 12, 1, 12):
            rows = slice(span.block * 128, span.block * 128 + span.partitions)
            here = whole.storage.tile[: span.partitions, span.block]
            nisa.dma_copy(dst=here, src=source[rows])
        part = whole.sliced((100, 12), (90, 0), (2, 1))
        out = nl.ndarray((100, 12), dtype=nl.float32, buffer=nl.shared_hbm)
        span = TileSpan(0, 1, 100, 0, 12)
        write_span(in_hbm(out, (100, 12)), frame, span, load_tile(part, frame, span, nl.float32))
        return out

    np.testing.assert_array_equal(run(kernel, SOURCE).outputs, SOURCE[90:290:2])


def test_a_slice_of_a_matrix_is_a_view():
    frame = Frame((300, 2, 6), (0,), (1, 2))

    @nki.jit
    def kernel():
        placed = frame.matrix(nl.float32)
        found = slice_of(placed, frame, TileSpan(1, 1, 128, 3, 5))
        assert tuple(found.shape) == (128, 1, 5)
        assert found.storage is placed.storage.tile.storage
        half = placed.sliced((300, 2, 3), (0, 0, 3), (1, 1, 1))
        thin = Frame(half.shape, (0,), (1, 2))
        assert slice_of(half, thin, TileSpan(0, 1, 128, 0, 6)) is None
        assert tuple(slice_of(half, thin, TileSpan(0, 1, 128, 3, 3)).shape) == (128, 1, 3)
        column = placed.sliced((300, 1, 1), (0, 1, 2), (1, 1, 1))
        assert tuple(slice_of(column, frame, TileSpan(0, 2, 128, 0, 1)).shape) == (128, 2, 1)

    run(kernel, numerics=False)


@pytest.mark.parametrize(("start", "columns"), [(0, 24), (0, 12), (5, 3), (3, 17), (23, 1)])
def test_short_runs_of_a_matrix_are_copied_by_engines(start, columns):
    """Every second row and column, from the second one on, of two images of 7x9 in 130 rows."""
    image = np.arange(130 * 2 * 7 * 9, dtype=np.float32).reshape(130, 2, 7, 9)
    frame = Frame((2, 130, 3, 4), (1,), (0, 2, 3))

    @nki.jit
    def kernel(x):
        tile = new((128, 2, 126))
        nisa.dma_copy(dst=tile[:, 0], src=x.reshape((130, 126))[:128])
        nisa.dma_copy(dst=tile[:2, 1], src=x.reshape((130, 126))[128:])
        whole = TensorPlace(
            SbufMatrix(tile, 130), (2, 130, 7, 9), ((0, 63), (1, 0), (0, 9), (0, 1)), (0, 0)
        )
        place = whole.sliced(frame.shape, (0, 0, 1, 1), (1, 1, 2, 2))
        found = nl.ndarray((130, columns), dtype=nl.float32, buffer=nl.shared_hbm)
        for span in tile_spans(frame, start, columns, 1, columns):
            assert slice_of(place, frame, span) is None or columns <= 4
            part = gather_slice(place, frame, span)
            first = span.block * 128
            nisa.dma_copy(dst=found[first : first + span.partitions], src=part[:, 0])
        return found

    (found,) = (run(kernel, image).outputs,)
    expected = image[:, :, 1:7:2, 1:9:2].reshape(130, 24)[:, start : start + columns]
    assert (np.asarray(found) == expected).all()


DOUBLED = [(1, 1, 0), (1, 128, 8), (3, 12, 3), (5, 7, 2)]


@pytest.mark.parametrize(("rows", "partitions", "moves"), DOUBLED)
def test_rows_are_repeated_by_doubling(rows, partitions, moves):
    array = np.arange(rows * 6, dtype=np.float32).reshape(rows, 6)

    @nki.jit
    def kernel(x):
        tile = new((rows, 1, 6))
        nisa.dma_copy(dst=tile[:, 0], src=x)
        whole = repeat_partitions(tile, partitions)
        out = nl.ndarray((partitions, 6), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=whole[:, 0])
        return out

    found = run(kernel, array)
    np.testing.assert_array_equal(found.outputs, array[np.arange(partitions) % rows])
    assert len(found.program) == 2 + moves


@pytest.mark.parametrize(
    ("start", "columns", "most"), [(0, 24, 1), (0, 12, 1), (3, 14, 3), (5, 1, 1)]
)
def test_runs_evenly_apart_are_written_by_one_transfer(start, columns, most):
    """Heads [6, 20, 4] of rows that hold them side by side."""
    frame = Frame((6, 20, 4), (1,), (0, 2))

    @nki.jit
    def kernel(source):
        out = nl.ndarray((6, 20, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        span, view = TileSpan(0, 1, 20, start, columns), in_hbm(source, (20, 6, 4))
        nisa.dma_copy(dst=out, src=source.reshape((6, 20, 4)))
        tile = load_tile(view.transposed((1, 0, 2)), frame, span, nl.float32)
        write_span(in_hbm(out, (6, 20, 4)), frame, span, tile)
        return out

    source = np.arange(480, dtype=np.float32).reshape(20, 24)
    found = run(kernel, source)
    wanted = source.reshape(6, 20, 4).transpose(1, 0, 2).reshape(20, 24).copy()
    wanted[:, start : start + columns] = source[:, start : start + columns]
    np.testing.assert_array_equal(found.outputs, wanted.reshape(20, 6, 4).transpose(1, 0, 2))
    written = [s for s in found.timeline.spans() if "src=SBUF" in s.operands]
    assert len(written) == most


def test_a_row_from_another_partition_is_a_transfer_of_its_own():
    """Runs of HBM and neighbouring rows of SBUF are one transfer, in each block of 128 rows."""
    frame = Frame((4, 64, 8), (0, 1), (2,))
    dense = in_hbm(None, frame.shape)
    assert count_transfers(dense, frame) == 2
    on_chip = TensorPlace(SbufMatrix(None, 256), frame.shape, ((64, 0), (1, 0), (0, 1)), (0, 0))
    assert count_transfers(on_chip, frame) == 2
    repeated = TensorPlace(SbufMatrix(None, 4), frame.shape, ((1, 0), (0, 0), (0, 1)), (0, 0))
    assert count_transfers(repeated, frame) == 2 * 4 * 64
