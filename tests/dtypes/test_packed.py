"""Packed formats and what they hold: names, sizes, order of elements, what they refuse."""

import ml_dtypes
import numpy as np
import pytest

from trnsim import arch
from trnsim.dtypes import (
    ALL,
    BFLOAT16,
    BY_NAME,
    CFP8,
    FLOAT4_E2M1FN,
    FLOAT4_E2M1FN_X4,
    FLOAT8_E3M4,
    FLOAT8_E4M3,
    FLOAT8_E4M3FN,
    FLOAT8_E4M3FN_X4,
    FLOAT8_E5M2,
    FLOAT8_E5M2_X4,
    FLOAT8_E8M0FNU,
    PACKED,
    as_dtype,
    pack_x4,
    round_to,
    to_float32,
    unpack_x4,
)
from trnsim.errors import BadInput, IllegalInstruction

NEW = (FLOAT8_E3M4, FLOAT8_E8M0FNU, FLOAT4_E2M1FN, *PACKED)


@pytest.fixture(params=PACKED, ids=str)
def packed(request):
    return request.param


def elements(packed, shape):
    """Random elements of what `packed` holds, every bit pattern that it has."""
    patterns = 16 if packed.element == FLOAT4_E2M1FN else 256
    raw = np.random.default_rng(5).integers(0, patterns, shape, dtype=np.uint8)
    return raw.view(packed.element.dtype)


@pytest.mark.parametrize("dtype", NEW, ids=str)
def test_a_format_prints_as_its_bare_name_and_is_found_by_it_and_by_its_storage(dtype):
    assert str(dtype) == dtype.__name__ == dtype.name
    assert as_dtype(dtype.name) is as_dtype(dtype.dtype) is as_dtype(dtype) is dtype
    assert dtype == dtype.dtype
    assert {dtype: 1}[dtype] == 1


@pytest.mark.parametrize("dtype", NEW, ids=str)
def test_numpy_takes_a_format_where_it_takes_its_own(dtype):
    zeros = np.zeros((2, 3), dtype)
    assert zeros.dtype == dtype
    assert zeros.itemsize == dtype.itemsize
    assert (zeros == zeros.copy()).all()
    assert np.empty(4, np.uint8).view(dtype).size == 4 // dtype.itemsize


def test_formats_differ_though_they_have_one_width():
    assert len({*ALL, *NEW}) == len(ALL) + len(NEW)
    assert sum(a == b for a in NEW for b in NEW) == len(NEW)
    assert np.zeros(1, FLOAT8_E5M2_X4).dtype != np.zeros(1, FLOAT8_E4M3FN_X4).dtype
    assert np.void != FLOAT8_E5M2_X4
    with pytest.raises(IllegalInstruction):
        as_dtype(np.void)


def test_packed_formats_are_as_wide_as_documented():
    # mxfp-matmul.rst, Data Tensor: "The float8_*_x4 types are 32-bits wide and physically contain
    # four float8 elements. The float4_*_x4 type is 16-bits wide and physically contains four
    # float4 elements."
    assert [d.itemsize for d in PACKED] == [4, 4, 2]
    assert [d.element for d in PACKED] == [FLOAT8_E5M2, FLOAT8_E4M3FN, FLOAT4_E2M1FN]
    assert all(d.is_packed and not d.is_float for d in PACKED)
    assert not any(d.is_packed for d in ALL)


def test_mx_formats_come_with_v4_and_the_third_cfp8_format_with_v2():
    mx = (FLOAT8_E8M0FNU, FLOAT4_E2M1FN, *PACKED)
    having = {d.name: [chip.name for chip in arch.having(arch.has_dtype(d.name))] for d in mx}
    assert set(map(tuple, having.values())) == {("trn3",)}
    assert {d.name for d in CFP8} <= arch.NEURONCORE_V2.features.dtypes


def test_only_nki_names_are_spelled_as_nki_names():
    assert [repr(d) for d in PACKED] == [f"nl.{d}" for d in PACKED]
    assert repr(FLOAT8_E8M0FNU) == "nl.float8_e8m0fnu"
    assert repr(FLOAT8_E3M4) == "float8_e3m4"
    assert repr(FLOAT4_E2M1FN) == "float4_e2m1fn"
    assert not {"float8_e3m4", "float4_e2m1fn"} & set(BY_NAME)


@pytest.mark.parametrize("shape", [(4,), (3, 8), (2, 3, 16), (5, 0)])
def test_unpacking_what_was_packed_gives_it_back(packed, shape):
    values = elements(packed, shape)
    stored = pack_x4(values)
    assert stored.dtype == packed
    assert stored.shape == (*shape[:-1], shape[-1] // 4)
    back = unpack_x4(stored, packed)
    assert back.dtype == packed.element
    np.testing.assert_array_equal(back.view(np.uint8), values.view(np.uint8))


def test_the_first_element_is_in_the_lowest_bits():
    fp8 = np.array([1, 2, 3, 4], np.uint8).view(ml_dtypes.float8_e5m2)
    assert int(pack_x4(fp8).view("<u4")[0]) == 0x04030201
    fp4 = np.array([1, 2, 3, 4], np.uint8).view(ml_dtypes.float4_e2m1fn)
    assert int(pack_x4(fp4).view("<u2")[0]) == 0x4321


@pytest.mark.parametrize("carrier", [np.uint8, np.uint16])
def test_frameworks_may_carry_packed_bytes_as_integers(packed, carrier):
    values = elements(packed, (2, 8))
    carried = pack_x4(values).view(carrier)
    back = unpack_x4(carried, packed)
    np.testing.assert_array_equal(back.view(np.uint8), values.view(np.uint8))


def test_a_strided_view_packs_like_its_copy(packed):
    values = elements(packed, (8, 6)).T
    stored = pack_x4(values)
    np.testing.assert_array_equal(
        stored.view(np.uint8), pack_x4(values.copy()).view(np.uint8), strict=True
    )
    flipped = stored[::-1]
    np.testing.assert_array_equal(
        unpack_x4(flipped, packed).view(np.uint8), values[::-1].view(np.uint8)
    )


def test_what_no_packed_format_holds_is_refused():
    for values in (np.zeros(4, np.float32), np.zeros(4, FLOAT8_E4M3)):
        with pytest.raises(BadInput, match=r"no packed format holds four .*float8_e4m3fn"):
            pack_x4(values)
    with pytest.raises(BadInput, match="bfloat16 is not packed; legal: float8_e5m2_x4"):
        unpack_x4(np.zeros(4, np.uint8), BFLOAT16)


def test_lengths_that_end_within_a_packed_element_are_refused():
    with pytest.raises(BadInput, match=r"has 6 elements.* legal: a multiple of 4"):
        pack_x4(np.zeros((2, 6), FLOAT8_E5M2))
    with pytest.raises(BadInput, match=r"has 3 bytes.* legal: a multiple of 2"):
        unpack_x4(np.zeros(3, np.uint8), FLOAT4_E2M1FN_X4)
    with pytest.raises(BadInput, match="has 1 elements"):
        pack_x4(np.zeros((), FLOAT8_E5M2))


def test_a_packed_format_has_no_arithmetic(packed):
    for attempt in (
        lambda: to_float32(np.zeros(2, packed)),
        lambda: round_to(np.ones(2, np.float32), packed),
        lambda: round_to(np.zeros(2, packed), BFLOAT16),
    ):
        with pytest.raises(IllegalInstruction, match=f"{packed} holds four {packed.element}"):
            attempt()


def test_a_packed_format_can_be_copied_and_filled_with_zero(packed):
    # "For x4 packed types ..., only value=0 is supported" (nki.isa.memset).
    stored = pack_x4(elements(packed, (2, 8)))
    assert round_to(stored, packed) is stored
    stored[...] = 0
    assert not stored.view(np.uint8).any()
    zero = round_to(np.zeros((2, 3), np.float64), packed)
    assert zero.dtype == packed
    assert zero.shape == (2, 3)
    assert not zero.view(np.uint8).any()
