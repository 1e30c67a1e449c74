"""Tensors in parts, written and read along a dimension."""

import numpy as np
import pytest

from trnsim.graph import TensorType
from trnsim.jax.stablehlo.stack import Part, Stack

TYPE = TensorType((6, 2), "float32")


def whole(stack):
    """The numbers of a stack of numbers."""
    parts = [one.entry[one.start : one.start + one.length] for one in stack.parts]
    return np.concatenate(parts)


@pytest.mark.parametrize(("start", "length"), [(0, 6), (0, 1), (2, 3), (5, 1), (1, 5)])
def test_a_part_is_replaced_and_read(start, length):
    numbers = np.arange(12.0).reshape(6, 2)
    new = -np.ones((length, 2))
    stack = Stack.of(numbers, TYPE, 0).replace_slice(new, start, length)
    wanted = numbers.copy()
    wanted[start : start + length] = new
    np.testing.assert_array_equal(whole(stack), wanted)
    again = stack.replace_slice(new * 2, 1, 1) if length == 1 else stack
    found = again.slice_stack(start, (length, 2))
    assert found.type == TensorType((length, 2), "float32")
    np.testing.assert_array_equal(whole(found), whole(again)[start : start + length])


def test_what_was_written_is_read_as_it_is():
    new = np.ones((2, 2))
    stack = Stack.of(np.zeros((6, 2)), TYPE, 0).replace_slice(new, 3, 2)
    (part,) = stack.slice_stack(3, (2, 2)).parts
    assert part == Part(new, 0, 2)
    assert part.entry is new


def test_a_stack_along_another_dimension_is_none():
    stack = Stack.of(np.zeros((6, 2)), TYPE, 0)
    assert Stack.of(stack, TYPE, 0) is stack
    assert Stack.of(stack, TYPE, 1) is None
