"""activation and activation_reduce: values, legality, price."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.dtypes import BFLOAT16, FLOAT16, FLOAT32, INT32, TFLOAT32, UINT16
from trnsim.errors import IllegalInstruction, UndefinedBehavior, Unspecified
from trnsim.isa import Activation, ActivationReduce, Engine, ReduceCmd
from trnsim.memory import Memory, SnakeIndex, Tile

PSUM = Memory.PSUM
RESET = ReduceCmd.reset_reduce


def exact(op, values):
    return {
        "exp": np.exp,
        "tanh": np.tanh,
        "relu": lambda x: np.maximum(x, 0),
        "copy": lambda x: x,
        "square": np.square,
        "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    }[op](values)


@given(
    op=st.sampled_from(["exp", "tanh", "relu", "copy", "square", "sigmoid"]),
    shape=st.sampled_from([(1, 1), (3, 7), (128, 2), (5, 2, 3)]),
    dtype=st.sampled_from([FLOAT32, BFLOAT16, FLOAT16]),
    out=st.sampled_from([FLOAT32, BFLOAT16]),
    scale=st.one_of(st.just("vector"), st.floats(-2, 2)),
    bias=st.one_of(st.none(), st.just("vector"), st.floats(-2, 2)),
    memory=st.sampled_from([Memory.SBUF, PSUM]),
)
def test_it_is_op_of_data_times_scale_plus_bias(
    bench, random, op, shape, dtype, out, scale, bias, memory
):
    work = bench()
    data = work.tile(random(shape), dtype, memory)
    vector = random((shape[0], 1), seed=1)
    tile = work.tile(vector)
    operands = {k: tile if v == "vector" else v for k, v in (("scale", scale), ("bias", bias))}
    dst = work.issue(Activation(work.empty(shape, out), op, data, **operands))
    column = vector.reshape(-1, *[1] * (len(shape) - 1)).astype(np.float64)
    values = data.load() * (column if scale == "vector" else scale)
    values = values + (column if bias == "vector" else bias or 0.0)
    expected = exact(op, values.astype(np.float64))
    tolerance = 2**-8 if out is BFLOAT16 else 1e-5
    np.testing.assert_allclose(dst.load(), expected, rtol=tolerance, atol=1e-5)


@given(st.sampled_from([(4, 9), (128, 1), (2, 3, 4)]), st.sampled_from([FLOAT32, BFLOAT16]))
def test_the_sum_is_taken_in_float32_before_dst_rounds(bench, random, shape, dtype):
    work = bench()
    data, sums = work.tile(random(shape)), work.empty((shape[0], 1))
    dst = work.empty(shape, dtype)
    work.issue(Activation(dst, "exp", data, None, 2.0, "add", sums, RESET))
    values = np.exp(2.0 * data.load().astype(np.float64)).reshape(shape[0], -1)
    np.testing.assert_allclose(sums.load()[:, 0], values.sum(axis=1), rtol=1e-5)


def test_activation_reduce_is_activation_with_reset_reduce(bench, random):
    work = bench()
    data, bias = work.tile(random((4, 8))), work.tile(random((4, 1), seed=1))
    one, two = work.empty((4, 8)), work.empty((4, 8))
    sum_one, sum_two = work.empty((4, 1)), work.empty((4, 1))
    work.issue(Activation(one, "tanh", data, bias, 0.5, "add", sum_one, RESET))
    work.issue(ActivationReduce(two, "tanh", data, "add", sum_two, bias, 0.5))
    np.testing.assert_array_equal(one.array, two.array)
    np.testing.assert_array_equal(sum_one.array, sum_two.array)
    checked = work.program.checked
    assert checked[0].cost == checked[1].cost


def test_integers_are_cast_to_float32_first(bench):
    work = bench()
    data = work.tile(np.array([[2**24 + 1, -3]]), INT32)
    dst = work.issue(Activation(work.empty((1, 2), INT32), "copy", data))
    assert dst.array.tolist() == [[2**24, -3]]


def test_the_sum_may_be_written_over_the_result(bench):
    work = bench()
    data = work.tile(np.ones((4, 1), np.float32))
    dst = work.empty((4, 1))
    work.issue(Activation(dst, "copy", data, None, 3.0, "add", dst, RESET))
    np.testing.assert_array_equal(dst.load(), np.full((4, 1), 3, np.float32))


def test_overflow_is_infinity_and_no_warning(bench):
    work = bench()
    data = work.tile(np.full((1, 4), 1e30, np.float32))
    assert np.isinf(work.issue(Activation(work.empty((1, 4)), "square", data)).load()).all()


@pytest.mark.parametrize(
    ("op", "limit"),
    [("log", 2.0**64), ("sqrt", 2.0**118), ("rsqrt", 2.0**97), ("reciprocal", 2.0**42)],
)
def test_an_input_outside_the_valid_range_is_undefined(bench, op, limit):
    work = bench()
    inside = work.tile(np.array([[limit, 1.0]], np.float32))
    work.issue(Activation(work.empty((1, 2)), op, inside))
    for bad in (np.float32(limit) * np.float32(1.001), -np.inf, np.nan):
        outside = work.tile(np.array([[bad, 1.0]], np.float32))
        with pytest.raises(
            UndefinedBehavior, match=rf"{op} of values from .* legal: .* to"
        ) as caught:
            work.issue(Activation(work.empty((1, 2)), op, outside))
        assert "clamp" in caught.value.fix
        assert "Supported Activation Functions" in caught.value.source


def test_the_range_of_reciprocal_is_of_the_magnitude(bench):
    work = bench()
    data = work.tile(np.array([[-4.0, 4.0]], np.float32))
    dst = work.issue(Activation(work.empty((1, 2)), "reciprocal", data))
    assert dst.load().tolist() == [[-0.25, 0.25]]
    with pytest.raises(UndefinedBehavior, match="in magnitude"):
        work.issue(Activation(work.empty((1, 2)), "reciprocal", work.tile(np.zeros((1, 2), "f4"))))


def refused(work, message, **operands):
    tile = work.empty((4, 8))
    operands = {"dst": tile, "op": "exp", "data": tile} | operands
    with pytest.raises(IllegalInstruction, match=message) as caught:
        Activation(**operands).verify(work.core)
    assert caught.value.fix
    assert caught.value.source
    assert caught.value.line.file == __file__


def accepted(work, **operands):
    tile = work.empty((4, 8))
    Activation(**({"dst": tile, "op": "exp", "data": tile} | operands)).verify(work.core)


def test_an_unknown_function_is_refused_with_the_known_ones(bench):
    refused(bench(), "op sine; legal: copy, square, sigmoid", op="sine")


def test_a_scale_tile_must_be_float32(bench):
    work = bench()
    accepted(work, scale=work.empty((4, 1), FLOAT32))
    refused(work, "`scale` is .* bfloat16; legal: float32", scale=work.empty((4, 1), BFLOAT16))


def test_a_bias_tile_may_be_anything_but_tfloat32(bench):
    work = bench()
    accepted(work, bias=work.empty((4, 1), BFLOAT16))
    accepted(work, bias=work.empty((4, 1), INT32))
    refused(work, "`bias` is .* tfloat32; legal: not", bias=work.empty((4, 1), TFLOAT32))


def test_v2_takes_a_bias_only_as_a_tile(bench, core_v2, core_v3):
    accepted(bench(core_v3), bias=1.0)
    work = bench(core_v2)
    accepted(work, bias=work.empty((4, 1)))
    refused(work, r"bias=1.0 on NeuronCore-v2; legal: a tile of shape \[P, 1\]", bias=1.0)


def test_v2_takes_no_bias_for_reciprocal(bench, core_v2, core_v3):
    for core in (core_v2, core_v3):
        work = bench(core)
        accepted(work, op="reciprocal")
    accepted(work, op="reciprocal", bias=work.empty((4, 1)))
    work = bench(core_v2)
    message = "reciprocal with a bias on NeuronCore-v2"
    refused(work, message, op="reciprocal", bias=work.empty((4, 1)))


def test_only_sums_are_reduced(bench):
    work = bench()
    sums = work.empty((4, 1))
    accepted(work, reduce_op="add", reduce_res=sums, reduce_cmd=RESET)
    refused(work, "reduce_op maximum; legal: nl.add", reduce_op="maximum", reduce_cmd=RESET)


def test_the_scalar_engine_does_not_load_its_accumulator(bench):
    work = bench()
    for command in (ReduceCmd.idle, ReduceCmd.reset, ReduceCmd.reduce, RESET):
        accepted(work, reduce_cmd=command)
    refused(
        work, "reduce_cmd load_reduce; legal: idle, reset, reduce", reduce_cmd=ReduceCmd.load_reduce
    )


def test_sums_stay_in_the_accumulator_until_it_is_reset(bench):
    work = bench()
    ones, sums = work.tile(np.ones((4, 8), np.float32)), work.empty((4, 1))

    def total(command, result=None):
        work.issue(
            Activation(
                work.empty((4, 8)),
                "copy",
                ones,
                reduce_op="add",
                reduce_res=result,
                reduce_cmd=command,
            )
        )

    for command, expected in (
        (RESET, 8),
        (ReduceCmd.reduce, 16),
        (ReduceCmd.idle, 16),
        (ReduceCmd.reset, 0),
        (ReduceCmd.reduce, 8),
        (RESET, 8),
    ):
        total(command, sums)
        assert sums.load().ravel().tolist() == [expected] * 4
    total(RESET)
    total(ReduceCmd.reduce, sums)
    assert sums.load()[0, 0] == 16


def test_an_accumulator_that_nothing_has_reset_is_undefined(bench):
    work = bench()
    ones, sums = work.tile(np.ones((4, 8), np.float32)), work.empty((4, 1))
    instruction = Activation(work.empty((4, 8)), "copy", ones, reduce_res=sums)
    with pytest.raises(UndefinedBehavior, match="accumulator registers of the Scalar Engine"):
        work.issue(instruction)


def test_activation_reduce_has_the_same_rules(bench, core_v2):
    work = bench(core_v2)
    tile, sums = work.empty((4, 8)), work.empty((4, 1))
    ActivationReduce(tile, "exp", tile, "add", sums).verify(work.core)
    with pytest.raises(IllegalInstruction, match="reduce_op maximum; legal"):
        ActivationReduce(tile, "exp", tile, "maximum", sums).verify(work.core)
    with pytest.raises(IllegalInstruction, match="axis 1 must be 1 but 8 in `reduce_res`"):
        ActivationReduce(tile, "exp", tile, "add", tile).verify(work.core)


@pytest.mark.parametrize("F", [1, 63, 64, 65, 512])
def test_it_costs_an_element_a_cycle_from_64_on_and_64_more_for_the_sum(bench, core, F):
    work = bench(core)
    tile, sums = work.empty((8, F)), work.empty((8, 1))
    hz = core.scalar_clock_hz
    plain = Activation(tile, "exp", tile)
    summed = Activation(tile, "exp", tile, reduce_op="add", reduce_res=sums, reduce_cmd=RESET)
    assert work.cycles(plain, hz) == pytest.approx(max(64, F))
    assert work.cycles(summed, hz) == pytest.approx(max(64, F) + 64)
    same = ActivationReduce(tile, "exp", tile, "add", sums)
    assert work.cycles(same, hz) == work.cycles(summed, hz)
    assert plain.chosen_engine(core) is Engine.scalar


@pytest.mark.parametrize(
    ("op", "table"),
    [
        ("exp", "natural_log_exp_and_others"),
        ("log", "natural_log_exp_and_others"),
        ("rsqrt", "reciprocal_sqrt_and_small"),
        ("reciprocal", "reciprocal_and_small"),
        ("gelu", "gelu_and_others"),
        ("copy", ""),
        ("square", ""),
    ],
)
def test_a_function_needs_its_table(bench, core, op, table):
    work = bench(core)
    tile, sums = work.empty((8, 4)), work.empty((8, 1))
    alone, summed = Activation(tile, op, tile), ActivationReduce(tile, op, tile, "add", sums)
    for instruction in (alone, summed):
        cost = work.cost(instruction)
        assert cost.table == table
        assert cost.held_load_s == pytest.approx(1.29e-6 if table else 0)


# The accumulator


COMMANDS = [ReduceCmd.idle, ReduceCmd.reset, ReduceCmd.reduce, RESET]


@given(st.lists(st.sampled_from(COMMANDS), max_size=6), st.sampled_from([1, 4, 128]))
def test_the_accumulator_follows_the_pseudo_code_of_its_prose(bench, random, commands, lanes):
    work = bench()
    sums, expected = work.empty((lanes, 1)), np.zeros(lanes)
    for step, command in enumerate([ReduceCmd.reset, *commands]):
        data = work.tile(random((lanes, 5), seed=step))
        work.issue(
            Activation(work.empty((lanes, 5)), "square", data, None, 1.0, "add", sums, command)
        )
        if command in (ReduceCmd.reset, RESET):
            expected = np.zeros(lanes)
        if command in (ReduceCmd.reduce, RESET):
            expected = expected + (data.load().astype(np.float64) ** 2).sum(axis=1)
        np.testing.assert_allclose(sums.load()[:, 0], expected, rtol=1e-5)


def test_lanes_that_take_no_part_keep_their_sums(bench):
    work = bench()
    many, few = work.tile(np.ones((8, 2), np.float32)), work.tile(np.ones((3, 2), np.float32))
    sums = work.empty((8, 1))
    work.issue(Activation(work.empty((8, 2)), "copy", many, reduce_op="add", reduce_cmd=RESET))
    for data, result in ((few, None), (many, sums)):
        work.issue(
            Activation(
                work.empty(data.shape), "copy", data, None, 1.0, "add", result, ReduceCmd.reduce
            )
        )
    assert sums.load()[:, 0].tolist() == [6, 6, 6, 4, 4, 4, 4, 4]


def test_activation_reduce_leaves_its_sum_where_activation_finds_it(bench):
    work = bench()
    ones, sums = work.tile(np.ones((4, 8), np.float32)), work.empty((4, 1))
    work.issue(ActivationReduce(work.empty((4, 8)), "copy", ones, "add", None))
    work.issue(
        Activation(work.empty((4, 8)), "copy", ones, None, 1.0, "add", sums, ReduceCmd.reduce)
    )
    assert sums.load()[0, 0] == 16


def test_a_plain_activation_leaves_the_accumulator_alone(bench):
    """NKI 0.2: the registers were zeroed before every activation."""
    work = bench()
    ones, sums = work.tile(np.ones((4, 8), np.float32)), work.empty((4, 1))
    work.issue(ActivationReduce(work.empty((4, 8)), "copy", ones, "add", None))
    work.issue(Activation(work.empty((4, 8)), "exp", ones))
    work.issue(Activation(work.empty((4, 8)), "copy", ones, reduce_res=sums))
    assert sums.load()[0, 0] == 8


@pytest.mark.parametrize("command", [RESET, ReduceCmd.reduce])
def test_a_result_over_dst_holds_the_sum(bench, command):
    """NKI 0.6: a reduce_res that aliases dst was clobbered."""
    work = bench()
    ones = work.tile(np.ones((4, 8), np.float32))
    work.issue(Activation(work.empty((4, 8)), "copy", ones, reduce_cmd=ReduceCmd.reset))
    dst = work.empty((4, 8))
    last = Tile(dst.storage, FLOAT32, dst.pattern.slice(1, 7, 8))
    work.issue(Activation(dst, "copy", ones, None, 3.0, "add", last, command))
    assert dst.load()[0].tolist() == [3.0] * 7 + [24.0]


def test_activation_reduce_sums_on_v2_and_says_nothing_of_others_later(bench, core):
    work = bench(core)
    tile, sums = work.empty((4, 8)), work.empty((4, 1))
    ActivationReduce(tile, "exp", tile, "add", sums).verify(core)
    instruction = ActivationReduce(tile, "exp", tile, "maximum", sums)
    if core.generation == 2:
        with pytest.raises(IllegalInstruction, match=r"reduce_op maximum; legal: nl.add"):
            instruction.verify(core)
        return
    with pytest.raises(Unspecified, match=f"reduce_op maximum on {core.name}"):
        instruction.verify(core)


def test_prelu_has_no_slope_here(bench):
    work = bench()
    tile = work.empty((4, 8))
    with pytest.raises(Unspecified, match="op prelu, for whose slope AWS names no operand"):
        Activation(tile, "prelu", tile).verify(work.core)


def test_sine_extrapolates_as_the_chip_does(bench):
    work = bench()
    data = work.tile(np.array([[9.0, 0.5]], np.float32))
    dst = work.issue(Activation(work.empty((1, 2)), "sin", data))
    np.testing.assert_allclose(dst.load(), [[27.65, np.sin(0.5)]], rtol=1e-3)


# Tensor indirection


def view(tile, index):
    pattern = tile.pattern.slice(1, 0, 2)
    return Tile(tile.storage, tile.dtype, pattern, SnakeIndex(index, tile.shape[1], 2, 16))


def test_data_is_gathered_and_dst_scattered_on_v4(bench, random, core_v4):
    work = bench(core_v4)
    offsets = np.zeros((16, 1), np.uint16)
    offsets[:2, 0] = (6, 3)
    index = work.tile(offsets, UINT16)
    data, out = work.tile(random((16, 8))), work.tile(np.zeros((16, 8), np.float32))
    work.issue(Activation(view(out, index), "copy", view(data, index), None, 2.0))
    expected = np.zeros((16, 8), np.float32)
    expected[:, [6, 3]] = 2 * data.load()[:, [6, 3]]
    np.testing.assert_array_equal(out.load(), expected)


def test_the_scalar_engine_scatters_into_sbuf_alone(bench, core_v3, core_v4):
    work = bench(core_v4)
    index = work.tile(np.zeros((16, 1), np.uint16), UINT16)
    data, psum = work.empty((16, 2)), work.empty((16, 8), memory=PSUM)
    Activation(data, "exp", view(psum, index)).verify(core_v4)
    with pytest.raises(IllegalInstruction, match="on the Scalar Engine; legal: of SBUF"):
        Activation(view(psum, index), "exp", data).verify(core_v4)
    with pytest.raises(IllegalInstruction, match="legal from NeuronCore-v4 on"):
        Activation(data, "exp", view(psum, index)).verify(core_v3)
    snake = SnakeIndex(index, 2, 1, 16)
    bias = Tile(data.storage, FLOAT32, data.pattern.slice(1, 0, 1), snake)
    with pytest.raises(IllegalInstruction, match="`bias` is an indirect view"):
        Activation(data, "exp", data, bias).verify(core_v4)


@pytest.mark.parametrize("shape", [(128, 512), (5, 7), (1, 1)])
@pytest.mark.parametrize("op", ["exp", "square", "copy", "relu"])
def test_sums_are_those_before_a_result_is_rounded(bench, random, op, shape):
    work = bench()
    data, bias = work.tile(random(shape)), work.tile(random((shape[0], 1), seed=1))
    dst, sums = work.empty(shape, BFLOAT16), work.empty((shape[0], 1))
    work.issue(Activation(dst, op, data, bias, 0.5, "add", sums, RESET))
    expected = exact(op, data.load().astype(np.float64) * 0.5 + bias.load())
    np.testing.assert_allclose(dst.load(), expected, rtol=2**-8, atol=1e-6)
    total, size = expected.sum(axis=1, keepdims=True), np.abs(expected).sum(axis=1, keepdims=True)
    assert (np.abs(sums.load() - total) <= 1e-5 * size).all()
    np.testing.assert_array_equal(data.load(), random(shape))
