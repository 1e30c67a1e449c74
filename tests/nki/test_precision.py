"""NKI_PRECISE_FP=0: low-precision floats are stored as float32 under their own names."""

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

import trnsim
from trnsim.dtypes import BY_NAME
from trnsim.errors import IllegalInstruction, NotModelled
from trnsim.nki import isa as nisa
from trnsim.nki import jit, precision, simulate
from trnsim.nki import language as nl

NARROW = ["bfloat16", "float16", "float8_e4m3", "float8_e5m2", "float8_e4m3fn"]


@pytest.fixture
def _imprecise(monkeypatch):
    monkeypatch.setenv("NKI_PRECISE_FP", "0")


@pytest.mark.parametrize("name", NARROW)
def test_a_widened_dtype_is_the_narrow_one_to_a_kernel(name):
    with precision.widening_context(True):
        wide = precision.stored_dtype(name)
    assert wide == BY_NAME[name]
    assert {BY_NAME[name]: 1}[wide] == 1
    assert (str(wide), wide.itemsize) == (name, 4)
    assert precision.stored_dtype(name) is BY_NAME[name]


@pytest.mark.parametrize("name", sorted(set(BY_NAME) - set(NARROW)))
def test_other_dtypes_stay_as_they_are(name):
    with precision.widening_context(True):
        assert precision.stored_dtype(name) is BY_NAME[name]


@jit
def tenths(x):
    """A tenth of x in bfloat16, which rounds it."""
    assert x.dtype == nl.bfloat16
    tenth = nl.multiply(nl.load(x), 0.1)
    out = nl.ndarray(x.shape, nl.bfloat16, buffer=nl.shared_hbm)
    nl.store(out, tenth)
    return out


@pytest.mark.usefixtures("_imprecise")
def test_results_are_free_of_low_precision_rounding(monkeypatch):
    x = np.arange(1, 33, dtype=np.float32).reshape(4, 8).astype(ml_dtypes.bfloat16)
    found = simulate(tenths)(x)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, x.astype(np.float32) * np.float32(0.1))
    monkeypatch.setenv("NKI_PRECISE_FP", "1")
    rounded = simulate(tenths)(x)
    assert rounded.dtype == ml_dtypes.bfloat16
    assert (rounded.astype(np.float32) != found).any()


@pytest.mark.usefixtures("_imprecise")
def test_trnsims_own_run_knows_no_environment():
    x = np.ones((4, 8), ml_dtypes.bfloat16)
    assert trnsim.run(tenths, x).outputs.dtype == ml_dtypes.bfloat16


@pytest.mark.usefixtures("_imprecise")
def test_inputs_that_are_written_are_written_in_their_own_dtype():
    @jit
    def cleared(x):
        nl.store(x, nl.zeros(x.shape, x.dtype))
        return x

    x = np.ones((4, 8), ml_dtypes.bfloat16)
    simulate(cleared)(x)
    assert x.dtype == ml_dtypes.bfloat16
    assert not x.any()


@pytest.mark.usefixtures("_imprecise")
@pytest.mark.parametrize(
    "look",
    [
        lambda t: t.view(nl.uint16),
        lambda t: t.ap([[8, 4], [1, 8]], dtype=nl.int16),
        lambda t: nl.zeros(t.shape, nl.int16).view(nl.bfloat16),
    ],
)
def test_bytes_that_are_not_there_cannot_be_looked_at(look):
    @jit
    def kernel(x):
        return look(nl.load(x))

    with pytest.raises(NotModelled, match="under NKI_PRECISE_FP=0") as caught:
        simulate(kernel)(np.ones((4, 8), ml_dtypes.bfloat16))
    assert "NKI_PRECISE_FP=1" in caught.value.fix


@pytest.mark.usefixtures("_imprecise")
def test_a_view_as_the_same_dtype_is_no_look_at_bytes():
    @jit
    def kernel(x):
        assert x.view(nl.bfloat16).shape == x.shape
        return x

    simulate(kernel)(np.ones((4, 8), ml_dtypes.bfloat16))


@pytest.mark.parametrize("name", NARROW)
def test_a_copy_of_a_widened_dtype_is_the_dtype(name):
    with precision.widening_context(True):
        wide = precision.stored_dtype(name)
    assert copy.copy(wide) is copy.deepcopy(wide) is wide
    assert pickle.loads(pickle.dumps(wide)) is wide  # noqa: S301  our own


@pytest.mark.usefixtures("_imprecise")
@pytest.mark.parametrize("dge_mode", [nisa.dge_mode.unknown, nisa.dge_mode.hwdge])
def test_rules_on_the_bytes_of_an_element_are_those_of_the_chip(dge_mode):
    @jit
    def transposed(x):
        out = nl.ndarray((x.shape[1], x.shape[0]), x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(out.shape, x.dtype)
        nisa.dma_transpose(tile, x, dge_mode=dge_mode)
        nisa.dma_copy(out, tile)
        return out

    x = np.arange(16 * 32, dtype=np.float32).reshape(16, 32) % 7
    found = simulate(transposed)(x.astype(ml_dtypes.bfloat16))
    np.testing.assert_array_equal(found, x.T)
    with pytest.raises(IllegalInstruction, match="legal: dtypes of 2"):
        simulate(transposed)(x.astype(ml_dtypes.float8_e5m2))
