"""topk, nonzero_with_count and sequence_bounds: values, legality, price."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trnsim.dtypes import BFLOAT16, FLOAT32, INT32, UINT32
from trnsim.errors import IllegalInstruction, UninitializedRead, Unspecified
from trnsim.isa import NonzeroWithCount, SequenceBounds, Topk, VirtualRegister
from trnsim.memory import Memory, Tile


def snake(source, first, n):
    """The n values of a core: 16 to a column, one a partition."""
    return [float(source[first + i % 16, i // 16]) for i in range(n)]


def top(work, source, n, k):
    partitions = source.shape[0]
    values, places = work.empty((partitions, k), BFLOAT16), work.empty((partitions, k), UINT32)
    work.context.issue(Topk(values, places, source, n))
    return values.load(), places.array


@settings(max_examples=25)
@given(st.data())
def test_topk_of_each_snake_ascends_and_says_where_the_values_were(bench, data):
    cores, n = data.draw(st.sampled_from([1, 2, 8])), data.draw(st.integers(8, 70))
    k = data.draw(st.integers(1, n))
    work, rng = bench(), np.random.default_rng(data.draw(st.integers(0, 99)))
    source = work.tile(rng.integers(-20, 20, (16 * cores, 5)), BFLOAT16)
    values, places = top(work, source, n, k)
    for p in range(16 * cores):
        all_values = snake(source.load(), p // 16 * 16, n)
        assert values[p].tolist() == sorted(all_values)[-k:]
        assert [all_values[i] for i in places[p]] == values[p].tolist()
        assert len(set(places[p].tolist())) == k


def test_of_equal_values_the_lower_index_counts_as_larger(bench):
    work = bench()
    source = work.tile(np.ones((16, 1)), BFLOAT16)
    assert top(work, source, 16, 3)[1][0].tolist() == [2, 1, 0]


def test_the_results_may_have_more_dimensions(bench):
    work = bench()
    source = work.tile(np.arange(16)[:, None], BFLOAT16)
    values, places = work.empty((16, 1, 3), BFLOAT16), work.empty((16, 3, 1), UINT32)
    work.context.issue(Topk(values, places, source, 16))
    assert values.load()[0].tolist() == [[13, 14, 15]]
    assert places.array[0].tolist() == [[13], [14], [15]]


def test_columns_beyond_n_need_not_be_written(bench):
    work = bench()
    source = work.empty((16, 3), BFLOAT16)
    part = Tile(source.storage, BFLOAT16, source.pattern.slice(1, 0, 2))
    part.store(np.arange(32.0).reshape(16, 2))
    part.mark_written()
    assert top(work, source, 20, 1)[0][0] == 30
    with pytest.raises(UninitializedRead):
        top(work, source, 33, 1)


def test_topk_of_nan_is_unspecified(bench):
    work = bench()
    source = work.tile(np.array([[np.nan]] * 16), BFLOAT16)
    with pytest.raises(Unspecified, match="NaN"):
        top(work, source, 16, 1)


def refused(work, message, made, operands, **changed):
    with pytest.raises(IllegalInstruction, match=message) as caught:
        made(**operands | changed).verify(work.core)
    assert caught.value.fix


@pytest.fixture
def topk(bench):
    """A bench and legal operands of topk."""
    work = bench()

    def operands(partitions=32, k=8, columns=3, n=42):
        return {
            "val_dst": work.empty((partitions, k), BFLOAT16),
            "idx_dst": work.empty((partitions, k), UINT32),
            "src": work.empty((partitions, columns), BFLOAT16),
            "n": n,
        }

    Topk(**operands()).verify(work.core)
    return work, operands


def test_topk_has_limits_on_n_and_k(topk):
    work, operands = topk
    Topk(**operands(k=8, n=8)).verify(work.core)
    refused(work, "n=7; legal: 8 to 65535", Topk, operands(k=1, n=7))
    Topk(**operands(columns=4096, n=65535)).verify(work.core)
    refused(work, "n=65536; legal: 8 to 65535", Topk, operands(columns=4096, n=65536))
    refused(work, "K=9, .* n=8; legal: 1 to 8", Topk, operands(k=9, n=8))
    Topk(**operands(16, k=32767, columns=2048, n=32768)).verify(work.core)
    wide = operands(16, k=32768, columns=2048, n=32768)
    refused(work, "K=32768, .*legal: 1 to 32767", Topk, wide)


def test_topk_knows_n_when_it_is_compiled(topk):
    work, operands = topk
    with pytest.raises(IllegalInstruction, match=r"`n` is VirtualRegister\(16\); legal: "):
        work.context.issue(Topk(**operands(n=VirtualRegister(16))))


def test_topk_reads_whole_cores_with_room_for_n_values(topk):
    work, operands = topk
    refused(work, "24 partitions; legal: a multiple of 16", Topk, operands(24))
    Topk(**operands(n=48)).verify(work.core)
    refused(work, "n=49 with src of 3 columns; legal: at least 4", Topk, operands(n=49))


def test_topk_takes_bfloat16_in_sbuf(topk):
    work, operands = topk
    legal = operands()
    for name, shape in (("val_dst", (32, 8)), ("src", (32, 3))):
        wrong = work.empty(shape)
        refused(work, f"`{name}` is .*legal dtypes: bfloat16", Topk, legal, **{name: wrong})
        psum = work.empty(shape, BFLOAT16, Memory.PSUM)
        refused(work, f"`{name}` is PSUM", Topk, legal, **{name: psum})
    wrong = work.empty((32, 8), INT32)
    refused(work, "`idx_dst` is .*legal dtypes: uint32", Topk, legal, idx_dst=wrong)
    wrong = work.empty((32, 7), UINT32)
    refused(work, "axis K is 8 elsewhere but 7", Topk, legal, idx_dst=wrong)


@pytest.mark.parametrize(("n", "k"), [(8, 1), (100, 8), (3000, 64)])
def test_topk_costs_4n_plus_k(bench, core, n, k):
    work = bench(core)
    source = work.empty((16, 200), BFLOAT16)
    made = Topk(work.empty((16, k), BFLOAT16), work.empty((16, k), UINT32), source, n)
    assert work.cycles(made, core.gpsimd_clock_hz) == pytest.approx(max(64, 4 * n + k))


@settings(max_examples=25)
@given(
    st.sampled_from([1, 16, 20, 128]),
    st.lists(st.sampled_from([0.0, -0.0, 1.0, -2.5, 0.25]), min_size=1, max_size=12),
    st.integers(-1000, 1000),
    st.integers(-5, 5),
    st.booleans(),
)
def test_places_then_padding_then_the_count(bench, partitions, row, offset, padding, is_float):
    work = bench()
    rng = np.random.default_rng(0)
    rows = np.array([rng.permutation(row) for _ in range(partitions)])
    source = work.tile(rows if is_float else rows != 0, FLOAT32 if is_float else INT32)
    before = np.arange(partitions * (len(row) + 1)).reshape(partitions, -1) + 10**6
    dst = work.tile(before, INT32)
    work.issue(NonzeroWithCount(dst, source, offset, padding))
    for p in range(partitions):
        places = [i + offset for i, value in enumerate(rows[p]) if value != 0]
        expected = [*places, *[padding] * (len(row) - len(places)), len(places)]
        assert dst.array[p].tolist() == (before[p].tolist() if p % 16 else expected)


def test_the_example_of_aws(bench):
    work = bench()
    source = work.tile(np.array([[0, 1, 1, 0, 0, 1, 0, 0]]), INT32)
    dst = work.issue(NonzeroWithCount(work.empty((1, 9), INT32), source, 16))
    assert dst.array.tolist() == [[17, 18, 21, -1, -1, -1, -1, -1, 3]]


def test_offset_and_padding_may_be_registers(bench):
    work, offset = bench(), VirtualRegister(5)
    source = work.tile(np.array([[0, 1]]), INT32)
    made = NonzeroWithCount(work.empty((1, 3), INT32), source, offset, VirtualRegister(-9))
    assert work.issue(made).array.tolist() == [[6, -9, 1]]
    offset.put(7)
    assert work.issue(made).array.tolist() == [[8, -9, 1]]


def test_only_every_16th_partition_is_read_and_counts_as_written(bench):
    work = bench()
    source, dst = work.empty((32, 2)), work.empty((32, 3), INT32)
    for start in (0, 16):
        row = Tile(source.storage, FLOAT32, source.pattern.slice(0, start, start + 1))
        row.store(np.array([[0.0, 4.0]]))
        row.mark_written()
    work.issue(NonzeroWithCount(dst, source))
    for partition in range(32):
        row = Tile(dst.storage, INT32, dst.pattern.slice(0, partition, partition + 1))
        assert row.is_written() is (partition % 16 == 0)
    assert dst.array[16].tolist() == [1, -1, 1]


def test_nonzero_with_count_is_there_from_v3_on(bench, core):
    work = bench(core)
    operands = {"dst": work.empty((16, 9), INT32), "src": work.empty((16, 8))}
    if core.generation > 2:
        NonzeroWithCount(**operands).verify(core)
    else:
        refused(work, "NeuronCore-v2; legal from NeuronCore-v3", NonzeroWithCount, operands)


def test_nonzero_with_count_has_one_more_place_for_the_count(bench):
    work = bench()
    operands = {"dst": work.empty((16, 9), INT32), "src": work.empty((16, 8))}
    for length in (8, 10):
        dst = work.empty((16, length), INT32)
        refused(work, r"legal: 8 \+ 1 elements", NonzeroWithCount, operands, dst=dst)
    wrong = work.empty((17, 9), INT32)
    refused(work, "axis P is 17 elsewhere", NonzeroWithCount, operands, dst=wrong)


def test_nonzero_with_count_has_few_dtypes_and_int32_numbers(bench):
    work = bench()
    operands = {"dst": work.empty((16, 9), INT32), "src": work.empty((16, 8), INT32)}
    NonzeroWithCount(**operands, index_offset=2**31 - 1).verify(work.core)
    float_dst, short = work.empty((16, 9)), work.empty((16, 8), BFLOAT16)
    refused(work, "legal dtypes: int32", NonzeroWithCount, operands, dst=float_dst)
    refused(work, "legal dtypes: float32 or int32", NonzeroWithCount, operands, src=short)
    for field in ("index_offset", "padding_val"):
        for wrong in (2**31, 0.5):
            refused(work, f"`{field}` is", NonzeroWithCount, operands, **{field: wrong})
    psum = work.empty((16, 8), memory=Memory.PSUM)
    refused(work, "`src` is PSUM", NonzeroWithCount, operands, src=psum)


def test_nonzero_with_count_costs_150_and_an_element_a_cycle(bench, core_v3):
    work = bench(core_v3)
    made = NonzeroWithCount(work.empty((16, 301), INT32), work.empty((16, 300)))
    assert work.cycles(made, core_v3.gpsimd_clock_hz) == pytest.approx(450)


def bounds(ids):
    """Element by element: how far the run of equal ids reaches on both sides."""
    starts, ends = [], []
    for i, own in enumerate(ids):
        start = end = i
        while start and ids[start - 1] == own:
            start -= 1
        while end < len(ids) and ids[end] == own:
            end += 1
        starts.append(len(ids) if own == 0 else start)
        ends.append(-1 if own == 0 else end)
    return [starts, ends]


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=30),
    st.sampled_from([FLOAT32, INT32]),
    st.sampled_from([FLOAT32, INT32]),
)
def test_every_element_knows_the_bounds_of_its_segment(bench, ids, dtype, out):
    work = bench()
    dst = work.empty((1, 2, len(ids)), out)
    work.issue(SequenceBounds(dst, work.tile(np.array([ids]), dtype)))
    assert dst.load()[0].tolist() == bounds(ids)


def test_int32_ids_that_float32_cannot_tell_apart_are_segments_of_their_own(bench):
    work = bench()
    ids = work.tile(np.array([[2**24, 2**24 + 1, 2**24 + 1]]), INT32)
    dst = work.issue(SequenceBounds(work.empty((1, 2, 3), INT32), ids))
    assert dst.array.tolist() == [[[0, 1, 1], [1, 3, 3]]]


def test_ends_are_exclusive_and_padding_is_an_empty_range(bench):
    work = bench()
    ids = work.tile(np.array([[1, 1, 2, 0]]), INT32)
    dst = work.issue(SequenceBounds(work.empty((1, 2, 4), INT32), ids))
    assert dst.array.tolist() == [[[0, 0, 2, 4], [2, 2, 3, -1]]]


@pytest.mark.parametrize("wrong", [-1.0, 0.5, np.nan, np.inf])
def test_segment_ids_are_whole_and_not_negative(bench, wrong):
    work = bench()
    ids = work.tile(np.array([[1.0, wrong]], np.float32))
    with pytest.raises(IllegalInstruction, match=r"segment id .*; legal: whole") as caught:
        work.issue(SequenceBounds(work.empty((1, 2, 2)), ids))
    assert caught.value.fix


def test_sequence_bounds_has_one_partition_and_two_rows(bench):
    work = bench()
    operands = {"dst": work.empty((1, 2, 4)), "segment_ids": work.empty((1, 4))}
    SequenceBounds(**operands).verify(work.core)
    for shape in ((1, 1, 4), (1, 3, 4), (1, 2, 5)):
        dst = work.empty(shape)
        refused(work, r"legal: \[1, 2, 4\]", SequenceBounds, operands, dst=dst)
    two = work.empty((2, 4))
    refused(work, "must be 1 but 2", SequenceBounds, operands, segment_ids=two)
    for name, shape in (("dst", (1, 2, 4)), ("segment_ids", (1, 4))):
        wrong = work.empty(shape, BFLOAT16)
        refused(work, "legal dtypes: float32 or int32", SequenceBounds, operands, **{name: wrong})
        psum = work.empty(shape, memory=Memory.PSUM)
        refused(work, f"`{name}` is PSUM", SequenceBounds, operands, **{name: psum})


def test_sequence_bounds_costs_150_and_two_passes(bench, core):
    work = bench(core)
    made = SequenceBounds(work.empty((1, 2, 300)), work.empty((1, 300)))
    assert work.cycles(made, core.gpsimd_clock_hz) == pytest.approx(750)
