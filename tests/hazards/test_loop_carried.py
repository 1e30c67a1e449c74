"""Loop-carried dependences: kernels that break what affine_range says, and repaired ones."""

# nki: 0.6

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import trnsim
from trnsim.hazards.loop_carried import LoopWatcher, _LoopWrite
from trnsim.memory import Tile

A = np.arange(8 * 16, dtype=np.float32).reshape(8, 16)


def warnings(body, loop=nl.affine_range, *, cores=1):
    """What a run warns of whose loop calls ``body(i, tile, state)`` for tiles of 4 columns."""

    @nki.jit
    def kernel(a):
        tile, state = nl.load(a), nl.zeros((8, 16), nl.float32)
        for i in loop(4):
            body(i, tile, state)
        out = nl.ndarray((8, 16), nl.float32, buffer=nl.shared_hbm)
        if nl.program_id(0) == 0:
            nl.store(out, state)
        return out

    return trnsim.run(kernel[cores], A).warnings


def part(tile, i):
    return tile[:, nl.ds(4 * i, 4)]


def shift(i, tile, state):
    """Each iteration reads what the one before wrote."""
    if i > 0:
        nisa.tensor_copy(part(state, i), part(state, i - 1))
    nisa.tensor_tensor(part(state, i), part(state, i), part(tile, i), nl.add)


def independent(i, tile, state):
    nisa.tensor_copy(part(state, i), part(tile, i))
    nisa.tensor_scalar(part(state, i), part(state, i), nl.multiply, 2.0)


def test_an_iteration_that_reads_an_earlier_ones_result_is_named_with_both_lines():
    (text,) = warnings(shift)
    first = shift.__code__.co_firstlineno
    assert "reads SBUF [8, 4] float32" in text
    assert f"{__file__}:{first + 3}, which an earlier iteration wrote at " in text
    assert f"wrote at {__file__}:{first + 4}:" in text
    assert "fix: use range or nl.sequential_range" in text


@pytest.mark.parametrize("loop", [range, nl.sequential_range, nl.static_range])
def test_other_loops_promise_nothing(loop):
    assert warnings(shift, loop) == ()


def test_independent_iterations_are_no_dependence():
    assert warnings(independent) == ()


def test_two_cores_that_run_the_same_loop_warn_once():
    assert len(warnings(shift, cores=2)) == 1


def test_a_sum_kept_in_a_tile_is_a_reduction():
    def body(i, tile, state):
        nisa.tensor_tensor(part(state, 0), part(state, 0), part(tile, i), nl.add)

    assert warnings(body) == ()


def test_a_broadcast_over_partitions_in_each_iteration_is_no_dependence():
    """The ones that it multiplies by are made in the first iteration."""

    @nki.jit
    def kernel(a):
        row, out = nl.load(a), nl.ndarray((4, 8, 16), nl.float32, buffer=nl.shared_hbm)
        for i in nl.affine_range(4):
            nl.store(out[i], nl.broadcast_to(row, (8, 16)))
        return out

    run = trnsim.run(kernel, A[:1])
    assert run.warnings == ()
    assert (run.outputs == A[:1]).all()


def test_a_sum_by_way_of_another_tile_is_a_dependence():
    def body(i, tile, state):
        new = nl.add(part(state, 0), part(tile, i))
        nisa.tensor_copy(part(state, 0), new)

    assert len(warnings(body)) == 1


def test_accumulation_in_psum_is_a_reduction():
    @nki.jit
    def kernel(a):
        tile, total = nl.load(a), nl.ndarray((16, 16), nl.float32, buffer=nl.psum)
        for _ in nl.affine_range(3):
            nisa.nc_matmul(total, tile, tile)
        out = nl.ndarray((16, 16), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.copy(total))
        return out

    run = trnsim.run(kernel, A)
    assert run.warnings == ()
    np.testing.assert_array_equal(run.outputs, 3 * A.T @ A)


def test_a_tile_that_each_iteration_writes_anew_is_no_dependence():
    scratch = []

    def body(i, tile, state):
        if i == 0:
            scratch[:] = [nl.ndarray((8, 4), nl.float32)]
        nisa.tensor_copy(scratch[0], part(tile, i))
        nisa.tensor_copy(part(state, i), scratch[0])

    assert warnings(body) == ()


def test_strided_neighbours_are_no_dependence():
    def body(i, tile, state):
        nisa.tensor_copy(state[:, i:16:4], tile[:, i:16:4])
        nl.reciprocal(state[:, i:16:4])

    assert warnings(body) == ()


def test_one_common_element_of_two_strides_is_a_dependence():
    def body(i, tile, state):
        if i > 0:
            nisa.tensor_copy(part(tile, 0), state[:, 0:16:5])
        nisa.tensor_copy(state[:, i:16:4], tile[:, i:16:4])

    assert warnings(body)


@pytest.mark.parametrize("columns", [slice(0, 13, 4), slice(0, 16, 5), slice(0, 16, 15)])
def test_what_a_later_write_leaves_out_is_still_the_earlier_ones(columns):
    """The later write's box holds the element that is read, its elements do not."""

    def body(i, tile, state):
        if i == 0:
            nisa.tensor_copy(state[:, 0:13], tile[:, 0:13])
        else:
            nisa.tensor_copy(state[:, columns], tile[:, columns])
            nl.copy(state[:, 1:2])

    (text,) = warnings(body)
    assert "reads SBUF [8, 1] float32" in text


def test_what_a_later_write_covers_in_part_is_still_the_earlier_ones_elsewhere():
    def body(i, tile, state):
        end = 4 if i else 13
        nisa.tensor_copy(state[:, 0:end], tile[:, 0:end])
        if i:
            nl.copy(state[:, 2:8])

    assert len(warnings(body)) == 1


def test_what_a_later_write_covers_whole_is_no_longer_the_earlier_ones():
    def body(_, tile, state):
        nisa.tensor_copy(state[:, 0:13], tile[:, 0:13])
        nisa.tensor_copy(state[:, 0:12:2], tile[:, 0:12:2])
        nisa.tensor_copy(state[:, 1:12:2], tile[:, 1:12:2])
        nl.copy(state[:, 0:13])

    assert warnings(body) == ()


@pytest.mark.parametrize(
    ("rows", "columns", "is_dense"),
    [
        (slice(0, 8), slice(0, 16), True),
        (slice(3, 4), slice(5, 6), True),
        (slice(2, 5), slice(1, 4), True),
        (slice(0, 8), slice(0, 16, 15), False),
        (slice(0, 1), slice(0, 3, 2), False),
    ],
)
def test_a_write_is_dense_where_it_fills_its_bounding_box(bench, rows, columns, is_dense):
    tile = bench(has_values=False).empty((8, 16))
    pattern = tile.pattern.slice(0, rows.start, rows.stop)
    pattern = pattern.slice(1, columns.start, columns.stop, columns.step or 1)
    part = Tile(tile.storage, tile.dtype, pattern)
    assert _LoopWrite(0, part.layout, None).is_dense is is_dense


@pytest.mark.parametrize(("step", "kept"), [(1, 1), (2, 9)])
def test_dense_writes_of_one_place_are_kept_once(bench, step, kept):
    """A loop of many iterations remembers as much as one of few."""
    watcher, tile = LoopWatcher(), bench(has_values=False).empty((8, 16))
    part = Tile(tile.storage, tile.dtype, tile.pattern.slice(1, 0, 13, step))
    with watcher.loop() as loop:
        for _ in range(9):
            watcher.iterate(loop)
            watcher.accessed([], [part], None)
    assert len(tile.storage.accesses[watcher._key]) == kept


def test_what_was_written_before_the_loop_may_be_read_in_it():
    def body(i, tile, state):
        nisa.tensor_tensor(part(state, i), part(tile, 0), part(tile, 1), nl.add)

    assert warnings(body) == ()


def test_by_way_of_hbm_it_is_a_dependence_too():
    boxes = []

    def body(i, tile, state):
        if i == 0:
            boxes[:] = [nl.ndarray((8, 4), nl.float32, buffer=nl.private_hbm)]
        else:
            nl.store(part(state, i), boxes[0])
        nl.store(boxes[0], part(tile, i))

    assert len(warnings(body)) == 1


@pytest.mark.parametrize(
    ("outer", "inner", "count"),
    [
        (nl.affine_range, nl.affine_range, 1),
        (nl.affine_range, range, 1),
        (range, nl.affine_range, 0),
        (range, range, 0),
    ],
)
def test_the_loop_that_carries_it_is_what_counts(outer, inner, count):
    """Iterations of the outer loop depend on each other; those of the inner one do not."""

    @nki.jit
    def kernel(a):
        tile, state = nl.load(a), nl.zeros((8, 16), nl.float32)
        for i in outer(2):
            for j in inner(4):
                if i > 0:
                    nisa.tensor_copy(part(tile, j), part(state, j))
                nisa.tensor_copy(part(state, j), part(tile, j))
        out = nl.ndarray((8, 16), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, state)
        return out

    assert len(trnsim.run(kernel, A).warnings) == count


def test_a_loop_that_is_left_early_is_over():
    def body(_, tile, state):
        for j in nl.affine_range(4):
            nisa.tensor_copy(part(state, 0), part(tile, j))
            break
        for _ in range(2):
            nisa.tensor_copy(part(tile, 0), part(state, 0))
            nisa.tensor_copy(part(state, 0), part(tile, 0))

    assert warnings(body, range) == ()


def test_loops_that_begin_at_one_write_are_told_apart():
    """The inner one ends before the outer one's next iteration."""

    def body(i, tile, state):
        for _ in nl.affine_range(1):
            independent(i, tile, state)

    assert warnings(body) == ()


def test_a_warning_of_a_loop_is_no_race():
    @nki.jit
    def kernel(a):
        state = nl.load(a)
        for i in nl.affine_range(1, 4):
            nisa.tensor_copy(part(state, i), part(state, i - 1))
        out = nl.ndarray((8, 16), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, state)
        return out

    run = trnsim.run(kernel, A)
    assert len(run.warnings) == 1
    assert run.races == ()
    np.testing.assert_array_equal(kernel(A), run.outputs)  # Python warns of races alone


def test_a_loop_that_writes_nothing_ends_alone():
    def empty_loop_first(i, tile, state):
        for _ in nl.affine_range(2 - 2 * i if i < 2 else 0):
            pass
        shift(i, tile, state)

    (text,) = warnings(empty_loop_first)
    assert "which an earlier iteration wrote at" in text
