"""nc_transpose: values, legality, price."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.arch import NEURONCORE_V2, has_dtype
from trnsim.dtypes import (
    ALL,
    BFLOAT16,
    FLOAT8_E4M3,
    FLOAT8_E4M3FN,
    FLOAT8_E5M2,
    FLOAT32,
    INT32,
    UINT8,
)
from trnsim.errors import IllegalInstruction
from trnsim.isa import Dims, Engine, NcTranspose
from trnsim.memory import Memory, Tile

SBUF, PSUM = Memory.SBUF, Memory.PSUM


@given(
    st.sampled_from([d for d in ALL if has_dtype(d.name)(NEURONCORE_V2)]),
    st.sampled_from([(1, 1), (32, 7), (5, 32), (9, 2, 3)]),
)
def test_a_transpose_moves_bits_on_either_engine(bench, random, dtype, shape):
    work = bench()
    data = work.tile(np.abs(random(shape)) * 9, dtype)
    flat = data.array.reshape(shape[0], -1)
    for memory in (SBUF, PSUM):
        is_spaced = memory is PSUM and dtype.is_float and dtype.itemsize == 1
        step = 2 if is_spaced and work.core.generation > 2 else 1
        room = work.empty((flat.shape[1], flat.shape[0] * step), dtype, memory)
        dst = Tile(room.storage, dtype, room.pattern.slice(1, 0, flat.shape[0] * step, step))
        instruction = NcTranspose(dst, data)
        assert instruction.chosen_engine(work.core) is (
            Engine.tensor if memory is PSUM else Engine.vector
        )
        dst = work.issue(instruction)
        assert dst.array.tobytes() == np.ascontiguousarray(flat.T).tobytes()


def test_a_transpose_keeps_nan_and_infinity(bench, core_v3):
    work = bench(core_v3)
    values = np.array([[np.nan, np.inf], [-np.inf, 1]], np.float32)
    dst = work.issue(NcTranspose(work.empty((2, 2), memory=PSUM), work.tile(values)))
    np.testing.assert_array_equal(dst.array, values.T)


def test_a_transpose_keeps_its_dtype(bench):
    work = bench()
    data = work.empty((4, 8), BFLOAT16)
    NcTranspose(work.empty((8, 4), BFLOAT16, PSUM), data).verify(work.core)
    with pytest.raises(
        IllegalInstruction, match=r"float32 and `data` is .* bfloat16; legal: equal"
    ):
        NcTranspose(work.empty((8, 4), FLOAT32, PSUM), data).verify(work.core)


@pytest.mark.parametrize(("memory", "limit"), [(PSUM, 128), (SBUF, 32)])
def test_an_engine_transposes_as_much_as_it_holds(bench, memory, limit):
    work = bench()
    NcTranspose(work.empty((limit, limit), memory=memory), work.empty((limit, limit))).verify(
        work.core
    )
    message = rf"at most \[{limit}, {limit}\]"
    over = limit + 1
    if over <= 128:
        with pytest.raises(IllegalInstruction, match=message):
            NcTranspose(work.empty((over, 4), memory=memory), work.empty((4, over))).verify(
                work.core
            )
    with pytest.raises(IllegalInstruction, match=message):
        NcTranspose(work.empty((4, 4), memory=memory), work.empty((4, 4))).check(
            work.core, Dims(P=4, F=over)
        )


def test_the_tensor_engine_transposes_from_sbuf_to_psum_only(bench):
    work = bench()
    sbuf, psum = work.empty((8, 8)), work.empty((8, 8), memory=PSUM)
    NcTranspose(psum, sbuf, Engine.tensor).verify(work.core)
    for dst, data in ((sbuf, sbuf), (psum, psum), (sbuf, psum)):
        NcTranspose(dst, data, Engine.vector).verify(work.core)
        with pytest.raises(IllegalInstruction, match="on the Tensor Engine; legal: SBUF to PSUM"):
            NcTranspose(dst, data, Engine.tensor).verify(work.core)


@pytest.mark.parametrize(("P", "F"), [(1, 1), (32, 32), (128, 128), (128, 16), (16, 128)])
def test_a_transpose_costs_a_row_a_cycle_on_the_tensor_engine(bench, core, P, F):
    work = bench(core, has_values=False)
    # v3 moves four-byte data in half the passes, v4 hides half of a transpose behind what follows.
    passes_of_float32, background = {2: (4, 1), 3: (2, 1), 4: (2, 2)}[core.generation]
    for dtype, passes in ((BFLOAT16, 1), (FLOAT32, passes_of_float32)):
        instruction = NcTranspose(work.empty((F, P), dtype, PSUM), work.empty((P, F), dtype))
        found = work.cycles(instruction, core.tensor_clock_hz)
        assert found == pytest.approx(passes * max(P, min(64, F)) / background)
    if max(P, F) <= 32:
        small = NcTranspose(work.empty((F, P)), work.empty((P, F)))
        assert work.cycles(small, core.vector_clock_hz) == pytest.approx(64)


def test_free_axes_count_as_one(bench, random):
    work = bench()
    data = work.tile(random((4, 2, 3, 5)))
    dst = work.issue(NcTranspose(work.empty((30, 2, 2)), data, Engine.vector))
    expected = data.array.reshape(4, 30).T.reshape(30, 2, 2)
    np.testing.assert_array_equal(dst.array, expected)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_tensor_engine_of_v2_spreads_nan_and_infinity_over_a_row(bench, core_v2, bad):
    work = bench(core_v2)
    data = work.tile(np.array([[1.0, bad], [4.0, 2.0]], np.float32))
    on_array = work.issue(NcTranspose(work.empty((2, 2), memory=PSUM), data)).load()
    on_lanes = work.issue(NcTranspose(work.empty((2, 2)), data)).load()
    np.testing.assert_array_equal(on_lanes, data.load().T)
    assert on_array[0].tolist() == [1.0, 4.0]
    assert not np.isfinite(on_array[1, 0])
    assert np.isnan(on_array[1, 1])


def test_integers_keep_their_bits_on_every_generation(bench, core):
    work = bench(core)
    data = work.tile(np.array([[2**31 - 1, -1], [7, 2**24 + 1]]), INT32)
    for memory in (SBUF, PSUM):
        dst = work.issue(NcTranspose(work.empty((2, 2), INT32, memory), data))
        np.testing.assert_array_equal(dst.array, data.array.T)


def test_spaced_fp8_gets_zeros_above_on_the_tensor_engine_from_v3_on(bench, random, core):
    work = bench(core)
    data = work.tile(random((6, 4)), FLOAT8_E4M3)
    room = work.tile(np.full((4, 12), 255), UINT8, PSUM)
    pattern = room.pattern.slice(1, 0, 12, 2)
    dst = work.issue(NcTranspose(Tile(room.storage, FLOAT8_E4M3, pattern), data))
    np.testing.assert_array_equal(dst.load(), data.load().T)
    above = 0 if core.generation > 2 else 255
    assert (room.array[:, 1::2] == above).all()


@pytest.mark.parametrize("dtype", [FLOAT8_E4M3, FLOAT8_E5M2])
def test_fp8_side_by_side_is_refused_on_the_tensor_engine_from_v3_on(bench, random, core, dtype):
    work = bench(core)
    data, dst = work.tile(random((6, 4)), dtype), work.empty((4, 6), dtype, PSUM)
    NcTranspose(dst, data, Engine.vector).verify(core)
    if core.generation == 2:
        NcTranspose(dst, data).verify(core)
        return
    with pytest.raises(IllegalInstruction, match="lie one byte apart; legal on") as caught:
        NcTranspose(dst, data).verify(core)
    assert "dst[:, ::2]" in caught.value.fix


def test_an_engine_that_is_named_is_used(bench, core_v3):
    """NKI 0.4: the argument `engine` was ignored."""
    work = bench(core_v3)
    data, psum = work.empty((8, 8)), work.empty((8, 8), memory=PSUM)
    assert NcTranspose(psum, data, Engine.vector).chosen_engine(core_v3) is Engine.vector
    assert NcTranspose(psum, data).chosen_engine(core_v3) is Engine.tensor
    with pytest.raises(IllegalInstruction, match="engine Scalar Engine; legal: nisa"):
        NcTranspose(psum, data, Engine.scalar).verify(core_v3)


def test_a_large_transpose_within_sbuf_is_sent_to_the_tensor_engine(bench, core_v3):
    work = bench(core_v3)
    with pytest.raises(IllegalInstruction, match=r"by tile, or let the Tensor Engine .* nl\.psum"):
        NcTranspose(work.empty((64, 128)), work.empty((128, 64))).verify(core_v3)


def test_the_tensor_engine_writes_one_bank_before_v4(bench, core):
    work = bench(core)
    room, data = work.empty((4, 1024), memory=PSUM), work.empty((128, 4))
    across = Tile(room.storage, FLOAT32, room.pattern.slice(1, 448, 576))
    within = Tile(room.storage, FLOAT32, room.pattern.slice(1, 512, 640))
    NcTranspose(within, data).verify(core)
    if core.generation == 4:
        NcTranspose(across, data).verify(core)
        return
    with pytest.raises(IllegalInstruction, match="from PSUM bank 0 of its tensor to bank 1"):
        NcTranspose(across, data).verify(core)


def test_a_dtype_that_the_generation_lacks_is_refused(bench, core_v3, core_v4):
    tile = bench(core_v4).empty((4, 4), FLOAT8_E4M3FN)
    NcTranspose(tile, tile).verify(core_v4)
    with pytest.raises(IllegalInstruction, match="float8_e4m3fn on NeuronCore-v3"):
        NcTranspose(tile, tile).verify(core_v3)


def test_a_transpose_on_the_array_counts_as_a_matmul_with_an_identity(bench):
    work = bench()
    data, dst = work.empty((128, 64), BFLOAT16), work.empty((64, 128), BFLOAT16, Memory.PSUM)
    assert work.cost(NcTranspose(dst, data)).flops == 2 * 128 * 128 * 64
    on_lanes = NcTranspose(work.empty((32, 32)), work.empty((32, 32)), engine=Engine.vector)
    assert work.cost(on_lanes).flops == 0
