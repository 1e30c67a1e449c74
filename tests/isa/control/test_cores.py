"""core_barrier and sendrecv: each constraint just inside and just outside, prices, values."""

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import trnsim
from trnsim.errors import IllegalInstruction
from trnsim.isa import CoreBarrier, DmaEngine, Engine, Sendrecv
from trnsim.memory import Memory
from trnsim.nki.notices import SimulatorOnlyWarning

RANKS = {"send_to_rank": 1, "recv_from_rank": 1, "pipe_id": 0}
EITHER = [
    lambda b: CoreBarrier(b.empty((4, 4), memory=Memory.HBM), (0, 1)),
    lambda b: Sendrecv(b.empty((4, 4)), b.empty((4, 4)), 1, 1, 0),
]


@pytest.mark.parametrize("make", EITHER, ids=["core_barrier", "sendrecv"])
def test_neuroncore_v2_has_no_logical_cores(bench, core_v2, core_v3, core_v4, make):
    for core in (core_v3, core_v4):
        assert make(bench(core)).verify(core) is not None
    with pytest.raises(IllegalInstruction, match="on NeuronCore-v2; legal from NeuronCore-v3 on"):
        make(bench(core_v2)).verify(core_v2)


@pytest.mark.parametrize("make", EITHER, ids=["core_barrier", "sendrecv"])
@pytest.mark.parametrize("has_values", [True, False])
def test_a_kernel_on_one_core_has_nobody_to_meet(bench, make, has_values):
    bench = bench(has_values=has_values)
    instruction = make(bench)
    if isinstance(instruction, Sendrecv):
        instruction = Sendrecv(
            bench.tile(np.ones((4, 4), np.float32)), bench.empty((4, 4)), 1, 1, 0
        )
    with pytest.raises(IllegalInstruction, match=r"launched on one core; legal with two"):
        bench.context.issue(instruction)


@pytest.mark.parametrize("cores", [(0,), (1, 0), (0, 1, 2), (), (0, 2)])
def test_a_barrier_names_both_cores(bench, cores):
    bench = bench()
    data = bench.empty((4, 4), memory=Memory.HBM)
    assert CoreBarrier(data, [0, 1]).verify(bench.core) is not None
    with pytest.raises(IllegalInstruction, match=r"cores=.*; legal: \(0, 1\)"):
        CoreBarrier(data, cores).verify(bench.core)


@pytest.mark.parametrize("memory", [Memory.SBUF, Memory.PSUM])
def test_a_barrier_guards_hbm(bench, memory):
    bench = bench()
    with pytest.raises(IllegalInstruction, match=memory.name):
        CoreBarrier(bench.empty((4, 4), memory=memory), (0, 1)).verify(bench.core)


@pytest.mark.parametrize("region", [nl.shared_hbm, nl.private_hbm])
def test_a_barrier_guards_what_both_cores_see(region):
    @nki.jit
    def kernel(a):
        box = nl.ndarray(a.shape, dtype=a.dtype, buffer=region)
        nisa.core_barrier(box, (0, 1))
        return a

    a = np.ones((4, 8), np.float32)
    if region is nl.shared_hbm:
        trnsim.run(kernel[2], a)
        return
    with pytest.raises(IllegalInstruction, match="in private HBM; legal: shared HBM") as caught:
        trnsim.run(kernel[2], a)
    assert "test_cores.py" in str(caught.value.line)


@pytest.mark.parametrize("call", [lambda: nisa.core_barrier(None), lambda: nisa.sendrecv(1, 2)])
def test_cores_and_ranks_have_no_defaults(call):
    with pytest.raises(IllegalInstruction, match=r"was given .* positional operands"):
        call()


@pytest.mark.parametrize("field", ["send_to_rank", "recv_from_rank"])
@pytest.mark.parametrize(("rank", "is_legal"), [(-1, False), (0, True), (1, True), (2, False)])
def test_ranks_are_zero_and_one(bench, field, rank, is_legal):
    bench = bench()
    instruction = Sendrecv(bench.empty((4, 4)), bench.empty((4, 4)), **{**RANKS, field: rank})
    if is_legal:
        assert instruction.verify(bench.core)
        return
    with pytest.raises(IllegalInstruction, match=f"{field}={rank}; legal: 0 or 1"):
        instruction.verify(bench.core)


def test_both_sides_have_one_dtype_and_one_shape(bench):
    bench = bench()
    src = bench.empty((4, 8))
    with pytest.raises(IllegalInstruction, match="legal: equal dtypes"):
        Sendrecv(src, bench.empty((4, 8), ml_dtypes.bfloat16), 1, 1, 0).verify(bench.core)
    for shape in ((4, 9), (5, 8)):
        with pytest.raises(IllegalInstruction, match="axis"):
            Sendrecv(src, bench.empty(shape), 1, 1, 0).verify(bench.core)


@pytest.mark.parametrize("memory", [Memory.HBM, Memory.PSUM])
def test_both_sides_are_in_sbuf(bench, memory):
    bench = bench()
    inside, outside = bench.empty((4, 8)), bench.empty((4, 8), memory=memory)
    for src, dst in ((inside, outside), (outside, inside)):
        with pytest.raises(IllegalInstruction, match=f"{memory.name}.*; legal: SBUF"):
            Sendrecv(src, dst, 1, 1, 0).verify(bench.core)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.uint8])
def test_gpsimds_dma_takes_256_elements_a_partition(bench, dtype):
    bench = bench()

    def sendrecv(elements, how):
        tiles = (bench.empty((4, elements), dtype) for _ in range(2))
        return Sendrecv(*tiles, 1, 1, 0, how)

    small = sendrecv(256, DmaEngine.gpsimd_dma)
    assert small.verify(bench.core)
    assert small.chosen_engine(bench.core) is Engine.gpsimd
    with pytest.raises(IllegalInstruction, match=r"by gpsimd_dma; legal .*: at most") as caught:
        sendrecv(257, DmaEngine.gpsimd_dma).verify(bench.core)
    assert "dma_engine=nisa.dma_engine.dma" in caught.value.fix
    large = sendrecv(257, DmaEngine.dma)
    assert large.verify(bench.core)
    assert large.chosen_engine(bench.core) is Engine.dma


def test_a_barrier_costs_the_same_whatever_it_guards_and_an_exchange_its_bytes(bench):
    bench = bench()
    for shape in ((1, 1), (128, 4096)):
        barrier = CoreBarrier(bench.empty(shape, memory=Memory.HBM), (0, 1))
        assert bench.cost(barrier).interval_s == float(bench.core.core_barrier_s)
    short, long = (
        bench.cost(Sendrecv(bench.empty((4, n)), bench.empty((4, n)), 1, 1, 0)) for n in (64, 128)
    )
    assert long.interval_s == 2 * short.interval_s > 0
    assert long.latency_s == short.latency_s > float(bench.core.core_barrier_s)


# Kernels


def sending(dtype, shapes=((4, 8), (4, 8))):
    @nki.jit
    def kernel(a):
        rank = nl.program_id(0)
        out = nl.ndarray((2, 4, 8), dtype=dtype, buffer=nl.shared_hbm)
        src = nl.ndarray(shapes[rank], dtype=dtype, buffer=nl.sbuf)
        dst = nl.ndarray(shapes[rank], dtype=dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=src, src=a[rank, :, 0 : shapes[rank][1]])
        nisa.sendrecv(
            src, dst, 1 - rank, 1 - rank, pipe_id=3, dma_engine=nisa.dma_engine.gpsimd_dma
        )
        nisa.dma_copy(dst=out[rank], src=dst)
        return out

    return kernel[2]


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int32, np.uint8])
def test_each_core_gets_the_bits_of_the_other(dtype):
    a = np.arange(64).reshape(2, 4, 8).astype(dtype)
    if dtype == np.int32:
        a += 2**24 + 1  # which float32 cannot hold
    np.testing.assert_array_equal(trnsim.run(sending(dtype), a).outputs, a[::-1])


def test_nan_arrives_bit_for_bit():
    a = np.full((2, 4, 8), 0x7FC01234, np.uint32).view(np.float32)
    got = trnsim.run(sending(nl.float32), a).outputs
    np.testing.assert_array_equal(got.view(np.uint32), a.view(np.uint32))


@pytest.mark.parametrize("numerics", [True, False])
def test_cores_that_exchange_different_shapes_are_refused(numerics):
    a = np.ones((2, 4, 8), np.float32)
    with pytest.raises(IllegalInstruction, match="the other core sends"):
        trnsim.run(sending(nl.float32, ((4, 8), (4, 4))), a, numerics=numerics)


@pytest.mark.parametrize("numerics", [True, False])
@pytest.mark.parametrize("other", [nl.int32, nl.bfloat16])
def test_cores_that_exchange_different_dtypes_are_refused(numerics, other):
    @nki.jit
    def kernel():
        rank = nl.program_id(0)
        dtype = other if rank else nl.float32
        out = nl.ndarray((2, 4, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.ndarray((4, 8), dtype=dtype, buffer=nl.sbuf)
        nisa.memset(tile, 1)
        nisa.sendrecv(tile, tile, 1 - rank, 1 - rank, pipe_id=0)
        nisa.dma_copy(dst=out[rank], src=tile)
        return out

    with pytest.raises(IllegalInstruction, match="legal: equal shapes and dtypes"):
        trnsim.run(kernel[2], numerics=numerics)


def test_what_nothing_wrote_is_sent_along_and_stays_unwritten():
    @nki.jit
    def kernel(a, rows):
        rank = nl.program_id(0)
        out = nl.ndarray((2, rows, 8), dtype=a.dtype, buffer=nl.shared_hbm)
        src = nl.ndarray((4, 8), dtype=a.dtype, buffer=nl.sbuf)
        dst = nl.ndarray((4, 8), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=src[0:3], src=a[rank, 0:3])
        nisa.sendrecv(src, dst, 1 - rank, 1 - rank, pipe_id=0)
        nisa.dma_copy(dst=out[rank], src=dst[0:rows])
        return out

    a = np.arange(64, dtype=np.float32).reshape(2, 4, 8)
    np.testing.assert_array_equal(trnsim.run(kernel[2], a, 3).outputs, a[::-1, 0:3])
    with pytest.raises(IllegalInstruction, match="never written"):
        trnsim.run(kernel[2], a, 4)


def test_what_is_sent_is_what_was_there_when_it_was_sent():
    @nki.jit
    def kernel(a):
        rank = nl.program_id(0)
        out = nl.ndarray((2, 4, 8), dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.load(a[rank])
        nisa.sendrecv(tile, tile, 1 - rank, 1 - rank, pipe_id=0)
        nisa.dma_copy(dst=out[rank], src=tile)
        return out

    a = np.arange(64, dtype=np.float32).reshape(2, 4, 8)
    np.testing.assert_array_equal(trnsim.run(kernel[2], a).outputs, a[::-1])


@pytest.mark.parametrize("region", [nl.sbuf, nl.psum, nl.private_hbm])
def test_awss_simulator_meets_at_data_of_one_core_and_says_so(region):
    @nki.jit
    def kernel(a):
        rank = nl.program_id(0)
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        box = nl.ndarray((4, 8), dtype=a.dtype, buffer=region)
        nisa.dma_copy(dst=out[rank], src=nl.load(a[rank]))
        nisa.core_barrier(box, (0, 1))
        return out

    a = np.arange(64, dtype=np.float32).reshape(2, 4, 8)
    with pytest.warns(SimulatorOnlyWarning, match=r"core_barrier: `data` is .*; legal: shared HBM"):
        np.testing.assert_array_equal(nki.simulate(kernel[2])(a), a)
    with pytest.raises(IllegalInstruction, match=r"`data` is .*; legal: (shared )?HBM"):
        trnsim.run(kernel[2], a)
