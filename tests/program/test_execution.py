"""Recorded kernels whose data decide: addresses, loops, written elements, and races of two cores.

Each is recorded on some inputs and run on others, where a record that trusts its first inputs would
be wrong: everything that it says is that of a fresh run.
"""

# nki: 0.5

import numpy as np
import pytest

import trnsim
from trnsim.errors import EmulatorError
from trnsim.nki import isa as nisa
from trnsim.nki import jit
from trnsim.nki import language as nl
from trnsim.nki import replay as replays

ROWS, WIDTH = 16, 8
TABLE = np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)


def indices(*values):
    return np.array(values, np.int32).reshape(-1, 1)


def number(value):
    return np.array([[value]], np.int32)


def by_row(table, index, rows=4):
    """The rows of a table that an index tile picks."""
    return table.ap([[WIDTH, rows], [1, WIDTH]], vector_offset=index)


def stored(tile):
    """A tile in shared HBM."""
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def sbuf(*shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)


def loaded(array):
    tile = sbuf(*array.shape, dtype=array.dtype)
    nisa.dma_copy(dst=tile, src=array)
    return tile


def register_of(array):
    register = nisa.register_alloc()
    nisa.register_load(register, array)
    return register


def told(run):
    """Everything that a run says, but how its inputs were made."""
    facts = {"outputs": [np.asarray(output).tobytes() for output in np.atleast_1d(run.outputs)]}
    facts |= {"warnings": run.warnings, "time": run.total_time_s}
    for core, timeline in enumerate(run.timelines):
        program = timeline.program
        facts |= {
            f"spans {core}": [str(span) for span in timeline.spans()],
            f"waits {core}": [list(program.waits_for(i)) for i in range(len(program))],
        }
    return facts


def outcome(call, *arrays):
    """What a call says on copies of its inputs, or its error; and the inputs afterwards."""
    copies = [array.copy() for array in arrays]
    try:
        facts = told(call(*copies))
    except EmulatorError as error:
        facts = {"error": str(error), "kind": type(error)}
    return facts, [array.tobytes() for array in copies]


def attack(kernel, first, *others, errors=0):
    """Record a kernel on `first`; on others, and on the first again, it says what a run says."""
    replay = trnsim.record(kernel, *[array.copy() for array in first])
    failed = 0
    for arrays in (*others, first, *others):
        found = outcome(replay, *arrays)
        fresh = jit(kernel.function)
        fresh = fresh[kernel.cores] if kernel.cores > 1 else fresh
        assert found == outcome(lambda *a, run=fresh: trnsim.run(run, *a), *arrays)
        failed += "error" in found[0]
    assert failed == 2 * errors
    return replay


@jit
def gather(table, index):
    tile = sbuf(4, WIDTH)
    nisa.dma_copy(dst=tile, src=by_row(table, loaded(index)))
    return stored(tile)


def test_a_gather_takes_other_rows_and_refuses_those_outside():
    others = [(TABLE, indices(*rows)) for rows in ((5, 5, 0, 15), (3, 2, 1, 16), (0, -1, 2, 3))]
    replay = attack(gather, (TABLE, indices(3, 2, 1, 0)), *others, errors=2)
    assert len(replay._recordings) == 1


@jit
def skipping(table, index):
    tile = sbuf(4, WIDTH)
    source = by_row(table, loaded(index))
    nisa.dma_copy(dst=tile, src=source, oob_mode=nisa.oob_mode.skip)
    return stored(tile)


def test_rows_that_a_gather_skips_are_unwritten():
    attack(skipping, (TABLE, indices(3, 2, 1, 0)), (TABLE, indices(3, 99, 1, 0)), errors=1)


def test_rows_that_the_recorded_gather_skipped_may_be_written():
    @jit
    def kernel(table, index):
        tile = nl.zeros((4, WIDTH), dtype=nl.float32)
        nisa.dma_copy(dst=tile, src=by_row(table, loaded(index)), oob_mode=nisa.oob_mode.skip)
        return stored(tile)

    attack(kernel, (TABLE, indices(3, 99, 1, 0)), (TABLE, indices(3, 2, 1, 0)))


def test_what_is_made_of_a_skipped_row_is_unwritten_too():
    @jit
    def kernel(table, index):
        tile = sbuf(4, WIDTH)
        nisa.dma_copy(dst=tile, src=by_row(table, loaded(index)), oob_mode=nisa.oob_mode.skip)
        doubled = sbuf(4, WIDTH)
        nisa.tensor_scalar(dst=doubled, data=tile, op0=nl.multiply, operand0=2.0)
        summed = sbuf(4, WIDTH)
        nisa.tensor_tensor(dst=summed, data1=doubled, data2=tile, op=nl.add)
        return stored(summed)

    attack(kernel, (TABLE, indices(3, 2, 1, 0)), (TABLE, indices(99, 2, 1, 0)), errors=1)


@jit
def scatter(rows, index):
    out = nl.ndarray((4, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=by_row(out, loaded(index)), src=loaded(rows))
    return out


def test_a_scatter_that_leaves_rows_out_returns_what_was_never_written():
    others = [(TABLE[:4], indices(*rows)) for rows in ((0, 1, 2, 3), (1, 1, 2, 3), (0, 1, 2, 4))]
    attack(scatter, (TABLE[:4], indices(3, 2, 1, 0)), *others, errors=2)


def test_a_scatter_into_an_input_changes_other_rows():
    @jit
    def kernel(table, rows, index):
        nisa.dma_copy(dst=by_row(table, loaded(index)), src=loaded(rows))
        return table

    rows = -TABLE[:4]
    attack(kernel, (TABLE, rows, indices(3, 2, 1, 0)), (TABLE, rows, indices(9, 9, 4, 15)))


def test_a_mask_leaves_other_elements_unwritten():
    @jit
    def kernel(table, mask):
        tile = sbuf(4, WIDTH)
        nisa.tensor_copy_predicated(dst=tile, src=loaded(table), predicate=loaded(mask))
        return stored(tile)

    every, some = np.ones((4, WIDTH), np.uint8), np.eye(4, WIDTH, dtype=np.uint8)
    attack(kernel, (TABLE[:4], every), (TABLE[:4], some), errors=1)


@jit
def row_of_register(table, row):
    register = register_of(row)
    tile = sbuf(1, WIDTH)
    nisa.dma_copy(dst=tile, src=table.ap([[WIDTH, 1], [1, WIDTH]], scalar_offset=register))
    return stored(tile)


def test_a_register_addresses_another_row():
    others = [(TABLE, number(row)) for row in (0, 15, 16, -1)]
    replay = attack(row_of_register, (TABLE, number(3)), *others, errors=2)
    assert len(replay._recordings) == 3


def test_recordings_of_integers_are_dropped_where_there_are_too_many(monkeypatch):
    monkeypatch.setattr(replays, "MOST_RECORDINGS", 2)
    others = [(TABLE, number(row)) for row in range(5)]
    replay = attack(row_of_register, (TABLE, number(3)), *others)
    assert len(replay._recordings) == 2


def test_an_index_in_memory_addresses_another_row():
    @jit
    def kernel(table, row):
        tile = sbuf(1, WIDTH)
        source = table.ap([[WIDTH, 1], [1, WIDTH]], scalar_offset=loaded(row))
        nisa.dma_copy(dst=tile, src=source)
        return stored(tile)

    attack(kernel, (TABLE, number(3)), *[(TABLE, number(row)) for row in (7, 15, 16)], errors=1)


def test_rows_written_at_an_address_from_data_wait_for_others():
    @jit
    def kernel(table, row):
        place = loaded(row)
        work = nl.ndarray((ROWS, WIDTH), dtype=nl.float32, buffer=nl.hbm)
        nisa.dma_copy(dst=work, src=table)
        at_row = work.ap([[WIDTH, 1], [1, WIDTH]], scalar_offset=place)
        nisa.dma_copy(dst=at_row, src=loaded(table[0:1]))
        return stored(loaded(work[2:4]))

    attack(kernel, (TABLE, number(3)), *[(TABLE, number(row)) for row in (2, 9)])


def test_data_decide_how_long_a_loop_is():
    @jit
    def kernel(table, times):
        tile = loaded(table[:4])
        for _ in nl.dynamic_range(register_of(times)):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        return stored(tile)

    attack(kernel, (TABLE, number(3)), *[(TABLE, number(times)) for times in (5, 1, 4)])


def test_data_decide_how_long_two_loops_are():
    @jit
    def kernel(table, times):
        tile = loaded(table[:4])
        for part in (times[0:1], times[1:2]):
            for _ in nl.dynamic_range(register_of(part)):
                nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        return stored(tile)

    others = [(TABLE, indices(*times)) for times in ((1, 2), (2, 1), (2, 2), (1, 1))]
    replay = attack(kernel, (TABLE, indices(1, 3)), *others)
    assert len(replay._recordings) == 5


def test_python_decides_by_a_register():
    @jit
    def kernel(table, flag):
        tile = loaded(table[:4])
        factor = 2.0 if int(register_of(flag)) == 1 else 3.0
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
        return stored(tile)

    attack(kernel, (TABLE, number(1)), (TABLE, number(0)), (TABLE, number(7)))


def test_a_register_made_of_another_addresses_another_row():
    @jit
    def kernel(table, row):
        register = register_of(row)
        tile = sbuf(1, WIDTH)
        source = table.ap([[WIDTH, 1], [1, WIDTH]], scalar_offset=2 * register + 1)
        nisa.dma_copy(dst=tile, src=source)
        return stored(tile)

    attack(kernel, (TABLE, number(3)), *[(TABLE, number(row)) for row in (0, 7, 8)], errors=1)


def test_a_register_is_stored_with_its_value():
    @jit
    def kernel(value):
        register = register_of(value)
        moved = nisa.register_alloc(0)
        nisa.register_move(moved, register + 1)
        tile = sbuf(1, 1, dtype=nl.int32)
        nisa.register_store(tile, moved)
        return stored(tile)

    attack(kernel, (number(3),), (number(-8),), (number(0),))


def test_an_input_that_was_written_before_data_decide_is_given_back():
    @jit
    def kernel(table, row):
        nisa.dma_copy(dst=table[0:1], src=loaded(table[1:2]))
        nisa.dma_copy(dst=table[1:2], src=loaded(table[2:3]))
        register = register_of(row)
        source = table.ap([[WIDTH, 1], [1, WIDTH]], scalar_offset=register)
        return stored(loaded(source))

    attack(kernel, (TABLE, number(3)), *[(TABLE, number(row)) for row in (0, 1, 16)], errors=1)
    replay = trnsim.record(kernel, TABLE.copy(), number(3))
    strided = np.zeros((ROWS, 2 * WIDTH), np.float32)
    strided[:, ::2] = TABLE
    replay(strided[:, ::2], number(0))
    np.testing.assert_array_equal(strided[:2, ::2], TABLE[1:3])
    assert not strided[:, 1::2].any()


def of_core(rows, core):
    """The half of a tensor's rows that a core of two works on."""
    half = rows.shape[0] // 2
    return rows[core * half : (core + 1) * half]


@jit
def halves(table, index):
    """Each core gathers half of the rows."""
    out = nl.ndarray((8, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
    core = nl.program_id(0)
    tile = sbuf(4, WIDTH)
    nisa.dma_copy(dst=tile, src=by_row(table, loaded(of_core(index, core))))
    nisa.dma_copy(dst=of_core(out, core), src=tile)
    return out


def test_two_cores_gather_other_rows():
    others = [(TABLE, indices(*rows)) for rows in (range(8), (15,) * 8, (0, 1, 2, 3, 4, 5, 6, 16))]
    attack(halves[2], (TABLE, indices(*range(7, -1, -1))), *others, errors=1)


def test_two_cores_scatter_to_other_rows_and_race_where_they_are_the_same():
    @jit
    def kernel(rows, index):
        core = nl.program_id(0)
        out = nl.ndarray((8, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
        place = loaded(of_core(index, core))
        nisa.dma_copy(dst=by_row(out, place), src=loaded(of_core(rows, core)))
        return out

    rows, same = TABLE[:8], np.ones((8, WIDTH), np.float32)
    orders = [range(7, -1, -1), (0, 1, 2, 3, 3, 5, 6, 7), (0, 1, 2, 3, 4, 5, 6, 6)]
    others = [(rows, indices(*order)) for order in orders]
    others.append((same, indices(0, 1, 2, 3, 3, 5, 6, 7)))
    replay = attack(kernel[2], (rows, indices(*range(8))), *others, errors=3)
    assert replay._recordings[0]._executable.watches_races


def test_two_cores_write_equal_bytes_for_some_inputs_alone():
    @jit
    def kernel(rows, index):
        """Both write a row at a place from data: other bytes are a race, equal ones doubtful."""
        core = nl.program_id(0)
        out = nl.ndarray((8, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
        if core == 0:
            nisa.dma_copy(dst=out, src=loaded(rows[0:8]))
        nisa.core_barrier(out, (0, 1))
        nisa.dma_copy(dst=by_row(out, loaded(index), 1), src=loaded(rows[core : core + 1]))
        return out

    equal, other = TABLE.copy(), TABLE.copy()
    equal[1] = equal[0]
    attack(kernel[2], (equal, indices(2)), (equal, indices(5)), (other, indices(2)), errors=1)


def test_a_barrier_orders_what_the_other_core_gathers():
    @jit
    def kernel(rows, index):
        core = nl.program_id(0)
        work = nl.ndarray((8, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
        out = nl.ndarray((8, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=of_core(work, core), src=loaded(of_core(rows, core)))
        nisa.core_barrier(work, (0, 1))
        tile = sbuf(4, WIDTH)
        nisa.dma_copy(dst=tile, src=by_row(work, loaded(of_core(index, core))))
        nisa.dma_copy(dst=of_core(out, core), src=tile)
        return out

    rows = TABLE[:8]
    others = [(rows, indices(*order)) for order in (range(7, -1, -1), (4, 4, 4, 4, 0, 0, 0, 8))]
    attack(kernel[2], (rows, indices(*range(8))), *others, (-rows, indices(*range(8))), errors=1)


def test_without_a_barrier_what_the_other_core_gathers_may_be_its_own():
    @jit
    def kernel(rows, index):
        core = nl.program_id(0)
        work = nl.ndarray((8, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
        out = nl.ndarray((8, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=of_core(work, core), src=loaded(of_core(rows, core)))
        tile = sbuf(4, WIDTH)
        nisa.dma_copy(dst=tile, src=by_row(work, loaded(of_core(index, core))))
        nisa.dma_copy(dst=of_core(out, core), src=tile)
        return out

    rows = TABLE[:8]
    others = [(rows, indices(*order)) for order in ((3, 2, 1, 0, 7, 6, 5, 4), range(7, -1, -1))]
    attack(kernel[2], (rows, indices(*range(8))), *others, errors=1)


def test_cores_exchange_what_they_have():
    @jit
    def kernel(rows, index):
        core = nl.program_id(0)
        out = nl.ndarray((32, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
        tile, received = sbuf(16, WIDTH), sbuf(16, WIDTH)
        nisa.dma_copy(dst=tile, src=by_row(rows, loaded(of_core(index, core)), 16))
        nisa.sendrecv(
            src=tile, dst=received, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0
        )
        nisa.tensor_tensor(dst=received, data1=tile, data2=received, op=nl.subtract)
        nisa.dma_copy(dst=of_core(out, core), src=received)
        return out

    first, other = np.arange(32) % ROWS, np.arange(32) // 2
    attack(kernel[2], (TABLE, indices(*first)), (TABLE, indices(*other)), (-TABLE, indices(*first)))


@pytest.mark.parametrize("core", [0, 1])
def test_a_register_of_one_core_decides(core):
    @jit
    def kernel(table, times):
        own = nl.program_id(0)
        out = nl.ndarray((ROWS, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = loaded(of_core(table, own))
        for _ in nl.dynamic_range(register_of(times[own : own + 1])):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=of_core(out, own), src=tile)
        return out

    other, both = indices(2, 2), indices(3, 3)
    other[core] = 4
    attack(kernel[2], (TABLE, indices(2, 2)), (TABLE, other), (TABLE, both))


def test_a_row_that_the_other_core_skipped_is_unwritten():
    @jit
    def kernel(table, index):
        core = nl.program_id(0)
        work = nl.ndarray((8, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
        out = nl.ndarray((8, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
        place = loaded(of_core(index, core))
        rows = loaded(of_core(table[0:8], core))
        nisa.dma_copy(dst=by_row(work, place), src=rows, oob_mode=nisa.oob_mode.skip)
        nisa.core_barrier(work, (0, 1))
        nisa.dma_copy(dst=of_core(out, core), src=loaded(of_core(work, 1 - core)))
        return out

    others = [(TABLE, indices(*order)) for order in (range(7, -1, -1), (0, 1, 99, 3, 4, 5, 6, 7))]
    attack(kernel[2], (TABLE, indices(*range(8))), *others, errors=1)


def test_two_cores_take_the_address_of_a_row_from_data():
    @jit
    def kernel(table, row):
        core = nl.program_id(0)
        out = nl.ndarray((4, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=of_core(out, core), src=loaded(table[2 * core : 2 * core + 2]))
        at_row = out.ap([[WIDTH, 1], [1, WIDTH]], scalar_offset=loaded(row[core : core + 1]))
        nisa.dma_copy(dst=at_row, src=loaded(table[8 + core : 9 + core]))
        return out

    others = [(TABLE, indices(*rows)) for rows in ((1, 3), (2, 3), (0, 0))]
    attack(kernel[2], (TABLE, indices(0, 2)), *others, errors=2)
