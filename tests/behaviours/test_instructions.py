"""Tests of instructions by version of NKI: both sides of each row's boundary."""

import numpy as np
import pytest

import trnsim
from trnsim import nki
from trnsim.errors import BadInput, IllegalInstruction, NotModelled, UndefinedBehavior, Unspecified
from trnsim.nki import collectives as ncc
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl
from trnsim.nki.notices import OlderFormWarning

ARRAY = np.arange(12, dtype=np.float32).reshape(3, 4)
FP32_MIN = np.finfo(np.float32).min


def run(body, *arrays, nki_version, shape=None, dtype=None, target="trn2", cores=1):
    """The output of a kernel that calls `body` with arguments in SBUF and an output in HBM."""

    @nki.jit
    def kernel(*inputs):
        tiles = []
        for source in inputs:
            tiles.append(nl.ndarray(source.shape, source.dtype, nl.sbuf))
            nisa.dma_copy(tiles[-1], source)
        out = nl.ndarray(shape or inputs[0].shape, dtype or inputs[0].dtype, nl.shared_hbm)
        body(out, *tiles)
        return out

    arrays = arrays or (ARRAY,)
    return trnsim.run(kernel[cores], *arrays, nki=nki_version, target=target).outputs


def refused(body, *arrays, nki_version, match, error=IllegalInstruction, **options):
    with pytest.raises(error, match=match) as caught:
        run(body, *arrays, nki_version=nki_version, **options)
    assert caught.value.fix
    assert caught.value.source
    assert caught.value.line.file == __file__


def test_dma_copy_reads_psum_in_0_2():
    def body(out, tile):
        psum = nl.ndarray(tile.shape, tile.dtype, nl.psum)
        nisa.tensor_copy(psum, tile)
        nisa.dma_copy(out, psum)

    assert (run(body, nki_version="0.2") == ARRAY).all()
    for version in ("0.3", "0.6", "0.7"):
        refused(body, nki_version=version, match=f"in PSUM under NKI {version}|PSUM .* under NKI")


def test_dma_copy_adds_to_dst_in_0_2():
    def by_name(out, tile):
        nisa.dma_copy(out, tile)
        nisa.dma_copy(out, tile, dst_rmw_op=nl.add, unique_indices=True)

    def by_place(out, tile):
        nisa.dma_copy(out, tile, None)
        nisa.dma_copy(out, tile, nl.add, nisa.oob_mode.error, nisa.dge_mode.none)

    for body in (by_name, by_place):
        assert (run(body, nki_version="0.2") == 2 * ARRAY).all()
    refused(by_name, nki_version="0.3", match=r"nisa.dma_copy\(dst_rmw_op=\) under NKI 0.3")
    refused(by_place, nki_version="0.3", match="dma_copy")


def test_dma_copy_adds_rows_by_index_in_0_2():
    rows = np.array([[2], [0]], np.uint32)
    parts = np.ones((2, 4), np.float32)

    def body(out, tile, part, index):
        nisa.dma_copy(out, tile)
        there = out.ap([[4, 2], [1, 4]], vector_offset=index, indirect_dim=0)
        nisa.dma_copy(there, part, dst_rmw_op=nl.add, unique_indices=True)

    expected = ARRAY + np.array([[1], [0], [1]], np.float32)
    assert (run(body, ARRAY, parts, rows, nki_version="0.2") == expected).all()


def test_dma_copy_at_a_dynamic_address_is_not_modelled_where_it_adds():
    def body(out, tile):
        register = nisa.register_alloc(1)
        nisa.dma_copy(out, tile)
        nisa.dma_copy(out[nl.ds(register, 1)], tile[0:1], dst_rmw_op=nl.add)

    refused(body, nki_version="0.2", match="at a dynamic address", error=NotModelled)


def test_dma_copy_takes_priority_third_from_0_4_on():
    def body(out, tile):
        nisa.dma_copy(out, tile, nisa.oob_mode.error, nisa.dge_mode.none)

    assert (run(body, nki_version="0.3") == ARRAY).all()
    refused(body, nki_version="0.4", match="dma_copy")


def test_hwdge_moves_bytes_of_two_dtypes_in_0_2():
    def body(out, tile):
        nisa.dma_copy(out, tile, dge_mode=nisa.dge_mode.hwdge)

    bits = run(body, nki_version="0.2", dtype=nl.int32)
    assert (bits == ARRAY.view(np.int32)).all()
    refused(body, nki_version="0.3", dtype=nl.int32, match="hwdge from float32 to int32 under")
    refused(
        body,
        nki_version="0.2",
        dtype=nl.bfloat16,
        match="differ in size",
        error=UndefinedBehavior,
    )


def test_memset_casts_a_float_in_0_2():
    def body(out, tile):
        whole = nl.ndarray(tile.shape, nl.int32, nl.sbuf)
        nisa.memset(whole, 2.0)
        nisa.dma_copy(out, whole)

    assert (run(body, nki_version="0.2", dtype=nl.int32) == 2).all()
    refused(body, nki_version="0.3", dtype=nl.int32, match=r"value 2.0 for .* under NKI 0.3")


def test_memset_of_a_packed_dtype_takes_0_alone():
    def body(out, tile):
        packed = nl.ndarray(tile.shape, nl.float8_e4m3fn_x4, nl.sbuf)
        nisa.memset(packed, 1)
        nisa.dma_copy(out, packed)

    refused(body, nki_version="0.2", target="trn3", match="does not say", error=Unspecified)
    refused(body, nki_version="0.3", target="trn3", match="value 1 for .* under NKI 0.3")


def test_dma_compute_takes_scales_third_in_0_2():
    def old(out, tile):
        nisa.dma_compute(out, [tile, tile], [1.0, 1.0], nl.add)

    def new(out, tile):
        nisa.dma_compute(out, [tile, tile], nl.add)

    assert (run(old, nki_version="0.2") == 2 * ARRAY).all()
    assert (run(new, nki_version="0.3") == 2 * ARRAY).all()
    refused(old, nki_version="0.3", match=r"reduce_op\) under NKI 0.3")
    refused(new, nki_version="0.2", match="dma_compute")


def test_affine_select_takes_offset_third_in_0_2():
    def old(out, tile):
        result = nl.ndarray(tile.shape, tile.dtype, nl.sbuf)
        nisa.affine_select(result, [[1, 4]], -2, 0, tile, 9.0, nl.greater_equal)
        nisa.dma_copy(out, result)

    def new(out, tile):
        result = nl.ndarray(tile.shape, tile.dtype, nl.sbuf)
        nisa.affine_select(result, [[1, 4]], 0, tile, 9.0, nl.greater_equal, offset=-2)
        nisa.dma_copy(out, result)

    expected = np.where(np.arange(4) >= 2, ARRAY, 9.0)
    assert (run(old, nki_version="0.2") == expected).all()
    assert (run(new, nki_version="0.3") == expected).all()
    refused(old, nki_version="0.3", match=r"affine_select\(dst, pattern, offset, ...\) under")


def test_axis_1_of_tensor_reduce_is_the_last_in_0_2():
    cube = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

    def body(out, tile):
        total = nl.ndarray((2, 3), tile.dtype, nl.sbuf)
        nisa.tensor_reduce(total, nl.add, tile, 1)
        nisa.tensor_reduce(total, op=nl.add, data=tile, axis=1)
        nisa.dma_copy(out, total)

    assert (run(body, cube, nki_version="0.2", shape=(2, 3)) == cube.sum(-1)).all()
    refused(body, cube, nki_version="0.3", shape=(2, 3), match="axis=1")


@pytest.mark.parametrize("axis", [np.zeros(3), [np.zeros(2)], np.ones(1), "1", (1, 1)], ids=repr)
def test_an_axis_that_is_no_axis_is_refused_by_name(axis):
    def body(out, tile):
        total = nl.ndarray((2, 3), tile.dtype, nl.sbuf)
        nisa.tensor_reduce(total, nl.add, tile, axis)
        nisa.dma_copy(out, total)

    cube = np.ones((2, 3, 4), np.float32)
    refused(body, cube, nki_version="0.2", shape=(2, 3), match="tensor_reduce: `?axis")


def test_range_select_ignores_its_command_in_0_2():
    bounds = np.array([[1.0], [1.0], [1.0]], np.float32)

    def body(out, tile, low, high):
        result = nl.ndarray(tile.shape, tile.dtype, nl.sbuf)
        most = nl.ndarray((3, 1), tile.dtype, nl.sbuf)
        for command in (nisa.reduce_cmd.reset_reduce, nisa.reduce_cmd.reduce):
            nisa.range_select(
                *(result, tile, nl.greater_equal, nl.less, low, high),
                reduce_cmd=command,
                reduce_res=most,
            )
            nisa.tensor_scalar(tile, tile, nl.subtract, 20.0)
        nisa.dma_copy(out, most)

    arrays = (ARRAY, bounds, bounds + 2)
    old = run(body, *arrays, nki_version="0.2", shape=(3, 1))
    new = run(body, *arrays, nki_version="0.3", shape=(3, 1))
    assert (old == ARRAY[:, 2:3] - 20).all()
    assert (new == ARRAY[:, 2:3]).all()


def test_range_select_ignores_its_value_in_0_2():
    bounds = np.ones((3, 1), np.float32)

    def body(out, tile, bound):
        result = nl.ndarray(tile.shape, tile.dtype, nl.sbuf)
        nisa.range_select(*(result, tile, nl.less, nl.less, bound, bound), on_false_value=0.0)
        nisa.dma_copy(out, result)

    values = run(body, ARRAY, bounds, nki_version="0.2")
    assert (values[:, 1:] == FP32_MIN).all()
    refused(body, ARRAY, bounds, nki_version="0.3", match="on_false_value 0.0")


def test_integers_for_members_warn_from_0_3_on():
    def body(out, tile):
        nisa.dma_copy(out, tile, dge_mode=3)

    assert (run(body, nki_version="0.2") == ARRAY).all()
    with pytest.warns(OlderFormWarning, match=r"write nisa.dge_mode\.") as caught:
        assert (run(body, nki_version="0.3") == ARRAY).all()
    assert caught[0].filename == __file__


def test_dma_transpose_pads_a_dst_of_lower_rank_until_0_4():
    block = np.arange(32, dtype=np.float32).reshape(4, 1, 1, 8)

    def body(out, tile):
        transposed = nl.ndarray((8, 1, 4), tile.dtype, nl.sbuf)
        nisa.dma_transpose(transposed, tile, (3, 1, 2, 0), nisa.dge_mode.none)
        nisa.dma_copy(out, transposed)

    def by_name(out, tile):
        transposed = nl.ndarray((8, 4), tile.dtype, nl.sbuf)
        nisa.dma_transpose(dst=transposed, src=tile)
        nisa.dma_copy(out, transposed)

    for version in ("0.2", "0.3"):
        result = run(body, block, nki_version=version, shape=(8, 1, 4))
        assert (result[:, 0] == block.reshape(4, 8).T).all()
        result = run(by_name, block, nki_version=version, shape=(8, 4))
        assert (result == block.reshape(4, 8).T).all()
    refused(by_name, block, nki_version="0.4", shape=(8, 4), match="the shape of src transposed")
    refused(body, block, nki_version="0.4", shape=(8, 1, 4), match="dma_transpose")


def test_matmul_mixes_the_two_e4m3_until_0_4():
    def body(out, tile):
        first = nl.ndarray((3, 4), nl.float8_e4m3, nl.sbuf)
        second = nl.ndarray((3, 4), nl.float8_e4m3fn, nl.sbuf)
        product = nl.ndarray((4, 4), nl.float32, nl.psum)
        for operand in (first, second):
            nisa.tensor_copy(operand, tile)
        nisa.nc_matmul(product, first, second)
        result = nl.ndarray((4, 4), nl.float32, nl.sbuf)
        nisa.tensor_copy(result, product)
        nisa.dma_copy(out, result)

    result = run(body, nki_version="0.3", shape=(4, 4), target="trn3")
    assert (result == ARRAY.T @ ARRAY).all()
    match = "float8_e4m3 with float8_e4m3fn under NKI 0.4"
    refused(body, nki_version="0.4", shape=(4, 4), target="trn3", match=match)


def product(matmul):
    def body(out, tile):
        total = nl.ndarray((4, 4), nl.float32, nl.psum)
        matmul(total, tile)
        result = nl.ndarray((4, 4), nl.float32, nl.sbuf)
        nisa.tensor_copy(result, total)
        nisa.dma_copy(out, result)

    return body


def test_matmul_has_the_names_of_2_27_in_0_2():
    def old(total, tile):
        nisa.nc_matmul(total, tile, tile, is_moving_zero=False, psumAccumulateFlag=3)

    result = run(product(old), nki_version="0.2", shape=(4, 4))
    assert (result == ARRAY.T @ ARRAY).all()
    refused(product(old), nki_version="0.3", shape=(4, 4), match="=. under NKI 0.3")


def test_matmul_takes_accumulate_seventh_from_0_3_on():
    def old(total, tile):
        nisa.nc_matmul(total, tile, tile, False, False, False, (0, 0), (128, 128))

    result = run(product(old), nki_version="0.2", shape=(4, 4))
    assert (result == ARRAY.T @ ARRAY).all()
    refused(product(old), nki_version="0.3", shape=(4, 4), match="nc_matmul")


def test_registers_are_moved_by_imm_in_0_2():
    def body(out, tile):
        register = nisa.register_alloc()
        nisa.register_move(register, imm=1)
        nisa.dma_copy(out, tile[0:3, nl.ds(register, 1)])

    assert (run(body, nki_version="0.2", shape=(3, 1)) == ARRAY[:, 1:2]).all()
    refused(body, nki_version="0.3", shape=(3, 1), match=r"register_move\(imm=\) under NKI 0.3")


def test_sendrecv_names_its_engine_by_a_flag_in_0_2():
    def body(out, tile):
        sent, other = (nl.ndarray((16, 4), tile.dtype, nl.sbuf) for _ in range(2))
        nisa.memset(sent, 0)
        nisa.dma_copy(sent[0:3], tile)
        rank = nl.program_id(0)
        nisa.sendrecv(sent, other, 1 - rank, 1 - rank, 0, use_gpsimd_dma=True)
        nisa.dma_copy(out[rank], other[0:3])

    result = run(body, nki_version="0.2", shape=(2, 3, 4), cores=2)
    assert (result == ARRAY).all()
    match = r"sendrecv\(use_gpsimd_dma=\) under NKI 0.3"
    refused(body, nki_version="0.3", shape=(2, 3, 4), cores=2, match=match)


def test_dynamic_copies_exist_until_0_4():
    def body(out, tile):
        register = nisa.register_alloc(2)
        result = nl.ndarray((3, 2), tile.dtype, nl.sbuf)
        nisa.tensor_copy_dynamic_src(result, tile[0:3, nl.ds(register, 2)])
        nisa.tensor_copy_dynamic_dst(tile[0:3, nl.ds(register, 2)], result, nisa.engine.vector)
        nisa.dma_copy(out, result)

    assert (run(body, nki_version="0.3", shape=(3, 2)) == ARRAY[:, 2:]).all()
    refused(
        body,
        nki_version="0.4",
        shape=(3, 2),
        match="tensor_copy_dynamic_src exists in NKI 0.2 to 0.3",
        error=AttributeError,
    )


@pytest.mark.parametrize("is_named", [True, False])
def test_an_implicit_permute_takes_the_number_of_channels_in_0_2(is_named):
    @nki.jit
    def kernel(_):
        group = ncc.ReplicaGroup([[0, 1]])
        call = ncc.collective_permute_implicit_current_processing_rank_id
        rank = call(0, group, 0, num_channels=1) if is_named else call(0, group, 0, 1)
        out = nl.ndarray((1, 1), nl.int32, nl.shared_hbm)
        nisa.register_store(out, rank)
        return out

    def of_version(version):
        return trnsim.run(kernel, ARRAY, ranks=2, nki=version)

    assert [int(out[0, 0]) for out in of_version("0.2").outputs] == [0, 1]
    with pytest.raises((IllegalInstruction, BadInput), match=r"num_channels=|name") as caught:
        of_version("0.3")
    assert caught.value.line.file == __file__


DOUBLY = {
    "affine_select": lambda _, tile: nisa.affine_select(tile, [[-1, 4]], 0, 1, tile, 0.0, offset=3),
    "dma_copy": lambda out, tile: nisa.dma_copy(out, tile, None, dst_rmw_op=nl.add),
    "dma_compute": lambda out, tile: nisa.dma_compute(out, [tile], None, nl.add, scales=None),
}


@pytest.mark.parametrize("name", DOUBLY)
def test_an_operand_of_0_2_is_given_once(name):
    match = f"nisa.{name} under NKI 0.2: multiple values for argument"
    refused(DOUBLY[name], nki_version="0.2", match=match)


def test_a_call_in_the_later_order_is_refused_in_0_2_with_the_call_to_write():
    def select(_, tile):
        nisa.affine_select(tile, [[-1, 4]], 1, tile, 0.0)

    def compute(out, tile):
        nisa.dma_compute(out, [tile, tile], nl.add, [1.0, 1.0])

    def without_scales(out, tile):
        nisa.dma_compute(out, [tile, tile], reduce_op=nl.add)

    refused(select, nki_version="0.2", match="missing a required argument: 'on_false_value'")
    refused(compute, nki_version="0.2", match=r"scales=nl.add under NKI 0.2, .*\(dst, srcs, scales")
    refused(without_scales, nki_version="0.2", match="without scales under NKI 0.2, where nisa.dma")
    assert (run(without_scales, nki_version="0.3") == 2 * ARRAY).all()
    with pytest.raises(IllegalInstruction) as caught:
        run(select, nki_version="0.2")
    assert "nisa.affine_select(dst, pattern, offset, channel_multiplier, on_" in caught.value.fix
    assert (run(compute, nki_version="0.3") == 2 * ARRAY).all()


def test_a_copy_that_adds_at_equal_indices_is_not_emulated():
    def body(out, tile):
        nisa.dma_copy(out, tile)
        nisa.dma_copy(out, tile, dst_rmw_op=nl.add, unique_indices=False)

    refused(body, nki_version="0.2", match="unique_indices=False; emulated", error=NotModelled)


@pytest.mark.parametrize("given", [{"pattern": [[-1, 4]]}, {"pattern": [[-1, 4]], "offset": 0}])
def test_affine_select_by_name_needs_no_offset(given):
    def upper(out, tile):
        named = {"channel_multiplier": 1, "on_true_tile": tile, "on_false_value": 0.0}
        nisa.affine_select(dst=tile, **given, **named, cmp_op=nl.equal)
        nisa.dma_copy(out, tile)

    for version in ("0.2", "0.3"):
        np.testing.assert_array_equal(run(upper, nki_version=version), ARRAY * np.eye(*ARRAY.shape))
