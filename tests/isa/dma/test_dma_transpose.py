"""dma_transpose: values, legality, price."""

from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.dtypes import BFLOAT16, FLOAT16, FLOAT32, INT32, UINT8, UINT16, UINT32
from trnsim.errors import IllegalInstruction
from trnsim.isa import DgeMode, DmaTranspose, Engine, OobMode, Reciprocal, TensorCopy
from trnsim.memory import Memory, ScalarIndex, Tile, VectorIndex

HBM, SBUF, PSUM = Memory.HBM, Memory.SBUF, Memory.PSUM
AXES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}


@pytest.mark.slow
@given(
    shape=st.sampled_from([(1, 1), (3, 5), (512, 128), (6, 2, 4), (5, 2, 3, 7)]),
    dtype=st.sampled_from([FLOAT32, BFLOAT16, FLOAT16, INT32, UINT16]),
    names_axes=st.booleans(),
)
def test_each_rank_has_its_permutation(bench, random, shape, dtype, names_axes):
    work = bench()
    axes = AXES[len(shape)]
    src = work.tile(np.abs(random(shape)) * 99, dtype, HBM)
    dst = work.empty([shape[axis] for axis in axes], dtype)
    work.issue(DmaTranspose(dst, src, axes if names_axes else None))
    for place in np.ndindex(*shape):
        turned = tuple(place[axis] for axis in axes)
        if max(place) > 8:
            continue
        assert dst.array[turned].tobytes() == src.array[place].tobytes()
    assert dst.array.tobytes() == np.ascontiguousarray(src.array.transpose(axes)).tobytes()


def test_nan_and_infinity_keep_their_bits(bench):
    work = bench()
    src = work.tile(np.array([[np.nan, -np.inf], [1, 2]], np.float32))
    dst = work.issue(DmaTranspose(work.empty((2, 2)), src))
    np.testing.assert_array_equal(dst.array, src.array.T)


def made(work, shape=(16, 128), dst=None, dtypes=(BFLOAT16, BFLOAT16), memory=HBM, **options):
    if dst is None:
        dst = [shape[axis] for axis in AXES.get(len(shape), range(len(shape)))]
    return DmaTranspose(work.empty(dst, dtypes[0]), work.empty(shape, dtypes[1], memory), **options)


def test_its_shapes_and_dtypes(bench, core_v3):
    work = bench(core_v3)
    made(work).verify(core_v3)
    made(work, dtypes=(FLOAT32, FLOAT32), memory=SBUF).verify(core_v3)
    for options, message in (
        ({"shape": (4, 2, 3), "dst": (3, 4, 2)}, r"legal: \[3, 2, 4\], the shape of src"),
        ({"shape": (4, 1, 3), "dst": (3, 4)}, r"legal: \[3, 1, 4\]"),  # NKI 0.4: rank included
        ({"axes": (0, 1)}, r"axes=\(0, 1\) of src .*; legal: \(1, 0\)"),
        ({"shape": (4, 2, 3), "axes": (2, 0, 1)}, r"legal: \(2, 1, 0\)"),
        ({"shape": (2, 2, 2, 2, 2)}, "legal: 2 to 4 dimensions"),
        ({"shape": (4,)}, "legal: 2 to 4 dimensions"),
        ({"dtypes": (FLOAT16, BFLOAT16)}, "legal: equal dtypes"),
        ({"dtypes": (UINT8, UINT8)}, "legal: dtypes of 2 or 4 bytes"),
        ({"oob_mode": OobMode.skip}, "oob_mode skip without an index on src"),
        ({"priority": 1}, "priority on NeuronCore-v3; legal from NeuronCore-v4"),
    ):
        with pytest.raises(IllegalInstruction, match=message):
            made(work, **options).verify(core_v3)


def test_dst_is_in_sbuf(bench):
    work = bench()
    src = work.empty((4, 4), memory=HBM)
    for memory in (HBM, PSUM):
        with pytest.raises(IllegalInstruction, match=r"`dst` is .*; legal: SBUF"):
            DmaTranspose(work.empty((4, 4), memory=memory), src).verify(work.core)


def test_without_an_index_descriptors_are_the_compilers_or_hardwares(bench, core_v2, core_v3):
    work = bench(core_v3)
    for mode in (DgeMode.unknown, DgeMode.hwdge, DgeMode.none):
        made(work, dge_mode=mode).verify(core_v3)
    with pytest.raises(IllegalInstruction, match="dge_mode swdge; legal without an index: unknown"):
        made(work, dge_mode=DgeMode.swdge).verify(core_v3)
    with pytest.raises(IllegalInstruction, match="hwdge on NeuronCore-v2; legal from"):
        made(work, dge_mode=DgeMode.hwdge).verify(core_v2)


@pytest.mark.parametrize("rows", [1, 2, 4, 8, 16])
def test_the_hardware_takes_few_rows_of_matrices(bench, core_v3, rows):
    """NKI 0.6 relaxed both: the first dimension to any of these, the last to at most 128."""
    work = bench(core_v3)
    made(work, (rows, 16 // rows, 100), dge_mode=DgeMode.hwdge).verify(core_v3)
    made(work, (rows, 3, 16, 128), dge_mode=DgeMode.hwdge).verify(core_v3)


def test_the_limits_of_the_hardware_form(bench, core_v3):
    work = bench(core_v3)
    for options, message in (
        ({"shape": (8, 128)}, "dge_mode hwdge; legal: first dimension 16"),
        ({"shape": (32, 128)}, "dge_mode hwdge; legal: first dimension 16"),
        ({"shape": (3, 16, 8)}, "legal: first dimension 1, 2, 4, 8, 16, its product"),
        ({"shape": (8, 3, 8)}, "product with the last but one a multiple of 16"),
        ({"dtypes": (FLOAT32, FLOAT32)}, "legal: dtypes of 2 bytes"),
    ):
        with pytest.raises(IllegalInstruction, match=message) as caught:
            made(work, dge_mode=DgeMode.hwdge, **options).verify(core_v3)
        assert "Direct Transpose" in caught.value.source
        assert caught.value.fix.startswith("cast src" if "dtypes" in options else "tile or pad src")


# Gathering


def gathered(work, table, indices, count=None, memory=SBUF, dtype=UINT32):
    shape = (count or indices.size, *table.shape[1:])
    pattern = type(table.pattern)(shape, table.pattern.strides_bytes, table.pattern.offset_bytes)
    source = work.tile(indices, dtype, memory)
    index = VectorIndex(source, table.pattern.strides_bytes[0], table.shape[0])
    return Tile(table.storage, table.dtype, pattern, index)


@given(
    rest=st.sampled_from([(5,), (2, 3), (1, 3, 4), (3, 1, 4)]),
    columns=st.sampled_from([(16, 1), (48, 1), (128, 1), (128, 2)]),
    seed=st.integers(0, 9),
)
def test_indices_are_read_column_by_column(bench, random, rest, columns, seed):
    work = bench()
    table = work.tile(random((40, *rest)), BFLOAT16, HBM)
    indices = np.random.default_rng(seed).integers(0, 40, columns).astype(np.uint32)
    src = gathered(work, table, indices)
    axes = AXES[len(src.shape)]
    dst = work.issue(DmaTranspose(work.empty([src.shape[a] for a in axes], BFLOAT16), src))
    flat = [indices[p, c] for c in range(columns[1]) for p in range(columns[0])]
    for place, index in enumerate(flat):
        one = table.array[index : index + 1].transpose(axes)
        np.testing.assert_array_equal(dst.array[..., place : place + 1], one)


def test_fewer_rows_than_indices_take_the_first(bench, random):
    work = bench()
    table = work.tile(random((40, 8)), BFLOAT16, HBM)
    indices = np.arange(256, dtype=np.uint32).reshape(128, 2) % 40
    src = gathered(work, table, indices, count=144)
    dst = work.issue(DmaTranspose(work.empty((8, 144), BFLOAT16), src))
    wanted = np.concatenate([indices[:, 0], indices[:16, 1]])
    np.testing.assert_array_equal(dst.array, table.array[wanted].T)


def test_what_an_index_out_of_bounds_skips_keeps_what_it_held(bench, random):
    """NKI 0.5: a gather transpose wrote zeros over valid data."""
    work = bench()
    table = work.tile(random((20, 8)), BFLOAT16, HBM)
    indices = np.arange(16, dtype=np.uint32).reshape(16, 1)
    indices[[0, 5, 6, 15]] = 20
    src = gathered(work, table, indices)
    dst = work.tile(np.full((8, 16), 7), BFLOAT16)
    work.issue(DmaTranspose(dst, src, oob_mode=OobMode.skip))
    kept = np.flatnonzero(indices[:, 0] < 20)
    np.testing.assert_array_equal(dst.array[:, kept], table.array[indices[kept, 0]].T)
    assert (dst.load()[:, [0, 5, 6, 15]] == 7).all()
    with pytest.raises(IllegalInstruction, match="index 20 of"):
        work.issue(DmaTranspose(dst, src))


def test_what_was_skipped_has_not_been_written(bench, random):
    work = bench()
    table = work.tile(random((20, 8)), BFLOAT16, HBM)
    indices = np.arange(16, dtype=np.uint32).reshape(16, 1) + 8
    dst = work.empty((8, 16), BFLOAT16)
    work.issue(DmaTranspose(dst, gathered(work, table, indices), oob_mode=OobMode.skip))
    valid = Tile(dst.storage, BFLOAT16, dst.pattern.slice(1, 0, 12))
    work.issue(TensorCopy(work.empty((8, 12), BFLOAT16), valid))
    computed = work.issue(Reciprocal(work.empty((8, 16), BFLOAT16), dst))
    assert computed.written_flags().tolist() == [[True] * 12 + [False] * 4] * 8


def test_the_limits_of_the_gathering_form(bench, core_v2, core_v3):
    work = bench(core_v3)

    def transpose(rest=(8,), indices=(16, 1), count=None, table_dtype=BFLOAT16, dtype=UINT32, **o):
        table = work.empty((40, *rest), table_dtype, HBM)
        src = gathered(work, table, np.zeros(indices, np.uint32), count, dtype=dtype)
        shape = [src.shape[axis] for axis in AXES[len(src.shape)]]
        return DmaTranspose(work.empty(shape, table_dtype), src, **o)

    transpose(dge_mode=DgeMode.swdge).verify(core_v3)
    transpose((1, 3, 128), (128, 2)).verify(core_v3)
    for options, message in (
        ({"rest": (2, 3, 8)}, "legal: a second or third dimension of 1"),
        ({"count": 8}, "legal: a first dimension that is a multiple of 16"),
        ({"table_dtype": FLOAT32}, r"(?s)legal: dtypes of 2 bytes\n  fix: cast src to a dtype"),
        ({"dtype": INT32}, r"(?s)vector_offset SBUF .* int32; legal: uint32\n  fix: view the ind"),
        ({"indices": (16, 1, 1)}, r"(?s)legal: 2 dimensions\n  fix: reshape or slice the ind"),
        ({"indices": (8, 2)}, "legal: 16 to 128 partitions"),
        ({"indices": (40, 1), "count": 32}, "legal: 16 to 128 partitions, a multiple of 16"),
        ({"indices": (64, 2)}, "legal: 128 partitions where there are several columns"),
        ({"count": 32}, "for 32 rows; legal: an index for each row"),
        ({"dge_mode": DgeMode.hwdge}, "dge_mode hwdge with a vector_offset"),
        ({"dge_mode": DgeMode.none}, "dge_mode none with a vector_offset"),
    ):
        with pytest.raises(IllegalInstruction, match=message):
            transpose(**options).verify(core_v3)
    with pytest.raises(IllegalInstruction, match="vector_offset on NeuronCore-v2"):
        transpose().verify(core_v2)


def test_indices_lie_in_sbuf_and_rows_in_hbm(bench):
    work = bench()
    table, dst = work.empty((40, 8), BFLOAT16, HBM), work.empty((8, 16), BFLOAT16)
    indices = np.zeros((16, 1), np.uint32)
    with pytest.raises(IllegalInstruction, match="legal: a tensor in SBUF"):
        DmaTranspose(dst, gathered(work, table, indices, memory=HBM)).verify(work.core)
    on_chip = work.empty((40, 8), BFLOAT16)
    with pytest.raises(IllegalInstruction, match="legal: a tensor in HBM"):
        DmaTranspose(dst, gathered(work, on_chip, indices)).verify(work.core)


@pytest.mark.parametrize("index", [0, 2, 3])
def test_a_scalar_index_may_be_skipped(bench, random, index):
    work = bench()
    table = work.tile(random((3, 4, 8)), BFLOAT16, HBM)
    pattern = table.pattern.select(0, 0)
    source = work.tile(np.array([[index]], np.int32), INT32)
    scalar = ScalarIndex(source, table.pattern.strides_bytes[0], 3)
    src = Tile(table.storage, BFLOAT16, pattern, scalar)
    dst = work.tile(np.full((8, 4), 7), BFLOAT16)
    work.issue(DmaTranspose(dst, src, oob_mode=OobMode.skip))
    expected = table.array[index].T if index < 3 else np.full((8, 4), 7, BFLOAT16.dtype)
    np.testing.assert_array_equal(dst.array, expected)


# Price


@pytest.mark.parametrize(
    ("shape", "itemsize"),
    [((512, 128), 2), ((512, 128), 4), ((16, 128), 2), ((17, 100), 2), ((32, 3, 64), 2)],
)
@pytest.mark.parametrize("memory", [HBM, SBUF])
def test_it_costs_whole_tiles_of_128_by_16_at_its_share_of_the_copy_rate(
    bench, core, shape, itemsize, memory
):
    if memory is SBUF and shape[0] > 128:
        shape = (128, *shape[1:])
    work = bench(core, has_values=False)
    dtype = BFLOAT16 if itemsize == 2 else FLOAT32
    cost = work.cost(made(work, shape, dtypes=(dtype, dtype), memory=memory))
    whole = 128 * ceil(shape[-1] / 128) * 16 * ceil(shape[0] / 16) * int(np.prod(shape[1:-1]))
    share = {2: (0.25, 0.25), 3: (0.9, 0.5), 4: (0.9, 0.5)}[core.generation][memory is SBUF]
    expected = whole * itemsize / (core.dma_bytes_per_s * share)
    packets = int(np.prod(shape[:-1])) * (7e-9 if core.generation == 2 else 12e-9) / 16
    assert cost.interval_s == pytest.approx(max(expected, packets))
    assert cost.hbm_bytes == (np.prod(shape) * itemsize if memory is HBM else 0)


def test_the_dma_engines_do_it(bench, core_v3):
    assert made(bench()).chosen_engine(core_v3) is Engine.dma
