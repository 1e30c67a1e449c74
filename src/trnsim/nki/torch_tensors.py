"""Tensors of PyTorch as arrays of numpy, for those who have imported PyTorch."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import numpy as np

from trnsim.dtypes import Array, as_dtype
from trnsim.errors import BadInput, IllegalInstruction

DTYPES_WITHOUT_NUMPY: Final = (
    "torch.bfloat16",
    "torch.float8_e4m3fn",
    "torch.float8_e5m2",
    "torch.float8_e8m0fnu",
)
"""Dtypes that ml_dtypes gives to numpy; the two packages exchange their bits."""


def is_torch_tensor(value: object) -> bool:
    """True for a tensor of PyTorch."""
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach")


def array_of(tensor: Any, usage: str) -> Array:
    """The elements of a tensor of PyTorch, of which the array shares the memory if it can.

    Args:
        tensor: the tensor, on any device.
        usage: the role of the tensor in errors, such as "an argument".

    Raises:
        BadInput: for a sparse or nested tensor, and for one of the meta device.
        IllegalInstruction: for a dtype that no NeuronCore has.
    """
    if getattr(tensor, "is_nested", False):
        raise BadInput(
            f"{usage} is a nested tensor", fix="pass torch.nested.to_padded_tensor(tensor, 0.0)"
        )
    if getattr(tensor, "is_meta", False):
        raise BadInput(
            f"{usage} is a tensor of the meta device, which holds no elements",
            fix="make it on the CPU: torch.zeros(shape, dtype=dtype)",
        )
    layout = str(getattr(tensor, "layout", "torch.strided"))
    if layout != "torch.strided":
        raise BadInput(f"{usage} is a tensor of {layout}", fix="pass tensor.to_dense()")
    host = tensor.detach().cpu().resolve_conj().resolve_neg()
    if str(host.dtype) in DTYPES_WITHOUT_NUMPY:
        torch = import_module("torch")
        bits = {1: torch.uint8, 2: torch.int16}[host.element_size()]
        array: Array = host.view(bits).numpy().view(as_dtype(host.dtype).dtype)
        return array
    try:
        return np.asarray(host.numpy())
    except TypeError:
        raise IllegalInstruction(
            f"{usage} is a tensor of {host.dtype}, which no NeuronCore has",
            fix="cast it before the call: tensor.to(torch.float32)",
        ) from None
