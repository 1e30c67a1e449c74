"""Python that would need a tensor's elements is refused at its line, with what to write."""

import math

import numpy as np
import pytest

import trnsim
from trnsim import nki
from trnsim.errors import IllegalInstruction
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

A = np.arange(16, dtype=np.float32).reshape(4, 4)


def branching(tile):
    return 1 if tile else 2


def waiting(tile):
    while tile:
        pass


def asserting(tile):
    assert tile


def looping(tile):
    for _ in tile:
        pass


def unpacking(tile):
    first, *_ = tile
    return first


def made():
    return nl.ones((4, 4), dtype=nl.float32)


ASKED = {
    "if": (branching, "as a condition", "nl.where(condition, a, b)"),
    "while": (waiting, "as a condition", "nl.while_loop"),
    "assert": (asserting, "as a condition", "nisa.register_load"),
    "and": (lambda tile: tile and 1, "as a condition", "nl.where"),
    "or": (lambda tile: tile or 1, "as a condition", "nl.where"),
    "not": (lambda tile: not tile, "as a condition", "nl.where"),
    "nl.equal": (lambda _: bool(nl.equal(made(), made())), "as a condition", "nl.where"),
    "== tensor": (lambda tile: tile == tile[:, 0:2], "with `==`", "nl.equal(a, b)"),
    "!= tensor": (lambda tile: tile != tile[:, 0:2], "with `!=`", "nl.not_equal(a, b)"),
    "== number": (lambda tile: tile == 0, "with `==`", "nl.equal(a, b)"),
    "number ==": (lambda tile: 0.0 == tile, "with `==`", "nl.equal(a, b)"),  # noqa: SIM300
    "== array": (lambda tile: A == tile, "with `==`", "nl.equal(a, b)"),  # noqa: SIM300
    "== list": (lambda tile: tile == [1, 2], "with `==`", "nl.equal(a, b)"),
    "in a list": (lambda tile: tile in [tile[:, 0:2], 3], "with `==`", "nl.equal(a, b)"),
    "<": (lambda tile: tile < 3, "with `<`", "nl.less(a, b)"),
    "< the other way": (lambda tile: np.float32(3) <= tile, "with `>=`", "nl.greater_equal(a, b)"),
    "max": (lambda tile: max(tile, 0), "with `<`", "nl.less(a, b)"),
    "for": (looping, "as a sequence", "for i in range(tensor.shape[1])"),
    "unpacking": (unpacking, "as a sequence", "for i in range(tensor.shape[1])"),
    "sum": (sum, "as a sequence", "for i in range(tensor.shape[1])"),
    "in": (lambda tile: 3 in tile, "behind `in`", "nl.equal(tensor, value)"),
    "len": (len, "by len()", "tensor.shape[0]"),
    "reversed": (reversed, "by len()", "tensor.shape[0]"),
    "int": (int, "as a number", "nisa.register_load"),
    "float": (float, "as a number", "nisa.register_load"),
    "complex": (complex, "as a number", "nisa.register_load"),
    "range": (range, "as a number", "nisa.register_load"),
    "math": (math.sqrt, "as a number", "nisa.register_load"),
    "index": (lambda tile: (1, 2)[tile], "as a number", "nisa.register_load"),
    "numpy": (np.asarray, "by numpy", "nl.device_print"),
    "numpy's functions": (np.mean, "by numpy", "nl.max"),
    "+": (lambda tile: tile + 1, "with `+`", "write nl.add"),
    "+ on the right": (lambda tile: A + tile, "with `+`", "write nl.add"),
    "/": (lambda tile: 1 / tile, "with `/`", "nl.reciprocal"),
    "@": (lambda tile: tile @ tile, "with `@`", "nl.matmul"),
    "-": (lambda tile: -tile, "with `-`", "nl.negative"),
    "abs": (abs, "with `abs()`", "nl.abs"),
    "round": (round, "with `round()`", "nl.trunc"),
    "divmod": (lambda tile: divmod(tile, 2), "with `divmod()`", "nl.floor and nl.mod"),
    "divmod on the right": (lambda tile: divmod(2, tile), "with `divmod()`", "nl.floor and nl.mod"),
    "math.floor": (math.floor, "with `math.floor()`", "nl.floor"),
    "math.trunc": (math.trunc, "as a number", "nisa.register_load"),
    "format": (lambda tile: f"{tile:.3f}", "as a number, of the format '.3f'", "nl.device_print"),
}


@nki.jit
def asking(a, what, where):
    tile = nl.load(a)
    ASKED[what][0]({"sbuf": tile, "hbm": a}[where])
    return a


@pytest.mark.parametrize("where", ["sbuf", "hbm"])
@pytest.mark.parametrize("what", ASKED)
def test_what_needs_elements_is_refused_at_its_line(what, where):
    with pytest.raises(IllegalInstruction) as caught:
        trnsim.run(asking, A, what, where)
    _, how, fix = ASKED[what]
    error = caught.value
    assert f"float32 is used {how}" in error.reason
    assert "its elements are not known when the kernel is compiled; legal: " in error.reason
    assert fix in error.fix
    assert error.source == "nki-language-guide.rst, Tensor Values"
    assert error.line.file == __file__


@pytest.mark.parametrize("where", ["sbuf", "hbm"])
def test_elements_are_not_deleted(where):
    @nki.jit
    def kernel(a):
        del {"sbuf": nl.load(a), "hbm": a}[where][:, 0]
        return a

    with pytest.raises(IllegalInstruction, match=r"del of elements of .* float32; legal") as caught:
        trnsim.run(kernel, A)
    assert isinstance(caught.value, TypeError)
    assert "tensor[:, start:end]" in caught.value.fix
    assert caught.value.line.file == __file__


def test_the_line_is_the_conditions_own():
    with pytest.raises(TypeError) as caught:
        nki.simulate(asking)(A, "if", "sbuf")
    assert caught.value.line.line == branching.__code__.co_firstlineno + 1


def test_identity_and_what_is_no_value_stay_pythons():
    @nki.jit
    def kernel(a, bias=None):
        tile = nl.load(a)
        assert bias is None
        assert tile != None  # noqa: E711  public kernels write it
        assert not tile == None  # noqa: E711, SIM201
        assert tile != "tile"
        assert tile != tile.dtype
        assert tile == tile  # noqa: PLR0124
        assert not tile != tile  # noqa: PLR0124, SIM202
        assert tile in [tile, 3]
        assert {tile: 1}[tile] == 1
        assert len({tile, a}) == 2
        return a

    np.testing.assert_array_equal(trnsim.run(kernel, A).outputs, A)


def test_two_registers_are_not_compared():
    @nki.jit
    def kernel(a):
        first, second = nisa.register_alloc(3), nisa.register_alloc(3)
        assert first == 3
        assert first == first  # noqa: PLR0124
        assert first != "three"
        return a if first == second else None

    with pytest.raises(IllegalInstruction, match="== of two registers; legal") as caught:
        trnsim.run(kernel, A, nki="0.5")
    assert caught.value.line.line == kernel.__wrapped__.__code__.co_firstlineno + 6


def test_no_rule_of_an_instruction_asks_for_values():
    """`tensor_copy` between gathered PSUM and a scatter, and a unary operator with a tile."""

    @nki.jit
    def kernel(a, columns):
        tile, index = nl.load(a), nl.load(columns)
        bank = nl.ndarray((32, 16), nl.float32, buffer=nl.psum)
        nisa.tensor_copy(bank, tile)
        nisa.tensor_copy(tile.indirect(index, 16), bank.indirect(index, 16))
        nisa.tensor_scalar(tile, tile, nl.rsqrt, tile[:, 0:1])
        return a

    given = np.ones((32, 16), np.float32)
    columns = np.arange(32, dtype=np.uint16).reshape(32, 1) % 16
    with pytest.raises(IllegalInstruction, match="with the unary operator rsqrt; legal: None or 0"):
        trnsim.run(kernel, given, columns, target="trn3")


ABSENT = {
    "transpose": "tensor.permute",
    "T": "nisa.nc_transpose",
    "astype": "nisa.tensor_copy",
    "sum": r"nl.sum\(tensor, axis\)",
    "shap": "write tensor.shape",
    "qqqq": "use one of these",
}


@pytest.mark.parametrize("name", ABSENT)
def test_an_attribute_that_tensors_lack_names_what_nki_has_for_it(name):
    def kernel(x):
        assert not hasattr(x, name)
        getattr(x, name)

    with pytest.raises(IllegalInstruction, match=ABSENT[name]) as caught:
        trnsim.run(nki.jit(kernel), np.ones((2, 2), np.float32))
    assert isinstance(caught.value, AttributeError)
    assert caught.value.line.file == __file__
    assert f"HBM [2, 2] float32 has no attribute {name!r}" in str(caught.value)


def test_names_that_libraries_probe_for_get_pythons_error():
    @nki.jit
    def kernel(x):
        with pytest.raises(AttributeError) as caught:
            x.__torch_function__  # noqa: B018
        assert not isinstance(caught.value, IllegalInstruction)
        return x

    trnsim.run(kernel, np.ones((2, 2), np.float32))


UFUNCS = {
    "exp": "write nl.exp in place",
    "absolute": "write nl.abs in place",
    "floor": "write nl.floor in place",
    "add": "write nl.add in place",
    "expm1": "use a function of nki.language",
}


@pytest.mark.parametrize("name", UFUNCS)
def test_a_function_of_numpy_names_that_of_nki(name):
    ufunc = getattr(np, name)

    def kernel(x):
        tile = nl.load(x)
        ufunc(tile, tile) if name == "add" else ufunc(tile)

    with pytest.raises(IllegalInstruction, match=f"is used by numpy.{name}: its") as caught:
        trnsim.run(nki.jit(kernel), A)
    assert UFUNCS[name] in caught.value.fix
    assert isinstance(caught.value, TypeError)
    assert caught.value.line.file == __file__
