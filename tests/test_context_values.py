"""Context variables with a value for the length of a block."""

from contextvars import ContextVar

import pytest

from trnsim.context_values import context_value

VARIABLE = ContextVar("variable", default=0)


def test_a_variable_has_the_value_in_the_block_and_its_earlier_value_afterwards():
    with context_value(VARIABLE, 1):
        with context_value(VARIABLE, 2):
            assert VARIABLE.get() == 2
        assert VARIABLE.get() == 1
    assert VARIABLE.get() == 0


def test_an_error_ends_the_block_too():
    with pytest.raises(KeyError), context_value(VARIABLE, 1):
        raise KeyError
    assert VARIABLE.get() == 0
