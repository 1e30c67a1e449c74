"""Tests of what the text of a file says of its tensors."""

import ast

import pytest

from trnsim.nki.migrate.file import SourceFile, argument

TEXT = """import nki.language as nl
import nki

@nki.jit
def kernel(x, shape):
    a = nl.ndarray((128, 4, 8), nl.int32, buffer=nl.psum)
    b = nl.zeros(shape=shape, dtype=a.dtype)
    c = a[0:64]
    d = a[:, 2, :]
    e = a[...]
    f = a.reshape((128, 32))
    g = a.view(nl.float32)
    h = nl.ndarray((128, 4), nl.int32, buffer="hbm")
    h = nl.ndarray((128, 4), nl.float32, buffer="hbm")
    i = x
    j = a
    k = j
    j = k
    def inner():
        return a
    return EXPRESSION
"""


def told(expression):
    file = SourceFile(TEXT.replace("EXPRESSION", expression))
    node = file.functions[0].body[-1].value
    tensor = file.tensor(node)
    return tensor.buffer, tensor.dtype, tensor.rank, tensor.is_view


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a", ("nl.psum", "nl.int32", 3, False)),
        ("b", ("nl.sbuf", "nl.int32", None, False)),
        ("c", ("nl.psum", "nl.int32", 3, True)),
        ("d", ("nl.psum", "nl.int32", 2, True)),
        ("e", ("nl.psum", "nl.int32", 3, False)),
        ("a[x, :, :]", ("nl.psum", "nl.int32", None, True)),
        ("f", ("nl.psum", "nl.int32", None, True)),
        ("g", ("nl.psum", "nl.float32", None, True)),
        ("h", ("nl.hbm", "", 2, False)),
        ("x", ("", "", None, None)),
        ("i", ("", "", None, None)),
        ("j", ("", "", None, None)),
        ("inner()", ("", "", None, None)),
    ],
)
def test_a_tensor_is_what_its_assignments_say_alike(expression, expected):
    assert told(expression) == expected


def test_kernels_are_functions_decorated_by_jit():
    text = "import nki\nfrom nki import jit\n@jit\ndef a(): b()\n@nki.jit(mode=1)\ndef c(): pass\n"
    file = SourceFile(text + "def b(): pass\n@other\ndef d(): pass\n")
    assert [kernel.name for kernel in file.kernels] == ["a", "c"]
    assert [root.name for root in file.roots_of(file.kernels[0])] == ["a", "b"]


def test_an_argument_is_found_by_position_and_name():
    call = ast.parse("f(1, *z, k=3)").body[0].value
    assert argument(call, 0, "a").value == 1
    assert argument(call, 1, "b") is None
    assert argument(call, 5, "k").value == 3
