"""What matmuls share: tiles of the array, PSUM banks, accumulation."""

import numpy as np
import pytest

from trnsim.dtypes import BFLOAT16, FLOAT8_E4M3FN, FLOAT32, round_to
from trnsim.errors import IllegalInstruction, UndefinedBehavior, UninitializedRead
from trnsim.isa import (
    Activation,
    Memset,
    NcMatmul,
    NcTranspose,
    TensorCopy,
    TensorCopyPredicated,
    TensorScalar,
)
from trnsim.memory import Memory, Tile

PSUM = Memory.PSUM


def shapes(work, K=8, M=4, N=4, dtypes=(BFLOAT16, BFLOAT16, FLOAT32), **options):
    return NcMatmul(
        work.empty((M, N), dtypes[2], PSUM),
        work.empty((K, M), dtypes[0]),
        work.empty((K, N), dtypes[1]),
        **options,
    )


def product(stationary, moving):
    a, b = (tile.load().astype(np.float64) for tile in (stationary, moving))
    return a.reshape(len(a), -1).T @ b.reshape(len(b), -1)


# Accumulation


@pytest.fixture
def psum(bench, random):
    """A bench, a PSUM tile, and a function that multiplies ones onto part of it."""
    work = bench()
    dst = work.empty((4, 8), memory=PSUM)
    ones = work.tile(np.ones((1, 4), np.float32))

    def add(value, accumulate=None, columns=(0, 8)):
        part = Tile(dst.storage, FLOAT32, dst.pattern.slice(1, *columns))
        moving = work.tile(np.full((1, columns[1] - columns[0]), value, np.float32))
        work.issue(NcMatmul(part, ones, moving, accumulate=accumulate))

    del random
    return work, dst, add


def test_by_default_the_first_matmul_overwrites_and_later_ones_add(psum):
    _, dst, add = psum
    for value in (1, 2, 4):
        add(value)
    assert dst.load().tolist() == [[7.0] * 8] * 4


def test_a_product_of_one_term_keeps_the_sign_of_zero(psum):
    _, dst, add = psum
    add(-0.0)
    assert np.signbit(dst.load()).all()


def test_what_is_first_is_decided_for_each_element(psum):
    _, dst, add = psum
    add(1, columns=(0, 5))
    add(2, columns=(3, 8))
    assert dst.load()[0].tolist() == [1, 1, 1, 3, 3, 2, 2, 2]


def test_only_matmuls_count_as_the_first_write(psum):
    work, dst, add = psum
    work.issue(Memset(dst, 100.0))
    add(1)
    assert dst.load().tolist() == [[1.0] * 8] * 4
    add(1)
    assert dst.load().tolist() == [[2.0] * 8] * 4


def test_accumulate_false_starts_again(psum):
    _, dst, add = psum
    add(5)
    add(3, accumulate=False)
    assert dst.load().tolist() == [[3.0] * 8] * 4
    add(1, accumulate=True)
    assert dst.load().tolist() == [[4.0] * 8] * 4


def test_accumulating_onto_unwritten_psum_is_undefined(psum):
    _, _, add = psum
    with pytest.raises(
        UndefinedBehavior, match=r"accumulate=True onto PSUM .* which nothing wrote"
    ):
        add(1, accumulate=True)
    add(1, accumulate=False, columns=(0, 4))
    with pytest.raises(UndefinedBehavior, match="nothing wrote"):
        add(1, accumulate=True, columns=(0, 5))
    add(1, accumulate=True, columns=(0, 4))


def test_accumulating_onto_a_memset_is_undefined_before_v4(bench, core_v2, core_v3, core_v4):
    for core in (core_v2, core_v3, core_v4):
        work = bench(core)
        dst = work.empty((4, 4), memory=PSUM)
        work.issue(Memset(dst, 10.0))
        ones = work.tile(np.ones((1, 4), np.float32))
        matmul = NcMatmul(dst, ones, ones, accumulate=True)
        if core is core_v4:
            assert work.issue(matmul).load().tolist() == [[11.0] * 4] * 4
            continue
        with pytest.raises(UndefinedBehavior, match="was set by another instruction") as caught:
            work.issue(matmul)
        assert core.name in str(caught.value)


def test_bfloat16_psum_rounds_at_each_write(bench, core_v4):
    work = bench(core_v4)
    ones = work.tile(np.ones((1, 4)), BFLOAT16)
    big, small = work.tile(np.full((1, 4), 256.0), BFLOAT16), work.tile(np.ones((1, 4)), BFLOAT16)
    dst, exact = work.empty((4, 4), BFLOAT16, PSUM), work.empty((4, 4), memory=PSUM)
    for moving in (big, small, small):
        work.issue(NcMatmul(dst, ones, moving))
        work.issue(NcMatmul(exact, ones, moving))
    assert dst.load()[0, 0] == 256  # 257 rounds to 256, twice
    assert exact.load()[0, 0] == 258


def test_a_second_result_in_a_used_tile_is_added_to_the_first(psum):
    work, dst, add = psum
    add(1)
    kept = work.issue(TensorCopy(work.empty((4, 8)), dst))
    add(2)
    assert kept.load()[0, 0] == 1
    assert dst.load()[0, 0] == 3


def test_tensors_at_one_address_accumulate_each_for_itself(bench):
    work = bench()
    first, second = (work.empty((4, 8), memory=PSUM, address=(0, 0)) for _ in range(2))
    ones = work.tile(np.ones((1, 4), np.float32))
    eights = work.tile(np.ones((1, 8), np.float32))
    for dst in (first, first, second):
        work.issue(NcMatmul(dst, ones, eights))
    assert second.load().tolist() == [[1.0] * 8] * 4
    with pytest.raises(UninitializedRead, match=r"nc_matmul reads .* has overwritten since"):
        work.issue(NcMatmul(first, ones, eights))


def test_rounding_happens_at_every_accumulation_not_at_the_end(bench, random, core_v4):
    work = bench(core_v4)
    dst = work.empty((16, 16), BFLOAT16, PSUM)
    expected = np.zeros((16, 16), np.float32)
    for seed in range(4):
        a, b = (work.tile(random((8, 16), seed=2 * seed + i), BFLOAT16) for i in (0, 1))
        work.issue(NcMatmul(dst, a, b))
        total = expected + a.load().T @ b.load()
        expected = round_to(total, BFLOAT16).astype(np.float32)
    np.testing.assert_array_equal(dst.load(), expected)


def test_float8_e4m3fn_comes_with_v4(bench, core_v3, core_v4):
    work = bench(core_v4)
    with pytest.raises(IllegalInstruction, match="float8_e4m3fn on NeuronCore-v3; legal from"):
        shapes(work, dtypes=(FLOAT8_E4M3FN, BFLOAT16, FLOAT32)).verify(core_v3)


def test_overlapping_windows_accumulate_where_they_overlap(bench, random):
    """NKI 0.6: the convolution pattern was taken for a first write each time."""
    work = bench()
    dst = work.empty((4, 10), memory=PSUM)
    expected = np.zeros((4, 10))
    for start in (0, 2, 4):
        a, b = work.tile(random((8, 4), seed=start)), work.tile(random((8, 6), seed=start + 1))
        window = Tile(dst.storage, FLOAT32, dst.pattern.slice(1, start, start + 6))
        work.issue(NcMatmul(window, a, b))
        expected[:, start : start + 6] += product(a, b)
    np.testing.assert_allclose(dst.load(), expected, rtol=1e-4, atol=1e-5)


# Tiles of the array


def test_a_row_and_column_tile_is_named_as_a_whole_and_holds_the_stationary(bench):
    work = bench()
    shapes(work, tile_size=(64, 128), tile_position=(64, 0)).verify(work.core)
    for options, message in (
        ({"tile_position": (64, 0)}, r"legal: both as \(row, column\), or neither"),
        ({"tile_size": (48, 128), "tile_position": (0, 0)}, "legal row sizes on NeuronCore-v3"),
        ({"tile_size": (64, 128), "tile_position": (32, 0)}, "legal start rows: 0, 64"),
    ):
        with pytest.raises(IllegalInstruction, match=message):
            shapes(work, **options).verify(work.core)
    with pytest.raises(IllegalInstruction, match=r"with tile_size=\(32, 128\); legal: at most"):
        shapes(work, K=64, tile_size=(32, 128), tile_position=(0, 0)).verify(work.core)


@pytest.mark.parametrize("edge", [0, 1])
def test_tiles_are_halves_on_v2_and_quarters_later(bench, core, edge):
    work = bench(core)

    def tiled(size, start):
        sizes, starts = [128, 128], [0, 0]
        sizes[edge], starts[edge] = size, start
        return shapes(work, tile_size=tuple(sizes), tile_position=tuple(starts))

    name = ("row", "column")[edge]
    for size, start in ((128, 0), (64, 0), (64, 64)):
        tiled(size, start).verify(core)
    if core.generation == 2:
        with pytest.raises(IllegalInstruction, match=f"legal {name} sizes .*: 128, 64"):
            tiled(32, 0).verify(core)
    else:
        tiled(32, 96).verify(core)
        with pytest.raises(IllegalInstruction, match=f"legal {name} sizes .*: 128, 64, 32"):
            tiled(16, 0).verify(core)
    for start in (32, 128, -64):
        with pytest.raises(IllegalInstruction, match=f"legal start {name}s: 0, 64"):
            tiled(64, start).verify(core)


def test_the_stationary_tile_fits_its_tile_of_the_array(bench, core_v3):
    work = bench(core_v3)
    half = {"tile_size": (64, 64), "tile_position": (64, 64)}
    shapes(work, K=64, M=64, **half).verify(core_v3)
    for lengths in ({"K": 65}, {"M": 65}):
        with pytest.raises(IllegalInstruction, match=r"legal: at most \[64, 64\]"):
            shapes(work, **lengths, **half).verify(core_v3)


def test_a_tile_of_the_array_computes_what_the_whole_does(bench, random):
    work = bench()
    a, b = work.tile(random((32, 16))), work.tile(random((32, 24), seed=1))
    whole, part = (work.empty((16, 24), memory=PSUM) for _ in range(2))
    work.issue(NcMatmul(whole, a, b))
    work.issue(NcMatmul(part, a, b, tile_position=(96, 64), tile_size=(32, 32)))
    np.testing.assert_array_equal(whole.array, part.array)


# nki_perf_guide.rst, fig18.png and fig20.png: 219 ns with 96 stationary columns, 188 ns with one.
def test_a_lone_matmul_lasts_as_long_as_published_profiles_show(bench, core_v2):
    cost = bench(core_v2).cost(shapes(bench(core_v2), K=128, M=96, N=128))
    assert 188e-9 < cost.interval_s + cost.latency_s < 219e-9


def test_a_tile_of_the_array_takes_its_share_of_the_interval(bench, core_v3):
    work = bench(core_v3, has_values=False)
    whole = work.cost(shapes(work, 32, 128, 512))
    part = work.cost(shapes(work, 32, 128, 512, tile_size=(32, 128), tile_position=(0, 0)))
    assert part.interval_s == pytest.approx(whole.interval_s / 4)
    alone = whole.interval_s + whole.latency_s
    assert part.interval_s + part.latency_s == pytest.approx(alone)


# PSUM banks


def test_dst_stays_within_a_bank_before_v4(bench, core):
    work = bench(core, has_values=False)
    room = work.empty((4, 1024), memory=PSUM)
    a, b = work.empty((8, 4), BFLOAT16), work.empty((8, 512), BFLOAT16)

    def at(column):
        dst = Tile(room.storage, FLOAT32, room.pattern.slice(1, column, column + 512))
        return NcMatmul(dst, a, b)

    at(0).verify(core)
    at(512).verify(core)
    if core.generation == 4:
        at(1).verify(core)
        return
    with pytest.raises(IllegalInstruction, match="from PSUM bank 0 of its tensor to bank 1") as e:
        at(1).verify(core)
    assert core.name in str(e.value)


def overwriting(work, part):
    """Instructions that set all of a PSUM tile, none of them a matmul."""
    ones, words = np.ones(part.shape, np.float32), np.ones(part.shape, np.uint32)
    same = work.tile(ones)
    return {
        "memset": Memset(part, 0.0),
        "tensor_copy": TensorCopy(part, same),
        "in place": TensorScalar(part, part, "multiply", 2.0),
        "activation": Activation(part, "copy", same),
        "predicated": TensorCopyPredicated(part, same, work.tile(words)),
    }


OVERWRITING = ("memset", "tensor_copy", "in place", "activation", "predicated")


@pytest.mark.parametrize("how", OVERWRITING)
@pytest.mark.parametrize("accumulate", [None, True])
def test_a_product_that_another_instruction_overwrote_is_no_start_before_v4(
    bench, core_v2, core_v3, core_v4, how, accumulate
):
    for core in (core_v2, core_v3, core_v4):
        work = bench(core)
        dst, ones = work.empty((4, 4), memory=PSUM), work.tile(np.ones((1, 4), np.float32))
        work.issue(NcMatmul(dst, ones, ones))
        work.issue(overwriting(work, dst)[how])
        again = NcMatmul(dst, ones, ones, accumulate=accumulate)
        if core is core_v4:
            held = {"memset": 0, "in place": 2}.get(how, 1)
            assert (work.issue(again).load() == held + 1).all()
            continue
        with pytest.raises(UndefinedBehavior, match="another instruction has written") as caught:
            work.issue(again)
        assert core.name in str(caught.value)
        assert caught.value.source == "nki.isa.nc_matmul, Accumulation mode"
        work.issue(NcMatmul(dst, ones, ones, accumulate=False))
        assert (work.issue(NcMatmul(dst, ones, ones, accumulate=accumulate)).load() == 2).all()


@pytest.mark.parametrize("accumulate", [None, True])
@pytest.mark.parametrize(
    ("changed", "columns", "is_undefined"),
    [
        ((0, 4), (4, 8), False),
        ((0, 5), (4, 8), True),
        ((7, 8), (0, 8), True),
        ((7, 8), (0, 7), False),
    ],
)
def test_what_was_overwritten_is_judged_by_element(
    psum, accumulate, changed, columns, is_undefined
):
    work, dst, add = psum
    add(1)
    work.issue(Memset(Tile(dst.storage, FLOAT32, dst.pattern.slice(1, *changed)), 9.0))
    if is_undefined:
        with pytest.raises(UndefinedBehavior, match="another instruction has written"):
            add(1, accumulate, columns)
        return
    add(1, accumulate, columns)
    assert (dst.load()[:, slice(*columns)] == 2).all()


def test_what_was_set_before_its_first_product_is_overwritten_by_it(psum):
    work, dst, add = psum
    add(1, columns=(0, 4))
    work.issue(Memset(Tile(dst.storage, FLOAT32, dst.pattern.slice(1, 4, 8)), 9.0))
    add(2, columns=(2, 8))
    assert dst.load()[0].tolist() == [1, 1, 3, 3, 2, 2, 2, 2]


def test_a_predicate_that_copies_nothing_overwrites_nothing(psum):
    work, dst, add = psum
    add(1)
    nothing = np.zeros((4, 8), np.uint32)
    nothing[:, 0] = 1
    work.issue(TensorCopyPredicated(dst, 5.0, work.tile(nothing)))
    add(1, True, (1, 8))
    with pytest.raises(UndefinedBehavior, match="another instruction has written"):
        add(1, True, (0, 1))


def test_a_transpose_by_the_tensor_engine_is_no_other_instruction(psum):
    work, dst, add = psum
    add(1)
    work.issue(Memset(dst, 9.0))
    work.issue(NcTranspose(dst, work.tile(np.full((8, 4), 3, np.float32))))
    add(1, True)
    assert (dst.load() == 4).all()


def test_tensors_at_an_address_of_psum_are_overwritten_like_others(bench):
    work = bench()
    memory = work.context.memory
    storage, layout = memory.allocate((4, 4), FLOAT32, PSUM, address=(0, 2048))
    dst, ones = Tile(storage, FLOAT32, layout.pattern), work.tile(np.ones((1, 4), np.float32))
    work.issue(Memset(dst, 9.0))
    assert (work.issue(NcMatmul(dst, ones, ones)).load() == 1).all()
    assert (work.issue(NcMatmul(dst, ones, ones)).load() == 2).all()
    work.issue(Memset(dst, 9.0))
    with pytest.raises(UndefinedBehavior, match="another instruction has written"):
        work.issue(NcMatmul(dst, ones, ones))
