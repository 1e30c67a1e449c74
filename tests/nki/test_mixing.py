"""Tests of kernels of NKI 0.2 beside kernels of later versions."""

import importlib.util
import sys

import numpy as np
import pytest

import trnsim
from trnsim.behaviours.chosen import pinned
from trnsim.errors import BadInput
from trnsim.nki.mixing import one_program, refuse_in_graph

HEAD = "import nki\nimport nki.language as nl\nimport nki.isa as nisa\n"
KERNEL = """
{marker}
@nki.jit
def {name}(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer={buffer})
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, a)
    {line}
    nisa.dma_copy(out, tile)
    return out
"""
ARRAY = np.zeros((2, 3), np.float32)


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """A function that makes a kernel in a file of its own."""

    def make(name, marker="", buffer="nl.shared_hbm", line="pass", head=HEAD):
        path = tmp_path / f"{name}_of_mixing.py"
        text = KERNEL.format(name=name, marker=marker, buffer=buffer, line=line)
        path.write_text(head + text)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, path.stem, module)
        monkeypatch.syspath_prepend(tmp_path)
        spec.loader.exec_module(module)
        return getattr(module, name)

    return make


def old(kernel):
    return kernel("old", buffer='"shared_hbm"')


def run_both(first, second):
    with one_program():
        for each in (first, second, first):
            each(ARRAY)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_kernel_of_0_2_and_one_that_needs_a_later_version_are_no_program(kernel, is_first):
    pair = [old(kernel), kernel("new", line="nl.load(a)")]
    with pytest.raises(BadInput) as caught:
        run_both(*(pair if is_first else pair[::-1]))
    reason = caught.value.reason
    assert "the kernel old at " in reason
    assert "old_of_mixing.py:6 is of NKI 0.2 (buffer=" in reason
    assert "new at " in reason
    assert "new_of_mixing.py:6 of NKI 0.7 (the latest)" in reason
    assert "pin them all to 0.2" in caught.value.fix
    assert caught.value.line.file.endswith("new_of_mixing.py")


def test_a_marked_kernel_needs_its_version(kernel):
    with pytest.raises(BadInput, match=r"of NKI 0\.4 \(`# nki: 0\.4`"):
        run_both(old(kernel), kernel("new", marker="# nki: 0.4"))


def test_a_kernel_that_0_2_has_goes_with_one_of_0_2(kernel):
    run_both(old(kernel), kernel("either"))


def test_kernels_of_later_versions_go_together(kernel):
    run_both(kernel("new", marker="# nki: 0.3"), kernel("newer", marker="# nki: 0.7"))


def test_a_pin_makes_all_kernels_of_one_version(kernel):
    with pinned("0.2", "--nki"):
        run_both(old(kernel), kernel("new", marker="# nki: 0.4"))


def test_runs_from_python_are_no_program(kernel):
    for each in (old(kernel), kernel("new", line="nl.load(a)")):
        trnsim.run(each, ARRAY)


def test_a_kernel_of_0_2_calls_no_later_one(kernel):
    kernel("inner", marker="# nki: 0.4")
    head = f"{HEAD}from inner_of_mixing import inner\n"
    outer = kernel("outer", buffer='"shared_hbm"', line="inner(a)", head=head)
    with pytest.raises(BadInput, match=r"the kernel outer at .* and inner at .* of NKI 0\.4"):
        trnsim.run(outer, ARRAY)


class Call:
    def __init__(self, kernel):
        self.kernel = kernel


def test_one_graph_has_kernels_of_one_side(kernel):
    from trnsim.graph import Graph  # noqa: PLC0415
    from trnsim.graph.ops.calls import CustomCall  # noqa: PLC0415

    graph = Graph()
    value = graph.input((2, 3), "float32")
    first, second = old(kernel), kernel("new", line="nl.load(a)")
    refuse_in_graph(first, graph)
    graph.apply_to_all(CustomCall(Call(first), (value.type,)), [value])
    refuse_in_graph(first, graph)
    with pytest.raises(BadInput, match=r"the kernel old at .* and new at "):
        refuse_in_graph(second, graph)
