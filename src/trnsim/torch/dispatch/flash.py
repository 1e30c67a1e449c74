"""Variable-length attention of `torch.nn.attention.varlen`: windows, shared keys, sequences.

aten::_flash_attention_forward and aten::_efficient_attention_forward are GPU operators that models
call by name. Here each sequence is a fused attention (`attention`) with its values and its time;
sequences of equal length are batched. The copies of their results to one tensor take no time, as a
kernel of the GPU writes them there directly. The logsumexp of a query, which the gradients need, is
the logarithm of the sum of the exponentials of its scores.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from trnsim.errors import BadInput, NotModelled
from trnsim.torch.api.memory import place
from trnsim.torch.dispatch.alias import on_host
from trnsim.torch.dispatch.attention import FUSED, host_attention, host_attention_backward
from trnsim.torch.dispatch.packed import PackedPiece, Window, pieces, uniform_lengths
from trnsim.torch.pytorch import Kernel, Library

_aten: Final[Any] = torch.ops.aten
_LOGSUMEXP_MULTIPLE: Final = 32
"""An efficient attention pads its logsumexps to a multiple of this many queries. Source: PyTorch,
torch/_meta_registrations.py, meta__efficient_attention_forward."""
_WINDOWS_BY_MASK_TYPE: Final = {
    0: Window(),
    1: Window(right=0, is_from_start=True),
    2: Window(right=0),
}
"""By custom_mask_type. Source: PyTorch, ATen/native/transformers/cuda/mem_eff_attention,
kernel_forward.h, CustomMaskType."""


def register(library: Library) -> None:
    """Register the operators, which call those of `attention`."""
    for name, kernel in KERNELS.items():
        library.impl(name, kernel, "PrivateUse1")


def _place_beside(tensor: Tensor, host_tensor: Tensor) -> Tensor:
    """A host tensor, placed on the device of `tensor`."""
    return host_tensor if tensor.is_cpu else place(host_tensor, tensor.get_device())


def _initial_logsumexps(*shape: int) -> Tensor:
    """Logsumexps of queries that see no key, which are infinity, as a host tensor."""
    return torch.full(shape, math.inf, dtype=torch.float32, device="cpu")


def _write(target: Tensor, part: Tensor) -> None:
    on_host(target).copy_(on_host(part))


def _refuse(feature: str, fix: str) -> None:
    """Refuse a feature that no kernel here has.

    Raises:
        NotModelled: always.
    """
    raise NotModelled(f"{feature} in a fused attention", fix=fix)


def _check(query: Tensor, key: Tensor, value: Tensor, dropout_p: float) -> None:
    """Refuse arguments that the host's fused attention does not support.

    Raises:
        NotModelled: dropout, or values and keys of different widths.
        BadInput: the number of heads of queries is no multiple of the number of heads of keys.
    """
    if dropout_p:
        _refuse(f"dropout_p={dropout_p}", "dropout_p=0, or F.scaled_dot_product_attention")
    if value.shape[-1] != query.shape[-1]:
        _refuse(
            f"values {value.shape[-1]} wide of keys {query.shape[-1]} wide",
            "pad the values, or F.scaled_dot_product_attention",
        )
    heads, key_heads = query.shape[-2], key.shape[-2]
    if heads % key_heads:
        raise BadInput(f"{heads} heads of queries share {key_heads} of keys; legal: a multiple")


def _by_head(tensor: Tensor, heads: int) -> Tensor:
    """``[B, L, heads, D]`` as ``[B, heads, L, D]``, key heads repeated for the queries' heads."""
    heads_first = tensor.transpose(1, 2)
    group = heads // heads_first.shape[1]
    return heads_first if group == 1 else heads_first.repeat_interleave(group, 1)


class _AttentionOptions:
    """Options of the fused attention of equal sequences.

    Attributes:
        hidden_queries: number of leading queries that see no key.
        is_causal: true if the attention's own causal mask is the window.
        bias: added to the scores, with the window's mask unless `is_causal`; None for nothing.
    """

    def __init__(self, query: Tensor, key: Tensor, window: Window, bias: Tensor | None) -> None:
        queries, keys = query.shape[1], key.shape[1]
        self.hidden_queries = window.hidden_queries(queries, keys)
        self.is_causal = bias is None and window.is_causal(queries, keys)
        self.bias = bias if bias is None else bias[..., self.hidden_queries :, :]
        if not self.is_causal:
            window_bias = window.bias(queries, keys, self.hidden_queries)
            if window_bias is not None:
                mask = _place_beside(query, window_bias.to(query.dtype))
                self.bias = mask if self.bias is None else self.bias + mask


def _forward(
    query: Tensor, key: Tensor, value: Tensor, window: Window, bias: Tensor | None, scale: Any
) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """At most one item: a slice of the queries that see a key, their results and logsumexps.

    Results are ``[B, L, H, D]``, logsumexps ``[B, H, L]``.
    """
    options = _AttentionOptions(query, key, window, bias)
    visible_queries = slice(options.hidden_queries, query.shape[1])
    if visible_queries.start == visible_queries.stop:
        return
    heads = query.shape[2]
    compute: Any = host_attention if query.is_cpu else getattr(_aten, FUSED)
    out, logs, *_ = compute(
        _by_head(query[:, visible_queries], heads), _by_head(key, heads), _by_head(value, heads),
        options.bias, 0.0, options.is_causal, scale=scale,
    )  # fmt: skip
    yield visible_queries, out.transpose(1, 2), logs


def _backward(
    operands: tuple[Tensor, ...], window: Window, bias: Tensor | None, scale: Any
) -> Iterator[tuple[slice, tuple[Tensor, ...]]]:
    """At most one item: a slice of the queries that see a key, and the gradients of Q, K and V.

    Gradients are ``[B, L, H, D]``.
    """
    grad, query, key, value, out, logs = operands
    options = _AttentionOptions(query, key, window, bias)
    visible_queries = slice(options.hidden_queries, query.shape[1])
    if visible_queries.start == visible_queries.stop:
        return
    heads, key_heads = query.shape[2], key.shape[2]
    compute: Any = host_attention_backward if query.is_cpu else getattr(_aten, f"{FUSED}_backward")
    empty = _place_beside(query, torch.empty(0, dtype=torch.int64, device="cpu"))
    inputs = [
        _by_head(operand, heads)
        for operand in (grad[:, visible_queries], query[:, visible_queries], key, value)
    ]
    results = compute(
        *inputs, options.bias, [True, True, True, False], _by_head(out[:, visible_queries], heads),
        logs[..., visible_queries].contiguous(), empty, empty,
        visible_queries.stop - visible_queries.start, key.shape[1],
        0.0, options.is_causal, empty, empty, scale=scale,
    )  # fmt: skip
    grads = [grad.transpose(1, 2) for grad in results[:3]]
    if heads != key_heads:
        groups = (key_heads, heads // key_heads)
        grads[1:] = [grad.unflatten(2, groups).sum(3) for grad in grads[1:]]
    yield visible_queries, tuple(grads)


class _Batch(NamedTuple):
    """Sequences that are computed at once, as views ``[B, L, H, D]`` of a call's tensors.

    Attributes:
        piece: its positions in packed sequences; None if the tensors are batched, not packed.
        sequences: the number of equal sequences in it.
    """

    piece: PackedPiece | None = None
    sequences: int = 1

    def queries(self, tensor: Tensor) -> Tensor:
        """Its view of queries, of results, or of their gradients."""
        return tensor if self.piece is None else self._view(tensor, 0, self.piece.queries)

    def keys(self, tensor: Tensor) -> Tensor:
        """Its view of keys, of values, or of their gradients."""
        return tensor if self.piece is None else self._view(tensor, 0, self.piece.keys)

    def logsumexps(self, tensor: Tensor) -> Tensor:
        """Its view ``[B, H, L]`` of logsumexps, which are ``[H, L]`` for packed sequences."""
        if self.piece is None:
            return tensor
        return self._view(tensor, 1, self.piece.queries).transpose(0, 1)

    def _view(self, tensor: Tensor, dim: int, span: slice) -> Tensor:
        length = (span.stop - span.start) // self.sequences
        shape = *tensor.shape[:dim], self.sequences, length, *tensor.shape[dim + 1 :]
        return tensor.narrow(dim, span.start, span.stop - span.start).view(shape)


def _batches(pieces: list[PackedPiece] | None) -> list[_Batch]:
    """The batches of a call: a single batch, or a batch per sequence where lengths differ."""
    if pieces is None:
        return [_Batch()]
    lengths = uniform_lengths(pieces)
    if lengths is None:
        return [_Batch(piece) for piece in pieces]
    count, queries, keys = lengths
    return [_Batch(PackedPiece(slice(0, count * queries), slice(0, count * keys)), count)]


def _pieces(
    query: Tensor, key: Tensor, starts_q: Any, starts_k: Any, key_counts: Any = None
) -> list[PackedPiece] | None:
    """The packed sequences of a call; None if its tensors are batched."""
    if starts_q is None:
        return None
    ends = on_host(starts_q), on_host(starts_q if starts_k is None else starts_k)
    totals = query.shape[0], key.shape[0]
    return pieces(*ends, totals, None if key_counts is None else on_host(key_counts))


def _outputs(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    pieces: list[PackedPiece] | None,
    window: Window,
    scale: float | None,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The result, and each query's logsumexp: infinity for a query that sees no key."""
    out = _place_beside(query, torch.zeros_like(on_host(query)))
    heads = query.shape[-2]
    shape = (query.shape[0], heads, query.shape[1]) if pieces is None else (heads, query.shape[0])
    logs = _place_beside(query, _initial_logsumexps(*shape))
    for batch in _batches(pieces):
        operands = batch.queries(query), batch.keys(key), batch.keys(value)
        for visible_queries, part, part_logs in _forward(*operands, window, bias, scale):
            _write(batch.queries(out)[:, visible_queries], part)
            _write(batch.logsumexps(logs)[..., visible_queries], part_logs)
    return out, logs


def _gradients(
    operands: tuple[Tensor, ...],
    pieces: list[PackedPiece] | None,
    window: Window,
    scale: float | None,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of queries, keys and values."""
    grad, query, key, value, out, logs = operands
    grads = [
        _place_beside(query, torch.zeros_like(on_host(operand))) for operand in (query, key, value)
    ]
    for batch in _batches(pieces):
        parts = (
            *(batch.queries(grad), batch.queries(query), batch.keys(key), batch.keys(value)),
            *(batch.queries(out), batch.logsumexps(logs)),
        )
        for visible_queries, (query_grad, key_grad, value_grad) in _backward(
            parts, window, bias, scale
        ):
            _write(batch.queries(grads[0])[:, visible_queries], query_grad)
            _write(batch.keys(grads[1]), key_grad)
            _write(batch.keys(grads[2]), value_grad)
    return grads[0], grads[1], grads[2]


def flash(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cum_seq_q: Tensor | None,
    cum_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    return_debug_mask: bool,
    *,
    scale: float | None = None,
    window_size_left: int | None = None,
    window_size_right: int | None = None,
    seqused_k: Tensor | None = None,
    alibi_slopes: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> tuple[Tensor, ...]:
    """aten::_flash_attention_forward: the result, logsumexps, and the unused state of dropout."""
    del max_q, max_k, return_debug_mask, num_splits
    _check(query, key, value, dropout_p)
    if alibi_slopes is not None:
        _refuse("alibi_slopes", "F.scaled_dot_product_attention with the bias as attn_mask")
    if block_table is not None:
        _refuse("block_table", "gather the pages first: key[block_table].flatten(0, 2)")
    window = Window.of(window_size_left, window_size_right, is_causal=is_causal)
    pieces = _pieces(query, key, cum_seq_q, cum_seq_k, seqused_k)
    out, logs = _outputs(query, key, value, pieces, window, scale)
    empty = torch.empty(0, dtype=query.dtype, device="cpu")
    # int64, which every policy accepts; without dropout nothing reads its state.
    states = [torch.zeros(shape, dtype=torch.int64, device="cpu") for shape in ((2,), ())]
    return out, logs, *(_place_beside(query, extra) for extra in (*states, empty))


def flash_into(out: Tensor, query: Tensor, *arguments: Any, **options: Any) -> Tensor:
    """aten::_flash_attention_forward_no_dropout_inplace: fills `out`, returns the logsumexps."""
    result, logs, *_ = flash(query, *arguments, **options)
    _write(out, result)
    return logs


def flash_backward(
    grad_out: Tensor,
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
    rng_state: Tensor,
    unused: Tensor,
    *,
    scale: float | None = None,
    window_size_left: int | None = None,
    window_size_right: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """aten::_flash_attention_backward: gradients of queries, keys and values."""
    del max_q, max_k, rng_state, unused
    _check(query, key, value, dropout_p)
    window = Window.of(window_size_left, window_size_right, is_causal=is_causal)
    pieces = _pieces(query, key, cum_seq_q, cum_seq_k)
    return _gradients((grad_out, query, key, value, out, logsumexp), pieces, window, scale)


def _mask_window(kind: int, window_size: int | None) -> Window:
    """The window of a mask.

    Args:
        kind: PyTorch's ``custom_mask_type``.
        window_size: the number of keys that a query sees, its own included; None or 0 for all.

    Raises:
        BadInput: for a type that PyTorch lacks.
    """
    window = _WINDOWS_BY_MASK_TYPE.get(kind)
    if window is None:
        raise BadInput(f"custom_mask_type={kind}; legal: 0 (none), 1 and 2 (causal)")
    return window._replace(left=window_size - 1) if window_size else window


def efficient(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    cu_seqlens_q: Tensor | None,
    cu_seqlens_k: Tensor | None,
    max_seqlen_q: int | None,
    max_seqlen_k: int | None,
    dropout_p: float,
    custom_mask_type: int,
    compute_log_sumexp: bool = False,
    *,
    scale: float | None = None,
    seqlen_k: Tensor | None = None,
    window_size: int | None = None,
) -> tuple[Any, ...]:
    """aten::_efficient_attention_forward.

    Returns the result, logsumexps, dropout's seed and offset, and the longest queries and keys.
    """
    _check(query, key, value, dropout_p)
    if window_size and torch.is_grad_enabled() and query.requires_grad:
        # PyTorch's gradient formula drops the window: derivatives.yaml.
        _refuse("a window_size with a gradient", "torch.nn.attention.varlen.varlen_attn")
    window = _mask_window(custom_mask_type, window_size)
    max_lengths = max_seqlen_q or query.shape[1], max_seqlen_k or key.shape[1]
    if cu_seqlens_q is None:
        pieces = None
        out, logs = _outputs(query, key, value, None, window, scale, bias)
    else:
        if bias is not None:
            _refuse("a bias of sequences laid end to end", "call it for each sequence")
        pieces = _pieces(query[0], key[0], cu_seqlens_q, cu_seqlens_k, seqlen_k)
        out, logs = _outputs(query[0], key[0], value[0], pieces, window, scale)
        out = out[None]
    count = query.shape[0] if pieces is None else len(pieces)
    padded_queries = (
        -(-max_lengths[0] // _LOGSUMEXP_MULTIPLE) * _LOGSUMEXP_MULTIPLE if compute_log_sumexp else 0
    )
    padded_logs = _place_beside(query, _initial_logsumexps(count, query.shape[2], padded_queries))
    for index in range(count if padded_queries else 0):
        piece_logs = logs[index] if pieces is None else logs[:, pieces[index].queries]
        _write(padded_logs[index, :, : piece_logs.shape[1]], piece_logs)
    dropout_state = [
        _place_beside(query, torch.zeros((), dtype=torch.int64, device="cpu")) for _ in range(2)
    ]
    return out, padded_logs, *dropout_state, *max_lengths


def efficient_backward(
    grad_out_: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    out: Tensor,
    cu_seqlens_q: Tensor | None,
    cu_seqlens_k: Tensor | None,
    max_seqlen_q: int,
    max_seqlen_k: int,
    logsumexp: Tensor,
    dropout_p: float,
    philox_seed: Tensor,
    philox_offset: Tensor,
    custom_mask_type: int,
    bias_requires_grad: bool,
    *,
    scale: float | None = None,
    num_splits_key: int | None = None,
    window_size: int | None = None,
    shared_storage_dqdkdv: bool = False,
) -> tuple[Tensor, ...]:
    """aten::_efficient_attention_backward: gradients of queries, keys and values."""
    del max_seqlen_q, max_seqlen_k, philox_seed, philox_offset, num_splits_key
    _check(query, key, value, dropout_p)
    if bias_requires_grad:
        _refuse("a bias with a gradient", "F.scaled_dot_product_attention, which gives it")
    if shared_storage_dqdkdv:
        _refuse("gradients in one tensor (shared_storage_dqdkdv)", "leave it out")
    window = _mask_window(custom_mask_type, window_size)
    no_bias_gradient = _place_beside(query, torch.empty((), device="cpu"))
    operands = (grad_out_, query, key, value, out)
    if cu_seqlens_q is None:
        logs = logsumexp[..., : query.shape[1]]
        return *_gradients((*operands, logs), None, window, scale, bias), no_bias_gradient
    pieces = _pieces(query[0], key[0], cu_seqlens_q, cu_seqlens_k) or []
    logs = _place_beside(query, _initial_logsumexps(query.shape[2], query.shape[1]))
    for index, piece in enumerate(pieces):
        piece_logs = logs[:, piece.queries]
        _write(piece_logs, logsumexp[index, :, : piece_logs.shape[1]])
    grads = _gradients((*(operand[0] for operand in operands), logs), pieces, window, scale)
    return *(grad[None] for grad in grads), no_bias_gradient


KERNELS: Final[dict[str, Kernel]] = {
    "_flash_attention_forward": flash,
    "_flash_attention_forward_no_dropout_inplace": flash_into,
    "_flash_attention_backward": flash_backward,
    "_efficient_attention_forward": efficient,
    "_efficient_attention_backward": efficient_backward,
}
HOST_FUNCTIONS: Final = {f"aten::{name}": kernel for name, kernel in KERNELS.items()}
"""Functions for operators without a CPU kernel, in graphs that the host runs."""
