"""`torch.autocast("neuron")`: operators in low precision, and operators in float32.

The lists are PyTorch's own for its other devices (ATen/autocast_mode.h), so that a model has the
same dtypes here. The casts of AWS's compiler (--auto-cast) apply to compiled graphs
(`trnsim.compiler.patterns.casts`), not to eager operators. Unlike PyTorch's, this autocast casts a
weight at each use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from trnsim.torch import pytorch
from trnsim.torch.device_name import DEVICE_TYPE, is_neuron
from trnsim.torch.pytorch import Kernel, Library

if TYPE_CHECKING:
    from torch._ops import OpOverload

_LOW_PRECISION_OPERATORS: Final = """
    _convolution.deprecated _convolution conv1d conv2d conv3d conv_tbc conv_transpose1d
    conv_transpose2d.input conv_transpose3d.input convolution _prelu_kernel addmm addmv addr matmul
    einsum mm mv linalg_vecdot linear addbmm baddbmm bmm chain_matmul linalg_multi_dot
    _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
    _scaled_dot_product_flash_attention scaled_dot_product_attention
"""

_FLOAT32_OPERATORS: Final = """
    acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan
    pow.Tensor_Scalar pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm rms_norm
    group_norm frobenius_norm.dim nuclear_norm nuclear_norm.dim cosine_similarity poisson_nll_loss
    cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss smooth_l1_loss
    huber_loss mse_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss
    triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits dist pdist cdist renorm
    logsumexp upsample_nearest1d _upsample_nearest_exact1d upsample_nearest2d
    _upsample_nearest_exact2d upsample_nearest3d _upsample_nearest_exact3d upsample_linear1d
    upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d upsample_bicubic2d
    _upsample_bicubic2d_aa norm.Scalar norm.ScalarOpt_dim
    prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm
    linalg_matrix_norm linalg_matrix_norm.str_ord sum sum.dim_IntList
"""

_WIDEST_OPERATORS: Final = """
    addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add
"""


policies: Final[dict[str, Callable[[list[Tensor]], torch.dtype]]] = {}
"""By operator, the function that gives the dtype of its operands; others keep their dtypes."""


def register(library: Library, fallbacks: Library) -> None:
    """Register the casting kernels; every other operator passes autocast unchanged."""
    fallbacks.fallback(pytorch.fallthrough, "AutocastPrivateUse1")
    lists = (
        (_LOW_PRECISION_OPERATORS, low_precision_dtype),
        (_FLOAT32_OPERATORS, float32_dtype),
        (_WIDEST_OPERATORS, widest_dtype),
    )
    for names, dtype_for in lists:
        for name in names.split():
            operator = pytorch.overload(f"aten::{name}")
            if operator is not None:
                policies[name] = dtype_for
                library.impl(name, casting_kernel(operator, name), "AutocastPrivateUse1")


def low_precision_dtype(tensors: list[Tensor]) -> torch.dtype:
    """The dtype that autocast was entered with."""
    del tensors
    return torch.get_autocast_dtype(DEVICE_TYPE)


def float32_dtype(tensors: list[Tensor]) -> torch.dtype:
    """float32 for any operands."""
    del tensors
    return torch.float32


def widest_dtype(tensors: list[Tensor]) -> torch.dtype:
    """float32 if one of the tensors has it, else the dtype of autocast."""
    if any(tensor.dtype is torch.float32 for tensor in tensors):
        return torch.float32
    return torch.get_autocast_dtype(DEVICE_TYPE)


def casting_kernel(operator: OpOverload[..., Any], name: str) -> Kernel:
    """The kernel of an operator in autocast; it reads `policies` at each call."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        dtype_for = policies.get(name)
        if dtype_for is None:
            with pytorch.without_dispatch_keys(pytorch.AUTOCAST_KEYS):
                return operator(*args, **kwargs)
        tensors = [value for value in _flatten((*args, *kwargs.values())) if _is_castable(value)]
        dtype = dtype_for(tensors)
        # Autocast is off inside, so that the parts of a composite operator are not cast again.
        with pytorch.without_dispatch_keys(pytorch.AUTOCAST_KEYS):
            return operator(
                *[_cast(value, dtype) for value in args],
                **{name: _cast(value, dtype) for name, value in kwargs.items()},
            )

    return kernel


def _flatten(values: Any) -> list[Any]:
    """The values of nested lists."""
    flat: list[Any] = []
    for value in values:
        flat.extend(_flatten(value) if isinstance(value, list | tuple) else [value])
    return flat


def _is_castable(value: Any) -> bool:
    """True if `value` is floating point on the device, except float64, which is never cast."""
    return (
        isinstance(value, Tensor)
        and value.is_floating_point()
        and value.dtype is not torch.float64
        and is_neuron(value.device)
    )


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, list | tuple):
        return [_cast(part, dtype) for part in value]
    return value.to(dtype) if _is_castable(value) and value.dtype is not dtype else value
