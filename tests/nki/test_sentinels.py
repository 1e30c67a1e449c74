"""What `nki.simulate` gives for memory that nothing has written; `trnsim.run` refuses it."""

import warnings

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import trnsim
from trnsim.errors import UninitializedRead
from trnsim.nki.notices import SimulatorOnlyWarning

ONES = np.ones((128, 64), np.float32)


def returned(tile):
    out = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def product(a):
    """A product whose moving tile is half written."""
    stationary = nl.load(a)
    moving = nl.ndarray((128, 64), a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=moving[:, 0:32], src=a[:, 0:32])
    total = nl.ndarray((64, 64), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=stationary, moving=moving)
    return returned(nl.copy(total))


@nki.jit
def sorted_rows(a):
    """An extreme over elements that nothing has written."""
    tile = nl.ndarray(a.shape, a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[:, 0:8], src=a[:, 0:8])
    return returned(nl.max(tile, axis=1))


@nki.jit
def of_hbm(a):
    """A copy of HBM that nothing has written."""
    kept = nl.ndarray(a.shape, a.dtype, buffer=nl.private_hbm)
    tile = nl.ndarray(a.shape, a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=kept)
    return returned(nl.sum(tile, axis=1))


@pytest.fixture(autouse=True)
def quiet():
    """Outputs that nothing has written are told of; here their values count."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimulatorOnlyWarning)
        yield


@pytest.mark.parametrize("simulate", [nki.simulate, nki.simulator.simulate_kernel])
def test_a_product_with_unwritten_elements_is_nan_where_they_reach(simulate):
    run = simulate(product) if simulate is nki.simulate else lambda a: simulate(product, (a,))
    found = run(ONES)
    np.testing.assert_array_equal(found[:, :32], 128)
    assert np.isnan(found[:, 32:]).all()


@pytest.mark.parametrize("kernel", [sorted_rows, of_hbm])
def test_what_mixes_unwritten_elements_goes_on_with_nan(kernel):
    assert np.isnan(nki.simulate(kernel)(ONES)).all()


@pytest.mark.parametrize("kernel", [product, sorted_rows, of_hbm])
def test_a_run_refuses_it(kernel):
    with pytest.raises(UninitializedRead):
        trnsim.run(kernel, ONES)


@nki.jit
def counted(a):
    """Unwritten integers plus one."""
    tile = nl.ndarray(a.shape, a.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    return returned(tile)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
def test_integers_are_computed_from_four(dtype):
    np.testing.assert_array_equal(nki.simulate(counted)(np.ones((4, 3), dtype)), 5)


@nki.jit
def untouched(a):
    """An output of which nothing is written."""
    return nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)


FLOATS = [np.float16, np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2]


@pytest.mark.parametrize("dtype", FLOATS)
def test_outputs_of_numbers_are_nan(dtype):
    found = nki.simulate(untouched)(np.ones((4, 3), dtype))
    assert np.isnan(found.astype(np.float32)).all()


def test_outputs_of_integers_are_four():
    np.testing.assert_array_equal(nki.simulate(untouched)(np.ones((4, 3), np.int32)), 4)


@nki.jit
def placed(a):
    """Two tensors at one address: the second is not the sentinels of its own."""
    first = nl.ndarray((4, 8), nl.float32, buffer=nl.sbuf, address=(0, 0))
    nisa.dma_copy(dst=first, src=a)
    nl.ndarray((4, 8), nl.float32, buffer=nl.sbuf, address=(0, 4096))
    return returned(first)


def test_a_tensor_at_an_address_overwrites_no_other():
    a = np.arange(32, dtype=np.float32).reshape(4, 8)
    np.testing.assert_array_equal(nki.simulate(placed)(a), a)
