"""A kernel's call as a recording has it: equal where the chip's program would be."""

import gc
from functools import partial
from weakref import ref

import nki
import numpy as np
import pytest
import torch

from trnsim.torch.dispatch.nki_calls import call_of_kernel
from trnsim.xla.cuts.kernel_parts import kernel_arguments, kernel_text
from trnsim.xla.cuts.values import Operand


def kernel_over(value, default=1):
    """A kernel that closes over a value."""

    @nki.jit
    def kernel(x, y=None, *, scale=default):
        return x, y, scale, value

    return kernel


def arguments(kernel, *args, **kwargs):
    call, _ = call_of_kernel(kernel, args, kwargs)
    return kernel_arguments(call)


def test_arguments_have_names_operands_and_constants_as_text():
    x = torch.ones(2)
    _, keywords = arguments(kernel_over(1), x, [x, 3, (x, torch.float32)])
    inner = (Operand(1), "3", (Operand(2), "torch.float32"))
    assert dict(keywords) == {"x": Operand(0), "y": inner, "scale": "1"}
    _, keywords = arguments(kernel_over(1), y={"a": x, "b": len}, x=2.0)
    inner = (("a", Operand(0)), ("b", "builtins.len"))
    assert dict(keywords) == {"y": inner, "x": "2.0", "scale": "1"}


def test_equal_arguments_are_those_that_a_kernel_cannot_tell_apart():
    kernel, x = kernel_over(1), torch.ones(2)
    assert arguments(kernel, x) == arguments(kernel, x, None, scale=1)
    ways = [arguments(kernel, x, scale=scale) for scale in (1, 1.0, True, "1", -0.0, 0.0, None)]
    assert len({*ways}) == 7
    assert arguments(kernel, x, x) != arguments(kernel, x, (x,))
    assert arguments(kernel, x)[0] != arguments(kernel[2], x)[0]  # two cores


@pytest.mark.parametrize(
    "value", [3, 3.0, "a", (1, "b"), {"a": 2}, None, float, len, kernel_over, partial(max, 1)]
)
def test_a_kernel_that_is_decorated_anew_is_the_same(value):
    assert kernel_text(kernel_over(value)) == kernel_text(kernel_over(value))
    assert kernel_text(kernel_over(value)) != kernel_text(kernel_over(12345))


def test_kernels_of_one_line_that_differ_are_others():
    values = [3, 3.0, True, 1, [3], [3], "3", (3,), (3.0,), kernel_over(1), kernel_over(2)]
    texts = [kernel_text(kernel_over(value)) for value in values]
    assert len({*texts}) == len(values)
    assert kernel_text(kernel_over(3, default=2)) != kernel_text(kernel_over(3))
    assert texts[0].startswith("kernel at ")
    options = [nki.jit(kernel_over, **each) for each in ({}, {"platform_target": "trn2"})]
    assert len({*map(kernel_text, options)}) == 2


def test_arrays_of_kernels_that_are_gone_are_not_kept():
    array = np.ones(4)
    gone = ref(array)
    first = kernel_text(kernel_over(array))
    assert kernel_text(kernel_over(array)) == first
    del array
    gc.collect()
    assert gone() is None
    assert kernel_text(kernel_over(np.ones(4))) != first


def test_a_function_that_calls_itself_or_is_still_to_be_set_ends():
    def again():
        return again()

    assert kernel_text(kernel_over(again)) == kernel_text(kernel_over(again))
    unset = kernel_over(lambda: later)
    assert kernel_text(unset)
    later = 1
    assert later
    assert kernel_text(nki.jit(partial(kernel_over, 1))).startswith("kernel_over")
