"""Host tensors as numpy arrays and back, also in dtypes that numpy lacks."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

Array = np.ndarray[Any, Any]

_BITS: Final = {1: (torch.uint8, np.uint8), 2: (torch.int16, np.int16)}


@cache
def _ml_dtype(name: str) -> Any:
    """The dtype of that name in ml_dtypes, None if numpy has it itself."""
    import ml_dtypes  # noqa: PLC0415  80 ms that a program without such arrays does not need

    return getattr(ml_dtypes, name, None)


def array_of(tensor: Tensor) -> Array:
    """A host tensor's elements as the device stores them: int64 as int32, bool as uint8."""
    if tensor.dtype is torch.int64:
        tensor = tensor.to(torch.int32)
    if tensor.dtype is torch.bool:
        tensor = tensor.to(torch.uint8)
    ml_dtype = _ml_dtype(str(tensor.dtype).removeprefix("torch."))
    if ml_dtype is None:
        return tensor.numpy()
    bits = _BITS[tensor.element_size()]
    return tensor.view(bits[0]).numpy().view(ml_dtype)


def tensor_of_bytes(content: bytearray, dtype: torch.dtype) -> Tensor:
    """A host tensor without copies of the elements in `content`, of one dimension."""
    if not content:  # PyTorch refuses an empty buffer
        return torch.empty(0, dtype=dtype, device="cpu")
    return torch.frombuffer(content, dtype=dtype)


def tensor_of(array: Array) -> Tensor:
    """An array as a host tensor of the same dtype."""
    if _ml_dtype(str(array.dtype)) is None:
        return torch.from_numpy(np.asarray(array, order="C"))
    dtype: torch.dtype = getattr(torch, str(array.dtype))
    bits = np.asarray(array, order="C").view(_BITS[array.itemsize][1])
    return torch.from_numpy(bits).view(dtype)
