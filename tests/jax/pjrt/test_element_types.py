import ml_dtypes
import numpy as np
import pytest

from trnsim.errors import NotModelled
from trnsim.jax.pjrt.element_types import dtype_of, hbm_bytes, type_of
from trnsim.jax.pjrt.structs import enumeration

TYPES = enumeration("Buffer_Type")
WITHOUT = {"INVALID", "TOKEN", "S1", "U1", "F6E2M3FN", "F6E3M2FN"}


@pytest.mark.parametrize("name", sorted(TYPES.keys() - WITHOUT))
def test_every_element_type_has_a_dtype_and_back(name):
    assert type_of(dtype_of(TYPES[name])) == TYPES[name]


@pytest.mark.parametrize("name", sorted(WITHOUT))
def test_a_type_without_a_dtype_is_refused_by_name(name):
    with pytest.raises(NotModelled, match=name):
        dtype_of(TYPES[name])


def test_a_token_has_no_dtype_and_no_bytes():
    assert type_of(None) == TYPES["TOKEN"]
    assert hbm_bytes((), None) == 0


def test_a_dtype_that_pjrt_lacks_is_refused():
    with pytest.raises(NotModelled, match="datetime64"):
        type_of(np.dtype("datetime64[s]"))


@pytest.mark.parametrize(
    ("shape", "dtype", "nbytes"),
    [
        ((), np.float32, 4),
        ((3, 5), ml_dtypes.bfloat16, 30),
        ((3,), ml_dtypes.int4, 2),
        ((5,), ml_dtypes.uint2, 2),
        ((0, 7), np.float64, 0),
        ((2,), np.complex64, 16),
    ],
)
def test_elements_of_fewer_than_eight_bits_are_packed_in_hbm(shape, dtype, nbytes):
    assert hbm_bytes(shape, np.dtype(dtype)) == nbytes
