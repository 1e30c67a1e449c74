"""The number formats: names, sizes, equality, and what is not one."""

import copy
import pickle
from dataclasses import asdict, astuple, dataclass, is_dataclass, replace

import ml_dtypes
import numpy as np
import pytest

from trnsim.arch import NEURONCORE_V3, has_dtype
from trnsim.dtypes import (
    ALL,
    BFLOAT16,
    BOOL,
    BY_NAME,
    FLOAT4_E2M1FN,
    FLOAT8_E3M4,
    FLOAT8_E4M3,
    FLOAT8_E4M3FN,
    FLOAT8_E4M3FN_X4,
    FLOAT8_E5M2,
    FLOAT16,
    FLOAT32,
    INT32,
    TFLOAT32,
    Dtype,
    as_dtype,
)
from trnsim.errors import IllegalInstruction

# nki.api.shared.rst, Supported Data Types: (sign, exponent, mantissa) bits.
DOCUMENTED_MANTISSA = {
    FLOAT32: 23,
    TFLOAT32: 10,
    BFLOAT16: 7,
    FLOAT16: 10,
    FLOAT8_E4M3: 3,
    FLOAT8_E4M3FN: 3,
    FLOAT8_E5M2: 2,
}


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_a_dtype_prints_as_its_bare_name_and_is_found_by_it(dtype):
    assert str(dtype) == dtype.__name__ == dtype.name
    assert repr(dtype) == f"nl.{dtype.name}"
    assert BY_NAME[dtype.name] is as_dtype(dtype.name) is as_dtype(dtype) is dtype


@pytest.mark.parametrize("dtype", [d for d in ALL if d is not TFLOAT32], ids=str)
def test_a_dtype_equals_the_numpy_dtype_that_stores_it(dtype):
    assert dtype == dtype.dtype
    assert dtype == dtype.dtype.type
    assert as_dtype(dtype.dtype) is as_dtype(dtype.dtype.type) is dtype
    assert {dtype: 1}[dtype] == 1
    assert hash(dtype) == hash(dtype.dtype)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_numpy_takes_a_dtype_where_it_takes_its_own(dtype):
    assert np.zeros(3, dtype).dtype == dtype.dtype
    assert np.zeros(3, dtype).itemsize == dtype.itemsize


def test_dtypes_differ_from_each_other_and_from_other_things():
    assert len(set(ALL)) == len(ALL)
    assert sum(a == b for a in ALL for b in ALL) == len(ALL)
    for other in (None, 3, "float32", np.dtype("float64"), np.complex64):
        assert other != FLOAT32


def test_tfloat32_is_stored_as_float32_and_is_not_float32():
    assert TFLOAT32.dtype == np.float32
    assert TFLOAT32 != FLOAT32
    assert as_dtype(np.float32) is FLOAT32


@pytest.mark.parametrize(("dtype", "bits"), DOCUMENTED_MANTISSA.items(), ids=str)
def test_mantissas_are_as_wide_as_documented(dtype, bits):
    assert dtype.mantissa_bits == bits
    if dtype is not TFLOAT32:
        assert ml_dtypes.finfo(dtype.dtype).nmant == bits


def test_only_floats_are_floats():
    assert {d for d in ALL if d.is_float} == set(DOCUMENTED_MANTISSA)
    assert BOOL.family == "bool"
    assert INT32.family == "signed"


def test_the_ocp_format_comes_with_v4():
    assert {d for d in ALL if not has_dtype(d.name)(NEURONCORE_V3)} == {FLOAT8_E4M3FN}


def test_the_two_e4m3_formats_have_their_own_largest_values():
    assert float(ml_dtypes.finfo(FLOAT8_E4M3.dtype).max) == 240
    assert float(ml_dtypes.finfo(FLOAT8_E4M3FN.dtype).max) == 448


@pytest.mark.parametrize(
    ("given", "expected"),
    [("bool", BOOL), (np.bool_, BOOL), (bool, BOOL), (ml_dtypes.bfloat16, BFLOAT16)],
)
def test_other_spellings_are_understood(given, expected):
    if given is bool:
        with pytest.raises(IllegalInstruction, match="class 'bool'"):
            as_dtype(given)
    else:
        assert as_dtype(given) is expected


def test_a_torch_dtype_is_found_by_its_name():
    class Named:
        def __str__(self):
            return "torch.bfloat16"

    assert as_dtype(Named()) is BFLOAT16


@pytest.mark.parametrize("given", [np.float64, np.dtype("uint64"), "complex64", None, ">f4"])
def test_a_format_that_the_core_has_not_is_refused_with_the_legal_ones(given):
    with pytest.raises(
        IllegalInstruction, match=r"is not one that a NeuronCore has; legal: .*bf"
    ) as c:
        as_dtype(given)
    assert all(name in str(c.value) for name in BY_NAME)
    assert "astype('float32')" in c.value.fix


def test_a_dtype_cannot_be_changed():
    with pytest.raises(AttributeError):
        FLOAT32.name = "other"
    assert isinstance(FLOAT32, Dtype)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(INT32, True), (BOOL, True), (FLOAT32, False), (FLOAT8_E4M3FN_X4, False)],
)
def test_integers_are_neither_floats_nor_packed(dtype, expected):
    assert dtype.is_integer is expected


EVERY = sorted(
    {id(d): d for d in (*BY_NAME.values(), FLOAT8_E3M4, FLOAT4_E2M1FN)}.values(), key=str
)


@pytest.mark.parametrize("dtype", EVERY, ids=str)
def test_a_copy_of_a_dtype_is_the_dtype(dtype):
    assert copy.copy(dtype) is copy.deepcopy(dtype) is dtype
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(dtype, protocol)) is dtype  # noqa: S301  our own


def test_a_dtype_in_a_dataclass_stays_a_dtype():
    @dataclass
    class Config:
        dtype: Dtype
        others: tuple

    config = Config(BFLOAT16, (FLOAT32, {"scale": FLOAT8_E4M3FN_X4}))
    assert not is_dataclass(BFLOAT16)
    found = asdict(config)
    assert found["dtype"] is astuple(config)[0] is BFLOAT16
    assert found["others"][0] is FLOAT32
    assert found["others"][1]["scale"] is FLOAT8_E4M3FN_X4
    assert asdict(replace(config, dtype=INT32))["dtype"] is INT32


def test_a_dtype_converts_no_values():
    with pytest.raises(
        TypeError, match=r"^nl\.float32\(3\.0\): a number format converts no"
    ) as caught:
        FLOAT32(3.0)
    assert isinstance(caught.value, IllegalInstruction)
    assert "nl.copy(tile, dtype=nl.float32)" in caught.value.fix


def test_a_dtype_is_a_constant():
    with pytest.raises(AttributeError, match=r"nl.float32 is a constant: name cannot become 'x'"):
        FLOAT32.name = "x"
    with pytest.raises(AttributeError, match="constant"):
        FLOAT32.anything = 1
