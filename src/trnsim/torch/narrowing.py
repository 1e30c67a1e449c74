"""Tensors whose dtype says more than the device has: XLA_USE_BF16 and XLA_DOWNCAST_BF16.

The host computes a call in the tensors' dtype, and rounds its results to that of the device. So a
call rounds once, from numbers that the device has; bytes and times are those of the device's dtype.
No dtype is narrowed unless a room below this one says so (`trnsim.xla.precision`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import torch
from torch import Tensor

from trnsim.torch import pytorch

__all__ = ["bytes_on_device", "dtype_on_device", "narrow", "narrow_results", "narrowed_dtypes"]

narrowed_dtypes: Final[dict[torch.dtype, torch.dtype]] = {}
"""Dtype of tensors -> the narrower one in which the device has them."""

_KEPT: Final = frozenset({"aten::linspace", "aten::linspace.out"})
"""Operators whose results torch_xla 2.9.0 does not round."""


def dtype_on_device(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which the device has tensors of `dtype`."""
    return narrowed_dtypes.get(dtype, dtype)


def bytes_on_device(nbytes: int, dtype: torch.dtype) -> int:
    """The bytes on the device of tensors that take `nbytes` in `dtype`."""
    narrower = narrowed_dtypes.get(dtype)
    return nbytes if narrower is None else nbytes * narrower.itemsize // dtype.itemsize


def narrow(host: Tensor) -> None:
    """Round the values of a tensor of the host, in place."""
    narrower = narrowed_dtypes.get(host.dtype)
    if narrower is not None:
        host.copy_(host.to(narrower))


def narrow_numbers(values: Any, args: Any) -> Any:
    """Arguments with each Python number of floating point rounded as the tensors beside it.

    `values` are all arguments, of which the first tensor of floating point says how.
    """
    narrower = _dtype_of(values)
    return args if narrower is None else _rounded(args, narrower)


def narrow_results(name: str, args: Any, kwargs: Any, result: Any) -> None:
    """Round what a call made or wrote on the device."""
    from trnsim.torch.dispatch.alias import host_alias  # noqa: PLC0415  it imports the allocator
    from trnsim.torch.dispatch.stochastic_rounding import results_of  # noqa: PLC0415  likewise

    operator = pytorch.overload(name)
    if operator is None or name in _KEPT:
        return
    for tensor in results_of(operator, args, kwargs, result):
        if tensor.dtype in narrowed_dtypes and not tensor.is_cpu:
            narrow(host_alias(tensor))


def _dtype_of(values: Any) -> torch.dtype | None:
    for value in values:
        if isinstance(value, Tensor) and value.is_floating_point():
            return narrowed_dtypes.get(value.dtype)
    return narrowed_dtypes.get(torch.get_default_dtype())


def _rounded(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, float):  # -0.0 is the key that 0.0 is
        return _rounded_number(value, dtype) if value else value
    if isinstance(value, list | tuple):
        return type(value)(_rounded(part, dtype) for part in value)
    return value


@lru_cache(1 << 12)
def _rounded_number(number: float, dtype: torch.dtype) -> float:
    return float(torch.tensor(number, dtype=torch.float64, device="cpu").to(dtype))
