"""What meeting the other core costs: both go on when the slower one has come."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import trnsim

TILE = (128, 512)


@nki.jit
def halves(x, extra):
    """Core 0 works `extra` instructions longer; then each reads what the other wrote."""
    rank = nl.program_id(0)
    shared = nl.ndarray((2, *TILE), dtype=x.dtype, buffer=nl.shared_hbm)
    out = nl.ndarray((2, *TILE), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(TILE, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for _ in range(extra if rank == 0 else 0):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    nisa.dma_copy(dst=shared[rank], src=tile)
    nisa.core_barrier(data=shared, cores=(0, 1))
    other = nl.ndarray(TILE, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=other, src=shared[1 - rank])
    nisa.dma_copy(dst=out[rank], src=other)
    return out


@nki.jit
def swapped(x, extra):
    """As `halves`, but the cores send each other their tiles."""
    rank = nl.program_id(0)
    out = nl.ndarray((2, *TILE), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(TILE, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for _ in range(extra if rank == 0 else 0):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    other = nl.ndarray(TILE, dtype=x.dtype, buffer=nl.sbuf)
    nisa.sendrecv(src=tile, dst=other, send_to_rank=1 - rank, recv_from_rank=1 - rank, pipe_id=0)
    nisa.dma_copy(dst=out[rank], src=other)
    return out


def spans(run, opcode):
    """The spans of the instructions called `opcode`, core by core."""
    return [[s for s in timeline.spans() if s.opcode == opcode] for timeline in run.timelines]


@pytest.mark.parametrize("numerics", [True, False])
@pytest.mark.parametrize(("kernel", "opcode"), [(halves, "core_barrier"), (swapped, "sendrecv")])
def test_cores_meet_when_the_slower_one_has_come(kernel, opcode, numerics):
    x = np.zeros(TILE, np.float32)
    run = trnsim.run(kernel[2], x, 40, numerics=numerics)
    (slow,), (fast,) = spans(run, opcode)
    assert slow.start_s == fast.start_s
    last = spans(run, "tensor_scalar")[0][-1]
    assert slow.start_s > last.busy_until_s
    assert fast.waited_for is not None
    alone = trnsim.run(kernel[2], x, 0, numerics=numerics)
    (first,), _ = spans(alone, opcode)
    assert first.start_s < slow.start_s - 39 * (last.busy_until_s - last.start_s)


def test_the_faster_core_is_disturbed_by_the_slower_one_alone():
    slow, fast = trnsim.run(halves[2], np.zeros(TILE, np.float32), 40, numerics=False).timelines
    assert slow.undisturbed_s == slow.device_time_s
    (met,) = (span for span in fast.spans() if span.opcode == "core_barrier")
    assert fast.undisturbed_s < met.start_s < fast.device_time_s


def test_what_is_read_behind_a_barrier_is_read_after_it():
    run = trnsim.run(halves[2], np.zeros(TILE, np.float32), 40)
    for core in (0, 1):
        barrier = spans(run, "core_barrier")[core][0]
        written, read = spans(run, "dma_copy")[core][1:3]
        assert written.end_s <= barrier.start_s
        assert barrier.end_s <= read.start_s
        assert read.waited_for == barrier.index


def test_the_interval_of_two_cores_comes_of_both():
    x = np.zeros(TILE, np.float32)
    run = trnsim.run(halves[2], x, 400, numerics=False)
    fast = run.timelines[1]
    interval = fast.interval()
    assert interval.p10 <= fast.total_time_s <= interval.p90
