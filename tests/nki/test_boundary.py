"""Arrays of every kind on the way in and out. numpy's: tests/nki/test_kernel.py."""

import copy
import sys
import types
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest

import trnsim
from trnsim.errors import BadInput, IllegalInstruction
from trnsim.nki import isa as nisa
from trnsim.nki import jit, simulate
from trnsim.nki import language as nl
from trnsim.nki.notices import SimulatorOnlyWarning


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


@jit
def first_row_added(changed, read):
    """``changed[0] += 1``; `read` is loaded alone."""
    nl.store(changed[0:1], nl.add(nl.load(changed[0:1]), 1.0))
    out = nl.ndarray(read.shape, dtype=read.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(read))
    return out


_CALLS = 4
"""Calls until the last is one of a kept program, which is executed without its kernel."""


def _views():
    return {
        "transposed": np.transpose,
        "reversed": lambda x: x[::-1],
        "every other column": lambda x: x[:, ::2],
        "itself": lambda x: x,
        "broadcast": lambda x: np.lib.stride_tricks.as_strided(x, (3, 4), (0, 4)),
        "read-only": lambda x: np.broadcast_to(x[:1], (4, 4)),
    }


@pytest.mark.parametrize("view", _views())
def test_what_the_kernel_only_reads_is_not_written_over_what_it_writes(view):
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    wanted = x.copy()
    for _ in range(_CALLS):
        read = _views()[view](x).copy()
        found = trnsim.run(first_row_added, x, _views()[view](x)).outputs
        wanted[0] += 1
        np.testing.assert_array_equal(x, wanted)
        if view != "itself":  # a copy, made before the kernel wrote
            np.testing.assert_array_equal(found, read)


@pytest.mark.parametrize("view", ["transposed", "reversed", "every other column"])
def test_of_a_copy_what_the_kernel_writes_goes_back_and_no_more(view):
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    wanted = x.copy()
    for _ in range(_CALLS):
        trnsim.run(first_row_added, _views()[view](x), x)
        _views()[view](wanted)[0] += 1
        np.testing.assert_array_equal(x, wanted)


def test_two_views_of_one_array_keep_what_was_written_through_each():
    @jit
    def kernel(rows, columns):
        nl.store(rows[0:1], nl.full((1, 4), 5.0, nl.float32))
        nl.store(columns[1:2, 2:4], nl.full((1, 2), 7.0, nl.float32))
        return columns

    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    wanted = x.copy()
    wanted[:, ::-1][0] = 5
    wanted.T[1, 2:4] = 7
    for _ in range(_CALLS):
        trnsim.run(kernel, x[:, ::-1], x.T)
        np.testing.assert_array_equal(x, wanted)


def test_a_written_value_goes_back_though_it_is_what_was_there():
    @jit
    def kernel(cleared, kept):
        tile = nl.load(kept)
        nl.store(cleared, nl.zeros(cleared.shape, cleared.dtype))
        nl.store(kept, tile)
        return kept

    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    x[1, 2] = np.nan
    wanted = x.copy()
    for _ in range(_CALLS):
        trnsim.run(kernel, x, x.T)
        np.testing.assert_array_equal(x, wanted)


def test_bytes_within_an_element_go_back_alone():
    @jit
    def kernel(changed, halves):
        nl.store(changed, nl.zeros(changed.shape, changed.dtype))
        upper = halves.view(nl.bfloat16)[:, 1:8:2]
        nl.store(upper, nl.full(upper.shape, 1.0, nl.bfloat16))
        return changed

    x = np.full((4, 4), 3.0000002, np.float32)
    trnsim.run(kernel, x, x.T)
    np.testing.assert_array_equal(x, np.float32(1))


def test_an_index_decides_which_rows_go_back():
    @jit
    def kernel(table, rows, values):
        indices = nl.load(rows)
        nisa.dma_copy(
            dst=table.ap(pattern=[[4, 2], [1, 4]], offset=0, vector_offset=indices),
            src=values,
        )
        return table

    x = np.zeros((4, 8), np.float32)
    values = np.ones((2, 4), np.float32)
    for rows in ([0, 2], [0, 2], [0, 2], [3, 1], [3, 3]):
        x[...] = 0
        trnsim.run(kernel, x[:, ::2], np.array(rows, np.int32)[:, None], values, target="trn2")
        assert x.any(axis=1).nonzero()[0].tolist() == sorted(set(rows))
        assert not x[:, 1::2].any()


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (3, 1, 2)])
def test_arrays_of_every_rank_go_back(shape):
    @jit
    def kernel(x):
        nl.store(x, nl.full(x.shape, 2.0, nl.float32))
        return x

    x = np.zeros((*shape, 2), np.float32)
    for _ in range(_CALLS):
        x[...] = 0
        trnsim.run(kernel, x[..., 0])
        assert (x[..., 0] == 2).all()
        assert not x[..., 1].any()


def test_a_wider_copy_goes_back_where_it_was_written(monkeypatch):
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    x = np.arange(16).reshape(4, 4).astype(ml_dtypes.bfloat16)
    wanted = x.copy()
    wanted[0] += 1
    monkeypatch.setenv("NKI_SIMULATOR", "1")
    first_row_added(x, x.T)
    np.testing.assert_array_equal(x, wanted)


def test_elements_that_are_the_same_bytes_cannot_be_written():
    x = np.zeros((1, 4), np.float32)
    given = np.lib.stride_tricks.as_strided(x, (3, 4), (0, 4))
    for _ in range(_CALLS):
        with pytest.raises(BadInput, match=r"argument `x`.*same bytes: shape \(3, 4\)") as error:
            trnsim.run(cleared, given)
        assert "pass the copy" in error.value.fix


def test_torch_views_of_one_tensor_keep_what_is_written():
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.arange(16).reshape(4, 4).to(dtype)
        wanted = x.clone()
        for given in (x.t(), x.unsqueeze(0).expand(2, 4, 4)[0].t(), x[:1].expand(4, 4)):
            for _ in range(_CALLS):
                trnsim.run(first_row_added, x, given)
                wanted[0] += 1
                assert torch.equal(x, wanted)


def test_tensors_on_a_device_get_back_what_is_written_alone():
    torch = pytest.importorskip("torch")
    x = torch.arange(16, dtype=torch.float32).reshape(4, 4)
    wanted = x.clone()
    changed, read = Elsewhere(x), Elsewhere(x.t())
    for tensor in (changed, read):
        tensor.device = torch.device("cpu", 0)
    for _ in range(_CALLS):
        trnsim.run(first_row_added, changed, read)
        wanted[0] += 1
        assert torch.equal(x, wanted)
    trnsim.run(first_row_added, read, changed)
    wanted[:, 0] += 1
    assert torch.equal(x, wanted)


FLOATS = ["float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2", "float8_e4m3fn"]
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32"]


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_awss_simulator_shows_what_nothing_wrote(dtype):
    @jit
    def kernel(x):
        out = nl.ndarray((2, *x.shape), x.dtype, buffer=nl.shared_hbm)
        nl.store(out[0, :, 2:7], nl.load(x[:, 2:7]))
        return out, x

    x = np.ones((4, 8), getattr(nl, dtype).dtype)
    with pytest.raises(IllegalInstruction, match="some elements were never written"):
        trnsim.run(kernel, x, target="trn3")
    for _ in range(4):  # a kernel that comes again shows it again
        with pytest.warns(SimulatorOnlyWarning, match="returned HBM .* never written") as caught:
            found, given = simulate(kernel)(x)
        assert len(caught) == 1
        written = np.zeros(found.shape, bool)
        written[0, :, 2:7] = True
        values = found.astype(np.float64)
        assert (values[written] == 1).all()
        assert (
            np.isnan(values[~written]).all() if dtype in FLOATS else (values[~written] == 4).all()
        )
        assert (given == 1).all()


@pytest.mark.parametrize("view", ["transposed", "reversed", "every other column", "itself"])
def test_one_array_as_two_arguments_is_one_tensor_however_it_lies(view):
    @jit
    def kernel(one, other):
        nl.store(one, nl.add(nl.load(one), 1.0))
        nl.store(other, nl.multiply(nl.load(other), 2.0))
        out = nl.ndarray(one.shape, dtype=one.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(one))
        return out

    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    for _ in range(_CALLS):
        given = _views()[view](x)
        wanted = (given + 1) * 2
        np.testing.assert_array_equal(trnsim.run(kernel, given, given).outputs, wanted)
        np.testing.assert_array_equal(given, wanted)
        x %= 7


@pytest.mark.parametrize("view", ["transposed", "itself"])
def test_what_was_written_before_an_error_goes_back(view):
    @jit
    def kernel(x):
        nl.store(x[0:1], nl.full((1, x.shape[1]), 5.0, x.dtype))
        raise ValueError("mine")

    x = np.zeros((4, 8), np.float32)
    given = _views()[view](x)
    with pytest.raises(ValueError, match="mine"):
        trnsim.run(kernel, given)
    assert (given[0] == 5).all()
    assert not given[1:].any()


@pytest.mark.parametrize(("dtype", "cast"), [("int64", "int32"), ("float64", "float32")])
def test_a_wide_array_is_told_what_to_be(dtype, cast):
    with pytest.raises(IllegalInstruction) as caught:
        trnsim.run(first_row_added, np.ones((4, 8), dtype), np.ones((4, 8), np.float32))
    assert f"astype({cast!r})" in caught.value.fix


@jit
def cast_to(x, dtype):
    out = nl.ndarray(x.shape, dtype=dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_copy(tile, nl.load(x))
    nisa.dma_copy(out, tile)
    return out


@jit
def quantized(x):
    data = nl.ndarray((x.shape[0], x.shape[1] // 4), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
    scale = nl.ndarray((x.shape[0], x.shape[1] // 4), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.quantize_mx(dst=data, src=nl.load(x), dst_scale=scale)
    out = nl.ndarray(data.shape, dtype=data.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, data)
    return out


@jit
def copied(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, x)
    return out


def test_a_result_in_a_dtype_that_torch_has_not_is_refused_with_its_bits_as_the_way_out():
    torch = pytest.importorskip("torch")
    x = torch.ones((32, 32))
    with pytest.raises(IllegalInstruction, match="float8_e4m3") as caught:
        trnsim.run(cast_to, x, nl.float8_e4m3, target="trn2")
    assert "view(nl.uint8)" in caught.value.fix
    with pytest.raises(IllegalInstruction, match="x4") as caught:
        trnsim.run(quantized, x.to(torch.bfloat16), target="trn3")
    assert "view(nl.uint32)" in caught.value.fix


def test_torchs_scales_of_the_mx_formats_go_in_and_come_back():
    torch = pytest.importorskip("torch")
    bits = torch.arange(64, dtype=torch.uint8).reshape(4, 16)
    found = trnsim.run(copied, bits.view(torch.float8_e8m0fnu), target="trn3").outputs
    assert found.dtype == torch.float8_e8m0fnu
    assert torch.equal(found.view(torch.uint8), bits)


@pytest.mark.parametrize(
    ("dtype", "cast"),
    [("int64", "int32"), ("float64", "float32"), ("float8_e4m3fnuz", "float32")],
)
def test_a_torch_tensor_of_a_dtype_that_is_not_the_chips_is_told_what_to_be(dtype, cast):
    torch = pytest.importorskip("torch")
    with pytest.raises(IllegalInstruction) as caught:
        trnsim.run(doubled, torch.ones((4, 8)).to(getattr(torch, dtype)))
    assert f".to(torch.{cast})" in caught.value.fix


@pytest.mark.parametrize("numerics", [True, False])
def test_a_result_beyond_its_storage_is_refused_at_its_allocation(numerics):
    @jit
    def shifted(x):
        out = nl.ndarray((8, 8), x.dtype, buffer=nl.shared_hbm)
        nl.store(out[0:4], nl.load(x))
        return out.ap([[8, 4], [1, 8]], offset=40)

    with pytest.raises(IllegalInstruction, match=r"returned .* beyond its storage of 256") as error:
        trnsim.run(shifted, np.ones((4, 8), np.float32), numerics=numerics)
    assert error.value.line.line == shifted.line.line + 2
    assert "keep the access pattern within the tensor" in str(error.value)


@pytest.mark.parametrize("shape", [(0,), (4, 0), (0, 4)])
def test_an_array_without_elements_enters_and_is_refused_where_it_is_used(shape):
    @jit
    def length(x):
        return len(x.shape)

    @jit
    def copied(x):
        nisa.dma_copy(dst=nl.ndarray((1, 1), nl.float32), src=x)

    array = np.ones(shape, np.float32)
    assert trnsim.run(length, array).outputs == len(shape)
    with pytest.raises(IllegalInstruction):
        trnsim.run(copied, array)
    with pytest.raises(IllegalInstruction, match="0 bytes"):
        trnsim.run(jit(lambda x: x), array)
