"""Dtypes that keep their name and differ in storage or casts, as on AWS's simulator.

With NKI_PRECISE_FP=0, low-precision dtypes are stored as float32 (`WideDtype`).

A kernel then computes without rounding to low precision. Its cost and its memory size are
as with float32 tensors; reading the bytes of such a tensor as another dtype is refused.

Source: nki_simulator.rst, Precise Floating-Point Mode.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

from trnsim.behaviours.names import BY_FORM
from trnsim.context_values import context_value
from trnsim.dtypes import BY_NAME, FLOAT8_E8M0FNU, FLOAT32, INT64, TFLOAT32, Dtype, as_dtype
from trnsim.errors import NotModelled
from trnsim.nki.dialect import require

_is_widening: ContextVar[bool] = ContextVar("trnsim_nki_is_widening", default=False)


class WideDtype(Dtype):
    """A dtype with the name of a low-precision float and the bytes of float32."""

    __slots__ = ()

    @property
    def chip_itemsize(self) -> int:
        """Bytes of one element of the dtype of that name."""
        return BY_NAME[self.name].itemsize

    def __hash__(self) -> int:
        return hash(BY_NAME[self.name])

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles hold the name."""
        return _wide_dtype, (self.name,)


def _wide_dtype(name: str) -> WideDtype:
    return _WIDE_DTYPES[name]


_WIDE_DTYPES = {
    dtype.name: WideDtype(dtype.name, FLOAT32.dtype, dtype.family, FLOAT32.mantissa_bits)
    for dtype in BY_NAME.values()
    if dtype.is_float and dtype not in (FLOAT32, TFLOAT32, FLOAT8_E8M0FNU)
}


class TruncatedDtype(Dtype):
    """An integer dtype to which floats are cast as by numpy, which truncates."""

    __slots__ = ()
    truncates = True

    def __hash__(self) -> int:
        return hash(BY_NAME[self.name])

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles hold the name."""
        return _truncated_dtype, (self.name,)


def _truncated_dtype(name: str) -> TruncatedDtype:
    return _TRUNCATED_DTYPES[name]


_TRUNCATED_DTYPES = {
    kind.name: TruncatedDtype(kind.name, kind.dtype, kind.family)
    for kind in BY_NAME.values()
    if kind.family in ("signed", "unsigned") and kind is not INT64
}
_is_truncating: ContextVar[bool] = ContextVar("trnsim_nki_is_truncating", default=False)


def truncation_context(is_on: bool) -> AbstractContextManager[None]:
    """Context in which casts to integers truncate, as on AWS's older simulator, if `is_on`."""
    return context_value(_is_truncating, is_on)


def widening_context(is_on: bool) -> AbstractContextManager[None]:
    """Context in which `stored_dtype` is float32 for low-precision floats, if `is_on`."""
    return context_value(_is_widening, is_on)


def is_widening() -> bool:
    """True if low-precision floats are stored as float32."""
    return _is_widening.get()


def stored_dtype(dtype: Any) -> Dtype:
    """The format in which a new tensor of `dtype` is stored.

    Raises:
        IllegalInstruction: for int64 before the version that brought it.
    """
    kind: Dtype = dtype if dtype.__class__ is Dtype else as_dtype(dtype)
    if kind is INT64:
        require(BY_FORM["nl.int64"], "a tensor of int64")
    if _is_truncating.get() and kind.name in _TRUNCATED_DTYPES:
        return _TRUNCATED_DTYPES[kind.name]
    return _WIDE_DTYPES.get(kind.name, kind) if _is_widening.get() else kind


def reinterpreted_dtype(dtype: Dtype, new_dtype: Any) -> Dtype:
    """The format in which the bytes of a tensor of `dtype` are read as `new_dtype`.

    Raises:
        NotModelled: if one of the two formats is stored as float32 instead.
    """
    kind = stored_dtype(new_dtype)
    is_wide = isinstance(dtype, WideDtype) or isinstance(kind, WideDtype)
    if is_wide and dtype != kind:
        raise NotModelled(
            f"a {dtype} tensor viewed as {kind} under NKI_PRECISE_FP=0, which stores low-precision "
            "floats as float32",
            fix="run this kernel with NKI_PRECISE_FP=1",
            source="nki_simulator.rst, Precise Floating-Point Mode",
        )
    return dtype if is_wide else kind
