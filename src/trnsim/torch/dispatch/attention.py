"""Fused attention where the CPU would fuse it, with the values of the host's flash attention.

PyTorch's `scaled_dot_product_attention` chooses a form by device, in C++, and computes products and
a softmax for unknown devices. If the CPU would use its fused form, this device uses the fused form
that PyTorch has for third-party backends. For all other calls (a mask with a gradient, dropout,
heads that share keys) PyTorch's products and softmax are computed.

Tensors distributed over processes use the forms that DTensor can split: `flash` without a mask and
`efficient` with one. Each process then computes the fused form.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from trnsim.torch import pytorch
from trnsim.torch.api.memory import place
from trnsim.torch.call_recording import recorded_kernel
from trnsim.torch.clients.imports import when_imported
from trnsim.torch.device_name import DEVICE_TYPE
from trnsim.torch.dispatch.alias import on_host
from trnsim.torch.dispatch.contracts import read_contract
from trnsim.torch.dispatch.shape_kernels import shape_kernel
from trnsim.torch.pytorch import Kernel, Library

_aten: Final[Any] = torch.ops.aten
FUSED: Final = "_scaled_dot_product_fused_attention_overrideable"
_FLASH: Final = "_scaled_dot_product_flash_attention"
_EFFICIENT: Final = "_scaled_dot_product_efficient_attention"


def register(library: Library) -> None:
    """Register the operator that chooses a form of attention, and the forms."""
    for key in ("AutogradPrivateUse1", "PrivateUse1"):
        library.impl("scaled_dot_product_attention", attend, key)
    for name, kernel in {FUSED: attention, f"{FUSED}_backward": attention_backward}.items():
        library.impl(name, _recorded_operator(name, kernel), "PrivateUse1")
    for name, kernel in _FORMS_TO_SPLIT.items():
        library.impl(name, kernel, "PrivateUse1")
    when_imported("torch.nn.attention.flex_attention", _accept_flex_attention)


def _accept_flex_attention(module: Any) -> None:
    """Add the device to the list of devices that FlexAttention accepts.

    The list is a constant of its check, which stays PyTorch's function so that its compiler can
    trace it.
    """
    check: Any = module._validate_device  # noqa: SLF001  PyTorch's name
    constants = (
        part | {DEVICE_TYPE} if isinstance(part, frozenset) else part
        for part in check.__code__.co_consts
    )
    check.__code__ = check.__code__.replace(co_consts=tuple(constants))


def _recorded_operator(name: str, kernel: Kernel) -> Kernel:
    operator = pytorch.overload(f"aten::{name}")
    if operator is None:
        raise AttributeError(name)
    return recorded_kernel(
        f"aten::{name}", kernel, shape_kernel(operator, read_contract(operator), kernel)
    )


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """aten::scaled_dot_product_attention: the fused form where the CPU would use its own."""
    is_plain = not (dropout_p or (is_causal and attn_mask is not None))
    if is_plain and _is_accepted(query, key, value) and _is_mask_accepted(attn_mask):
        bias = attn_mask
        if bias is not None and bias.dtype is torch.bool:
            is_masked = bias.logical_not()
            bias = torch.zeros_like(bias, dtype=query.dtype).masked_fill_(is_masked, -math.inf)
        form = _call_splittable if _is_distributed(query) else _call_fused
        return form(query, key, value, bias, is_causal, scale)[0]
    decompose = _aten.scaled_dot_product_attention.default.decompose
    options = {"scale": scale, "enable_gqa": enable_gqa}
    return decompose(query, key, value, attn_mask, dropout_p, is_causal, **options)


def _is_distributed(tensor: Tensor) -> bool:
    """True if a tensor is a DTensor, distributed over processes."""
    module: Any = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def _call_fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    is_causal: bool,
    scale: float | None,
) -> tuple[Any, ...]:
    """The fused operator on the device, without dropout."""
    results: tuple[Any, ...] = getattr(_aten, FUSED)(
        query, key, value, bias, 0.0, is_causal, scale=scale
    )
    return results


def _call_splittable(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    is_causal: bool,
    scale: float | None,
) -> tuple[Any, ...]:
    """A form that DTensor can split over processes."""
    results: tuple[Any, ...]
    if bias is None:
        results = getattr(_aten, _FLASH)(query, key, value, 0.0, is_causal, scale=scale)
    else:
        # DTensor splits the mask where it splits the operands, so the mask has its full size.
        full_bias = bias.expand(*query.shape[:3], key.shape[2])
        results = getattr(_aten, _EFFICIENT)(
            query, key, value, full_bias, query.requires_grad, 0.0, is_causal, scale=scale
        )
    return results


def flash(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """aten::_scaled_dot_product_flash_attention, by the fused form."""
    del dropout_p, return_debug_mask
    out, logs, _, _, max_q, max_k, *_ = _call_fused(query, key, value, None, is_causal, scale)
    return out, logs, None, None, max_q, max_k, _no_seed(query), _no_seed(query), None


def flash_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    cum_seq_q: Tensor | None,
    cum_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    philox_seed: Tensor,
    philox_offset: Tensor,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """The gradients of queries, keys and values."""
    del cum_seq_q, cum_seq_k
    backward = getattr(_aten, f"{FUSED}_backward")
    gradients: tuple[Any, ...] = backward(
        grad, query, key, value, None, [True, True, True, False], out, logsumexp,
        philox_seed, philox_seed, max_q, max_k, dropout_p, is_causal, philox_seed, philox_offset,
        scale=scale,
    )  # fmt: skip
    return gradients[:3]


def efficient(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """aten::_scaled_dot_product_efficient_attention, by the fused form."""
    del compute_log_sumexp, dropout_p
    out, logs, *_ = _call_fused(query, key, value, attn_bias, is_causal, scale)
    return out, logs, _no_seed(query), _no_seed(query)


def _no_seed(query: Tensor) -> Tensor:
    """A placeholder for the seed of dropout, which DTensor requires even without dropout."""
    return query.new_zeros((), dtype=torch.int64)


def efficient_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    out: Tensor,
    logsumexp: Tensor,
    philox_seed: Tensor,
    philox_offset: Tensor,
    dropout_p: float,
    grad_input_mask: Sequence[bool],
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """The gradients of queries, keys and values; a mask has none."""
    backward = getattr(_aten, f"{FUSED}_backward")
    sizes = query.shape[-2], key.shape[-2]
    gradients: tuple[Any, ...] = backward(
        grad, query, key, value, attn_bias, list(grad_input_mask), out, logsumexp,
        philox_seed, philox_seed, *sizes, dropout_p, is_causal, philox_seed, philox_offset,
        scale=scale,
    )  # fmt: skip
    return (*gradients[:3], None)


def _is_accepted(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """True if the CPU's fused form accepts such queries, keys and values."""
    operands = (query, key, value)
    if not all(t.dim() == _RANK and t.numel() and t.stride(-1) == 1 for t in operands):
        return False
    # Compared singly: symbolic sizes can be compared but not hashed.
    is_alike = all(
        t.shape[dim] == query.shape[dim] for t in (key, value) for dim in (0, 1, _RANK - 1)
    )
    return is_alike and key.dtype == value.dtype == query.dtype and query.dtype in _FUSED_DTYPES


def _is_mask_accepted(mask: Tensor | None) -> bool:
    """True if the CPU's fused form accepts such a mask; it computes no gradient of a mask."""
    return mask is None or (not mask.requires_grad and mask.dim() in (2, _RANK))


_RANK: Final = 4  # batch, heads, places, width
_FUSED_DTYPES: Final = frozenset({torch.float32, torch.bfloat16, torch.float16})


def attention(query: Tensor, *operands: Any, **options: Any) -> tuple[Any, ...]:
    """aten::_scaled_dot_product_fused_attention_overrideable: result, logsumexp, empty results.

    Results that other devices use for dropout and for sequence lengths are empty.
    """
    return _through_host(host_attention, query, *operands, **options)


def attention_backward(grad: Tensor, *operands: Any, **options: Any) -> tuple[Any, ...]:
    """The gradients of queries, keys and values; a mask has none."""
    return _through_host(host_attention_backward, grad, *operands, **options)


def _through_host(compute: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, ...]:
    """Call `compute` on the memory of neuron tensors, and place its results on the device."""
    core = args[0].get_device()
    results = compute(*(on_host(a) if isinstance(a, Tensor) else a for a in args), **options)
    return tuple(place(part, core) if isinstance(part, Tensor) else part for part in results)


def host_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """`attention` on host tensors."""
    del return_debug_mask
    out, logs = _aten._scaled_dot_product_flash_attention_for_cpu(  # noqa: SLF001  PyTorch's name
        query, key, value, dropout_p, is_causal, attn_mask=attn_bias, scale=scale
    )
    empty_results = [torch.empty(0, dtype=torch.int64, device="cpu") for _ in range(5)]
    # PyTorch promises a contiguous logsumexp, but the CPU's form puts heads innermost.
    out, logs = _strided_like(query, out), logs.contiguous()
    return out, logs, *empty_results[:2], query.shape[-2], key.shape[-2], *empty_results[2:]


def host_attention_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    mask: Any,
    out: Tensor,
    logsumexp: Tensor,
    cum_seq_q: Tensor,
    cum_seq_k: Tensor,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    philox_seed: Tensor,
    philox_offset: Tensor,
    *,
    scale: float | None = None,
) -> tuple[Tensor | None, ...]:
    """`attention_backward` on host tensors."""
    del mask, cum_seq_q, cum_seq_k, max_q, max_k, philox_seed, philox_offset
    gradients = _aten._scaled_dot_product_flash_attention_for_cpu_backward(  # noqa: SLF001  likewise
        grad, query, key, value, out, logsumexp, dropout_p, is_causal,
        attn_mask=attn_bias, scale=scale,
    )  # fmt: skip
    return (*map(_strided_like, (query, key, value), gradients), None)


def _strided_like(template: Tensor, tensor: Tensor) -> Tensor:
    """`tensor` with the strides of `template`, as PyTorch promises for this form."""
    copy = torch.empty_like(template)
    return tensor if copy.stride() == tensor.stride() else copy.copy_(tensor)


_FORMS_TO_SPLIT: Final[dict[str, Kernel]] = {
    _FLASH: flash,
    f"{_FLASH}_backward": flash_backward,
    _EFFICIENT: efficient,
    f"{_EFFICIENT}_backward": efficient_backward,
}

HOST_FUNCTIONS: Final = {
    f"aten::{FUSED}": host_attention,
    f"aten::{FUSED}_backward": host_attention_backward,
}
"""Functions for operators without a CPU kernel, in graphs that the host runs."""
