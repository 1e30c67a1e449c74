"""dma_compute: values, legality, price."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.dtypes import BFLOAT16, FLOAT8_E5M2_X4, FLOAT32, INT32, round_to
from trnsim.errors import IllegalInstruction, NotModelled, UndefinedBehavior
from trnsim.isa import DmaCompute, Engine, OobMode
from trnsim.memory import Memory, ScalarIndex, Tile, VectorIndex

HBM, SBUF, PSUM = Memory.HBM, Memory.SBUF, Memory.PSUM


@given(
    count=st.integers(1, 16),
    dtypes=st.tuples(*[st.sampled_from([FLOAT32, BFLOAT16, INT32])] * 3),
    memories=st.tuples(st.sampled_from([HBM, SBUF]), st.sampled_from([HBM, SBUF])),
    scaled=st.booleans(),
)
def test_up_to_16_sources_are_added_in_float32(bench, random, count, dtypes, memories, scaled):
    work = bench()
    sources = tuple(
        work.tile(random((4, 6), seed=i) * 50, dtypes[i % 2], memories[i % 2]) for i in range(count)
    )
    scales = (1.0,) * count if scaled else None
    dst = work.empty((4, 6), dtypes[2])
    work.issue(DmaCompute(dst, sources, "add", scales))
    total = sources[0].load().copy()
    for source in sources[1:]:
        total += source.load()
    np.testing.assert_array_equal(dst.array, round_to(total, dtypes[2]))


def test_dst_may_be_a_source(bench, random):
    work = bench()
    a, b = work.tile(random((4, 6))), work.tile(random((4, 6), seed=1), memory=HBM)
    expected = a.load() + b.load()
    work.issue(DmaCompute(a, (a, b), "add"))
    np.testing.assert_array_equal(a.array, expected)


def test_shapes_may_differ_where_sizes_agree(bench, random):
    work = bench()
    a, b = work.tile(random((4, 6))), work.tile(random((2, 12), seed=1), memory=HBM)
    dst = work.issue(DmaCompute(work.empty((3, 8)), (a, b), "add"))
    np.testing.assert_array_equal(dst.array.ravel(), a.array.ravel() + b.array.ravel())


def made(work, count=2, dst=(4, 6), **options):
    sources = tuple(work.empty((4, 6), memory=HBM) for _ in range(count))
    operands = {"dst": work.empty(dst), "srcs": sources, "reduce_op": "add"}
    return DmaCompute(**(operands | options))


def test_its_constraints(bench, core_v4):
    work = bench(core_v4)
    made(work, 16).verify(work.core)
    made(work, scales=(1.0, 1)).verify(work.core)
    packed = work.empty((4, 6), FLOAT8_E5M2_X4)
    for options, message in (
        ({"reduce_op": "maximum"}, "reduce_op maximum; legal: nl.add"),
        ({"count": 17}, "17 srcs; legal: 1 to 16"),
        ({"count": 0}, "`srcs` is tuple; legal: a list of tensors"),
        ({"scales": (1.0, 2.0)}, r"scales=\(1.0, 2.0\) for 2 srcs; legal: 1.0 for each"),
        ({"scales": (1.0,)}, r"scales=\(1.0,\) for 2 srcs"),
        ({"dst": (4, 7)}, "legal: equal numbers of elements"),
        ({"oob_mode": OobMode.skip}, "oob_mode skip without a vector_offset"),
        ({"dst": work.empty((4, 6), memory=PSUM)}, "`dst` is PSUM .*; legal: SBUF or HBM"),
        ({"srcs": packed}, "`srcs` is Tile; legal: a list of tensors"),
        ({"srcs": (packed, packed)}, "legal: dtypes with values"),
    ):
        if isinstance(options.get("dst"), Tile):
            instruction = DmaCompute(options["dst"], made(work).srcs, "add")
        else:
            instruction = made(work, **options)
        with pytest.raises(IllegalInstruction, match=message):
            instruction.verify(work.core)


def test_a_scalar_index_is_no_compile_time_address(bench, random):
    work = bench()
    table, dst = work.tile(random((6, 4)), memory=HBM), work.empty((1, 4))
    index = ScalarIndex(work.tile(np.array([[2]], np.int32), INT32), 16, 6)
    row = Tile(table.storage, FLOAT32, table.pattern.slice(0, 0, 1), index)
    with pytest.raises(IllegalInstruction, match="at a dynamic address; legal: addresses known"):
        work.issue(DmaCompute(dst, (row, row), "add"))


# Read-modify-write


def test_what_is_no_tensor_is_named_beside_one_that_is_indexed(bench, random):
    work = bench()
    table, index = work.tile(random((6, 4)), memory=HBM), work.tile(np.array([[2]], np.int32))
    row = Tile(table.storage, FLOAT32, table.pattern.slice(0, 0, 1), VectorIndex(index, 16, 6))
    with pytest.raises(IllegalInstruction, match="`dst` is int; legal: a tensor"):
        work.issue(DmaCompute(0, (work.tile(random((1, 4))), row), "add"))


def rows_of(work, table, indices):
    source = work.tile(np.array(indices, np.int32).reshape(-1, 1), INT32)
    pattern = type(table.pattern)(
        (len(indices), *table.shape[1:]), table.pattern.strides_bytes, table.pattern.offset_bytes
    )
    index = VectorIndex(source, table.pattern.strides_bytes[0], table.shape[0])
    return Tile(table.storage, table.dtype, pattern, index)


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=10, unique=True),
    st.sampled_from([FLOAT32, BFLOAT16]),
    st.booleans(),
)
def test_a_scatter_adds_to_the_rows_of_its_indices(bench, random, indices, dtype, dst_first):
    work = bench()
    table = work.tile(random((10, 4)), dtype, HBM)
    data = work.tile(random((len(indices), 4), seed=1), dtype)
    expected = table.load().copy()
    for row, index in enumerate(indices):
        expected[index] += data.load()[row]
    dst = rows_of(work, table, indices)
    work.issue(DmaCompute(dst, (dst, data) if dst_first else (data, dst), "add"))
    np.testing.assert_array_equal(table.array, round_to(expected, dtype))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=10), st.sampled_from([FLOAT32, BFLOAT16]))
def test_a_gather_adds_the_rows_of_its_indices(bench, random, indices, dtype):
    work = bench()
    table = work.tile(random((10, 4)), dtype, HBM)
    dst = work.tile(random((len(indices), 4), seed=1), dtype)
    expected = dst.load().copy()
    for row, index in enumerate(indices):
        expected[row] += table.load()[index]
    work.issue(DmaCompute(dst, (dst, rows_of(work, table, indices)), "add"))
    np.testing.assert_array_equal(dst.array, round_to(expected, dtype))


@pytest.mark.parametrize("scatters", [True, False])
def test_rows_out_of_bounds_are_refused_or_skipped(bench, random, scatters):
    work = bench()
    table, data = work.tile(random((4, 2)), memory=HBM), work.tile(random((3, 2), seed=1))
    rows = rows_of(work, table, [3, 4, 0])
    dst, other = (rows, data) if scatters else (data, rows)
    with pytest.raises(IllegalInstruction, match="index 4 of"):
        work.issue(DmaCompute(dst, (dst, other), "add"))
    before, added = (table, data) if scatters else (data, table)
    pairs = [(3, 0), (0, 2)] if scatters else [(0, 3), (2, 0)]
    expected = before.load().copy()
    for target, source in pairs:
        expected[target] += added.load()[source]
    work.issue(DmaCompute(dst, (dst, other), "add", oob_mode=OobMode.skip))
    np.testing.assert_array_equal(before.array, expected)


def test_an_index_that_repeats_in_a_scatter_is_undefined(bench, random):
    work = bench()
    table, data = work.tile(random((4, 2)), memory=HBM), work.tile(random((3, 2)))
    dst = rows_of(work, table, [3, 1, 3])
    with pytest.raises(UndefinedBehavior, match="index 3 occurs more than once in a scatter"):
        work.issue(DmaCompute(dst, (dst, data), "add"))


def test_skipped_rows_may_share_an_index_and_written_rows_may_not(bench, random):
    work = bench()
    table, data = work.tile(random((4, 2)), memory=HBM), work.tile(random((4, 2)))
    expected = table.array.copy()
    expected[[3, 1]] += data.array[[0, 2]]
    dst = rows_of(work, table, [3, 9, 1, 9])
    work.issue(DmaCompute(dst, (dst, data), "add", oob_mode=OobMode.skip))
    np.testing.assert_array_equal(table.array, expected)
    dst = rows_of(work, table, [3, 9, 3, 9])
    with pytest.raises(UndefinedBehavior, match="index 3 occurs more than once in a scatter"):
        work.issue(DmaCompute(dst, (dst, data), "add", oob_mode=OobMode.skip))


def test_what_a_read_modify_write_is_made_of(bench, core_v2, core_v3):
    work = bench(core_v3)
    table, data = work.empty((4, 2), memory=HBM), work.empty((3, 2))
    rows = rows_of(work, table, [3, 1, 0])
    others = rows_of(work, table, [3, 1, 0])
    plain = work.empty((3, 2), memory=HBM)
    DmaCompute(rows, (rows, data), "add").verify(core_v3)
    DmaCompute(data, (rows, data), "add").verify(core_v3)
    for dst, srcs, options, message in (
        (rows, (rows, data, data), {}, "3 srcs, unique_indices=True with a vector_offset"),
        (rows, (rows, data), {"unique_indices": False}, "unique_indices=False with a vector"),
        (rows, (others, data), {}, "legal with a vector_offset: dst itself and a tile in SBUF"),
        (rows, (rows, plain), {}, "legal with a vector_offset"),
        (plain, (plain, rows), {}, "legal with a vector_offset"),
        (work.empty((3, 2)), (rows, data), {}, "legal with a vector_offset"),
        (rows, (rows, rows), {}, "legal with a vector_offset"),
    ):
        with pytest.raises(IllegalInstruction, match=message):
            DmaCompute(dst, srcs, "add", **options).verify(core_v3)
    for dst, name in ((rows, "dst"), (data, "srcs")):
        with pytest.raises(IllegalInstruction, match=f"`{name}` has a vector_offset on NeuronCore"):
            DmaCompute(dst, (rows, data), "add").verify(core_v2)
    on_chip = rows_of(work, work.empty((4, 2)), [3, 1, 0])
    with pytest.raises(IllegalInstruction, match=r"`srcs` is .* legal: a tensor in HBM"):
        DmaCompute(data, (on_chip, data), "add").verify(core_v3)


def test_a_pairing_is_checked_every_time_not_only_the_first(bench, random):
    work = bench()
    table, data = work.tile(random((4, 2)), memory=HBM), work.tile(random((3, 2)))
    rows, others = (rows_of(work, table, [3, 1, 0]) for _ in range(2))
    work.issue(DmaCompute(rows, (rows, data), "add"))
    with pytest.raises(IllegalInstruction, match="legal with a vector_offset"):
        work.issue(DmaCompute(rows, (others, data), "add"))


def test_skipping_between_other_first_dimensions_is_not_modelled(bench):
    work = bench()
    dst, rows = work.empty((2, 4)), rows_of(work, work.empty((4, 2), memory=HBM), [0, 1, 2, 3])
    DmaCompute(dst, (dst, rows), "add").verify(work.core)
    with pytest.raises(NotModelled, match="whose first dimensions differ"):
        DmaCompute(dst, (dst, rows), "add", oob_mode=OobMode.skip).verify(work.core)


# Price


@pytest.mark.parametrize("count", [1, 2, 5, 16])
def test_a_pair_of_sources_costs_two_copies(bench, core, count):
    work = bench(core, has_values=False)
    nbytes = 4 * 128 * 512
    sources = tuple(work.empty((128, 512), memory=HBM) for _ in range(count))
    cost = work.cost(DmaCompute(work.empty((128, 512)), sources, "add"))
    assert cost.interval_s == pytest.approx(nbytes * max(count, 2) / core.dma_bytes_per_s)
    assert cost.hbm_bytes == count * nbytes


@pytest.mark.parametrize("dtype", [FLOAT32, BFLOAT16, INT32])
def test_v4_adds_to_sbuf_at_the_rate_of_a_copy(bench, core, dtype):
    work = bench(core, has_values=False)
    dst, other = work.empty((128, 4096), dtype), work.empty((128, 4096), dtype, HBM)
    cost = work.cost(DmaCompute(dst, (dst, other), "add"))
    is_fast = core.generation == 4 and dtype is not INT32
    assert cost.interval_s == pytest.approx(
        dst.nbytes * (1 if is_fast else 2) / core.dma_bytes_per_s
    )
    assert DmaCompute(dst, (dst, other), "add").chosen_engine(core) is Engine.dma


@pytest.mark.parametrize("has_values", [True, False])
def test_a_sum_of_two_other_tiles_is_not_in_place(bench, core_v4, has_values):
    """All tiles have one shape and no address; the program prices each sum by its own tiles."""
    work = bench(core_v4, has_values=has_values)
    dst, first, second = (work.tile(np.ones((128, 512), np.float32)) for _ in range(3))
    for sources in ((first, second), (dst, second), (second, dst)):
        work.issue(DmaCompute(dst, sources, "add"))
    apart_s, *in_place_s = (
        work.program.instruction(index).cost.interval_s for index in range(len(work.program))
    )
    assert in_place_s == pytest.approx([apart_s / 2] * 2)
