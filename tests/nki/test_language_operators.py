"""`nl.add`, `nl.exp` and the rest: names for an `op`, and functions of tiles."""

import copy
import inspect
import pickle
from operator import and_, or_, xor

import ml_dtypes
import numpy as np
import pytest

import trnsim
from trnsim.errors import IllegalInstruction
from trnsim.isa import ACTIVATIONS, ALU
from trnsim.nki import isa as nisa
from trnsim.nki import jit
from trnsim.nki import language as nl
from trnsim.nki.language_operators import OPERATORS

UNARY = [n for n, op in ALU.items() if op.arity == 1 and not op.is_bitvec and n != "bypass"]
BINARY = [name for name, op in ALU.items() if op.arity == 2 and not op.is_bitvec]


def applied(operator, *arrays, dtype=None, opcodes=None):
    """`operator` of tiles (arrays) and numbers, as a kernel would call it."""

    @jit
    def kernel(*given):
        operands = [nl.load(x) if hasattr(x, "shape") else x for x in given]
        result = operator(*operands) if dtype is None else operator(*operands, dtype=dtype)
        out = nl.ndarray(result.shape, result.dtype, buffer=nl.shared_hbm)
        nl.store(out, result)
        return out

    run = trnsim.run(kernel, *arrays, target="trn3")
    if opcodes is not None:
        opcodes.extend(checked.opcode for checked in run.program.checked)
    return run.outputs


@pytest.mark.parametrize("name", BINARY)
def test_two_tiles_make_a_tensor_tensor(name, random):
    x, y = np.abs(random((4, 8))), np.abs(random((4, 8), seed=1))
    opcodes = []
    result = applied(getattr(nl, name), x, y, opcodes=opcodes)
    np.testing.assert_allclose(result, ALU[name].apply(x, y), rtol=1e-6)
    assert "tensor_tensor" in opcodes


def test_the_exponent_of_power_is_a_tile(random):
    with pytest.raises(IllegalInstruction, match="legal: an exponent that is a tile"):
        applied(nl.power, random((4, 8)), 2.0)


@pytest.mark.parametrize("number", [2**70, -(2**70), 0, float("nan")])
@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_a_number_of_any_size_is_true_unless_it_is_zero(name, number):
    x = np.float32([[0.0, 1.0, np.nan, -0.0]])
    truths = [bool(value) for value in (0.0, 1.0, float("nan"), -0.0)]
    combine = {"logical_and": and_, "logical_or": or_}.get(name, xor)
    expected = [[combine(truth, bool(number)) for truth in truths]]
    np.testing.assert_array_equal(applied(getattr(nl, name), x, number), expected)
    np.testing.assert_array_equal(applied(getattr(nl, name), number, x), expected)


@pytest.mark.parametrize("name", [name for name in BINARY if name != "power"])
def test_a_number_may_stand_on_either_side(name, random):
    x = np.abs(random((4, 8)))
    right = applied(getattr(nl, name), x, 2.0)
    left = applied(getattr(nl, name), 2.0, x)
    np.testing.assert_allclose(right, ALU[name].apply(x, np.float32(2)), rtol=1e-6)
    np.testing.assert_allclose(left, ALU[name].apply(np.float32(2), x), rtol=1e-6)


@pytest.mark.parametrize("name", UNARY)
def test_one_tile_is_enough_for_a_unary_operator(name, random):
    x = np.abs(random((4, 8))) + 0.1
    np.testing.assert_allclose(applied(getattr(nl, name), x), ALU[name].apply(x), rtol=1e-6)


@pytest.mark.parametrize("name", sorted(set(ACTIVATIONS) - set(ALU) - {"prelu", "sin"}))
def test_an_activation_function_runs_on_the_scalar_engine(name, random):
    x = np.clip(np.abs(random((4, 8))), 0.1, 1.5)
    opcodes = []
    result = applied(getattr(nl, name), x, opcodes=opcodes)
    np.testing.assert_allclose(result, ACTIVATIONS[name].apply(x), rtol=1e-5, atol=1e-6)
    assert len(opcodes) == 3


def test_the_result_has_the_inputs_dtype_unless_another_is_asked_for(random):
    x = random((4, 8), np.float16)
    assert applied(nl.add, x, 1.0).dtype == np.float16
    assert applied(nl.add, x, 1.0, dtype=nl.float32).dtype == np.float32


def test_an_operator_prints_as_its_name():
    assert repr(nl.add) == "nl.add"
    assert nl.add.__name__ == nl.add.name == "add"


def test_without_a_tile_there_is_nothing_to_compute():
    @jit
    def kernel(x):
        del x
        return nl.add(1.0, 2.0)

    with pytest.raises(IllegalInstruction, match=r"nl.add of float; legal: tiles and numbers"):
        trnsim.run(kernel, np.zeros((4, 8), np.float32))


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int32, ml_dtypes.bfloat16])
def test_a_number_of_numpys_is_a_number(kind, random):
    x, two = random((4, 8)), kind(2)
    for operator in (nl.multiply, nl.maximum, nl.add):
        found = applied(lambda tile, op=operator: op(tile, two), x)
        np.testing.assert_array_equal(found, applied(operator, x, 2))
    np.testing.assert_array_equal(
        applied(lambda tile: nl.subtract(two, tile), x), applied(lambda t: nl.subtract(2, t), x)
    )
    chosen = applied(lambda tile: nl.where(tile, two, two), x)
    assert (chosen == 2).all()
    filled = applied(lambda tile: nl.add(tile, nl.full((4, 8), two, nl.float32)), x)
    np.testing.assert_array_equal(filled, x + np.float32(2))


@pytest.mark.parametrize("axis", [np.int64(1), (np.int32(1),)])
def test_an_axis_of_numpys_is_an_axis(axis, random):
    x = random((4, 8))
    found = applied(lambda tile: nl.sum(tile, axis=axis, keepdims=True), x)
    np.testing.assert_array_equal(found, applied(lambda t: nl.sum(t, axis=1, keepdims=True), x))


def test_an_operator_names_itself_to_an_instruction(random):
    @jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        nisa.tensor_scalar(tile, tile, nl.add, 1.0, op1=nl.multiply, operand1=2)
        nl.store(out, tile)
        return out

    x = random((4, 8))
    np.testing.assert_allclose(trnsim.run(kernel, x).outputs, 2 * (x + 1), rtol=1e-6)


def test_rsqrt_takes_no_psum_since_nki_0_5(random):
    x = random((4, 8)) + 2
    assert applied(nl.rsqrt, x).shape == x.shape

    @jit
    def kernel(x):
        return nl.rsqrt(nl.zeros(x.shape, x.dtype, buffer=nl.psum))

    with pytest.raises(IllegalInstruction, match=r"nl.rsqrt of PSUM \[4, 8\] float32") as caught:
        trnsim.run(kernel, x)
    assert "nisa.activation(dst, nl.rsqrt, data)" in caught.value.fix
    assert caught.value.source == "nki/migration/index.rst, nki.language.rsqrt"


@pytest.mark.parametrize("name", sorted({*ALU, *ACTIVATIONS, "sum", "softmax", "gelu_apprx_tanh"}))
def test_a_copy_of_an_operator_is_the_operator(name):
    operator = getattr(nl, name, None)
    if operator is None:
        assert name not in OPERATORS
        return
    for made in (copy.copy(operator), copy.deepcopy(operator)):
        assert made is operator
    assert pickle.loads(pickle.dumps(operator)) is operator  # noqa: S301  our own


@pytest.mark.parametrize(
    ("call", "reason", "fix"),
    [
        (lambda t: nl.exp(t, t, t), "nl.exp: too many", "call it as nl.exp(x, dtype=None)"),
        (
            lambda t: nl.add(t, t, dtyp=nl.float32),
            "nl.add: got an unexpected keyword argument 'dtyp'; legal: x, y, dtype",
            "call it as nl.add(x, y, dtype=None); perhaps with dtype",
        ),
        (
            nl.sum,
            "nl.sum: missing a required argument: 'axis'",
            "call it as nl.sum(x, axis, dtype=None, keepdims=False)",
        ),
        (
            lambda t: nl.softmax(t, axes=1),
            "nl.softmax: got an unexpected keyword argument 'axes'",
            "call it as nl.softmax(x, axis=-1, dtype=None); perhaps with axis",
        ),
        (
            lambda t: nl.load(t, typ=3),
            "nl.load: got an unexpected keyword argument 'typ'",
            "call it as nl.load(src, dtype=None)",
        ),
        (lambda t: nl.sin(t, 1, 2), "nl.sin: too many", "call it as nl.sin(x, dtype=None)"),
    ],
)
def test_a_wrong_call_is_refused_with_the_call_to_write(call, reason, fix):
    @jit
    def kernel(x):
        call(nl.load(x))

    with pytest.raises(IllegalInstruction) as caught:
        trnsim.run(kernel, np.ones((2, 2), np.float32))
    assert caught.value.reason.startswith(reason)
    assert caught.value.fix.startswith(fix)
    assert caught.value.line.file == __file__


def test_every_function_of_tiles_has_the_names_of_its_operands():
    assert list(inspect.signature(nl.exp).parameters) == ["x", "dtype"]
    assert list(inspect.signature(nl.add).parameters) == ["x", "y", "dtype"]
    assert list(inspect.signature(nl.max).parameters) == ["x", "axis", "dtype", "keepdims"]
