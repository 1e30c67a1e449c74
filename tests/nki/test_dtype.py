"""`nki.dtype`: the dtypes of `nki.language` under their second address."""

import nki.dtype
import nki.language as nl
import pytest
from nki.language import dtypes

NAMES = [
    "bfloat16",
    "float16",
    "float32",
    "float8_e4m3",
    "float8_e5m2",
    "int8",
    "int16",
    "int32",
    "uint8",
    "uint16",
    "uint32",
    "float8_e4m3fn_x4",
    "float4_e2m1fn_x4",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_dtype_is_the_same_object_at_each_address(name):
    assert getattr(nki.dtype, name) is getattr(nl, name) is getattr(dtypes, name)
    assert isinstance(getattr(nki.dtype, name), nki.dtype.Dtype)


def test_every_dtype_that_has_a_name_is_there():
    assert set(NAMES) <= set(nki.dtype.BY_NAME)
    assert all(getattr(nki.dtype, name) is kind for name, kind in nki.dtype.BY_NAME.items())
