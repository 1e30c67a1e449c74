"""Tests of the names of a block."""

import ast

import pytest

from trnsim.nki.migrate.file import SourceFile
from trnsim.nki.migrate.scopes import leaving_statement, outer_names, reads_after

FUNCTION = "def f(x):\n    a = 1\n    for i in x:\n{}\n    g(a)\n"


def loop_of(*lines, after="", before=""):
    text = FUNCTION.format("\n".join(f"        {line}" for line in lines))
    file = SourceFile(text.replace("    a = 1\n", f"    a = 1\n{before}") + after)
    return file, next(node for node in file.nodes if isinstance(node, ast.For))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["t = i", "g(t)"], []),
        (["a = i"], ["a"]),
        (["a += 1"], ["a"]),
        (["b = b + 1"], ["b"]),
        (["if i:", "    t = 1", "g(t)"], []),
        (["for j in i:", "    t = j", "t = [k for k in t]"], []),
        (["g(z)", "z = 1"], ["z"]),
        (["def inner(y):", "    return a + y", "inner(2)"], []),
    ],
)
def test_names_that_a_body_binds_for_others(lines, expected):
    assert outer_names(*loop_of(*lines)) == expected


def test_a_name_that_comes_after_is_another_if_it_is_bound_first():
    assert outer_names(*loop_of("t = 1", after="    t = 2\n    g(t)\n")) == []
    assert outer_names(*loop_of("t = 1", after="    g(t)\n")) == ["t"]


def test_a_name_that_the_body_may_leave_as_it_was_is_of_the_code_before():
    lines = ["if i:", "    t = 1", "g(t)"]
    assert outer_names(*loop_of(*lines, before="    t = 0\n")) == ["t"]


def test_the_next_turn_of_a_loop_around_comes_after():
    text = "def f(x):\n    for j in x:\n        g(t)\n        for i in x:\n            t = i\n"
    file = SourceFile(text)
    outer, inner = (node for node in file.nodes if isinstance(node, ast.For))
    assert outer_names(file, inner) == ["t"]
    assert outer_names(file, outer) == ["t"]


def test_a_register_is_read_after_a_loop():
    file, loop = loop_of("pass", after="    g(i)\n")
    assert reads_after(file, loop, "i")
    assert not reads_after(file, loop, "x")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("for j in y:\n    break", ""),
        ("def g():\n    return 1", ""),
        ("if x:\n    break", "break"),
        ("for j in y:\n    return", "return"),
        ("x = yield", "yield"),
        ("global x", "global"),
    ],
)
def test_a_body_may_leave(body, expected):
    assert leaving_statement(ast.parse(body).body) == expected
