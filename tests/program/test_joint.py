"""Kernels on two cores that are called again: where a record would be stale, it is left."""

# nki: 0.5

import gc

import numpy as np
import pytest

import trnsim
from trnsim.nki import isa as nisa
from trnsim.nki import jit
from trnsim.nki import language as nl
from trnsim.program import CoreContext
from trnsim.program.joint import AgreeingCores

from .test_execution import (
    ROWS,
    TABLE,
    WIDTH,
    by_row,
    halves,
    indices,
    loaded,
    of_core,
    outcome,
    register_of,
    sbuf,
)


@pytest.fixture
def recorded(monkeypatch):
    """The instructions that had to be recorded, as the test goes on: none in a call that agrees."""
    seen = []
    append = CoreContext._record_new

    def noting(core, info, *rest):
        seen.append(info.checked.opcode)
        return append(core, info, *rest)

    monkeypatch.setattr(CoreContext, "_record_new", noting)
    return seen


def fresh(kernel):
    return jit(kernel.function)[2]


def attack(kernel, first, *others, errors=0, change=None):
    """Call a kernel until it has a record; then on others, it says what a fresh one says.

    Args:
        kernel: the kernel.
        first: the inputs of the first calls.
        *others: the inputs of later ones.
        errors: number of others that end in an error.
        change: called before each of the others, and with "first" before the calls on `first`.
    """
    again, failed = fresh(kernel), 0
    for arrays in others:
        for inputs, step in ((first, "first"), (first, "first"), (arrays, "other")):
            if change is not None:
                change(step)
            found = outcome(lambda *a: trnsim.run(again, *a), *inputs)
        assert found == outcome(lambda *a: trnsim.run(fresh(kernel), *a), *arrays)
        failed += "error" in found[0]
    assert failed == errors


def calls(kernel, recorded, *inputs):
    """The number of instructions recorded by each call of a kernel on inputs, one after another."""
    again, counts = fresh(kernel), []
    for arrays in inputs:
        recorded.clear()
        outcome(lambda *a: trnsim.run(again, *a), *arrays)
        counts.append(len(recorded))
    return counts


def test_a_third_call_records_nothing(recorded):
    first, other = indices(*range(8)), indices(*range(7, -1, -1))
    counts = calls(halves, recorded, *3 * [(TABLE, first)], (TABLE, other), (-TABLE, first))
    assert counts == [6, 6, 0, 0, 0]


def test_accesses_of_shared_memory_are_compared_field_by_field(monkeypatch):
    @jit
    def kernel(rows):
        core = nl.program_id(0)
        out = nl.ndarray((8, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out[4 * core : 4 * core + 4], src=loaded(rows[4 * core : 4 * core + 4]))
        return out

    again, compared_by_signature = fresh(kernel), []
    check = CoreContext._check

    def noting(core, instruction):
        compared_by_signature.append(instruction.opcode)
        return check(core, instruction)

    monkeypatch.setattr(CoreContext, "_check", noting)
    for sign in (1, 1, -1):
        compared_by_signature.clear()
        outputs = trnsim.run(again, sign * TABLE[:8]).outputs
        np.testing.assert_array_equal(outputs, sign * TABLE[:8])
    assert compared_by_signature == []


def test_a_run_with_doubtful_writes_has_no_record(recorded):
    @jit
    def kernel(rows):
        out = nl.ndarray((4, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=loaded(rows[0:4]))
        return out

    assert 0 not in calls(kernel, recorded, *4 * [(TABLE,)])
    attack(kernel, (TABLE,), (-TABLE,))


def test_other_rows_are_gathered_and_those_outside_refused():
    others = [(TABLE, indices(*rows)) for rows in (range(7, -1, -1), (0, 1, 2, 3, 4, 5, 6, 16))]
    attack(halves, (TABLE, indices(*range(8))), *others, errors=1)


@jit
def scattered(rows, index):
    """Each core scatters its rows into one tensor."""
    core = nl.program_id(0)
    out = nl.ndarray((8, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=by_row(out, loaded(of_core(index, core))), src=loaded(of_core(rows, core)))
    return out


def test_rows_that_both_scatter_to_are_a_race(recorded):
    rows, same = TABLE[:8], np.ones((8, WIDTH), np.float32)
    orders = [range(7, -1, -1), (0, 1, 2, 3, 3, 5, 6, 7), (0, 1, 2, 3, 4, 5, 6, 6)]
    others = [(rows, indices(*order)) for order in orders]
    attack(scattered, (rows, indices(*range(8))), *others, errors=2)
    attack(scattered, (same, indices(*range(8))), (same, indices(0, 1, 2, 3, 3, 5, 6, 7)), errors=1)
    assert calls(scattered, recorded, *3 * [(rows, indices(*range(8)))])[-1] == 0


def test_rows_that_the_other_core_wrote_are_gathered_behind_a_barrier_alone():
    has_barrier = [True]

    @jit
    def kernel(rows, index):
        core = nl.program_id(0)
        work = nl.ndarray((8, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
        out = nl.ndarray((8, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=of_core(work, core), src=loaded(of_core(rows, core)))
        if has_barrier[0]:
            nisa.core_barrier(work, (0, 1))
        tile = sbuf(4, WIDTH)
        nisa.dma_copy(dst=tile, src=by_row(work, loaded(of_core(index, core))))
        nisa.dma_copy(dst=of_core(out, core), src=tile)
        return out

    def change(step):
        has_barrier[0] = step == "first"

    first = TABLE[:8], indices(*range(8))
    crossed, own = indices(4, 5, 6, 7, 0, 1, 2, 3), indices(3, 2, 1, 0, 7, 6, 5, 4)
    attack(kernel, first, (TABLE[:8], crossed), (TABLE[:8], own))
    attack(kernel, first, (TABLE[:8], crossed), (TABLE[:8], own), change=change, errors=1)


def test_which_of_two_tensors_a_core_writes_counts():
    chosen = [1]

    @jit
    def kernel(rows):
        core = nl.program_id(0)
        outs = [nl.ndarray((4, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm) for _ in range(2)]
        nisa.dma_copy(dst=outs[chosen[0] * core], src=loaded(rows[4 * core : 4 * core + 4]))
        if not chosen[0]:
            nisa.dma_copy(dst=outs[1], src=loaded(rows[0:4]))
        return tuple(outs)

    def change(step):
        chosen[0] = int(step == "first")

    attack(kernel, (TABLE,), (TABLE,), change=change, errors=1)


@pytest.mark.parametrize("core", [0, 1])
@pytest.mark.parametrize("place", ["early", "late"])
def test_where_one_core_issues_another_instruction_both_leave(core, place):
    factor = [2.0]

    @jit
    def kernel(rows):
        own = nl.program_id(0)
        out = nl.ndarray((32, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
        tile, other = loaded(of_core(rows, own)), sbuf(16, WIDTH)
        early = factor[0] if own == core and place == "early" else 2.0
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=early)
        nisa.sendrecv(src=tile, dst=other, send_to_rank=1 - own, recv_from_rank=1 - own, pipe_id=0)
        late = factor[0] if own == core and place == "late" else 2.0
        nisa.tensor_scalar(dst=tile, data=other, op0=nl.add, operand0=late)
        nisa.dma_copy(dst=of_core(out, own), src=tile)
        return out

    rows = np.tile(TABLE, (2, 1))

    def change(step):
        factor[0] = 2.0 if step == "first" else 3

    attack(kernel, (rows,), (-rows,), change=change)


@pytest.mark.parametrize("core", [0, 1])
def test_a_core_that_ends_early_or_goes_on_leaves(core):
    more = [0]

    @jit
    def kernel(rows):
        own = nl.program_id(0)
        out = nl.ndarray((8, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = loaded(of_core(rows, own))
        for _ in range(2 + more[0] * (own == core)):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=of_core(out, own), src=tile)
        return out

    for change in (-1, 1):
        attack(
            kernel,
            (TABLE[:8],),
            (-TABLE[:8],),
            change=lambda step, change=change: more.__setitem__(0, change * (step == "other")),
        )


@pytest.mark.parametrize("row", [3, 9])
def test_what_a_core_gathered_is_raced_for_after_the_record_is_left(row, monkeypatch):
    """The indices of the gather have been overwritten by then."""
    writes, left = [False], []
    leave = AgreeingCores.leave
    monkeypatch.setattr(AgreeingCores, "leave", lambda self: (left.append(self), leave(self)))

    @jit
    def kernel(table, index):
        core = nl.program_id(0)
        out = nl.ndarray((8, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
        place, tile = loaded(of_core(index, core)), sbuf(4, WIDTH)
        nisa.dma_copy(dst=tile, src=by_row(table, place))
        nisa.tensor_scalar(dst=place, data=place, op0=nl.multiply, operand0=0.0)
        nisa.dma_copy(dst=of_core(out, core), src=tile)
        if writes[0] and core == 1:
            nisa.dma_copy(dst=table[row : row + 1], src=loaded(out[4:5]))
        return out

    def change(step):
        writes[0] = step == "other"

    first = TABLE, indices(0, 1, 2, 3, 12, 13, 14, 15)
    attack(kernel, first, first, change=change, errors=int(row == 3))
    assert left


@pytest.mark.parametrize("is_equal", [True, False])
def test_writes_after_the_record_is_left_are_judged_by_the_bytes_before(is_equal):
    writes = [False]

    @jit
    def kernel(rows):
        core = nl.program_id(0)
        out = nl.ndarray((8, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=of_core(out, core), src=loaded(of_core(rows[0:8], core)))
        if writes[0] and core == 1:
            nisa.dma_copy(dst=out[0:1], src=loaded(rows[8:9]))
        return out

    def change(step):
        writes[0] = step == "other"

    other = TABLE.copy()
    if is_equal:
        other[8] = other[0]
    attack(kernel, (TABLE,), (other,), change=change, errors=int(not is_equal))


@pytest.mark.parametrize("core", [0, 1])
def test_data_of_one_core_decide_how_long_its_loop_is(core):
    @jit
    def kernel(table, times):
        own = nl.program_id(0)
        out = nl.ndarray((ROWS, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = loaded(of_core(table, own))
        for _ in nl.dynamic_range(register_of(times[own : own + 1])):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=of_core(out, own), src=tile)
        return out

    other = indices(2, 2)
    other[core] = 4
    attack(kernel, (TABLE, indices(2, 2)), (TABLE, other), (TABLE, indices(1, 1)))


def test_an_address_from_data_may_be_in_the_half_of_the_other_core():
    @jit
    def kernel(table, row):
        core = nl.program_id(0)
        out = nl.ndarray((4, WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=of_core(out, core), src=loaded(table[2 * core : 2 * core + 2]))
        at_row = out.ap([[WIDTH, 1], [1, WIDTH]], scalar_offset=loaded(row[core : core + 1]))
        nisa.dma_copy(dst=at_row, src=loaded(table[8 + core : 9 + core]))
        return out

    others = [(TABLE, indices(*rows)) for rows in ((1, 3), (2, 3), (0, 0))]
    attack(kernel, (TABLE, indices(0, 2)), *others, errors=2)


def test_an_input_that_both_write_keeps_what_they_wrote():
    @jit
    def kernel(table):
        core = nl.program_id(0)
        half = of_core(table, core)
        nisa.dma_copy(dst=half, src=loaded(half))
        return table

    attack(kernel, (TABLE,), (-TABLE,), (TABLE + 1,))


def test_a_call_that_ends_in_an_error_leaves_the_record_as_it_was():
    attack(
        halves,
        (TABLE, indices(*range(8))),
        (TABLE, indices(*[16] * 8)),
        (TABLE, indices(*range(8))),
        errors=1,
    )


def test_the_cores_of_a_run_are_freed_when_it_ends():
    """Tensors of a run would else be kept until Python looks for cycles."""

    def copied(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        rows = nl.ds(nl.program_id(0) * 2, 2)
        nisa.dma_copy(dst=out[rows], src=x[rows])
        return out

    def contexts():
        return sum(isinstance(each, CoreContext) for each in gc.get_objects())

    again, x = jit(copied)[2], np.ones((4, 8), np.float32)
    gc.collect()
    gc.disable()
    try:
        of_others = contexts()
        for _ in range(4):  # traced, recorded, agreeing
            assert trnsim.run(again, x).outputs.all()
            assert contexts() == of_others
    finally:
        gc.enable()
