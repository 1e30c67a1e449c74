"""Broadcasts that stay in PSUM until something needs them in SBUF: streams and values."""

import ml_dtypes
import numpy as np
import pytest

import trnsim
from trnsim.nki import isa as nisa
from trnsim.nki import jit
from trnsim.nki import language as nl
from trnsim.nki.settling import MOST_IN_PSUM

TARGETS = ["trn1", "trn2", "trn3"]


def opcodes(run):
    """The instructions of a run but its loads and stores, in order."""
    program = run.timeline.program
    names = [program.instruction(i).opcode for i in range(len(program))]
    return [name for name in names if name != "dma_copy"]


def broadcasting(use, *arrays, target="trn2", numerics=True):
    """A run of `use(tile, ...)` on loaded tiles, whose result is stored."""

    @jit
    def kernel(*given):
        result = use(*[nl.load(x) for x in given])
        out = nl.ndarray(result.shape, result.dtype, buffer=nl.shared_hbm)
        nl.store(out, result)
        return out

    return trnsim.run(kernel, *arrays, target=target, numerics=numerics)


def scaled(x, row):
    """``x * row`` by one instruction."""
    product = nl.ndarray(x.shape, x.dtype)
    nisa.tensor_tensor(product, x, nl.broadcast_to(row, x.shape), nl.multiply)
    return product


@pytest.mark.parametrize("target", TARGETS)
def test_an_elementwise_operation_reads_the_broadcast_in_psum(random, target):
    x, row = random((128, 512)), random((1, 512), seed=1)
    run = broadcasting(scaled, x, row, target=target)
    np.testing.assert_array_equal(run.outputs, x * row)
    assert opcodes(run) == ["memset", "nc_matmul", "tensor_tensor"]
    core = run.target.core
    span = next(s for s in run.timeline.spans() if s.opcode == "tensor_tensor")
    assert span.busy_until_s - span.start_s == pytest.approx(512 / core.vector_clock_hz)


def test_a_stream_is_the_same_without_values(random):
    arrays = random((128, 512)), random((1, 512), seed=1)
    with_values, without = (broadcasting(scaled, *arrays, numerics=n) for n in (True, False))
    assert opcodes(with_values) == opcodes(without)
    assert with_values.total_time_s == without.total_time_s


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(1, 1), (1, 512), (1, 513), (1, 3, 200), (1, 2, 3, 300)])
def test_a_broadcast_that_is_stored_keeps_every_bit(random, shape, dtype, target):
    x = random(shape, dtype)
    x.reshape(-1)[:4] = np.array([-0.0, np.inf, 2.0**-14, np.nan], dtype)[: x.size]
    wanted = (70, *shape[1:])
    found = broadcasting(lambda row: nl.broadcast_to(row, wanted), x, target=target).outputs
    assert found.tobytes() == np.broadcast_to(x, wanted).tobytes()


def test_integers_and_unwritten_elements_are_shuffled(random):
    run = broadcasting(
        lambda row: nl.broadcast_to(row, (33, 8)), np.arange(8, dtype=np.int32)[None]
    )
    assert opcodes(run) == ["nc_stream_shuffle"] * 2

    def partly(row):
        tile = nl.ndarray((1, 8), row.dtype)
        nisa.tensor_copy(tile[:, :4], row)
        return nl.broadcast_to(tile, (32, 8))[:, :4]

    x = random((1, 4))
    run = broadcasting(partly, x)
    assert opcodes(run) == ["tensor_copy", "nc_stream_shuffle"]
    np.testing.assert_array_equal(run.outputs, np.broadcast_to(x, (32, 4)))


def test_two_broadcasts_of_one_operation_are_both_in_sbuf(random):
    def product(first, second):
        left, right = (nl.broadcast_to(row, (32, 8)) for row in (first, second))
        return nl.multiply(left, right)

    first, second = random((1, 8)), random((1, 8), seed=1)
    run = broadcasting(product, first, second)
    np.testing.assert_array_equal(run.outputs, np.repeat(first * second, 32, axis=0))
    assert opcodes(run).count("tensor_copy") == 2


def test_a_view_of_a_broadcast_is_read_in_psum_too(random):
    def tail(x, row):
        wide = nl.broadcast_to(row, (32, 8))
        sums = nl.ndarray(x.shape, x.dtype)
        nisa.tensor_tensor(sums, x, wide[:, 3:8], nl.add)
        return sums

    x, row = random((32, 5)), random((1, 8), seed=1)
    run = broadcasting(tail, x, row)
    np.testing.assert_array_equal(run.outputs, x + row[:, 3:])
    assert "tensor_copy" not in opcodes(run)


@pytest.mark.parametrize("engine", [nisa.engine.vector, nisa.engine.gpsimd], ids=str)
def test_a_broadcast_that_is_written_onto_is_copied_first(random, engine):
    def changed(row):
        wide = nl.broadcast_to(row, (32, 8))
        nisa.memset(wide[:, :3], 7.0, engine=engine)
        return wide

    row = random((1, 8))
    expected = np.repeat(row, 32, axis=0)
    expected[:, :3] = 7
    np.testing.assert_array_equal(broadcasting(changed, row).outputs, expected)


def test_gpsimd_reads_the_copy(random):
    def added(x, row):
        sums = nl.ndarray(x.shape, x.dtype)
        wide = nl.broadcast_to(row, x.shape)
        nisa.tensor_tensor(sums, x, wide, nl.add, engine=nisa.engine.gpsimd)
        return sums

    x, row = random((32, 8)), random((1, 8), seed=1)
    run = broadcasting(added, x, row)
    np.testing.assert_array_equal(run.outputs, x + row)
    assert "tensor_copy" in opcodes(run)


def test_a_broadcast_of_a_broadcast_and_of_psum(random):
    def twice(row):
        wide = nl.broadcast_to(row, (32, 8))
        psum = nl.ndarray((32, 8), nl.float32, buffer=nl.psum)
        nisa.tensor_copy(psum, nl.broadcast_to(wide[0:1], (32, 8)))
        return nl.broadcast_to(psum[0:1], (64, 8))

    row = random((1, 8))
    np.testing.assert_array_equal(broadcasting(twice, row).outputs, np.repeat(row, 64, axis=0))


def test_broadcasts_leave_psum_before_the_kernel_uses_it(random):
    def banks(row):
        wide = nl.broadcast_to(row, (128, 512))
        full = nl.ndarray((128, 8, 512), nl.float32, buffer=nl.psum)
        nisa.memset(full, 1.0)
        result = nl.ndarray((128, 512), nl.float32)
        nisa.tensor_tensor(result, full[:, 7], wide, nl.add)
        return result

    row = random((1, 512))
    expected = np.repeat(row, 128, axis=0) + 1
    np.testing.assert_array_equal(broadcasting(banks, row).outputs, expected)


def test_no_more_broadcasts_than_half_of_psum_wait(random):
    def many(row):
        kept = [nl.broadcast_to(row, (128, 512)) for _ in range(2 * MOST_IN_PSUM + 1)]
        total = nl.ndarray((128, 512), nl.float32)
        nisa.memset(total, 0.0)
        for wide in kept:
            nisa.tensor_tensor(total, total, wide, nl.add)
        return total

    row = random((1, 512))
    run = broadcasting(many, row)
    np.testing.assert_allclose(run.outputs, 9 * np.repeat(row, 128, axis=0), rtol=1e-6)
    assert opcodes(run).count("tensor_copy") == MOST_IN_PSUM + 1
