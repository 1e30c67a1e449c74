"""Shape, dtype and layout of a PyTorch tensor, as the graph takes an input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

from trnsim.device.call_time import TensorSpec
from trnsim.torch.aten.decomposition import Unlowered
from trnsim.torch.narrowing import dtype_on_device

if TYPE_CHECKING:
    from trnsim.graph import TensorType, Value
    from trnsim.graph.building.build import Build

STORED: Final = {
    torch.float32: "float32",
    torch.bfloat16: "bfloat16",
    torch.float16: "float16",
    torch.float8_e4m3fn: "float8_e4m3fn",
    torch.float8_e5m2: "float8_e5m2",
    torch.int64: "int32",
    torch.int32: "int32",
    torch.uint32: "uint32",
    torch.int16: "int16",
    torch.int8: "int8",
    torch.uint8: "uint8",
    torch.bool: "bool",
}
"""The device's format of each dtype; the chip has no 64-bit integers, so these are 32-bit."""


@dataclass(frozen=True, slots=True)
class Spec(TensorSpec):
    """A PyTorch tensor without its values.

    Attributes:
        order: its dimensions, from the largest stride to the smallest.
        repeated: its broadcast dimensions (stride 0).
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    order: tuple[int, ...]
    repeated: tuple[int, ...] = ()

    @property
    def type(self) -> TensorType:
        """Its type in the graph.

        Raises:
            Unlowered: for a dtype that the chip does not have.
        """
        from trnsim.graph import TensorType  # noqa: PLC0415  a tensor alone needs no graph

        if self.dtype not in STORED:
            raise Unlowered(unstored(self.dtype))
        return TensorType(self.shape, STORED[self.dtype])

    def enter(self, b: Build) -> Value:
        """Add the tensor as an input to the graph that `b` builds."""
        return b.input(self.type, self.order, self.repeated)


def unstored(dtype: torch.dtype) -> str:
    """The reason that a graph has no tensors of a dtype, as a phrase."""
    if dtype is torch.uint16:
        return f"{dtype}, which only NKI kernels read here; cast it to int32"
    return f"{dtype}, which a NeuronCore does not have"


def tensor_text(tensor: Tensor) -> str:
    """A tensor's dtype and shape as text: "float32[4, 8]"."""
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def spec_of(tensor: Tensor) -> Spec:
    """The spec of a tensor, in the dtype that the device has."""
    shape = tuple(tensor.shape)
    dtype = dtype_on_device(tensor.dtype)
    if tensor.is_contiguous():
        return Spec(shape, dtype, tuple(range(len(shape))))
    stride = tensor.stride()
    order = tuple(sorted(range(len(shape)), key=lambda dim: (-stride[dim], dim)))
    repeated = tuple(dim for dim, step in enumerate(stride) if not step and shape[dim] != 1)
    return Spec(shape, dtype, order, repeated)
