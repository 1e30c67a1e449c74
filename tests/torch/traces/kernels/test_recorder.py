from unittest.mock import Mock

import numpy as np
import pytest
import torch

from trnsim.errors import NotModelled
from trnsim.isa import Memset
from trnsim.nki import isa as nisa
from trnsim.nki import jit
from trnsim.nki import language as nl
from trnsim.program import current_core
from trnsim.runs import OBSERVERS, collecting
from trnsim.torch.dispatch.nki_calls import call_of_kernel
from trnsim.torch.traces.kernels.recorder import record_kernel
from trnsim.torch.traces.kernels.stored_kernel import TensorPlace

X = torch.ones(4, 8)


@jit
def combined(a, parts, scale):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    total = nl.add(nl.load(parts["b"]), nl.load(parts["c"][0]))
    nl.store(out, nl.add(nl.multiply(total, scale), nl.load(a)))
    return out


def call(kernel, *args, **kwargs):
    return call_of_kernel(kernel, args, kwargs)[0]


def test_arguments_are_numbered_as_they_enter_the_kernel():
    tensors = torch.empty(4, 8), torch.empty(4, 8), torch.empty(4, 8)
    a, b, c = tensors
    kernel, order = record_kernel(call(combined, parts={"b": b, "c": (c,)}, a=a, scale=2.0), "trn2")
    assert order == [2, 0, 1]  # the call has a after its keyword `parts`
    assert [tensor.name for tensor in kernel.arguments] == ["a", "parts['b']", "parts['c'][0]"]


def test_a_kernel_is_recorded_without_being_told_to_the_user():
    with collecting() as runs:
        kernel, _ = record_kernel(call(combined, X, {"b": X, "c": (X,)}, 2.0), "trn2")
    assert runs == []
    assert kernel.version == "0.7"
    assert {line.file for line in kernel.lines} == {__file__}


def test_a_kernel_is_recorded_unobserved(monkeypatch):
    observer = Mock()
    monkeypatch.setattr(OBSERVERS, "present", [observer])
    record_kernel(call(combined, X, {"b": X, "c": (X,)}, 2.0), "trn2")
    assert observer.method_calls == []
    combined(X, {"b": X, "c": (X,)}, 2.0)
    assert observer.method_calls


def test_each_core_has_a_shared_tensor_once():
    @jit
    def copied(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        rows = slice(2 * nl.program_id(0), 2 * nl.program_id(0) + 2)
        nl.store(out[rows], nl.load(x[rows]))
        return out

    kernel, _ = record_kernel(call(copied[2], X), "trn2")
    assert len(kernel.cores) == 2
    for core in kernel.cores:
        places = [tensor.place for tensor in core.tensors]
        assert TensorPlace.hbm not in places
        assert places.count(TensorPlace.shared_hbm) == 1


def test_a_dtype_is_that_of_the_tensor():
    @jit
    def copied(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, x)
        return out

    for dtype, name in {torch.bfloat16: "bfloat16", torch.uint8: "uint8"}.items():
        kernel, _ = record_kernel(call(copied, X.to(dtype)), "trn2")
        assert kernel.arguments[0].dtype == name


@jit
def counted(x, count):
    """A loop whose turns depend on an integer in memory."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)

    def body(i):
        del i
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)

    nl.fori_loop(0, nisa.scalar_load(nl.load(count)), body)
    nl.store(out, tile)
    return out


def test_a_kernel_whose_python_reads_memory_is_refused_at_its_line():
    with pytest.raises(NotModelled, match="control flow depends on data") as refused:
        record_kernel(call(counted, X, torch.ones(1, 1, dtype=torch.int32)), "trn2")
    assert refused.value.line.file == __file__


@pytest.mark.parametrize("value", [np.float32(1), (1.0, np.float32(1))])
def test_an_operand_without_a_form_is_refused_at_its_line(value):
    @jit
    def filled(x):
        tile = nl.load(x)
        current_core().issue(Memset(tile, value))
        return x

    with pytest.raises(NotModelled, match=r"filled is not saved: .* issues memset") as refused:
        record_kernel(call(filled, X), "trn2")
    assert refused.value.line.file == __file__


class Pair(nl.NKIObject):
    def __init__(self, left, right):
        self.left, self.right = left, right


def test_an_object_that_holds_tensors_is_refused():
    @jit
    def added(pair, other):
        out = nl.ndarray(other.shape, other.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.add(nl.load(pair.left), nl.load(other)))
        return out

    with pytest.raises(NotModelled, match=r"added is not saved: .* an object that holds tensors"):
        record_kernel(call(added, Pair(X, X), X), "trn2")


def test_dtypes_that_are_stored_wider_are_refused(monkeypatch):
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    tensors = {"b": X.bfloat16(), "c": (X.bfloat16(),)}
    with pytest.raises(NotModelled, match=r"combined is not saved: .* NKI_PRECISE_FP=0"):
        record_kernel(call(combined, X.bfloat16(), tensors, 2.0), "trn2")


def test_the_version_that_a_user_chose_is_kept(monkeypatch):
    monkeypatch.setenv("TRNSIM_NKI", "0.5")
    kernel, _ = record_kernel(call(combined, X, {"b": X, "c": (X,)}, np.float32(2)), "trn2")
    assert kernel.version == "0.5"
