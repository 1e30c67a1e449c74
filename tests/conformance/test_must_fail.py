"""Programs that the chip or its compiler refuses, each refused here at its own line.

Every kernel marks the line at fault with a comment; the error must name that line.
"""

import inspect

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import trnsim
from trnsim.errors import (
    DataRace,
    Deadlock,
    IllegalInstruction,
    OutOfMemory,
    UndefinedBehavior,
    UninitializedRead,
)

A = np.ones((128, 128), np.float32)


def sbuf(shape, dtype=nl.float32, **kwargs):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf, **kwargs)


def psum(shape, dtype=nl.float32, **kwargs):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.psum, **kwargs)


def loaded(a, dtype=nl.float32):
    tile = sbuf(a.shape, dtype)
    nisa.dma_copy(dst=tile, src=a)
    return tile


def refused(error, kernel, *arrays, match, target="trn2", **options):
    """Run the kernel; it must raise `error` at the line that it marks."""
    with pytest.raises(error, match=match) as caught:
        trnsim.run(kernel, *arrays, target=target, **options)
    function = inspect.unwrap(getattr(kernel, "__wrapped__", kernel))
    lines, first = inspect.getsourcelines(function)
    marked = [first + i for i, text in enumerate(lines) if "# here" in text]
    assert caught.value.line is not None
    assert caught.value.line.line in marked
    assert caught.value.line.file == __file__
    assert caught.value.source
    assert caught.value.fix


def test_more_than_128_partitions():
    @nki.jit
    def kernel(a):
        nl.ndarray((129, 4), dtype=a.dtype, buffer=nl.sbuf)  # here

    refused(IllegalInstruction, kernel, A, match="129 partitions; legal on NeuronCore-v3: at most")


def test_nine_psum_banks():
    @nki.jit
    def kernel(a):
        tile = loaded(a)
        banks = [nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum) for _ in range(9)]  # here
        for bank in banks:
            nisa.nc_matmul(dst=bank[:, 0:128], stationary=tile, moving=tile)
        for bank in banks:
            nisa.tensor_copy(dst=tile, src=bank[:, 0:128])

    match = "PSUM of NeuronCore-v3 holds 16384 bytes"
    refused(OutOfMemory, kernel, A, match=match, capacity="raise")


def test_sbuf_over_capacity_tells_what_is_live():
    @nki.jit
    def kernel(_):
        tiles = [nl.zeros((128, 16 * 1024), dtype=nl.float32) for _ in range(4)]  # here
        for tile in tiles:
            nisa.tensor_copy(dst=tile[:, 0:128], src=tile[:, 128:256])

    live = r"262144 are live at .*(?s:.*)65536 bytes tensor from"
    refused(OutOfMemory, kernel, A, match=live, capacity="raise")


def test_float32_with_bfloat16_in_one_matmul():
    @nki.jit
    def kernel(a):
        wide, narrow = loaded(a), loaded(a, nl.bfloat16)
        product = psum((128, 128))
        nisa.nc_matmul(dst=product, stationary=wide, moving=narrow)  # here

    refused(IllegalInstruction, kernel, A, match="float32 with moving bfloat16; legal: both")


@pytest.mark.parametrize("direction", ["from", "to"])
def test_dma_and_psum(direction):
    @nki.jit
    def kernel(a):
        tile, bank = loaded(a), psum((128, 128))
        nisa.nc_matmul(dst=bank, stationary=tile, moving=tile)
        pair = {"dst": tile, "src": bank} if direction == "from" else {"dst": bank, "src": tile}
        nisa.dma_copy(**pair)  # here

    refused(IllegalInstruction, kernel, A, match=r"is PSUM .*; legal: (SBUF or HBM|in NKI 0\.2)")


def test_a_trn3_instruction_on_trn2():
    @nki.jit
    def kernel(a):
        tile = loaded(a)
        nisa.exponential(dst=tile, src=tile)  # here

    refused(IllegalInstruction, kernel, A, match="NeuronCore-v4")


def test_a_start_partition_of_40():
    @nki.jit
    def kernel(a):
        tile = loaded(a)
        nisa.tensor_copy(dst=tile[0:16], src=tile[40:56])  # here

    refused(IllegalInstruction, kernel, A, match="starts at partition 40 and spans 16; legal")


def test_an_index_out_of_bounds():
    @nki.jit
    def kernel(a):
        a[0:129]  # here

    refused(IllegalInstruction, kernel, A, match="slice 0:129 of dimension 0")


def test_a_dynamic_index_out_of_bounds():
    @nki.jit
    def kernel(a, rows):
        index, tile = loaded(rows, nl.int32), sbuf((4, 128))
        source = a.ap(pattern=[[128, 4], [1, 128]], vector_offset=index, indirect_dim=0)
        nisa.dma_copy(dst=tile, src=source)  # here

    rows = np.array([[0], [127], [128], [1]], np.int32)
    refused(IllegalInstruction, kernel, A, rows, match="index 128 .*; legal: 0 to 127")


def test_a_read_of_what_an_overlapping_tensor_overwrote():
    @nki.jit
    def kernel(a):
        first = sbuf((128, 64), address=(0, 0))
        second = sbuf((128, 64), address=(0, 128))
        nisa.dma_copy(dst=first, src=a[:, 0:64])
        nisa.dma_copy(dst=second, src=a[:, 0:64])
        out = sbuf((128, 64))
        nisa.tensor_copy(dst=out, src=first)  # here

    refused(
        UninitializedRead, kernel, A, match="a tensor at an overlapping address has overwritten"
    )


def test_overlapping_tensors_that_take_turns_are_legal():
    @nki.jit
    def kernel(a):
        out = nl.ndarray((2, 128, 64), dtype=a.dtype, buffer=nl.shared_hbm)
        for turn in range(2):
            tile = sbuf((128, 64), address=(0, 0))
            nisa.dma_copy(dst=tile, src=a[:, 0:64])
            nisa.dma_copy(dst=out[turn], src=tile)
        return out

    assert trnsim.run(kernel, A).outputs.sum() == 2 * 128 * 64


def racing(with_barrier):
    @nki.jit
    def kernel(a):
        rank = nl.program_id(0)
        halves = nl.ndarray((2, 128, 128), dtype=a.dtype, buffer=nl.shared_hbm)
        tile = loaded(a)
        nisa.dma_copy(dst=halves[rank], src=tile)
        if with_barrier:
            nisa.core_barrier(halves, (0, 1))
        nisa.dma_copy(dst=tile, src=halves[1 - rank])  # here
        out = nl.ndarray((2, 128, 128), dtype=a.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out[rank], src=tile)
        return out

    return kernel[2]


def test_two_cores_without_a_barrier():
    with pytest.raises(DataRace, match="nothing orders the two") as caught:
        trnsim.run(racing(with_barrier=False), A)
    named = set(caught.value.reason.split("test_must_fail.py:")[1:])
    assert len(named) == 2


def test_two_cores_with_a_barrier_are_legal():
    np.testing.assert_array_equal(trnsim.run(racing(with_barrier=True), A).outputs, [A, A])


def test_cores_that_wait_for_each_other():
    @nki.jit
    def kernel(a):
        if nl.program_id(0) == 0:
            nisa.core_barrier(a, (0, 1))  # here

    message = r"core 0 waits for core 1 in core_barrier\(cores=\(0, 1\)\) at .*; core 1 has ended"
    with pytest.raises(Deadlock, match=message):
        trnsim.run(kernel[2], A)


def test_accumulating_onto_memset_psum_is_undefined_before_trn3():
    @nki.jit
    def kernel(a):
        tile, bank = loaded(a), psum((128, 128))
        nisa.memset(dst=bank, value=1.0)
        nisa.nc_matmul(dst=bank, stationary=tile, moving=tile, accumulate=True)  # here
        nisa.tensor_copy(dst=tile, src=bank)
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        return out

    refused(UndefinedBehavior, kernel, A, match="set by another instruction than a matmul")
    assert (trnsim.run(kernel, A, target="trn3").outputs == 129).all()


def test_a_read_of_what_nothing_wrote():
    @nki.jit
    def kernel(a):
        tile, empty = loaded(a), sbuf((128, 128))
        nisa.tensor_tensor(dst=tile, data1=tile, data2=empty, op=nl.add)  # here

    refused(UninitializedRead, kernel, A, match="some elements of which no instruction has written")


def test_a_read_of_integers_that_nothing_wrote():
    @nki.jit
    def kernel(_):
        out, empty = sbuf((128, 4), nl.int32), sbuf((128, 4), nl.int32)
        nisa.memset(dst=empty[:, 0:3], value=1)
        nisa.tensor_tensor(dst=out, data1=empty, data2=empty, op=nl.add)
        total = sbuf((128, 1), nl.int32)
        nisa.tensor_reduce(dst=total, op=nl.add, data=out, axis=1)  # here

    refused(UninitializedRead, kernel, A, match="some elements of which no instruction has written")


def test_a_dtype_that_the_generation_lacks():
    @nki.jit
    def kernel(_):
        nl.ndarray((128, 4), dtype=nl.float8_e4m3fn, buffer=nl.sbuf)  # here

    refused(
        IllegalInstruction, kernel, A, match="float8_e4m3fn on NeuronCore-v3; legal from Neuron"
    )
    assert trnsim.run(kernel, A, target="trn3").outputs is None


def test_an_output_that_was_never_written():
    @nki.jit
    def kernel(a):
        return nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)

    with pytest.raises(IllegalInstruction, match="some elements were never written"):
        trnsim.run(kernel, A)


def test_bfloat16_arrays_are_legal_inputs():
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=loaded(a, nl.bfloat16))
        return out

    narrow = A.astype(ml_dtypes.bfloat16)
    assert trnsim.run(kernel, narrow).outputs.dtype == narrow.dtype
