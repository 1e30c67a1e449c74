"""rng, rand2, dropout and the state of the generators: values, legality, price."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trnsim.dtypes import (
    BFLOAT16,
    BOOL,
    FLOAT8_E4M3,
    FLOAT8_E4M3FN,
    FLOAT8_E5M2,
    FLOAT16,
    FLOAT32,
    INT8,
    INT16,
    INT32,
    TFLOAT32,
    UINT8,
    UINT16,
    UINT32,
)
from trnsim.errors import IllegalInstruction
from trnsim.isa import (
    Dropout,
    Engine,
    Rand2,
    RandGetState,
    RandSetState,
    Rng,
    SetRngSeed,
)
from trnsim.isa.numerics.xorwow import RandomState
from trnsim.memory import Memory, Tile

PSUM = Memory.PSUM
INTEGERS = [INT8, INT16, INT32, UINT8, UINT16, UINT32]
RAND2_DTYPES = [FLOAT8_E4M3, FLOAT8_E5M2, FLOAT16, BFLOAT16, FLOAT32, TFLOAT32, *INTEGERS]


def seed(work, value, dtype=INT32):
    work.context.issue(SetRngSeed(work.tile(np.array([[value]]), dtype)))


def bits(work, shape=(128, 64), engine=Engine.vector):
    return work.issue(Rng(work.empty(shape, UINT32), engine)).array.copy()


@settings(max_examples=20)
@given(
    st.sampled_from(INTEGERS),
    st.sampled_from([(1, 1), (5, 7), (128, 3), (4, 2, 3)]),
    st.sampled_from([Engine.vector, Engine.gpsimd]),
)
def test_smaller_integers_keep_the_least_significant_bits(bench, dtype, shape, engine):
    wide = bits(bench(), shape, engine)
    work = bench()
    dst = work.issue(Rng(work.empty(shape, dtype), engine))
    unsigned = dst.array.view(f"u{dtype.itemsize}")
    np.testing.assert_array_equal(unsigned, wide & np.uint32(2 ** (8 * dtype.itemsize) - 1))


def test_a_run_repeats_exactly_and_does_not_repeat_itself(bench):
    work = bench()
    first, second = bits(work), bits(work)
    np.testing.assert_array_equal(first, bits(bench()))
    assert not (first == second).any(axis=1).all()


def test_the_same_seed_gives_the_same_numbers_on_the_vector_engine(bench):
    work = bench()
    seed(work, 42)
    first = bits(work)
    seed(work, 43)
    other = bits(work)
    seed(work, 42)
    np.testing.assert_array_equal(bits(work), first)
    assert (first != other).any()


def test_a_seed_is_32_bits_whatever_their_dtype(bench):
    work = bench()
    seed(work, -1)
    first = bits(work)
    seed(work, 2**32 - 1, UINT32)
    np.testing.assert_array_equal(bits(work), first)


def test_the_engines_draw_independently(bench):
    work, other = bench(), bench()
    bits(work, engine=Engine.vector)
    seed(work, 7)
    np.testing.assert_array_equal(
        bits(work, engine=Engine.gpsimd), bits(other, engine=Engine.gpsimd)
    )


def test_a_lane_is_the_partition_that_is_written(bench):
    work, other = bench(), bench()
    whole = bits(work, (128, 8))
    tile = other.empty((128, 8), UINT32)
    half = Tile(tile.storage, UINT32, tile.pattern.slice(0, 64, 128))
    np.testing.assert_array_equal(other.issue(Rng(half)).array, whole[64:])


def refused(work, message, made, **operands):
    with pytest.raises(IllegalInstruction, match=message) as caught:
        made(**operands).verify(work.core)
    assert caught.value.fix


def test_rng_runs_on_gpsimd_from_v3_on_and_outside_psum(bench, core):
    work = bench(core)
    sbuf, psum = work.empty((4, 8), INT32), work.empty((4, 8), INT32, PSUM)
    Rng(sbuf).verify(core)
    Rng(psum).verify(core)
    if core.generation > 2:
        Rng(sbuf, Engine.gpsimd).verify(core)
        refused(work, "gpsimd with PSUM", Rng, dst=psum, engine=Engine.gpsimd)
    else:
        message = "GpSimd Engine of NeuronCore-v2; legal from NeuronCore-v3 on"
        refused(work, message, Rng, dst=sbuf, engine=Engine.gpsimd)
    refused(work, "engine Scalar Engine; legal", Rng, dst=sbuf, engine=Engine.scalar)


def test_rng_writes_integers(bench):
    work = bench()
    for dtype in INTEGERS:
        Rng(work.empty((4, 8), dtype)).verify(work.core)
    for dtype in (FLOAT32, BOOL):
        refused(work, "legal dtypes: int8 or", Rng, dst=work.empty((4, 8), dtype))


@settings(max_examples=20)
@given(st.sampled_from(RAND2_DTYPES), st.floats(-50, 0), st.floats(0.5, 50), st.booleans())
def test_rand2_stays_between_its_bounds(bench, core_v4, dtype, low, high, are_tiles):
    work = bench(core_v4)
    low, high = (0.0, high) if not dtype.is_float and "u" in dtype.name[0] else (low, high)
    bounds = [np.float32(low), np.float32(high)]
    operands = [work.tile(np.full((16, 1), b)) for b in bounds] if are_tiles else [low, high]
    dst = work.issue(Rand2(work.empty((16, 32), dtype), *operands))
    rounding = 1 if not dtype.is_float else max(abs(low), high) / 4
    assert (dst.load() >= bounds[0] - rounding).all()
    assert (dst.load() <= bounds[1] + rounding).all()
    if dtype is FLOAT32:
        assert (dst.load() >= bounds[0]).all()
        assert (dst.load() <= bounds[1]).all()


def test_rand2_is_uniform(bench, core_v4):
    work = bench(core_v4)
    values = work.issue(Rand2(work.empty((128, 4096)), -1.0, 3.0)).load().ravel()
    count = values.size
    assert abs(values.mean() - 1) < 5 * 4 / np.sqrt(12 * count)
    counted = np.histogram(values, 64, (-1, 3))[0]
    chi_square = ((counted - count / 64) ** 2 / (count / 64)).sum()
    assert abs(chi_square - 63) < 5 * np.sqrt(2 * 63)


def test_rand2_takes_a_range_for_each_partition(bench, core_v4):
    work = bench(core_v4)
    low = np.arange(4, dtype=np.float32).reshape(4, 1) * 10
    dst = work.issue(Rand2(work.empty((4, 100)), work.tile(low), work.tile(low + 1)))
    assert (np.floor(dst.load()) == low).all()


def test_rand2_refuses_an_empty_range(bench, core_v4):
    work = bench(core_v4)
    dst, one = work.empty((4, 8)), work.tile(np.ones((4, 1), np.float32))
    refused(work, "min=1, max=1; legal: min < max", Rand2, dst=dst, min=1.0, max=1)
    with pytest.raises(IllegalInstruction, match=r"min=1, max=0\.5; legal: min < max"):
        work.issue(Rand2(dst, one, 0.5))


def test_rand2_is_there_from_v4_on_with_few_dtypes(bench, core):
    work = bench(core)
    if core.generation < 4:
        message = f"of {core.name}; legal from NeuronCore-v4"
        refused(work, message, Rand2, dst=work.empty((4, 8)), min=0, max=1)
        return
    for dtype in RAND2_DTYPES:
        Rand2(work.empty((4, 8), dtype, PSUM), 0, 1).verify(core)
    for dtype in (FLOAT8_E4M3FN, BOOL):
        refused(work, "legal dtypes", Rand2, dst=work.empty((4, 8), dtype), min=0, max=1)


@settings(max_examples=15)
@given(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]), st.sampled_from([FLOAT32, BFLOAT16, INT32]))
def test_dropout_zeroes_a_share_and_keeps_the_rest_as_it_was(bench, prob, dtype):
    work = bench()
    data = work.tile(
        np.arange(1, 128 * 256 + 1).reshape(128, 256) + 2**24 * (dtype is INT32), dtype
    )
    dst = work.issue(Dropout(work.empty((128, 256), dtype), data, prob))
    dropped = dst.array.astype(np.float32) == 0
    np.testing.assert_array_equal(dst.array[~dropped], data.array[~dropped])
    count = dropped.size
    assert abs(dropped.sum() - prob * count) <= 5 * np.sqrt(count * prob * (1 - prob))


def test_each_partition_has_its_own_probability(bench):
    work = bench()
    data = work.tile(np.ones((2, 300), np.float32))
    prob = work.tile(np.array([[0.0], [1.0]], np.float32))
    work.issue(Dropout(data, data, prob))
    assert data.load()[0].tolist() == [1.0] * 300
    assert data.load()[1].tolist() == [0.0] * 300


def test_dropout_follows_the_seed_of_the_vector_engine(bench):
    work = bench()
    ones, results = work.tile(np.ones((128, 64), np.float32)), []
    for value in (5, 6, 5):
        seed(work, value)
        results.append(work.issue(Dropout(work.empty((128, 64)), ones, 0.5)).load().copy())
    np.testing.assert_array_equal(results[0], results[2])
    assert (results[0] != results[1]).any()


def test_dropout_takes_probabilities_of_a_dtype_that_fits(bench):
    work = bench()
    floats, whole = work.empty((4, 8), BFLOAT16), work.empty((4, 8), INT16)
    column = {d: work.empty((4, 1), d) for d in (FLOAT32, BFLOAT16, INT32)}
    Dropout(floats, floats, column[BFLOAT16]).verify(work.core)
    Dropout(whole, whole, column[FLOAT32]).verify(work.core)
    legal = "legal: any float dtype"
    refused(work, legal, Dropout, dst=floats, data=floats, prob=column[INT32])
    for dtype in (BFLOAT16, INT32):
        legal = "legal: float32 for integer data"
        refused(work, legal, Dropout, dst=whole, data=whole, prob=column[dtype])
    refused(work, "legal: equal dtypes", Dropout, dst=work.empty((4, 8)), data=floats, prob=0.5)
    row = work.empty((4, 8))
    refused(work, "must be 1 but 8 in `prob`", Dropout, dst=floats, data=floats, prob=row)
    for prob in (0, 1.0):
        Dropout(floats, floats, prob).verify(work.core)
    for prob in (-0.01, 1.01):
        refused(work, "legal: 0 to 1", Dropout, dst=floats, data=floats, prob=prob)


def test_a_seed_is_one_element_of_32_bits(bench):
    work = bench()
    SetRngSeed(work.empty((1, 1), INT32, PSUM)).verify(work.core)
    refused(work, "legal: a dtype of 32 bits", SetRngSeed, src_seeds=work.empty((1, 1), INT16))
    for shape in ((2, 1), (1, 2)):
        refused(work, "must be 1 but 2", SetRngSeed, src_seeds=work.empty(shape, INT32))


@pytest.mark.parametrize(("engine", "words"), [(Engine.gpsimd, 6), (Engine.vector, 24)])
def test_a_state_saved_and_restored_repeats_the_numbers(bench, core_v4, engine, words):
    work = bench(core_v4)
    bits(work, engine=engine)
    saved = work.issue(RandGetState(work.empty((128, words), UINT32), engine))
    first = bits(work, engine=engine)
    assert (bits(work, engine=engine) != first).any()
    work.context.issue(RandSetState(saved, engine))
    np.testing.assert_array_equal(bits(work, engine=engine), first)


def test_each_partition_seeds_its_own_lane(bench, core_v3):
    work = bench(core_v3)
    same = np.tile(np.arange(1, 7, dtype=np.uint32), (3, 1))
    work.context.issue(RandSetState(work.tile(same, UINT32)))
    rows = bits(work, (4, 10), Engine.gpsimd)
    expected = RandomState(Engine.gpsimd, 1)
    expected.put(0, same[:1])
    assert rows[0].tolist() == rows[2].tolist() == expected.draw(0, 1, 10)[0].tolist()
    assert rows[3].tolist() != rows[0].tolist()


def test_states_are_there_from_v3_on_and_on_the_vector_engine_from_v4_on(bench, core):
    work = bench(core)
    on_gpsimd, on_vector = work.empty((8, 6), UINT32), work.empty((8, 24), UINT32)
    cases = (
        (3, RandSetState, {"src_seeds": on_gpsimd}),
        (3, RandGetState, {"dst": on_gpsimd}),
        (4, RandSetState, {"src_seeds": on_vector, "engine": Engine.vector}),
        (4, RandGetState, {"dst": on_vector, "engine": Engine.vector}),
    )
    for first, made, operands in cases:
        if core.generation >= first:
            made(**operands).verify(core)
        else:
            refused(work, f"legal from NeuronCore-v{first}", made, **operands)


def test_a_state_has_6_words_on_gpsimd_and_24_on_the_vector_engine(bench, core_v4):
    work = bench(core_v4)
    for shape in ((8, 24), (8, 5), (8, 2, 3)):
        wrong = work.empty(shape, UINT32)
        refused(work, r"GpSimd Engine; legal: \[P, 6\]", RandSetState, src_seeds=wrong)
        refused(work, r"GpSimd Engine; legal: \[P, 6\]", RandGetState, dst=wrong)
    six = work.empty((8, 6), UINT32)
    refused(work, r"legal: \[P, 24\]", RandGetState, dst=six, engine=Engine.vector)
    refused(work, "legal dtypes: uint32", RandGetState, dst=work.empty((8, 6), INT32))
    refused(work, "legal dtypes: uint32", RandSetState, src_seeds=work.empty((8, 6), INT32))


def test_states_come_from_sbuf_and_go_to_psum_only_from_the_vector_engine(bench, core_v4):
    work = bench(core_v4)
    wide = work.empty((8, 24), UINT32, PSUM)
    RandGetState(wide, Engine.vector).verify(core_v4)
    refused(work, "`src_seeds` is PSUM", RandSetState, src_seeds=wide, engine=Engine.vector)
    six = work.empty((8, 6), UINT32, PSUM)
    refused(work, "gpsimd with PSUM", RandGetState, dst=six)


@pytest.mark.parametrize("F", [1, 64, 700])
def test_the_prices(bench, core, F):
    work = bench(core)
    dst, data = work.empty((4, F), INT32), work.empty((4, F))
    rate = 4 if core.generation == 4 else 1
    found = work.cycles(Rng(dst), core.vector_clock_hz)
    assert found == pytest.approx(max(64, F / rate))
    found = work.cycles(Dropout(data, data, 0.5), core.vector_clock_hz)
    assert found == pytest.approx(max(64, F))
    if core.generation > 2:
        found = work.cycles(Rng(dst, Engine.gpsimd), core.gpsimd_clock_hz)
        assert found == pytest.approx(150 + F)
    if core.generation == 4:
        found = work.cycles(Rand2(data, 0, 1), core.vector_clock_hz)
        assert found == pytest.approx(max(64, F / 4))


def test_the_prices_of_seeds_and_states(bench, core_v4):
    work = bench(core_v4)
    seeding = SetRngSeed(work.empty((1, 1), INT32))
    assert work.cycles(seeding, core_v4.vector_clock_hz) == pytest.approx(64)
    on_gpsimd, on_vector = work.empty((8, 6), UINT32), work.empty((8, 24), UINT32)
    for made in (RandSetState, RandGetState):
        assert work.cycles(made(on_gpsimd), core_v4.gpsimd_clock_hz) == pytest.approx(156)
        found = work.cycles(made(on_vector, Engine.vector), core_v4.vector_clock_hz)
        assert found == pytest.approx(64)
