"""Tests of edits of a text by its syntax tree."""

import pytest

from trnsim.nki.migrate.edits import Edit, Places, apply_edits, overlap
from trnsim.nki.migrate.file import SourceFile


def without(text, *removed, added=()):
    file = SourceFile(text)
    call = file.tree.body[0].value
    every = [*call.args, *call.keywords]
    return apply_edits(text, Places(file).arguments(call, [every[n] for n in removed], added))


@pytest.mark.parametrize(
    ("text", "removed", "expected"),
    [
        ("f(a, b, c)", [1], "f(a, c)"),
        ("f(a, b, c)", [2], "f(a, b)"),
        ("f(a, b, c)", [1, 2], "f(a)"),
        ("f(a, b, c)", [0, 2], "f(b)"),
        ("f(a)", [0], "f()"),
        ("f(a, k=1, )", [1], "f(a, )"),
        ("f(\n    a,\n    k=1,\n)", [1], "f(\n    a,\n)"),
        ("f(\n    a,\n    k=1,\n    m=2,\n)", [1], "f(\n    a,\n    m=2,\n)"),
        ("f(a,  # first\n  k=1)", [1], "f(a  # first\n)"),
        ("f('é', k=1, m=2)", [1], "f('é', m=2)"),
        ("f('\x0c\x85\u2028',\n  k=1, m=2)", [1], "f('\x0c\x85\u2028',\n  m=2)"),
    ],
)
def test_arguments_go_with_their_commas(text, removed, expected):
    assert without(text, *removed) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f(a, b)", "f(b, k=1)"),
        ("f(a)", "f(k=1)"),
        ("f(\n    a,\n    b,\n)", "f(\n    b,\n    k=1,\n)"),
    ],
)
def test_an_argument_is_added_at_the_end(text, expected):
    assert without(text, 0, added=["k=1"]) == expected


def test_lines_stand_above_and_below_a_statement_with_its_indentation():
    text = "if x:\n    @d\n    def f():  # said\n        pass  # end\n"
    file = SourceFile(text)
    places, function = Places(file), file.functions[0]
    edits = [places.insert_above(function, ["# one"]), places.insert_below(function, ["", "f()"])]
    assert apply_edits(text, edits) == (
        "if x:\n    # one\n    @d\n    def f():  # said\n        pass  # end\n\n    f()\n"
    )


def test_edits_of_the_same_place_overlap():
    assert overlap([Edit(1, 3, "")], [Edit(2, 4, "")])
    assert overlap([Edit(1, 1, "a")], [Edit(1, 1, "b")])
    assert not overlap([Edit(1, 2, "")], [Edit(2, 4, "")])
