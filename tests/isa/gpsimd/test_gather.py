"""local_gather and nc_n_gather: values, legality, price."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trnsim.dtypes import BFLOAT16, FLOAT32, INT8, INT32, UINT16, UINT32
from trnsim.errors import IllegalInstruction, UndefinedBehavior
from trnsim.isa import LocalGather, NcNGather
from trnsim.memory import AccessPattern, Memory, Tile


def gathered(source, index, per_index, count):
    """nki.isa.local_gather in words, core by core and index by index."""
    out = np.zeros((len(source), count * per_index), source.dtype)
    for p in range(len(source)):
        core = p // 16 * 16
        for i in range(count):
            start = int(index[core + i % 16, i // 16])
            for j in range(per_index):
                out[p, i * per_index + j] = source[p, start + j]
    return out


@settings(max_examples=25)
@given(st.data())
def test_each_core_gathers_by_the_indices_of_its_16_partitions(bench, data):
    cores, columns = data.draw(st.sampled_from([1, 2, 8])), data.draw(st.integers(1, 3))
    per_index = data.draw(st.sampled_from([1, 2, 4, 8]))
    count = data.draw(st.integers(1, 16 * columns))
    dtype = data.draw(st.sampled_from([FLOAT32, BFLOAT16, INT8, INT32]))
    work, rng = bench(), np.random.default_rng(data.draw(st.integers(0, 99)))
    source = work.tile(rng.integers(-100, 100, (16 * cores, 40)), dtype)
    index = work.tile(rng.integers(0, 41 - per_index, (16 * cores, columns)), UINT16)
    dst = work.empty((16 * cores, count * per_index), dtype)
    work.issue(LocalGather(dst, source, index, per_index, count))
    expected = gathered(source.array, index.array, per_index, count)
    np.testing.assert_array_equal(dst.array, expected)


def test_by_default_every_index_of_a_core_is_used(bench, random):
    work = bench()
    source = work.tile(random((16, 5)))
    index = work.tile(np.arange(16).reshape(16, 1) % 5, UINT16)
    dst = work.issue(LocalGather(work.empty((16, 16)), source, index))
    np.testing.assert_array_equal(dst.load(), source.load()[:, np.arange(16) % 5])


def test_a_strided_dst_of_several_dimensions_is_filled_and_nothing_else(bench, random):
    """Release notes of NKI 0.4: sub-views and .ap() as destination were wrong."""
    work = bench()
    whole, source = work.tile(np.full((16, 16), 7.0, np.float32)), work.tile(random((16, 9)))
    index = work.tile(np.arange(16).reshape(16, 1) % 8, UINT16)
    view = Tile(whole.storage, FLOAT32, AccessPattern((16, 2, 4), (64, 32, 4), 0))
    work.issue(LocalGather(view, source, index, 2, 4))
    expected = gathered(source.array, index.array, 2, 4).reshape(16, 2, 4)
    np.testing.assert_array_equal(view.load(), expected)
    assert (whole.load().reshape(16, 2, 8)[:, :, 4:] == 7).all()


def test_an_index_out_of_bounds_is_undefined(bench, random):
    work = bench()
    source, dst = work.tile(random((16, 9))), work.empty((16, 32))
    good = work.tile(np.full((16, 1), 7), UINT16)
    work.issue(LocalGather(dst, source, good, 2, 16))
    bad = work.tile(np.full((16, 1), 8), UINT16)
    with pytest.raises(UndefinedBehavior, match=r"index 8 with 2 .*; legal: 0 to 7") as caught:
        work.issue(LocalGather(dst, source, bad, 2, 16))
    assert caught.value.fix


def refused(work, message, made, operands, **changed):
    with pytest.raises(IllegalInstruction, match=message) as caught:
        made(**operands | changed).verify(work.core)
    assert caught.value.fix


@pytest.fixture
def local(bench):
    """A bench and legal operands of local_gather."""
    work = bench()
    operands = {
        "dst": work.empty((32, 64)),
        "src_buffer": work.empty((32, 9)),
        "index": work.empty((32, 2), UINT16),
        "num_elem_per_idx": 2,
    }
    LocalGather(**operands).verify(work.core)
    return work, operands


def test_local_gather_works_on_whole_cores(local):
    work, operands = local
    tiles = {
        "dst": work.empty((24, 64)),
        "src_buffer": work.empty((24, 9)),
        "index": work.empty((24, 2), UINT16),
    }
    refused(work, "24 partitions; legal: a multiple of 16", LocalGather, operands, **tiles)
    index = work.empty((16, 2), UINT16)
    refused(work, "axis P is 32 elsewhere but 16 in `index`", LocalGather, operands, index=index)


def test_the_indices_lie_in_the_partitions_of_the_data(local):
    work, operands = local
    storage = work.empty((64, 2), UINT16)
    index = Tile(storage.storage, UINT16, storage.pattern.slice(0, 32, 64))
    message = "index starts at partition 32, src_buffer at 0; legal: the same"
    refused(work, message, LocalGather, operands, index=index)


def test_local_gather_neither_casts_nor_takes_other_indices(local):
    work, operands = local
    dst, index = work.empty((32, 64), BFLOAT16), work.empty((32, 2), UINT32)
    refused(work, "legal: equal dtypes", LocalGather, operands, dst=dst)
    refused(work, "`index` is .*legal dtypes: uint16", LocalGather, operands, index=index)
    psum = work.empty((32, 64), memory=Memory.PSUM)
    refused(work, "`dst` is PSUM", LocalGather, operands, dst=psum)


def test_local_gather_reads_1_to_32_elements_an_index(local):
    work, operands = local
    for per_index in (1, 2, 4, 8, 16, 32):
        dst = work.empty((32, 32 * per_index))
        LocalGather(**operands | {"dst": dst, "num_elem_per_idx": per_index}).verify(work.core)
    for wrong in (0, 3, 64):
        message = f"num_elem_per_idx={wrong}; legal: 1, 2, 4, 8, 16, 32"
        refused(work, message, LocalGather, operands, num_elem_per_idx=wrong)


def test_local_gather_uses_as_many_indices_as_there_are_and_4096_at_most(local):
    work, operands = local
    for wrong in (0, 33):
        message = f"{wrong} indices a GpSimd core; legal: 1 to 32"
        refused(work, message, LocalGather, operands, num_valid_indices=wrong)
    wide = {"index": work.empty((32, 257), UINT16), "num_elem_per_idx": 1}
    dst = work.empty((32, 4096))
    LocalGather(**operands | wide | {"dst": dst, "num_valid_indices": 4096}).verify(work.core)
    refused(work, "4112 indices .*legal: 1 to 4096", LocalGather, operands, **wide)


def test_dst_is_as_long_as_what_is_gathered(local):
    """Release notes of NKI 0.6, known issue: otherwise num_elem_per_idx is ignored."""
    work, operands = local
    message = "legal: 16 indices x 2 elements = 32"
    refused(work, message, LocalGather, operands, num_valid_indices=16)
    LocalGather(**operands | {"num_valid_indices": 32}).verify(work.core)


@pytest.mark.parametrize("per_index", [1, 4, 32])
@pytest.mark.parametrize("dtype", [FLOAT32, BFLOAT16, INT8])
def test_local_gather_costs_the_formula_of_sdk_2_26(bench, core, per_index, dtype):
    work, count = bench(core), 64
    made = LocalGather(
        work.empty((16, count * per_index), dtype),
        work.empty((16, 64), dtype),
        work.empty((16, 4), UINT16),
        per_index,
    )
    c = (28 + 4 * per_index) / (4 * per_index) / min(4 / dtype.itemsize, per_index)
    expected = 150 + count * per_index / c
    assert work.cycles(made, core.gpsimd_clock_hz) == pytest.approx(expected)


@settings(max_examples=25)
@given(
    st.sampled_from([(1, 1), (5, 7), (128, 3), (4, 2, 3)]),
    st.sampled_from([(1,), (9,), (2, 3)]),
    st.sampled_from([FLOAT32, BFLOAT16, INT32]),
)
def test_nc_n_gather_picks_within_each_partition(bench, random, shape, free, dtype):
    work = bench()
    data = work.tile(random(shape), dtype)
    length = int(np.prod(shape[1:]))
    indices = np.random.default_rng(1).integers(0, length, (shape[0], *free))
    dst = work.empty((shape[0], *free), dtype)
    work.issue(NcNGather(dst, data, work.tile(indices, UINT32)))
    flat = data.array.reshape(shape[0], -1)
    for p in range(shape[0]):
        picked = [flat[p, i] for i in indices[p].ravel()]
        assert dst.array[p].ravel().tolist() == picked


def test_nc_n_gather_in_place(bench):
    work = bench()
    data = work.tile(np.array([[1.0, 2.0, 3.0]], np.float32))
    work.issue(NcNGather(data, data, work.tile(np.array([[2, 0, 0]]), UINT32)))
    assert data.load().tolist() == [[3.0, 1.0, 1.0]]


def test_nc_n_gather_refuses_indices_beyond_the_partition(bench, random):
    work = bench()
    data, dst = work.tile(random((2, 3, 4))), work.empty((2, 1))
    work.issue(NcNGather(dst, data, work.tile(np.array([[11], [0]]), UINT32)))
    with pytest.raises(IllegalInstruction, match=r"index 12 of .*; legal: 0 to 11") as caught:
        work.issue(NcNGather(dst, data, work.tile(np.array([[0], [12]]), UINT32)))
    assert caught.value.fix


def test_nc_n_gather_neither_casts_nor_takes_other_indices(bench):
    work = bench()
    tile, indices = work.empty((4, 8)), work.empty((4, 8), UINT32)
    operands = {"dst": tile, "data": tile, "indices": indices}
    NcNGather(**operands).verify(work.core)
    refused(work, "legal: equal dtypes", NcNGather, operands, dst=work.empty((4, 8), BFLOAT16))
    refused(work, "legal dtypes: uint32", NcNGather, operands, indices=work.empty((4, 8), INT32))
    refused(work, "axis I is 8 elsewhere", NcNGather, operands, indices=work.empty((4, 7), UINT32))
    psum = work.empty((4, 8), memory=Memory.PSUM)
    refused(work, "`data` is PSUM", NcNGather, operands, data=psum)


@pytest.mark.parametrize(("length", "groups"), [(1, 1), (512, 1), (513, 2), (1500, 3)])
def test_nc_n_gather_is_one_instruction_for_each_512_elements(bench, core, length, groups):
    work = bench(core)
    indices = work.empty((4, length), UINT32)
    made = NcNGather(work.empty((4, length)), work.empty((4, 9)), indices)
    assert work.cycles(made, core.gpsimd_clock_hz) == pytest.approx(150 * groups + length)
