"""Tensors that the device holds in a narrower dtype: XLA_USE_BF16 and XLA_DOWNCAST_BF16.

The host computes a call in the tensors' dtype, and rounds its results to the device's dtype. So a
call rounds once, from numbers that the device has; bytes and times are those of the device's dtype.
`trnsim.xla.precision` narrows dtypes; otherwise none is narrowed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import torch
from torch import Tensor

from trnsim.torch import pytorch

narrowed_dtypes: Final[dict[torch.dtype, torch.dtype]] = {}
"""The narrower dtype in which the device holds tensors, by their dtype."""

_UNROUNDED_OPERATORS: Final = frozenset({"aten::linspace", "aten::linspace.out"})
"""Operators whose results torch_xla 2.9.0 does not round."""


def dtype_on_device(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which the device holds tensors of `dtype`."""
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


def narrow_numbers(value: Any, arguments: Any) -> Any:
    """An argument with each Python float in it rounded as a call's tensors are.

    They are rounded as the first floating-point tensor of `arguments`, or as the default dtype.
    """
    narrower = _narrower_dtype(arguments)
    return value if narrower is None else _rounded(value, narrower)


def narrow_results(name: str, args: Any, kwargs: Any, result: Any) -> None:
    """Round the results of a call, and the tensors that it wrote, on the device."""
    from trnsim.torch.dispatch.alias import host_alias  # noqa: PLC0415  it imports the allocator
    from trnsim.torch.dispatch.stochastic_rounding import results_of  # noqa: PLC0415  likewise

    operator = pytorch.overload(name)
    if operator is None or name in _UNROUNDED_OPERATORS:
        return
    for tensor in results_of(operator, args, kwargs, result):
        if tensor.dtype in narrowed_dtypes and not tensor.is_cpu:
            narrow(host_alias(tensor))


def _narrower_dtype(arguments: Any) -> torch.dtype | None:
    for value in arguments:
        if isinstance(value, Tensor) and value.is_floating_point():
            return narrowed_dtypes.get(value.dtype)
    return narrowed_dtypes.get(torch.get_default_dtype())


def _rounded(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, float):  # the cache would take -0.0 for 0.0
        return _rounded_number(value, dtype) if value else value
    if isinstance(value, list | tuple):
        return type(value)(_rounded(part, dtype) for part in value)
    return value


@lru_cache(1 << 12)
def _rounded_number(number: float, dtype: torch.dtype) -> float:
    return float(torch.tensor(number, dtype=torch.float64, device="cpu").to(dtype))
