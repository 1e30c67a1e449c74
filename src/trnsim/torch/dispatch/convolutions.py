"""Convolutions in TorchScript, where they are calls of `aten::_convolution`.

PyTorch's tracer records `aten::_convolution`, which `aten::convolution` calls on its own devices,
and not `aten::convolution` itself (pytorch tools/autograd/gen_trace_type.py, DONT_RECORD_TRACE).
`aten::_convolution` calls the two operators of this file on a device that is not PyTorch's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import torch

from trnsim.torch import pytorch
from trnsim.torch.pytorch import Kernel, Library

if TYPE_CHECKING:
    from torch import Tensor

# benchmark, deterministic, cudnn_enabled, allow_tf32: cuDNN's options
_CUDNN_OPTIONS: Final = (False, False, False, False)
_jit: Final[Any] = torch.jit  # the stub leaves some names out
_in_script: Final[Any] = pytorch.overload("aten::_convolution")


def register(library: Library) -> None:
    """Register the kernels of this file."""
    library.impl("convolution_overrideable", torch.ops.aten.convolution.default, "PrivateUse1")
    library.impl("convolution_backward_overrideable", convolution_backward, "PrivateUse1")


def traceable_convolution(kernel: Kernel) -> Kernel:
    """`kernel` of aten::convolution, which is `aten::_convolution` while a tracer records."""

    def call(*args: Any) -> Any:
        if _jit.is_tracing():
            return _in_script(*args, *_CUDNN_OPTIONS)
        return kernel(*args)

    return call


def convolution_backward(
    gradient: Tensor,
    tensor: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> Any:
    """aten::convolution_backward_overrideable: gradients of tensor, weight and bias."""
    return torch.ops.aten.convolution_backward.default(
        gradient,
        tensor,
        weight,
        [gradient.shape[1]],
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
        output_mask,
    )
