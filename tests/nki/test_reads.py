"""What code reads by name: names, attributes, imports, and what it may not do."""

import types

import pytest

from trnsim.nki.reads import Unforeseeable, does_nothing_else, reads

factor = 3


def found(function):
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    return list(reads(function.__code__, cells))


def test_names_come_with_their_attributes():
    def function(x):
        return factor.real.imag + len(x)

    product, length = found(function)
    assert (product.name, product.attributes, product.is_called) == (
        "factor",
        ("real", "imag"),
        False,
    )
    assert (length.name, length.attributes, length.is_called) == ("len", (), True)


def test_who_hands_a_function_on_does_not_call_it():
    (mapped, handed) = found(lambda x: map(len, x))
    assert mapped.is_called
    assert not handed.is_called


def test_variables_of_outer_functions_are_cells():
    outer = 5

    def function():
        return outer

    (read,) = found(function)
    assert read.cell.cell_contents == 5


def test_imports_are_modules_and_what_is_taken_of_them():
    def function():
        import os.path as where  # noqa: PLC0415
        import xml.dom  # noqa: PLC0415
        from math import ceil, floor  # noqa: PLC0415

        return where, xml, ceil, floor

    used = [read for read in found(function) if read.is_value]
    names = [(read.module.__name__, read.attributes) for read in used]
    assert names[0][0].endswith("path")
    assert names[1:4] == [("xml", ()), ("math", ("ceil",)), ("math", ("floor",))]
    assert sum(not read.is_value for read in found(function)) == 2


def test_a_variable_that_an_import_fills_is_what_it_imports():
    def function(x):
        import math as m  # noqa: PLC0415

        return m.ceil(x) + m.pi

    used = [read.attributes for read in found(function) if read.is_value]
    assert used == [("ceil",), ("pi",)]


def test_a_variable_beside_an_import_is_no_import():
    def function(x):
        import math as m  # noqa: PLC0415

        tile = x + 1

        def inner():
            return m.pi

        return inner(), tile.array

    with pytest.raises(Unforeseeable, match="values"):
        found(function)


def no_global(x):
    global factor  # noqa: PLW0603
    factor = x


def no_attribute(x):
    no_global.note = x


def no_handler(x):
    try:
        return int(x)
    except ValueError:
        return 0


def no_value(x):
    return x.storage


@pytest.mark.parametrize("function", [no_global, no_attribute, no_handler, no_value])
def test_what_may_change_something_is_refused(function):
    with pytest.raises(Unforeseeable):
        found(function)


def test_relative_imports_are_refused():
    code = compile("from .a import b", "x.py", "exec")
    with pytest.raises(Unforeseeable, match="import"):
        found(types.FunctionType(code, {}))


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda: None, True),
        (lambda: False, True),
        (lambda: True, False),
        (lambda: factor, False),
    ],
)
def test_what_names_and_returns_nothing_does_nothing_about_errors(function, expected):
    assert does_nothing_else(function.__code__) is expected
