"""exponential: values, legality, price."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.dtypes import (
    BFLOAT16,
    BOOL,
    FLOAT8_E4M3,
    FLOAT8_E4M3FN,
    FLOAT16,
    FLOAT32,
    INT32,
    TFLOAT32,
    UINT16,
    UINT32,
)
from trnsim.errors import IllegalInstruction, UndefinedBehavior
from trnsim.isa import Exponential, ReduceCmd
from trnsim.memory import Memory

RESET, KEEP, LOAD = ReduceCmd.reset_reduce, ReduceCmd.reduce, ReduceCmd.load_reduce
SHAPES = [(1, 1), (3, 7), (128, 2), (4, 2, 3, 2)]


@given(
    shape=st.sampled_from(SHAPES),
    dtypes=st.tuples(*[st.sampled_from([FLOAT32, BFLOAT16, FLOAT16])] * 2),
    largest=st.one_of(st.just("vector"), st.floats(-2, 2, width=32)),
    memory=st.sampled_from([Memory.SBUF, Memory.PSUM]),
)
def test_it_is_exp_of_src_less_the_maximum_and_the_sum_of_it(
    bench, core_v4, random, shape, dtypes, largest, memory
):
    work = bench(core_v4)
    src, vector = work.tile(random(shape), dtypes[0], memory), random((shape[0], 1), seed=1)
    dst, sums = work.empty(shape, dtypes[1]), work.empty((shape[0], 1))
    given_maximum = work.tile(vector) if largest == "vector" else largest
    work.issue(Exponential(dst, src, given_maximum, sums, RESET))
    column = vector if largest == "vector" else largest
    expected = np.exp(src.load().reshape(shape[0], -1).astype(float) - column)
    tolerance = {"float32": 1e-5, "bfloat16": 2**-8, "float16": 2**-10}[dst.dtype.name]
    np.testing.assert_allclose(dst.load(), expected.reshape(shape), rtol=tolerance, atol=1e-7)
    np.testing.assert_allclose(sums.load()[:, 0], expected.sum(axis=1), rtol=1e-5)


def test_sums_are_kept_between_instructions(bench, core_v4):
    work = bench(core_v4)
    zeros, dst, sums = work.tile(np.zeros((2, 4), "f4")), work.empty((2, 4)), work.empty((2, 1))
    work.issue(Exponential(dst, zeros, reduce_cmd=RESET))
    work.issue(Exponential(dst, zeros, 0.0, sums, KEEP))
    assert sums.load()[:, 0].tolist() == [8, 8]
    work.issue(Exponential(dst, zeros, 0.0, sums, LOAD, 0.5))
    assert sums.load()[:, 0].tolist() == [4.5, 4.5]
    start = work.tile(np.array([[1.0], [2.0]], "f4"))
    work.issue(Exponential(dst, zeros, 0.0, sums, LOAD, start))
    assert sums.load()[:, 0].tolist() == [5, 6]


def test_an_idle_command_leaves_the_registers_undefined(bench, core_v4):
    work = bench(core_v4)
    tile, sums = work.tile(np.zeros((2, 4), "f4")), work.empty((2, 1))
    work.issue(Exponential(tile, tile, reduce_cmd=RESET))
    work.issue(Exponential(tile, tile))
    with pytest.raises(UndefinedBehavior, match="registers of the Vector Engine") as caught:
        work.issue(Exponential(tile, tile, 0.0, sums, KEEP))
    assert "reset_reduce" in caught.value.fix


def test_overflow_is_infinity_and_integers_are_rounded(bench, core_v4):
    work = bench(core_v4)
    src = work.tile(np.array([[1000, -1000, 1]]), INT32)
    dst = work.issue(Exponential(work.empty((1, 3)), src))
    np.testing.assert_allclose(dst.load(), [[np.inf, 0, np.e]], rtol=1e-6)
    whole = work.issue(Exponential(work.empty((1, 3), UINT16), src))
    assert whole.array.tolist() == [[65535, 0, 3]]


def test_it_may_be_in_place(bench, core_v4, random):
    work = bench(core_v4)
    tile = work.tile(random((4, 8)))
    work.issue(Exponential(tile, tile, 1.0))
    np.testing.assert_allclose(tile.load(), np.exp(random((4, 8)) - 1), rtol=1e-6)


def made(work, **operands):
    tile = work.empty((4, 8))
    return Exponential(**({"dst": tile, "src": tile} | operands))


def refused(work, message, instruction):
    with pytest.raises(IllegalInstruction, match=message) as caught:
        instruction.verify(work.core)
    assert caught.value.fix
    assert caught.value.source


def test_it_needs_v4(bench, core_v2, core_v3, core_v4):
    made(bench(core_v4)).verify(core_v4)
    for core in (core_v2, core_v3):
        work = bench(core)
        refused(work, f"exponential: on {core.name}; legal from NeuronCore-v4 on", made(work))


def test_only_some_dtypes_are_legal_on_each_side(bench, core_v4):
    work = bench(core_v4)
    for dtype in (FLOAT8_E4M3, TFLOAT32, INT32, UINT16):
        made(work, dst=work.empty((4, 8), dtype)).verify(core_v4)
    for dtype in (UINT32, BOOL, FLOAT8_E4M3FN):
        message = "`dst` is .*; legal dtypes: float8_e4m3 or"
        refused(work, message, made(work, dst=work.empty((4, 8), dtype)))
    for dtype in (FLOAT8_E4M3, INT32, UINT32):
        made(work, src=work.empty((4, 8), dtype)).verify(core_v4)
    for dtype in (TFLOAT32, BOOL, FLOAT8_E4M3FN):
        message = "`src` is .*; legal dtypes: float8_e4m3 or"
        refused(work, message, made(work, src=work.empty((4, 8), dtype)))
    sums = work.empty((4, 1), INT32)
    refused(work, "`reduce_res` is .*; legal dtypes", made(work, reduce_res=sums, reduce_cmd=RESET))


def test_it_takes_up_to_4_dimensions(bench, core_v4):
    work = bench(core_v4)
    flat, deep = work.empty((4, 16)), work.empty((4, 2, 2, 2, 2))
    made(work, dst=work.empty((4, 2, 2, 4)), src=flat).verify(core_v4)
    for operands in ({"dst": deep, "src": flat}, {"dst": flat, "src": deep}):
        refused(work, "of 5 dimensions; legal: up to 4", made(work, **operands))


def test_the_maximum_and_the_initial_sum_are_float32(bench, core_v4):
    work = bench(core_v4)
    vector, narrow = work.empty((4, 1)), work.empty((4, 1), BFLOAT16)
    made(work, max_value=vector, reduce_cmd=LOAD, reduce_init=vector).verify(core_v4)
    refused(work, "`max_value` is .* bfloat16; legal: a number", made(work, max_value=narrow))
    narrow_start = made(work, reduce_cmd=LOAD, reduce_init=narrow)
    refused(work, "`reduce_init` is .* bfloat16; legal: a number", narrow_start)


def test_commands_and_initial_values_go_together(bench, core_v4):
    work = bench(core_v4)
    sums = work.empty((4, 1))
    for command in (RESET, KEEP, LOAD):
        made(work, reduce_res=sums, reduce_cmd=command).verify(core_v4)
    refused(work, "reduce_cmd reset; legal: idle", made(work, reduce_cmd=ReduceCmd.reset))
    refused(work, "reduce_res with reduce_cmd idle, which", made(work, reduce_res=sums))
    for command in (ReduceCmd.idle, RESET, KEEP):
        wrong = made(work, reduce_cmd=command, reduce_init=1.0)
        refused(work, rf"reduce_init 1.0 with reduce_cmd {command.name}; legal: 0.0", wrong)
        wrong = made(work, reduce_cmd=command, reduce_init=sums)
        refused(work, f"reduce_init .* with reduce_cmd {command.name}", wrong)


@pytest.mark.parametrize("F", [1, 256, 260, 2048])
def test_it_runs_at_four_times_the_rate_of_the_scalar_engine(bench, core_v4, F):
    work = bench(core_v4)
    tile, sums = work.empty((4, F)), work.empty((4, 1))
    hz = core_v4.vector_clock_hz
    assert work.cycles(Exponential(tile, tile), hz) == pytest.approx(max(64, F / 4))
    summed = Exponential(tile, tile, 0.0, sums, RESET)
    assert work.cycles(summed, hz) == pytest.approx(max(64, F / 4) + 64)
