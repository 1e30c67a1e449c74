"""tensor_tensor, tensor_scalar, scalar_tensor_tensor, reciprocal: values, legality, price."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.dtypes import (
    BFLOAT16,
    FLOAT8_E4M3,
    FLOAT8_E4M3FN_X4,
    FLOAT16,
    FLOAT32,
    INT8,
    INT16,
    INT32,
    UINT8,
    UINT16,
    UINT32,
    round_to,
)
from trnsim.errors import IllegalInstruction
from trnsim.isa import Engine, Reciprocal, ScalarTensorTensor, TensorScalar, TensorTensor
from trnsim.memory import Memory

SBUF, PSUM = Memory.SBUF, Memory.PSUM
FLOATS = (FLOAT32, BFLOAT16, FLOAT16)
SHAPES = [(1, 1), (3, 5), (128, 2), (4, 2, 3)]
# Operators as float64 formulas; each takes (x, y).
EXACT = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "greater": lambda x, y: (x > y) * 1.0,
    "equal": lambda x, y: (x == y) * 1.0,
    "logical_and": lambda x, y: ((x != 0) & (y != 0)) * 1.0,
}
operators = st.sampled_from(sorted(EXACT))


def column(vector, ndim):
    return vector.reshape(-1, *[1] * (ndim - 1)).astype(np.float64)


def check_close(dst, expected):
    """Within the rounding of the formats on the way: float32 inside, once more on write."""
    tolerance = {"float32": 1e-5, "bfloat16": 2**-8, "float16": 2**-10}[dst.dtype.name]
    np.testing.assert_allclose(dst.load(), expected, rtol=tolerance, atol=1e-5)


# tensor_tensor


@given(operators, st.sampled_from(SHAPES), st.tuples(*[st.sampled_from(FLOATS)] * 3))
def test_tensor_tensor_is_its_operator_element_by_element(
    bench, core_v4, random, op, shape, dtypes
):
    work = bench(core_v4)
    a, b = (work.tile(random(shape, seed=s), dtypes[s]) for s in (0, 1))
    dst = work.issue(TensorTensor(work.empty(shape, dtypes[2]), a, b, op))
    check_close(dst, EXACT[op](a.load().astype(float), b.load().astype(float)))


def test_the_chain_is_rounded_once_on_write(bench):
    work = bench()
    a, b = work.tile(np.array([[256.0]]), BFLOAT16), work.tile(np.array([[0.75]]), BFLOAT16)
    assert work.issue(TensorTensor(work.empty((1, 1)), a, b, "add")).load()[0, 0] == 256.75
    rounded = work.issue(TensorTensor(work.empty((1, 1), BFLOAT16), a, b, "add"))
    assert rounded.load()[0, 0] == 256
    assert work.issue(TensorTensor(work.empty((1, 1), UINT8), a, b, "add")).array[0, 0] == 255


@given(st.sampled_from([INT32, UINT32]), st.integers(0, 2**30), st.integers(0, 2**30 - 1))
def test_32_bit_integers_are_exact_on_gpsimd_and_float32_on_vector(bench, dtype, x, y):
    work = bench()
    a, b = (work.tile(np.array([[v]]), dtype) for v in (x, y))
    by_default = TensorTensor(work.empty((1, 1), dtype), a, b, "add")
    assert by_default.chosen_engine(work.core) is Engine.gpsimd
    assert int(work.issue(by_default).array[0, 0]) == x + y
    on_vector = TensorTensor(work.empty((1, 1), dtype), a, b, "add", Engine.vector)
    lossy = round_to(np.array([np.float32(x) + np.float32(y)]), dtype)
    assert int(work.issue(on_vector).array[0, 0]) == int(lossy[0])


def test_integers_fall_back_to_the_vector_engine_when_one_is_in_psum(bench):
    work = bench()
    a = work.tile(np.array([[2**24 + 1]]), INT32)
    b = work.tile(np.array([[0]]), INT32, PSUM)
    instruction = TensorTensor(work.empty((1, 1), INT32), a, b, "add")
    assert instruction.chosen_engine(work.core) is Engine.vector
    assert work.issue(instruction).array.tolist() == [[2**24]]


def test_powers_run_on_gpsimd(bench):
    work = bench()
    a, b = work.tile(np.array([[2.0, 9.0]]).astype("f4")), work.tile(np.array([[-1, 0.5]], "f4"))
    instruction = TensorTensor(work.empty((1, 2)), a, b, "power")
    assert instruction.chosen_engine(work.core) is Engine.gpsimd
    assert work.issue(instruction).load().tolist() == [[0.5, 3.0]]
    psum = work.empty((1, 2), memory=PSUM)
    with pytest.raises(IllegalInstruction, match="power on GpSimd with a tile in PSUM; legal: all"):
        TensorTensor(psum, a, b, "power").verify(work.core)


@pytest.mark.parametrize("dtype", [INT8, INT16, INT32, UINT8, UINT32])
def test_bitvec_operators_take_integers_as_stored(bench, dtype):
    work = bench()
    a, b = (work.tile(np.array([[v]]), dtype) for v in (0b1100, 0b1010))
    for op, expected in (("bitwise_and", 0b1000), ("bitwise_or", 0b1110), ("bitwise_xor", 0b110)):
        dst = work.issue(TensorTensor(work.empty((1, 1), dtype), a, b, op))
        assert dst.array.tolist() == [[expected]]


@pytest.mark.parametrize("size", [1, 2, 4])
@given(data=st.data())
def test_bitvec_operators_keep_all_bits_whatever_the_signs(bench, size, data):
    signed, unsigned = {1: (INT8, UINT8), 2: (INT16, UINT16), 4: (INT32, UINT32)}[size]
    first, second, out = (data.draw(st.sampled_from([signed, unsigned])) for _ in range(3))
    values = st.integers(0, 2 ** (8 * size) - 1)
    a, b = (np.array([[data.draw(values)]], unsigned.dtype) for _ in range(2))
    work = bench()
    left, right = (
        work.tile(bits.view(dtype.dtype), dtype) for bits, dtype in ((a, first), (b, second))
    )
    for op, expected in (("bitwise_and", a & b), ("bitwise_or", a | b), ("bitwise_xor", a ^ b)):
        dst = work.issue(TensorTensor(work.empty((1, 1), out), left, right, op))
        assert dst.array.view(unsigned.dtype) == expected
    all_ones = work.issue(TensorScalar(work.empty((1, 1), unsigned), left, "bitwise_or", -1))
    assert all_ones.array == np.iinfo(unsigned.dtype).max
    shifted = work.issue(TensorScalar(work.empty((1, 1), out), left, "left_shift", 1))
    assert shifted.array.view(unsigned.dtype) == a << unsigned.dtype.type(1)


def test_bitvec_operators_run_on_the_vector_engine(bench):
    work = bench()
    tile = work.empty((4, 4), INT32)
    assert TensorTensor(tile, tile, tile, "add").chosen_engine(work.core) is Engine.gpsimd
    assert TensorTensor(tile, tile, tile, "bitwise_or").chosen_engine(work.core) is Engine.vector
    with pytest.raises(IllegalInstruction, match="bitwise_or on the GpSimd Engine; legal: the Vec"):
        TensorTensor(tile, tile, tile, "bitwise_or", Engine.gpsimd).verify(work.core)


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT8_E4M3FN_X4])
def test_bitvec_operators_refuse_what_is_no_integer_on_any_side(bench, core_v4, dtype):
    work = bench(core_v4)
    whole, real = work.empty((4, 4), INT32), work.empty((4, 4), dtype)
    TensorTensor(whole, whole, whole, "bitwise_and").verify(work.core)
    for operands in ((real, whole, whole), (whole, real, whole), (whole, whole, real)):
        message = rf"bitvec operator bitwise_and with .* {dtype}; legal: integer dtypes"
        with pytest.raises(IllegalInstruction, match=message) as caught:
            TensorTensor(*operands, "bitwise_and").verify(work.core)
        assert "view" in caught.value.fix


def test_at_most_one_input_of_tensor_tensor_is_in_psum(bench):
    work = bench()
    sbuf, psum = work.empty((4, 4)), work.empty((4, 4), memory=PSUM)
    for inputs in ((sbuf, sbuf), (sbuf, psum), (psum, sbuf)):
        TensorTensor(sbuf, *inputs, "add").verify(work.core)
        TensorTensor(psum, *inputs, "add").verify(work.core)
    with pytest.raises(IllegalInstruction, match="both in PSUM; legal: at most one of them"):
        TensorTensor(sbuf, psum, psum, "add").verify(work.core)
    TensorTensor(sbuf, sbuf, sbuf, "add", Engine.gpsimd).verify(work.core)
    with pytest.raises(IllegalInstruction, match="add on GpSimd with a tile in PSUM"):
        TensorTensor(sbuf, psum, sbuf, "add", Engine.gpsimd).verify(work.core)


@pytest.mark.parametrize("op", ["relu", "abs", "invert"])
def test_a_unary_operator_is_no_tensor_tensor(bench, core_v4, op):
    work = bench(core_v4)
    tile = work.empty((4, 4), INT32)
    with pytest.raises(IllegalInstruction, match=f"op {op} takes one operand; legal: a binary"):
        TensorTensor(tile, tile, tile, op).verify(work.core)


def test_an_unknown_operator_is_refused_with_the_known_ones(bench):
    work = bench()
    tile = work.empty((4, 4))
    for instruction in (
        TensorTensor(tile, tile, tile, "divide"),
        TensorScalar(tile, tile, "divide", 2.0),
        ScalarTensorTensor(tile, tile, "divide", 2.0, "add", tile),
    ):
        with pytest.raises(IllegalInstruction, match="is divide; legal: add, subtract, multiply"):
            instruction.verify(work.core)


@pytest.mark.parametrize("F", [1, 32, 33, 512])
def test_tensor_tensor_costs_two_cycles_an_element_less_its_modes(bench, core, F):
    work = bench(core)
    wide, narrow = work.empty((4, F)), work.empty((4, F), BFLOAT16)
    whole, psum = work.empty((4, F), INT32), work.empty((4, F), memory=PSUM)
    mode = 1 if core.generation == 2 else 2
    hz = core.vector_clock_hz
    for inputs, cycles in (
        ((wide, wide), 2 * F),
        ((wide, narrow), 2 * F),
        ((narrow, narrow), 2 * F),  # dst is not
        ((wide, psum), F),
        ((psum, narrow), F),
    ):
        found = work.cycles(TensorTensor(wide, *inputs, "add"), hz)
        assert found == pytest.approx(max(64, cycles))
    # All in bfloat16, and an operator that streams: at the rate of one operand on every core.
    for op, cycles in (("add", F), ("multiply", F), ("maximum", 2 * F / mode)):
        found = work.cycles(TensorTensor(narrow, narrow, narrow, op), hz)
        assert found == pytest.approx(max(64, cycles))
    eight = work.empty((4, F), FLOAT8_E4M3)  # at the full rate from v4 on
    found = work.cycles(TensorTensor(eight, eight, narrow, "maximum"), hz)
    assert found == pytest.approx(max(64, F if core.generation >= 4 else 2 * F))
    on_gpsimd = TensorTensor(whole, whole, whole, "add")
    assert work.cycles(on_gpsimd, core.gpsimd_clock_hz) == pytest.approx(max(64, 2 * F))


# tensor_scalar


@given(
    ops=st.tuples(operators, st.one_of(st.none(), operators)),
    operands=st.tuples(*[st.one_of(st.just("vector"), st.floats(-3, 3, width=32))] * 2),
    reverse=st.tuples(st.booleans(), st.booleans()),
    shape=st.sampled_from(SHAPES),
    dtypes=st.tuples(*[st.sampled_from(FLOATS)] * 2),
)
def test_tensor_scalar_is_a_chain_of_two_operators(
    bench, core_v4, random, ops, operands, reverse, shape, dtypes
):
    work = bench(core_v4)
    data = work.tile(random(shape), dtypes[0])
    vectors = [random((shape[0], 1), seed=s) for s in (1, 2)]
    given_operands = [
        work.tile(v) if o == "vector" else o for o, v in zip(operands, vectors, strict=True)
    ]
    expected = data.load().astype(np.float64)
    for op, operand, vector, swap in zip(ops, operands, vectors, reverse, strict=True):
        if op is None:
            continue
        value = column(vector, len(shape)) if operand == "vector" else operand
        expected = EXACT[op](value, expected) if swap else EXACT[op](expected, value)
    second = given_operands[1] if ops[1] else None
    dst = work.empty(shape, dtypes[1])
    work.issue(
        TensorScalar(dst, data, ops[0], given_operands[0], reverse[0], ops[1], second, reverse[1])
    )
    if ops[1] not in ("equal", "greater"):  # a float32 rounding may turn a comparison
        check_close(dst, expected)


def test_integer_data_becomes_float32(bench):
    work = bench()
    data = work.tile(np.array([[2**24 + 1, 7]]), INT32)
    dst = work.issue(TensorScalar(work.empty((1, 2), INT32), data, "add", 0.5))
    assert dst.array.tolist() == [[2**24, 8]]


@pytest.mark.parametrize("op", ["abs", "square", "relu", "rsqrt", "reciprocal"])
def test_a_unary_operator_takes_no_operand_or_zero(bench, core_v4, op):
    work = bench(core_v4)
    data = work.tile(np.array([[4.0, 0.25]], np.float32))
    exact = {
        "abs": np.abs,
        "square": np.square,
        "relu": np.abs,
        "rsqrt": lambda x: x**-0.5,
        "reciprocal": lambda x: 1 / x,
    }
    for operand in (None, 0, 0.0):
        dst = work.issue(TensorScalar(work.empty((1, 2)), data, op, operand))
        np.testing.assert_allclose(dst.load(), exact[op](data.load()))
    for operand in (1.0, work.empty((1, 1))):
        with pytest.raises(
            IllegalInstruction, match=f"with the unary operator {op}; legal: None or 0"
        ):
            TensorScalar(data, data, op, operand).verify(work.core)


def test_a_binary_operator_needs_its_operand(bench):
    work = bench()
    tile = work.empty((4, 4))
    TensorScalar(tile, tile, "add", 1.0, op1="multiply", operand1=2.0).verify(work.core)
    with pytest.raises(IllegalInstruction, match="`operand0` is missing; add takes two operands"):
        TensorScalar(tile, tile, "add").verify(work.core)
    with pytest.raises(IllegalInstruction, match="`operand1` is missing; multiply takes two"):
        TensorScalar(tile, tile, "add", 1.0, op1="multiply").verify(work.core)
    with pytest.raises(IllegalInstruction, match=r"`operand1` is 2.0 without `op1`; legal: both"):
        TensorScalar(tile, tile, "add", 1.0, operand1=2.0).verify(work.core)


def test_both_operators_are_bitvec_or_neither_is(bench):
    work = bench()
    tile = work.empty((4, 4), INT32)
    TensorScalar(tile, tile, "bitwise_and", 7, op1="left_shift", operand1=2).verify(work.core)
    with pytest.raises(
        IllegalInstruction, match="op0 bitwise_and with op1 add; legal: both bitvec"
    ):
        TensorScalar(tile, tile, "bitwise_and", 7, op1="add", operand1=2).verify(work.core)
    with pytest.raises(IllegalInstruction, match="op0 add with op1 invert; legal: both"):
        TensorScalar(tile, tile, "add", 7, op1="invert").verify(work.core)


@given(
    st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**32 - 1), st.integers(0, 31), st.booleans()
)
def test_bitvec_chains_keep_all_bits(bench, x, mask, shift, as_tile):
    work = bench()
    data = work.tile(np.array([[x]]), INT32)
    operand = work.tile(np.array([[mask]], np.uint32).view(np.int32), INT32) if as_tile else mask
    dst = work.empty((1, 1), INT32)
    work.issue(TensorScalar(dst, data, "bitwise_and", operand, op1="right_shift", operand1=shift))
    expected = (x & mask & 0xFFFFFFFF) >> shift  # logical, on negative numbers too
    assert int(dst.array.view(np.uint32)[0, 0]) == expected


def test_a_bit_pattern_is_a_whole_number_or_an_integer_tile(bench):
    work = bench()
    tile = work.empty((4, 4), INT32)
    TensorScalar(tile, tile, "bitwise_and", work.empty((4, 1), INT32)).verify(work.core)
    for operand in (0.5, work.empty((4, 1), FLOAT32)):
        with pytest.raises(
            IllegalInstruction, match="legal: a whole number or a tile of an integer"
        ):
            TensorScalar(tile, tile, "bitwise_and", operand).verify(work.core)
    with pytest.raises(IllegalInstruction, match=r"bitvec operator bitwise_and with .* float32"):
        TensorScalar(tile, work.empty((4, 4)), "bitwise_and", 1).verify(work.core)


def test_the_scalar_engine_multiplies_and_adds_and_gpsimd_takes_roots(bench):
    work = bench()
    tile = work.empty((4, 4))
    for op0, op1 in (("multiply", "add"), ("multiply", None), ("add", None)):
        second = 1.0 if op1 else None
        TensorScalar(tile, tile, op0, 1.0, op1=op1, operand1=second, engine=Engine.scalar).verify(
            work.core
        )
    for op0, op1 in (("add", "multiply"), ("subtract", None), ("multiply", "multiply")):
        second = 1.0 if op1 else None
        message = f"op0 {op0}, op1 {op1} on the Scalar Engine; legal: multiply then add"
        with pytest.raises(IllegalInstruction, match=message):
            TensorScalar(
                tile, tile, op0, 1.0, op1=op1, operand1=second, engine=Engine.scalar
            ).verify(work.core)
    TensorScalar(tile, tile, "rsqrt", engine=Engine.gpsimd).verify(work.core)
    with pytest.raises(IllegalInstruction, match="op0 add on GpSimd; legal: rsqrt"):
        TensorScalar(tile, tile, "add", 1.0, engine=Engine.gpsimd).verify(work.core)


def test_a_root_on_gpsimd_takes_four_times_as_long_as_on_the_scalar_engine(bench, core):
    work = bench(core)
    tile = work.empty((4, 512))
    instruction = TensorScalar(tile, tile, "rsqrt", engine=Engine.gpsimd)
    assert work.cycles(instruction, core.gpsimd_clock_hz) == pytest.approx(4 * 512)


def test_a_root_runs_on_gpsimd_unless_it_is_in_psum(bench):
    work = bench()
    sbuf, psum = work.empty((4, 4)), work.empty((4, 4), memory=PSUM)
    assert TensorScalar(sbuf, sbuf, "rsqrt").chosen_engine(work.core) is Engine.gpsimd
    assert TensorScalar(sbuf, psum, "rsqrt").chosen_engine(work.core) is Engine.vector
    on_vector = TensorScalar(sbuf, sbuf, "rsqrt", engine=Engine.vector)
    assert on_vector.chosen_engine(work.core) is Engine.vector
    for tiles in ((psum, sbuf), (sbuf, psum)):
        TensorScalar(*tiles, "rsqrt").verify(work.core)
        with pytest.raises(IllegalInstruction, match=r"rsqrt on GpSimd with .*PSUM.*; legal: all"):
            TensorScalar(*tiles, "rsqrt", engine=Engine.gpsimd).verify(work.core)


@pytest.mark.parametrize("F", [1, 64, 65, 1024])
def test_tensor_scalar_costs_the_same_for_one_operator_as_for_two(bench, core, F):
    work = bench(core)
    wide, narrow = work.empty((4, F)), work.empty((4, F), BFLOAT16)
    mode = {2: 1, 3: 4, 4: 4}[core.generation]
    hz = core.vector_clock_hz
    for tile, cycles in ((wide, F), (narrow, F / mode)):
        one = TensorScalar(tile, tile, "add", 1.0)
        two = TensorScalar(tile, tile, "add", 1.0, op1="multiply", operand1=2.0)
        assert work.cycles(one, hz) == work.cycles(two, hz) == pytest.approx(max(64, cycles))
    speedup = 2 if core.generation == 4 else 1
    for tile, cycles in ((wide, F), (narrow, F / speedup)):
        on_scalar = TensorScalar(tile, tile, "add", 1.0, engine=Engine.scalar)
        assert work.cycles(on_scalar, core.scalar_clock_hz) == pytest.approx(max(64, cycles))


# scalar_tensor_tensor


@given(
    ops=st.tuples(operators, st.sampled_from(["add", "subtract", "multiply", "maximum"])),
    operand=st.one_of(st.just("vector"), st.floats(-3, 3, width=32)),
    reverse=st.tuples(st.booleans(), st.booleans()),
    shape=st.sampled_from(SHAPES),
    dtypes=st.tuples(*[st.sampled_from(FLOATS)] * 3),
)
def test_scalar_tensor_tensor_is_a_chain_that_ends_with_a_tile(
    bench, core_v4, random, ops, operand, reverse, shape, dtypes
):
    work = bench(core_v4)
    data, second = (work.tile(random(shape, seed=s), dtypes[s]) for s in (0, 1))
    vector = random((shape[0], 1), seed=2)
    value = column(vector, len(shape)) if operand == "vector" else operand
    first = work.tile(vector) if operand == "vector" else operand
    x, y = data.load().astype(float), second.load().astype(float)
    x = EXACT[ops[0]](value, x) if reverse[0] else EXACT[ops[0]](x, value)
    x = EXACT[ops[1]](y, x) if reverse[1] else EXACT[ops[1]](x, y)
    dst = work.empty(shape, dtypes[2])
    work.issue(ScalarTensorTensor(dst, data, ops[0], first, ops[1], second, *reverse))
    check_close(dst, x)


def test_scalar_tensor_tensor_needs_its_second_tile(bench):
    work = bench()
    tile = work.empty((4, 4))
    with pytest.raises(IllegalInstruction, match="`operand1` is NoneType; legal: a tensor"):
        ScalarTensorTensor(tile, tile, "add", 1.0, "add", None).verify(work.core)
    with pytest.raises(IllegalInstruction, match="axis F is 4 elsewhere but 1 in `operand1`"):
        ScalarTensorTensor(tile, tile, "add", 1.0, "add", work.empty((4, 1))).verify(work.core)


def test_the_first_operator_of_scalar_tensor_tensor_may_be_unary_and_the_second_may_not(bench):
    work = bench()
    data = work.tile(np.array([[-5.0, 2.0]], np.float32))
    dst = work.issue(ScalarTensorTensor(work.empty((1, 2)), data, "abs", 0, "add", data))
    assert dst.load().tolist() == [[0, 4]]
    dst = work.issue(ScalarTensorTensor(work.empty((1, 2)), data, None, 0, "add", data))
    assert dst.load().tolist() == [[-10, 4]]
    with pytest.raises(IllegalInstruction, match=r"`operand0` is 1.0 with the unary operator abs"):
        ScalarTensorTensor(data, data, "abs", 1.0, "add", data).verify(work.core)
    with pytest.raises(IllegalInstruction, match="`op1` is abs, which takes one operand; legal: a"):
        ScalarTensorTensor(data, data, "add", 1.0, "abs", data).verify(work.core)


def test_scalar_tensor_tensor_is_arithmetic_with_at_most_one_input_in_psum(bench):
    work = bench()
    sbuf, psum = work.empty((4, 4)), work.empty((4, 4), memory=PSUM)
    for data, second in ((sbuf, psum), (psum, sbuf)):
        ScalarTensorTensor(sbuf, data, "add", 1.0, "add", second).verify(work.core)
    with pytest.raises(IllegalInstruction, match="data and operand1 are both in PSUM"):
        ScalarTensorTensor(sbuf, psum, "add", 1.0, "add", psum).verify(work.core)
    for ops in (("bitwise_and", "add"), ("add", "bitwise_and")):
        with pytest.raises(IllegalInstruction, match="is bitvec; legal: arithmetic"):
            ScalarTensorTensor(sbuf, sbuf, ops[0], 1.0, ops[1], sbuf).verify(work.core)


@pytest.mark.parametrize(
    ("dtype", "ops", "F", "cycles"),
    [
        (BFLOAT16, ("subtract", "multiply"), 512, 512),
        (BFLOAT16, ("subtract", "multiply"), 511, 1022),
        (BFLOAT16, ("multiply", "subtract"), 512, 1024),
        (FLOAT32, ("subtract", "multiply"), 512, 1024),
        (FLOAT32, ("add", "add"), 16, 64),
    ],
)
def test_scalar_tensor_tensor_costs_two_cycles_an_element_but_for_one_case(
    bench, core, dtype, ops, F, cycles
):
    work = bench(core)
    tile = work.empty((4, F), dtype)
    for dst in (tile, work.empty((4, F), FLOAT32)):  # its dtype does not matter
        instruction = ScalarTensorTensor(dst, tile, ops[0], 1.0, ops[1], tile)
        assert work.cycles(instruction, core.vector_clock_hz) == pytest.approx(cycles)


@pytest.mark.parametrize("F", [1, 64, 65, 512])
def test_scalar_tensor_tensor_reads_sbuf_and_psum_at_once(bench, core, F):
    work = bench(core)
    sbuf, psum = work.empty((4, F)), work.empty((4, F), memory=PSUM)
    for data, operand1 in ((sbuf, psum), (psum, sbuf)):
        instruction = ScalarTensorTensor(sbuf, data, "add", 1.0, "multiply", operand1)
        assert work.cycles(instruction, core.vector_clock_hz) == pytest.approx(max(64, F))
    onto_psum = ScalarTensorTensor(psum, sbuf, "add", 1.0, "multiply", sbuf)
    assert work.cycles(onto_psum, core.vector_clock_hz) == pytest.approx(max(64, 2 * F))


# reciprocal


@given(st.sampled_from(SHAPES), st.sampled_from(FLOATS), st.sampled_from([SBUF, PSUM]))
def test_reciprocal_divides_one_by_each_element(bench, random, shape, dtype, memory):
    work = bench()
    data = work.tile(np.abs(random(shape)) + 0.1, dtype, memory)
    dst = work.issue(Reciprocal(work.empty(shape), data))
    np.testing.assert_allclose(dst.load(), 1 / data.load().astype(float), rtol=1e-6)


def test_the_reciprocal_of_zero_is_infinite(bench):
    work = bench()
    dst = work.issue(Reciprocal(work.empty((1, 2)), work.tile(np.array([[0.0, -0.0]], "f4"))))
    assert dst.load().tolist() == [[np.inf, -np.inf]]


@pytest.mark.parametrize(("F", "cycles"), [(1, 64), (8, 64), (9, 72), (512, 4096)])
def test_reciprocal_costs_eight_cycles_an_element(bench, core, F, cycles):
    work = bench(core)
    tile = work.empty((4, F))
    assert work.cycles(Reciprocal(tile, tile), core.vector_clock_hz) == pytest.approx(cycles)


def test_a_bitvec_operator_without_its_operand_is_refused(bench):
    work = bench()
    tile = work.empty((4, 4), INT32)
    with pytest.raises(IllegalInstruction, match="`operand0` is missing; bitwise_and takes two"):
        TensorScalar(tile, tile, "bitwise_and", None).verify(work.core)
    with pytest.raises(IllegalInstruction, match="`operand1` is missing; left_shift takes two"):
        TensorScalar(tile, tile, "bitwise_and", 1, op1="left_shift").verify(work.core)
    TensorScalar(tile, tile, "invert").verify(work.core)


def test_a_bit_pattern_has_no_more_bits_than_an_element(bench):
    work = bench()
    tile = work.empty((4, 4), UINT8)
    for value in (-128, 0, 255):
        TensorScalar(tile, tile, "bitwise_or", value).verify(work.core)
    for value in (-129, 256):  # a shift by 256 would be one by its low 8 bits, 0
        message = rf"`operand0` is {value} .* on data of uint8; legal: 8 bits, -128 to 255"
        with pytest.raises(IllegalInstruction, match=message):
            TensorScalar(tile, tile, "right_shift", value).verify(work.core)
    wide = work.empty((4, 4), INT32)
    shifted = TensorScalar(wide, wide, "bitwise_or", 1, op1="bitwise_and", operand1=2**32)
    with pytest.raises(IllegalInstruction, match="`operand1` is 4294967296 with the bitvec"):
        shifted.verify(work.core)
