"""Each bug that AWS's release notes list for AWS's own simulator, as a kernel.

The quotations are from release-notes/components/nki.rst.
"""

# nki: 0.6

from dataclasses import dataclass

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import trnsim
from trnsim.errors import IllegalInstruction, UndefinedBehavior

pytestmark = pytest.mark.filterwarnings("ignore::trnsim.nki.notices.DynamicLoopWarning")
FP32_MIN = float(np.finfo(np.float32).min)
REDUCE = nisa.reduce_cmd.reset_reduce


def sbuf(shape, dtype=nl.float32, **kwargs):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf, **kwargs)


def psum(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.psum)


def returned(tile):
    """The tile in shared HBM; from PSUM by way of SBUF."""
    if nl.is_psum(tile.buffer):
        moved = sbuf(tile.shape, tile.dtype)
        nisa.tensor_copy(dst=moved, src=tile)
        tile = moved
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def outputs(body, *arrays, target="trn2", **kwargs):
    """What a kernel with this body returns."""
    return trnsim.run(nki.jit(body), *arrays, target=target, **kwargs).outputs


# NKI 0.6


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(nl.int8, [0, 2, 2, -2, 127, -128]), (nl.uint8, [0, 2, 2, 0, 255, 0])],
)
def test_casts_to_integers_round_to_even_and_saturate(dtype, expected):
    """0.6: "round to nearest, ties to even; saturate to the destination range"."""

    def kernel(a):
        tile = sbuf(a.shape, dtype)
        nisa.tensor_copy(dst=tile, src=nl.load(a))
        return returned(tile)

    a = np.array([[0.5, 1.5, 2.5, -1.5, 3e9, -3e9]], np.float32)
    assert outputs(kernel, a).tolist() == [expected]


def searched(data, vals, how):
    def kernel(a, v):
        return how(nl.load(a), nl.load(v))

    return outputs(kernel, np.float32([data]), np.float32([vals]))


def test_match_replace8_goes_through_the_values_in_reverse():
    """0.6: "iterates values in reverse to match hardware tie-break ordering"."""

    def how(data, vals):
        dst, places = sbuf(data.shape), sbuf((1, 8), nl.uint32)
        nisa.nc_match_replace8(dst=dst, data=data, vals=vals, imm=-1.0, dst_idx=places)
        return returned(dst), returned(places)

    data = [5, 1, 5, 2, 5, 3, 4, 6, 7, 8]
    replaced, places = searched(data, [5, 5, 5, 1, 2, 3, 4, 6], how)
    assert places.tolist() == [[4, 2, 0, 1, 3, 5, 6, 7]]
    assert replaced.tolist() == [[-1] * 8 + [7, 8]]


def test_find_index8_gives_all_ones_for_what_is_missing():
    """0.6: "unmatched slots now return all-ones [...] (previously returned 0, a valid index)"."""

    def how(data, vals):
        places = sbuf((1, 8), nl.uint32)
        nisa.nc_find_index8(dst=places, data=data, vals=vals)
        return returned(places)

    found = searched([1, 2, 3, 4, 5, 6, 7, 8], [1, 9, 8, 10, 2, 3, 4, 11], how)
    missing = 0xFFFFFFFF
    assert found.tolist() == [[0, missing, 7, missing, 1, 2, 3, missing]]


def test_find_index8_moves_on_for_duplicates():
    """0.6: "Duplicate search values now advance through successive occurrences"."""

    def how(data, vals):
        places = sbuf((1, 8), nl.uint32)
        nisa.nc_find_index8(dst=places, data=data, vals=vals)
        return returned(places)

    found = searched([5, 1, 5, 2, 5, 3, 4, 6], [5, 5, 5, 5, 1, 2, 3, 4], how)
    assert found.tolist() == [[0, 2, 4, 0xFFFFFFFF, 1, 3, 5, 6]]


def test_activation_keeps_a_reduction_that_lies_in_its_dst():
    """0.6: activation "with a reduce_res tile that aliases dst no longer clobbers"."""

    def kernel(a):
        tile, dst = nl.load(a), sbuf(a.shape)
        nisa.activation(
            dst=dst,
            op=nl.copy,
            data=tile,
            reduce_op=nl.add,
            reduce_res=dst[:, 0:1],
            reduce_cmd=REDUCE,
        )
        return returned(dst)

    a = np.arange(12, dtype=np.float32).reshape(2, 6)
    got = outputs(kernel, a)
    np.testing.assert_array_equal(got[:, 1:], a[:, 1:])
    np.testing.assert_array_equal(got[:, 0], a.sum(axis=1))


def quantized(source, scale, dtype=nl.float8_e4m3fn_x4):
    packed = sbuf((source.shape[0], source.shape[1] // 4), dtype)
    nisa.quantize_mx(dst=packed, src=source, dst_scale=scale)
    return packed


def multiplied(packed, scale, other, other_scale):
    product = psum((packed.shape[1], other.shape[1]))
    nisa.nc_matmul_mx(
        dst=product,
        stationary=packed,
        moving=other,
        stationary_scale=scale,
        moving_scale=other_scale,
    )
    return product


def of_groups(array, rows, columns):
    """The values of an array [K, 4 * n] as mx instructions see them: [4 * K, n]."""
    return array.reshape(rows, columns, 4).transpose(0, 2, 1).reshape(rows * 4, columns)


def test_scales_may_be_slices_of_one_buffer():
    """0.6: quantize_mx and nc_matmul_mx "handle sliced MX scale buffers correctly"."""

    def kernel(a, b):
        scales = sbuf((128, 4), nl.uint8)
        nisa.memset(dst=scales, value=99)
        first = quantized(nl.load(a, nl.bfloat16), scales[:, 0:2])
        second = quantized(nl.load(b, nl.bfloat16), scales[:, 2:4])
        return returned(multiplied(first, scales[:, 0:2], second, scales[:, 2:4]))

    rng = np.random.default_rng(0)
    a, b = (rng.choice([-2.0, -1, 0, 1, 2], (128, 8)).astype(np.float32) for _ in range(2))
    expected = of_groups(a, 128, 2).T @ of_groups(b, 128, 2)
    np.testing.assert_array_equal(outputs(kernel, a, b, target="trn3"), expected)


def test_double_row_gives_one_row_for_two():
    """0.6: double_row "could be missed, producing an oversized result"."""

    def kernel(a, b):
        stationary, moving = nl.load(a), nl.load(b)
        product = psum((8, 16))
        nisa.nc_matmul(
            dst=product,
            stationary=stationary,
            moving=moving,
            perf_mode=nisa.matmul_perf_mode.double_row,
        )
        return returned(product)

    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, (16, 2, 8)).astype(ml_dtypes.float8_e5m2)
    b = rng.integers(-3, 4, (16, 2, 16)).astype(ml_dtypes.float8_e5m2)
    expected = np.einsum("kpm,kpn->mn", a.astype(np.float32), b.astype(np.float32))
    np.testing.assert_array_equal(outputs(kernel, a, b), expected)


def test_overlapping_regions_of_psum_accumulate():
    """0.6: "accumulation into overlapping PSUM regions (the convolution pattern)"."""

    def kernel(a, b):
        stationary, moving = nl.load(a), nl.load(b)
        bank = psum((8, 12))
        for shift in range(5):
            nisa.nc_matmul(dst=bank[:, shift : shift + 8], stationary=stationary, moving=moving)
        return returned(bank)

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (16, 8)).astype(np.float32) for _ in range(2))
    expected = np.zeros((8, 12), np.float32)
    for shift in range(5):
        expected[:, shift : shift + 8] += a.T @ b
    np.testing.assert_array_equal(outputs(kernel, a, b), expected)


@pytest.mark.parametrize("prepare", ["nothing", "memset"])
def test_accumulation_that_the_chip_gets_wrong_is_refused(prepare):
    """0.5, 0.6: "warns on PSUM accumulation patterns that produce incorrect results"."""

    def kernel(a):
        tile, bank = nl.load(a), psum((8, 8))
        if prepare == "memset":
            nisa.memset(dst=bank, value=0.0)
        nisa.nc_matmul(dst=bank, stationary=tile, moving=tile, accumulate=True)
        return returned(bank)

    with pytest.raises(UndefinedBehavior, match="accumulate=True"):
        outputs(kernel, np.ones((16, 8), np.float32))


def test_a_predicated_copy_takes_other_ranks():
    """0.6: tensor_copy_predicated with "mismatched ranks but matching free-element counts"."""

    def kernel(a, p):
        dst = sbuf((4, 2, 2, 2))
        nisa.memset(dst=dst, value=-1.0)
        predicate = nl.load(p)
        nisa.tensor_copy_predicated(dst=dst, src=nl.load(a), predicate=predicate)
        return returned(dst)

    a = np.arange(32, dtype=np.float32).reshape(4, 8)
    p = (np.arange(32) % 3 == 0).astype(np.uint8).reshape(4, 2, 2, 2)
    expected = np.where(p, a.reshape(p.shape), -1)
    np.testing.assert_array_equal(outputs(kernel, a, p), expected)


def test_a_selecting_reduction_takes_other_ranks():
    """0.6: select_reduce with "mismatched ranks but matching free-element counts"."""

    def kernel(a, p):
        dst = sbuf((4, 2, 2, 2))
        nisa.select_reduce(dst=dst, predicate=nl.load(p), on_true=nl.load(a), on_false=-1.0)
        return returned(dst)

    a = np.arange(32, dtype=np.float32).reshape(4, 8)
    p = (np.arange(32) % 3 == 0).astype(np.uint8).reshape(4, 2, 2, 2)
    np.testing.assert_array_equal(outputs(kernel, a, p), np.where(p, a.reshape(p.shape), -1))


def test_affine_select_takes_a_float():
    """0.6: accept "a Python float on_false_value [...] without raising a dtype error"."""

    def kernel(a):
        dst = sbuf(a.shape)
        nisa.affine_select(
            dst=dst,
            pattern=[[-1, 8]],
            channel_multiplier=1,
            on_true_tile=nl.load(a),
            on_false_value=FP32_MIN,
            cmp_op=nl.greater_equal,
        )
        return returned(dst)

    a = np.arange(32, dtype=np.float32).reshape(4, 8)
    expected = np.where(np.tri(4, 8, dtype=bool), a, np.float32(FP32_MIN))
    np.testing.assert_array_equal(outputs(kernel, a), expected)


def ranged(a, low, high, **options):
    def kernel(a, low, high):
        dst, best = sbuf(a.shape), sbuf((a.shape[0], 1))
        nisa.range_select(
            dst=dst,
            on_true_tile=nl.load(a),
            comp_op0=nl.greater_equal,
            comp_op1=nl.less,
            bound0=nl.load(low),
            bound1=nl.load(high),
            reduce_res=best,
            **options,
        )
        return returned(dst), returned(best)

    return outputs(kernel, a, low, high)


A = np.arange(32, dtype=np.float32).reshape(4, 8)
LOW, HIGH = (np.float32([[i], [i], [i], [i]]) for i in (2, 5))


def test_range_select_takes_a_float():
    """0.6: range_select with ``float(np.finfo(np.float32).min)`` as on_false_value."""
    dst, best = ranged(A, LOW, HIGH, on_false_value=FP32_MIN, reduce_cmd=REDUCE)
    inside = (np.arange(8) >= 2) & (np.arange(8) < 5)
    np.testing.assert_array_equal(dst, np.where(inside, A, np.float32(FP32_MIN)))
    np.testing.assert_array_equal(best, A[:, 4:5])


# NKI 0.5


def gathering(count, dtype, skip):
    def kernel(table, rows):
        index = nl.load(rows)
        dst = sbuf((count, table.shape[1]), dtype)
        nisa.memset(dst=dst, value=0)
        source = table.ap([[table.shape[1], count], [1, table.shape[1]]], vector_offset=index)
        mode = nisa.oob_mode.skip if skip else nisa.oob_mode.error
        nisa.dma_copy(dst=dst, src=source, oob_mode=mode)
        return returned(dst)

    return kernel


ROWS = np.array([[1], [9], [0]], np.int32)


def test_skipping_works_for_packed_formats():
    """0.5: "dma_copy out-of-bounds error with x4 dtypes and oob_mode.skip"."""

    def kernel(table, rows):
        packed = table.view(nl.float8_e4m3fn_x4)
        index, dst = nl.load(rows), sbuf((3, 2), nl.float8_e4m3fn_x4)
        nisa.memset(dst=dst, value=0)
        source = packed.ap([[2, 3], [1, 2]], vector_offset=index)
        nisa.dma_copy(dst=dst, src=source, oob_mode=nisa.oob_mode.skip)
        return returned(dst.view(nl.uint32))

    table = np.array([[0x01020304, 0xFFFEFDFC], [0x7F7F7F7F, 5]], np.uint32)
    got = outputs(kernel, table, ROWS, target="trn3")
    np.testing.assert_array_equal(got, [table[1], [0, 0], table[0]])


def test_matmul_operands_may_have_more_dimensions():
    """0.5, 0.4: "nc_matmul with >2D operands in conv-style kernels"; "copies all elements"."""

    def kernel(a, b):
        stationary, moving = nl.load(a), nl.load(b)
        product = psum((8, 3, 4))
        nisa.nc_matmul(dst=product, stationary=stationary, moving=moving[:, 1:4, 0:8:2])
        return returned(product)

    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, (16, 2, 4)).astype(np.float32)
    b = rng.integers(-3, 4, (16, 5, 8)).astype(np.float32)
    expected = np.einsum("km,kij->mij", a.reshape(16, 8), b[:, 1:4, 0:8:2])
    np.testing.assert_array_equal(outputs(kernel, a, b), expected)


def counting(loop):
    def kernel(a):
        tile, left = nl.load(a), sbuf((1, 1), nl.int32)
        nisa.memset(dst=left, value=3)
        register = nisa.register_alloc()
        nisa.register_load(register, left)

        def body(register):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
            nisa.tensor_scalar(dst=left, data=left, op0=nl.subtract, operand0=1)
            nisa.register_load(register, left)
            return register

        loop(register, body)
        return returned(tile)

    return kernel


def plain_while(register, body):
    while register:
        body(register)


@pytest.mark.parametrize("loop", [plain_while, nl.while_loop])
def test_a_while_loop_ends(loop):
    """0.5: "while-loop failing to terminate correctly"."""
    np.testing.assert_array_equal(outputs(counting(loop), A), 8 * A)


def test_a_gathering_transpose_keeps_what_it_skips():
    """0.5: "gather transpose overwriting valid dst with OOB zeros"."""

    def kernel(table, rows):
        index, dst = nl.load(rows), sbuf((8, 16), nl.bfloat16)
        nisa.memset(dst=dst, value=-1.0)
        source = table.ap([[8, 16], [1, 8]], vector_offset=index)
        nisa.dma_transpose(
            dst=dst,
            src=source,
            axes=(1, 0),
            oob_mode=nisa.oob_mode.skip,
            dge_mode=nisa.dge_mode.swdge,
        )
        return returned(dst)

    table = np.arange(80).reshape(10, 8).astype(ml_dtypes.bfloat16)
    rows = np.arange(16, dtype=np.uint32).reshape(16, 1)
    got = outputs(kernel, table, rows)
    np.testing.assert_array_equal(got[:, :10], table.T)
    assert (got[:, 10:] == -1).all()


# NKI 0.4


def test_skipping_keeps_the_bits_of_integers():
    """0.4: skip "no longer casts integer tiles to float32"."""
    table = np.array([[2**24 + 1, 2**31 - 1], [-(2**31), 16777219]], np.int32)
    got = outputs(gathering(3, nl.int32, skip=True), table, ROWS)
    np.testing.assert_array_equal(got, [table[1], [0, 0], table[0]])


def test_a_shuffle_with_mask_255_leaves_dst():
    """0.4: "mask=255 now preserves existing destination data instead of zeroing it"."""

    def kernel(a):
        dst = sbuf(a.shape)
        nisa.memset(dst=dst, value=-1.0)
        mask = [255 if i % 2 else 31 - i for i in range(32)]
        nisa.nc_stream_shuffle(dst=dst, src=nl.load(a), shuffle_mask=mask)
        return returned(dst)

    a = np.arange(32 * 4, dtype=np.float32).reshape(32, 4)
    got = outputs(kernel, a)
    assert (got[1::2] == -1).all()
    np.testing.assert_array_equal(got[::2], a[::-1][::2])


@pytest.mark.parametrize("spelling", ["slice", "ap"])
def test_local_gather_fills_a_view(spelling):
    """0.4: local_gather correct "when the destination uses a sub-view or .ap() access pattern"."""

    def kernel(a, places):
        room = sbuf((16, 40))
        nisa.memset(dst=room, value=-1.0)
        view = room[:, 4:36] if spelling == "slice" else room.ap([[40, 16], [1, 32]], offset=4)
        nisa.local_gather(
            dst=view,
            src_buffer=nl.load(a),
            index=nl.load(places),
            num_elem_per_idx=1,
            num_valid_indices=32,
        )
        return returned(room)

    rng = np.random.default_rng(0)
    a = rng.standard_normal((16, 20)).astype(np.float32)
    places = rng.integers(0, 20, (16, 2)).astype(np.uint16)
    expected = np.full((16, 40), -1, np.float32)
    expected[:, 4:36] = a[:, places.T.reshape(-1)]
    np.testing.assert_array_equal(outputs(kernel, a, places), expected)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_packed_formats_quantize_and_multiply(name):
    """0.4: quantize_mx "with float8_e4m3fn_x4 output"; "MX x4 packed dtypes [...] trn3"."""

    def kernel(a):
        dtype = getattr(nl, f"{name}_x4")
        scale = sbuf((128, 2), nl.uint8)
        packed = quantized(nl.load(a, nl.bfloat16), scale, dtype)
        return returned(packed.view(nl.uint32)), returned(multiplied(packed, scale, packed, scale))

    a = np.random.default_rng(0).choice([-2.0, -1, 0, 1, 2], (128, 8)).astype(np.float32)
    packed, product = outputs(kernel, a, target="trn3")
    elements = packed.view(getattr(ml_dtypes, name)).astype(np.float32)
    ratio = np.unique(elements[a != 0] / a[a != 0])
    assert (np.log2(ratio) % 1 == 0).all()
    groups = of_groups(a, 128, 2)
    np.testing.assert_array_equal(product, groups.T @ groups)


def test_iota_takes_an_offset_from_a_register():
    """0.4: "iota and affine_select now handle dynamic register offsets correctly"."""

    def kernel(start):
        register, dst = nisa.register_alloc(), sbuf((4, 8), nl.int32)
        nisa.register_load(register, start)
        nisa.iota(dst=dst, pattern=[[1, 8]], offset=register, channel_multiplier=10)
        return returned(dst)

    got = outputs(kernel, np.array([5], np.int32))
    np.testing.assert_array_equal(got, 5 + 10 * np.arange(4)[:, None] + np.arange(8))


def test_affine_select_takes_an_offset_from_a_loops_register():
    """0.4: "iota and affine_select now handle dynamic register offsets correctly"."""

    def kernel(a):
        out = nl.ndarray((3, *a.shape), dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.load(a)
        for i in nl.dynamic_range(3):
            dst = sbuf(a.shape)
            nisa.affine_select(
                dst=dst,
                pattern=[[-1, 8]],
                offset=i,
                channel_multiplier=1,
                on_true_tile=tile,
                on_false_value=-1.0,
                cmp_op=nl.greater_equal,
            )
            nisa.dma_copy(dst=out[i], src=dst)
        return out

    expected = [np.where(np.tri(4, 8, i, dtype=bool), A, -1) for i in range(3)]
    np.testing.assert_array_equal(outputs(kernel, A), expected)


def test_dma_compute_has_no_scale_to_add():
    """0.4: dma_compute "no longer applies a fictional additive scale mode"."""

    def adding(scales):
        def kernel(a):
            dst = sbuf(a.shape)
            tile = nl.load(a)
            nisa.dma_compute(dst=dst, srcs=[tile, a], reduce_op=nl.add, scales=scales)
            return returned(dst)

        return kernel

    np.testing.assert_array_equal(outputs(adding([1.0, 1.0]), A), 2 * A)
    with pytest.raises(IllegalInstruction, match=r"legal: 1\.0 for each"):
        outputs(adding([2.0, 1.0]), A)


def test_logical_and_is_right():
    """0.4: "nl.logical_and in CPU simulation now produces correct results"."""

    def kernel(a, b):
        return returned(nl.logical_and(nl.load(a), nl.load(b)))

    a, b = np.float32([[0, 0, 2, -3, 0.5]]), np.float32([[0, 1, 0, 4, 0.25]])
    np.testing.assert_array_equal(outputs(kernel, a, b), np.logical_and(a, b))


def test_frozen_objects_can_be_made():
    """0.4: "@dataclass(frozen=True) failing to instantiate with FrozenInstanceError"."""

    @dataclass(frozen=True)
    class Options(nl.NKIObject):
        factor: float = 2.0

    assert Options(factor=3.0).factor == 3.0
    assert Options().factor == 2.0


def test_the_variable_of_a_device_loop_is_the_loops_alone():
    """0.4: "silent, undefined behavior when writing to the induction variable"."""

    def kernel(a):
        for i in nl.dynamic_range(3):
            nisa.register_move(i, 9)
        return a

    with pytest.raises(UndefinedBehavior, match="induction register"):
        outputs(kernel, A)


def test_the_variable_of_a_device_loop_is_an_offset():
    """0.4: the induction variable "can be used as a scalar_offset in access patterns"."""

    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        for i in nl.dynamic_range(a.shape[0]):
            tile = sbuf((1, 8))
            source = a.ap([[8, 1], [1, 8]], scalar_offset=i)
            nisa.dma_copy(dst=tile, src=source)
            nisa.dma_copy(dst=out.ap([[8, 1], [1, 8]], scalar_offset=i), src=tile)
        return out

    np.testing.assert_array_equal(outputs(kernel, A), A)


def test_a_transpose_runs_on_the_engine_that_it_names():
    """0.4: "nc_transpose silently ignoring the engine argument"."""

    def kernel(a):
        tile = nl.load(a)
        by_vector, by_tensor, by_choice = sbuf((8, 4)), psum((8, 4)), psum((8, 4))
        nisa.nc_transpose(dst=by_vector, data=tile, engine=nisa.engine.vector)
        nisa.nc_transpose(dst=by_tensor, data=tile, engine=nisa.engine.tensor)
        nisa.nc_transpose(dst=by_choice, data=tile)
        return returned(by_vector), returned(by_tensor), returned(by_choice)

    run = trnsim.run(nki.jit(kernel), A)
    for output in run.outputs:
        np.testing.assert_array_equal(output, A.T)
    instructions = [run.program.instruction(i) for i in range(len(run.program))]
    engines = [i.engine.name for i in instructions if i.opcode == "nc_transpose"]
    assert engines == ["vector", "tensor", "tensor"]


def test_a_kernel_takes_none():
    """0.4: "when a kernel is invoked with None arguments"."""

    def kernel(a, bias=None):
        assert bias is None
        return returned(nl.load(a))

    np.testing.assert_array_equal(outputs(kernel, A, None), A)


def test_tensors_of_one_dimension_print(capsys):
    """0.4: "nl.device_print failing verification on 1-D HBM tensors"."""

    def kernel(a):
        nl.device_print("row", a)
        return a

    outputs(kernel, np.float32([1, 2, 3]))
    assert capsys.readouterr().out == "row [1. 2. 3.]\n"


# NKI 0.3


def test_a_reduction_counts_axes_as_the_tensor_has_them():
    """0.3: axis=1 meant "the last free dimension even for 3D/4D tensors"."""

    def reducing(axis, shape):
        def kernel(a):
            dst = sbuf(shape)
            nisa.tensor_reduce(dst=dst, op=nl.add, data=nl.load(a), axis=axis)
            return returned(dst)

        return kernel

    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    np.testing.assert_array_equal(outputs(reducing((1, 2), (2, 1)), a)[:, 0], a.sum(axis=(1, 2)))
    np.testing.assert_array_equal(outputs(reducing(2, (2, 3)), a), a.sum(axis=2))
    with pytest.raises(IllegalInstruction, match="axis"):
        outputs(reducing(1, (2, 4)), a)


def test_range_select_keeps_its_reduce_command():
    """0.3: "reduce_cmd was always set to reset_reduce, regardless of the values passed in"."""

    def kernel(a, high):
        dst, best = sbuf(a.shape), sbuf((a.shape[0], 1))
        tile = nl.load(a)
        for low_bound, command in ((0, REDUCE), (3, nisa.reduce_cmd.reduce)):
            bound = sbuf((a.shape[0], 1))
            nisa.memset(dst=bound, value=float(low_bound))
            nisa.range_select(
                dst=dst,
                on_true_tile=tile,
                comp_op0=nl.greater_equal,
                comp_op1=nl.less,
                bound0=bound,
                bound1=nl.load(high),
                reduce_cmd=command,
                reduce_res=best,
            )
        return returned(best)

    falling = np.ascontiguousarray(A[:, ::-1])
    got = outputs(kernel, falling, HIGH)
    # The maximum over both: the second range alone would give column 3.
    np.testing.assert_array_equal(got, falling[:, 0:1])


def test_awss_simulator_warns_of_accumulating_onto_what_nothing_wrote():
    """NKI 0.5: "emits a warning when nc_matmul with accumulate=True is used" on such PSUM."""

    @nki.jit
    def kernel(a):
        bank = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.psum)
        tile = nl.load(a)
        nisa.nc_matmul(dst=bank[0:8, 0:4], stationary=tile, moving=tile[:, 0:4], accumulate=True)
        out = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=nl.copy(bank))
        return out

    a = np.ones((8, 8), np.float32)
    with pytest.warns(UserWarning, match="accumulate=True onto .*, which nothing wrote"):
        assert np.isnan(nki.simulate(kernel)(a)).all()
    with pytest.raises(UndefinedBehavior, match="which nothing wrote"):
        trnsim.run(kernel, a)
