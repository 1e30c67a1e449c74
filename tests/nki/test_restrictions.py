"""Tests of restrictions of the language that a kernel's source shows."""

from trnsim import nki
from trnsim.nki.restrictions import identities_of


def helper(flag):
    return flag is True


@nki.jit
def kernel(x, flag=True):
    if x is None or None is x:
        return None
    assert flag is not False
    return helper(flag)


def lines_of(function):
    return [place.line for place in identities_of(function)]


def test_comparisons_of_identity_are_found_in_a_function_and_in_those_that_it_names():
    first = helper.__code__.co_firstlineno
    assert lines_of(kernel.function) == [first + 1, first + 8]


def test_a_comparison_with_none_is_none():
    assert lines_of(lambda x: x is None) == []


def test_a_function_without_source_has_none():
    assert lines_of(len) == []
