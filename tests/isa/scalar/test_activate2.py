"""activate2: values, legality, price."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trnsim.dtypes import BFLOAT16, FLOAT16, FLOAT32
from trnsim.errors import IllegalInstruction, UndefinedBehavior
from trnsim.isa import Activate2, Activation, Engine, ReduceCmd
from trnsim.memory import Memory

PSUM = Memory.PSUM
RESET = ReduceCmd.reset_reduce
PAIRS = [
    ("multiply", "add"),
    ("multiply", "subtract"),
    ("multiply", "bypass"),
    ("add", "bypass"),
    ("subtract", "bypass"),
    ("bypass", "bypass"),
]
FUNCTIONS = {
    "copy": lambda x: x,
    "tanh": np.tanh,
    "square": lambda x: x * x,
    "relu": lambda x: max(x, 0.0),
}
OPERATORS = {
    "multiply": lambda x, y: x * y,
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "maximum": max,
    "minimum": min,
    "abs_max": lambda x, y: x if abs(x) > abs(y) else y,
    "abs_min": lambda x, y: x if abs(x) < abs(y) else y,
}
STARTS = {"add": 0.0, "maximum": -np.inf, "minimum": np.inf, "abs_max": 0.0, "abs_min": np.inf}


@pytest.fixture
def work(bench, core_v4):
    return bench(core_v4)


@settings(max_examples=30)
@given(
    pair=st.sampled_from(PAIRS),
    flips=st.tuples(st.booleans(), st.booleans()),
    op=st.sampled_from(list(FUNCTIONS)),
    reduce_op=st.sampled_from(list(STARTS)),
    is_vector=st.tuples(st.booleans(), st.booleans()),
    shape=st.sampled_from([(1, 1), (3, 5), (4, 2, 3)]),
    dtype=st.sampled_from([FLOAT32, BFLOAT16]),
)
def test_it_follows_the_documented_loop(
    bench, random, core_v4, pair, flips, op, reduce_op, is_vector, shape, dtype
):
    work = bench(core_v4)
    flips = [flip and name != "bypass" for flip, name in zip(flips, pair, strict=True)]
    data = work.tile(random(shape), dtype)
    vectors = [random((shape[0], 1), seed=seed) for seed in (1, 2)]
    numbers = [0.75, -1.25]
    operands = [work.tile(vectors[i]) if is_vector[i] else numbers[i] for i in (0, 1)]
    result = work.empty((shape[0], 1))
    dst = work.issue(
        Activate2(
            work.empty(shape),
            op,
            data,
            *operands,
            *pair,
            reverse0=flips[0],
            reverse1=flips[1],
            reduce_op=reduce_op,
            reduce_res=result,
            reduce_cmd=RESET,
        )
    )
    flat = data.load().reshape(shape[0], -1).astype(np.float64)
    for p, row in enumerate(flat):
        total = STARTS[reduce_op]
        for f, given_value in enumerate(row):
            number = given_value
            for i, name in enumerate(pair):
                if name != "bypass":
                    other = float(vectors[i][p, 0]) if is_vector[i] else numbers[i]
                    sides = (other, number) if flips[i] else (number, other)
                    number = OPERATORS[name](*sides)
            number = FUNCTIONS[op](number)
            found = dst.load().reshape(shape[0], -1)[p, f]
            assert found == pytest.approx(number, rel=1e-5, abs=1e-5)
            total = OPERATORS[reduce_op](total, number)
        assert result.load()[p, 0] == pytest.approx(total, rel=1e-5, abs=1e-5)


def test_prelu_takes_its_slope_as_a_number_or_a_vector(work):
    data = work.tile(np.array([[-4.0, 2.0], [-1.0, -8.0]], np.float32))
    none = {"imm0": 0.0, "imm1": 0.0, "op0": "bypass", "op1": "bypass"}
    dst = work.issue(Activate2(work.empty((2, 2)), "prelu", data, **none, relu_param=0.25))
    assert dst.load().tolist() == [[-1, 2], [-0.25, -2]]
    slopes = work.tile(np.array([[0.5], [2.0]], np.float32))
    dst = work.issue(Activate2(work.empty((2, 2)), "prelu", data, **none, relu_param=slopes))
    assert dst.load().tolist() == [[-2, 2], [-2, -16]]


def test_it_shares_the_accumulator_with_activation(work):
    data, result = work.tile(np.full((2, 3), 2.0, np.float32)), work.empty((2, 1))
    work.issue(Activation(work.empty((2, 3)), "copy", data, reduce_op="add", reduce_cmd=RESET))
    work.issue(made(work, data, reduce_op="add", reduce_res=result, reduce_cmd=ReduceCmd.reduce))
    assert result.load().tolist() == [[12], [12]]
    work.issue(made(work, data, reduce_op="maximum", reduce_cmd=ReduceCmd.reset))
    work.issue(made(work, data, reduce_op="maximum", reduce_cmd=ReduceCmd.reduce))
    work.issue(made(work, data, reduce_res=result))
    assert result.load().tolist() == [[2], [2]]


def test_an_accumulator_that_nothing_has_reset_is_undefined(work):
    data = work.tile(np.ones((2, 3), np.float32))
    with pytest.raises(UndefinedBehavior, match="accumulator registers of the Scalar Engine"):
        work.issue(made(work, data, reduce_op="add", reduce_cmd=ReduceCmd.reduce))


def test_an_input_outside_the_valid_range_is_undefined(work):
    data = work.tile(np.array([[-1.0]], np.float32))
    with pytest.raises(UndefinedBehavior, match="activate2: log of values from -1"):
        work.issue(made(work, data, op="log"))
    work.issue(made(work, data, op="log", imm0=-1.0, op0="multiply"))


def made(work, data=None, **options):
    data = work.empty((4, 8)) if data is None else data
    operands = {"op": "copy", "imm0": 0.0, "imm1": 0.0, "op0": "bypass", "op1": "bypass"}
    return Activate2(work.empty(data.shape), data=data, **(operands | options))


def test_six_pairs_of_operators_are_legal(work):
    for op0, op1 in PAIRS:
        made(work, op0=op0, op1=op1).verify(work.core)
    made(work, op0=None, op1=None).verify(work.core)
    for op0, op1 in (("add", "multiply"), ("bypass", "add"), ("subtract", "add"), (None, "add")):
        with pytest.raises(IllegalInstruction, match=rf"op0 {op0}, op1 {op1}; legal: \(multiply"):
            made(work, op0=op0, op1=op1).verify(work.core)


@pytest.mark.parametrize("which", ["0", "1"])
def test_only_an_operator_is_reversed(work, which):
    both = {"op0": "multiply", "op1": "subtract"}
    made(work, **both, **{f"reverse{which}": True}).verify(work.core)
    both[f"op{which}"] = "bypass"
    if which == "0":
        both["op1"] = "bypass"
    with pytest.raises(IllegalInstruction, match=f"reverse{which}=True with op{which} bypass"):
        made(work, **both, **{f"reverse{which}": True}).verify(work.core)


def test_its_other_constraints(work, core_v3):
    sums = work.empty((4, 1))
    made(work, reduce_op="abs_min", reduce_res=sums, reduce_cmd=RESET).verify(work.core)
    vectors = {"imm0": work.empty((4, 1), FLOAT16), "imm1": work.empty((4, 1), BFLOAT16)}
    for options, message in (
        ({"op": "sine"}, "op sine; legal: copy, square"),
        (vectors, "`imm0` is .* float16 and `imm1` is .* bfloat16; legal: equal dtypes"),
        ({"reduce_op": "multiply", "reduce_cmd": RESET}, "reduce_op multiply with reduce_cmd"),
        ({"reduce_cmd": RESET}, "reduce_op None with reduce_cmd reset_reduce; legal: add, max"),
        ({"reduce_cmd": ReduceCmd.load_reduce}, "reduce_cmd load_reduce; legal: idle, reset"),
        ({"imm0": work.empty((4, 2))}, "axis 1 must be 1 but 2 in `imm0`"),
    ):
        with pytest.raises(IllegalInstruction, match=message):
            made(work, **options).verify(work.core)
    made(work, **(vectors | {"imm0": vectors["imm1"]})).verify(work.core)
    with pytest.raises(IllegalInstruction, match="on NeuronCore-v3; legal from NeuronCore-v4 on"):
        made(work).verify(core_v3)


@pytest.mark.parametrize("F", [1, 64, 65, 512])
def test_it_costs_an_element_a_cycle_and_64_more_for_the_result(bench, core_v4, F):
    work = bench(core_v4, has_values=False)
    data = work.empty((8, F))
    hz = core_v4.scalar_clock_hz
    summed = made(work, data, reduce_op="add", reduce_res=work.empty((8, 1)), reduce_cmd=RESET)
    assert work.cycles(made(work, data), hz) == pytest.approx(max(64, F))
    assert work.cycles(summed, hz) == pytest.approx(max(64, F) + 64)
    assert summed.chosen_engine(core_v4) is Engine.scalar
