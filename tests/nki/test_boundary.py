"""Arrays of every kind on the way in and out. numpy's: tests/nki/test_kernel.py."""

import copy
import sys
import types
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest

import trnsim
from trnsim.nki import jit
from trnsim.nki import language as nl


@jit
def doubled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), 2.0))
    return out


@jit
def cleared(x):
    nl.store(x, nl.zeros(x.shape, x.dtype))
    return x


class JaxArray:
    """What our boundary asks of a jax array: to come from jax, and to become numpy's."""

    def __init__(self, values):
        self.values = np.asarray(values)
        self.values.flags.writeable = False

    def __array__(self, dtype=None, copy=None):
        del copy
        return self.values if dtype is None else self.values.astype(dtype)


JaxArray.__module__ = "jaxlib._jax"


@pytest.fixture
def _jax(monkeypatch):
    """A jax of two names, as jax itself need not be installed."""
    numpy = types.ModuleType("jax.numpy")
    numpy.asarray = lambda values: JaxArray(np.array(values))
    jax = types.ModuleType("jax")
    jax.numpy = numpy
    monkeypatch.setitem(sys.modules, "jax", jax)
    monkeypatch.setitem(sys.modules, "jax.numpy", numpy)


@pytest.mark.usefixtures("_jax")
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_jax_arrays_give_jax_arrays_and_do_not_change(random, dtype):
    x = random((4, 8), dtype)
    given = JaxArray(x.copy())
    found = trnsim.run(doubled, given).outputs
    assert isinstance(found, JaxArray)
    np.testing.assert_array_equal(found.values, 2 * x)
    assert not trnsim.run(cleared, given).outputs.values.any()
    np.testing.assert_array_equal(given.values, x)


def test_jaxs_scalar_types_are_dtypes():
    class ScalarMeta(type):
        dtype = np.dtype(ml_dtypes.bfloat16)

    ScalarMeta.__name__ = "_ScalarMeta"
    bfloat16 = ScalarMeta("bfloat16", (), {})

    @jit
    def kernel(dtype):
        return dtype

    assert trnsim.run(kernel, bfloat16).outputs == nl.bfloat16


def test_torch_tensors_are_written_in_place(random):
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.from_numpy(random((4, 8))).to(dtype)
        found = trnsim.run(cleared, x).outputs
        assert not x.any()
        assert found.dtype == dtype


class Elsewhere:
    """A torch tensor on a device of its own, of which the boundary sees a copy."""

    def __init__(self, tensor):
        self.tensor = tensor
        self.device = None

    def detach(self):
        return self

    def cpu(self):
        return self.tensor.clone()

    def copy_(self, other):
        self.tensor.copy_(other)


Elsewhere.__module__ = "torch"


def test_tensors_on_a_device_are_copied_back_to_it(random):
    torch = pytest.importorskip("torch")
    x = Elsewhere(torch.from_numpy(random((4, 8))))
    x.device = torch.device("cpu", 0)  # prints as cpu:0, and takes `tensor.to`
    trnsim.run(cleared, x)
    assert not x.tensor.any()


@dataclass
class Settings(nl.NKIObject):
    weights: object
    factor: int = 3


def test_arrays_in_an_objects_attributes_enter_in_a_copy_of_it(random):
    @jit
    def kernel(settings):
        assert settings.factor == 3
        return doubled(settings.weights)

    given = Settings(random((4, 8)))
    before = copy.copy(given)
    np.testing.assert_array_equal(trnsim.run(kernel, given).outputs, 2 * given.weights)
    assert given.weights is before.weights


def test_an_object_without_arrays_enters_as_it_is():
    @jit
    def kernel(settings):
        return settings

    given = Settings(None)
    assert trnsim.run(kernel, given).outputs is given
