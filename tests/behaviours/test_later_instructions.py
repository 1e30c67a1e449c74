"""Tests of the behaviours of instructions that begin or end at NKI 0.4 to 0.6: both sides."""

import ml_dtypes
import numpy as np
import pytest

import trnsim
from trnsim import nki
from trnsim.behaviours.chosen import pinned
from trnsim.dtypes import mx_dequantize
from trnsim.errors import IllegalInstruction
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl


def tile(shape, dtype=nl.float32, buffer=nl.sbuf, value=0):
    made = nl.ndarray(shape, dtype, buffer=buffer)
    nisa.memset(made, value)
    return made


def new(shape, dtype=nl.float32, buffer=nl.sbuf):
    return nl.ndarray(shape, dtype, buffer=buffer)


def loaded(x):
    made = new(x.shape, x.dtype)
    nisa.dma_copy(made, x)
    return made


def stored(made):
    out = new(made.shape, made.dtype, nl.shared_hbm)
    nisa.dma_copy(out, made)
    return out


def run(body, *arrays, version, target="trn3"):
    return trnsim.run(nki.jit(body), *arrays, nki=version, target=target)


def check_boundary(body, *arrays, since=None, until=None, target="trn3"):
    """Runs in the versions of a row, and is refused with a fix in those beside them."""
    versions = ["0.2", "0.3", "0.4", "0.5", "0.6", "0.7"]
    bounds = slice(versions.index(since) if since else 0, versions.index(until) if until else None)
    for version in versions[1:]:
        if version in versions[bounds]:
            run(body, *arrays, version=version, target=target)
            continue
        with pytest.raises(IllegalInstruction) as caught:
            run(body, *arrays, version=version, target=target)
        assert f"under NKI {version}, where" in caught.value.reason
        assert caught.value.fix
        assert caught.value.source
        assert caught.value.line.file == __file__


@pytest.mark.parametrize("op", [nl.square, nl.relu])
def test_tensor_scalar_takes_square_and_relu_from_0_4_on(op):
    check_boundary(lambda: nisa.tensor_scalar(new((4, 8)), tile((4, 8)), op, None), since="0.4")


@pytest.mark.parametrize("name", ["abs_max", "abs_min"])
def test_abs_max_and_abs_min_are_operators_from_0_4_on(name):
    op = getattr(nl, name)
    check_boundary(lambda: nisa.tensor_scalar(new((4, 8)), tile((4, 8)), op, 1.0), since="0.4")


def test_bypass_is_an_operator_from_0_4_on():
    op = nl.bypass
    check_boundary(
        lambda: nisa.tensor_scalar(new((4, 8)), tile((4, 8)), op, None, False, nl.add, 1.0),
        since="0.4",
    )


def test_nc_transpose_honours_its_engine_from_0_4_on():
    def kernel():
        nisa.nc_transpose(new((32, 32), buffer=nl.psum), tile((32, 32)), engine=nisa.engine.vector)

    for version, engine in (("0.3", "tensor"), ("0.4", "vector"), ("0.7", "vector")):
        checked = run(kernel, version=version).program.checked
        (transpose,) = [each for each in checked if each.opcode == "nc_transpose"]
        assert transpose.engine.name == engine


def test_dma_transpose_pads_a_lower_rank_before_0_4():
    x = np.arange(16 * 128, dtype=np.float16).reshape(16, 1, 1, 128)

    def kernel(x):
        dst = new((128, 16), x.dtype)
        nisa.dma_transpose(dst, x)
        return stored(dst)

    for version in ("0.2", "0.3"):
        assert np.array_equal(run(kernel, x, version=version).outputs, x.reshape(16, 128).T)
    for version in ("0.4", "0.7"):
        with pytest.raises(IllegalInstruction, match=r"legal: \[128, 1, 1, 16\]"):
            run(kernel, x, version=version)


@pytest.mark.parametrize("shape", [(16, 128), (128, 8), (128, 16, 1, 1)])
def test_dma_transpose_pads_no_other_shape_before_0_4(shape):
    x = np.zeros((16, 1, 1, 128), np.float16)

    def kernel(x):
        nisa.dma_transpose(new(shape, x.dtype), x)

    with pytest.raises(IllegalInstruction, match=r"legal: \[128, 1, 1, 16\]"):
        run(kernel, x, version="0.3")


def test_dma_transpose_with_hwdge_takes_3_dimensions_before_0_6():
    x = np.arange(16 * 3 * 128, dtype=np.float16).reshape(16, 3, 128)

    def kernel(x):
        dst = new((128, 3, 16), x.dtype)
        nisa.dma_transpose(dst, x, dge_mode=nisa.dge_mode.hwdge)
        return stored(dst)

    for version in ("0.5", "0.6"):
        assert np.array_equal(run(kernel, x, version=version).outputs, x.transpose(2, 1, 0))


def test_dma_transpose_with_hwdge_takes_16_rows_of_128_alone_before_0_6():
    x = np.zeros((16, 64), np.float16)

    def kernel(x):
        dst = new((64, 16), x.dtype)
        nisa.dma_transpose(dst, x, dge_mode=nisa.dge_mode.hwdge)

    check_boundary(kernel, x, since="0.6")


def test_dma_transpose_that_gathers_takes_128_columns_alone_before_0_4():
    x, rows = np.zeros((32, 64), np.float16), np.arange(16, dtype=np.uint32)[:, None]

    def kernel(x, rows):
        dst = new((64, 16), x.dtype)
        picked = x.ap([[64, 16], [1, 64]], vector_offset=loaded(rows))
        nisa.dma_transpose(dst, picked)

    check_boundary(kernel, x, rows, since="0.4")


def test_dma_transpose_skips_with_a_scalar_offset_from_0_5_on():
    x, at = np.zeros((32, 128), np.float16), np.zeros((1, 1), np.int32)

    def kernel(x, at):
        dst = new((128, 16), x.dtype)
        moved = x.ap([[128, 16], [1, 128]], scalar_offset=loaded(at))
        nisa.dma_transpose(dst, moved, oob_mode=nisa.oob_mode.skip)

    check_boundary(kernel, x, at, since="0.5")


@pytest.mark.parametrize(("rows", "since"), [(5, "0.4"), (16, None)])
def test_sendrecv_takes_multiples_of_16_partitions_alone_before_0_4(rows, since):
    def kernel():
        other = 1 - nl.program_id(0)
        nisa.sendrecv(tile((rows, 8)), new((rows, 8)), other, other, 0)

    check_boundary(nki.jit(kernel)[2], since=since)


def test_awss_simulator_sends_any_number_of_partitions_in_0_3():
    x = np.arange(80, dtype=np.float32).reshape(10, 8)

    def kernel(x):
        core, other = nl.program_id(0), 1 - nl.program_id(0)
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        sent, received = new((5, 8)), new((5, 8))
        nisa.dma_copy(sent, x[5 * core : 5 * core + 5])
        nisa.sendrecv(sent, received, other, other, 0)
        nisa.dma_copy(out[5 * core : 5 * core + 5], received)
        return out

    with pinned("0.3", "a test"):
        swapped = nki.simulate(nki.jit(kernel))[2](x)
    assert swapped.tolist() == [*x[5:].tolist(), *x[:5].tolist()]


def test_tensor_scalar_reduce_keeps_its_sum_from_0_6_on():
    def kernel():
        nisa.tensor_scalar_reduce(new((4, 8)), tile((4, 8)), nl.add, 1.0, nl.add, reduce_res=None)

    check_boundary(kernel, since="0.6")


def test_indirect_views_exist_from_0_5_on():
    def kernel():
        index = tile((32, 1), nl.uint16)
        nisa.tensor_copy(new((32, 16)), tile((32, 64)).indirect(index, 16))

    check_boundary(kernel, since="0.5")


def test_a_matmul_of_8192_bfloat16_columns_is_of_0_5():
    def kernel():
        moving = tile((32, 8192), nl.bfloat16)
        nisa.nc_matmul(new((32, 8192), nl.bfloat16, nl.psum), tile((32, 32), nl.bfloat16), moving)

    run(kernel, version="0.5")
    for version in ("0.3", "0.4"):
        with pytest.raises(IllegalInstruction, match="N <= 4096"):
            run(kernel, version=version)


def quantized(x, scale_dtype=nl.uint8):
    packed = new((x.shape[0], x.shape[1] // 4), nl.float8_e4m3fn_x4)
    scale = tile((x.shape[0], x.shape[1] // 4), nl.uint8)
    nisa.quantize_mx(
        packed, loaded(x), scale if scale_dtype == nl.uint8 else scale.view(scale_dtype)
    )
    return packed, scale


def test_the_scale_of_quantize_mx_is_that_of_ocp_before_0_5():
    x = np.random.default_rng(0).normal(size=(32, 16)).astype(ml_dtypes.bfloat16)

    def kernel(x):
        packed, scale = quantized(x)
        return stored(packed.view(nl.uint8)), stored(scale)

    found = {v: run(kernel, x, version=v).outputs for v in ("0.3", "0.4", "0.5", "0.7")}
    old, new_ = found["0.4"], found["0.5"]
    used = [0, 1, 2, 3]
    assert np.array_equal(new_[1][used].astype(int), old[1][used].astype(int) + 1)
    assert np.array_equal(found["0.3"][1], old[1])
    assert np.array_equal(found["0.7"][1], new_[1])
    elements = old[0].view(ml_dtypes.float8_e4m3fn).reshape(4, 8, 4, 4)  # group, row, column, 4
    blocks = np.moveaxis(elements, 1, 2).reshape(4, 4, 32)
    close = mx_dequantize(blocks, old[1][used])
    exact = np.moveaxis(x.astype(np.float32).reshape(4, 8, 4, 4), 1, 2).reshape(4, 4, 32)
    assert (np.abs(close - exact) <= np.abs(exact) / 4 + 2**-6).all()


def test_scales_are_float8_e8m0fnu_from_0_5_on():
    x, e8m0 = np.ones((32, 16), ml_dtypes.bfloat16), nl.float8_e8m0fnu

    def kernel(x):
        quantized(x, e8m0)

    check_boundary(kernel, x, since="0.5")


@pytest.mark.parametrize(
    ("form", "call"),
    [
        ("nisa.dma_copy(priority=)", lambda x: nisa.dma_copy(new((4, 4)), x, priority=1)),
        (
            "nisa.tensor_scalar_reduce(reduce_cmd=)",
            lambda x: nisa.tensor_scalar_reduce(
                new((4, 4)),
                loaded(x),
                nl.add,
                1.0,
                nl.add,
                new((4, 1)),
                reduce_cmd=nisa.reduce_cmd.reset_reduce,
            ),
        ),
    ],
)
def test_a_keyword_exists_from_0_4_on(form, call):
    x = np.ones((4, 4), np.float32)
    run(call, x, version="0.4")
    with pytest.raises(IllegalInstruction) as caught:
        run(call, x, version="0.3")
    assert caught.value.reason.startswith(f"{form} under NKI 0.3")
