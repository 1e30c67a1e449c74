"""A kernel's call as a recording has it: equal where the chip's program would be."""

import gc
import importlib
import sys
import types
from functools import partial
from weakref import ref

import nki
import numpy as np
import pytest
import torch

from trnsim.torch.dispatch.nki_calls import call_of_kernel
from trnsim.xla.cuts import kernel_parts
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
    loop = []
    loop.append(loop)
    values = [3, 3.0, True, 1, [3], [4], "3", (3,), (3.0,), kernel_over(1), kernel_over(2), loop]
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


MODULE = """
import math, settings
import nki
TILE = 128
class Shape:
    rows = 4
shape = Shape()
settings.shape = shape
def helper(x):
    return x, SCALE, shape.rows
SCALE = 1.0
@nki.jit
def kernel(x):
    def inner(y):
        return y, TILE, Shape.rows, settings.depth
    return inner(helper(x)), math.pi, kernel
"""


def imported(folder):
    """The user's module with a kernel, which reads another one."""
    (folder / "settings.py").write_text("depth = 2\nunread = 1\n")
    (folder / "kernels.py").write_text(MODULE)
    sys.path.insert(0, str(folder))
    return importlib.import_module("kernels")


def test_a_kernel_whose_globals_were_set_anew_is_another(tmp_path):
    module = imported(tmp_path)
    changes = [
        (module, "TILE", 64),
        (module, "TILE", 128.0),
        (module, "SCALE", 2.0),
        (module, "helper", len),
        (module.Shape, "rows", 5),
        (module.settings, "depth", 3),
    ]
    before = kernel_text(module.kernel)
    for holder, name, value in changes:
        old = getattr(holder, name)
        setattr(holder, name, value)
        assert kernel_text(module.kernel) != before, name
        setattr(holder, name, old)
        assert kernel_text(module.kernel) == before, name
    module.shape.rows = 5
    assert kernel_text(module.kernel) != before


def test_a_list_counts_with_its_present_elements():
    sizes = [1, [2]]
    before = kernel_text(kernel_over(sizes))
    assert kernel_text(kernel_over([1, [2]])) == before
    sizes[1][0] = 3
    assert kernel_text(kernel_over(sizes)) != before


def test_a_kernel_may_read_a_module_that_has_no_file(tmp_path):
    module = imported(tmp_path)
    module.helper = importlib.import_module("itertools")
    module.settings = types.ModuleType("settings")
    assert kernel_text(module.kernel).startswith("kernel at ")


def test_globals_that_a_kernel_does_not_read_are_no_part_of_it(tmp_path):
    module = imported(tmp_path)
    before = kernel_text(module.kernel)
    module.settings.unread = 2
    module.other = 3
    module.pi = 4  # the kernel reads an attribute of this name
    assert kernel_text(module.kernel) == before


def test_many_functions_that_call_each_other_are_read_once(tmp_path, monkeypatch):
    names = [f"f{number}" for number in range(60)]
    calls = ", ".join(f"{name}()" for name in names)
    text = "".join(f"def {name}():\n    return {calls}\n" for name in names)
    (tmp_path / "crowd.py").write_text(f"import nki\n{text}@nki.jit\ndef kernel():\n    f0()\n")
    sys.path.insert(0, str(tmp_path))
    kernel = importlib.import_module("crowd").kernel
    read, before = [], kernel_parts._globals_read
    monkeypatch.setattr(
        kernel_parts, "_globals_read", lambda function: read.append(function) or before(function)
    )
    assert kernel_text(kernel) == kernel_text(kernel)
    assert len(read) == 2 * (len(names) + 1)
