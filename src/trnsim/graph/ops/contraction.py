"""Sums of products: matrix products, convolution, attention."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np

from trnsim.graph.operation import Example, Kind, Operation
from trnsim.graph.ops.layout import Pad, padded_length, strided
from trnsim.graph.types import FLOATS, Array, Shape, TensorType

_F32 = "float32"
_OUTER_DIMS = 2
"""Dimensions of an image beside the spatial ones, and of a matrix."""


class DotGeneral(Operation, kind=Kind.CONTRACTION):
    """``[*B, M, K] @ [*B, K, N] -> [*B, M, N]``, with K last or last but one on either side.

    It is StableHLO's dot_general with one contracted dimension and its batching dimensions first.

    Attributes:
        contracting: the place of K on each side.
    """

    operands = ("lhs", "rhs")
    legal = (FLOATS,)
    names_dtype = True
    contracting: tuple[int, int] = (1, 0)

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """[*B, M, N]."""
        lhs, rhs = tensors
        rank, batch = len(lhs.shape), lhs.shape[:-2]
        places = [dim - rank for dim in self.contracting]
        if rank < _OUTER_DIMS or len(rhs.shape) != rank or rhs.shape[:-2] != batch:
            self.refuse(f"of {lhs} and {rhs}; legal: batching dimensions that agree")
        if any(place not in (-1, -2) for place in places):
            self.refuse(f"over {self.contracting}; legal: the last two dimensions")
        if lhs.shape[places[0]] != rhs.shape[places[1]]:
            self.refuse(f"of {lhs} and {rhs} over {self.contracting}; legal: lengths that agree")
        rows, columns = (
            tensor.shape[-3 - place] for tensor, place in zip(tensors, places, strict=True)
        )
        return (TensorType((*batch, rows, columns), lhs.dtype),)

    def reference(self, lhs: Array, rhs: Array) -> Array:
        """The sums of products."""
        left = lhs if self.contracting[0] == lhs.ndim - 1 else lhs.swapaxes(-1, -2)
        right = rhs if self.contracting[1] == rhs.ndim - 2 else rhs.swapaxes(-1, -2)
        return left @ right

    def flop(self, *tensors: TensorType) -> float:
        """Two for each product."""
        contracted = tensors[0].shape[self.contracting[0]]
        return 2.0 * self.types(*tensors)[0].elements * contracted

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """K last and last but one on each side, a batch, sizes beyond a tile."""
        return tuple(
            Example(
                cls((2 if last else 1, 1 if first else 2)),
                (
                    TensorType((2, M, K) if last else (2, K, M), dtype),
                    TensorType((2, K, N) if first else (2, N, K), dtype),
                ),
                ("small", "small"),
            )
            for last, first in product((True, False), repeat=2)
            for M, K, N in ((1, 1, 1), (3, 130, 5))
            for dtype in (_F32, "bfloat16")
        )


class Convolution(Operation, kind=Kind.CONTRACTION):
    """Windows of [N, C, *D] multiplied by kernels [O, C / groups, *W]: ``[N, O, *windows]``.

    Attributes:
        strides: distance between windows.
        low: zeros before the first element; negative numbers remove elements.
        high: zeros after the last element.
        gaps: zeros between the elements, as in the gradient of a strided convolution.
        dilations: distance between elements of a window.
        groups: number of groups of channels, each multiplied with its own kernels.
        is_reversed: True if the last tap multiplies a window's first element, as in a gradient.
    """

    operands = ("lhs", "rhs")
    legal = (FLOATS,)
    names_dtype = True
    strides: Shape = ()
    low: Shape = ()
    high: Shape = ()
    gaps: Shape = ()
    dilations: Shape = ()
    groups: int = 1
    is_reversed: bool = False

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """An element for each image, kernel and window."""
        lhs, rhs = tensors
        if len(lhs.shape) != len(rhs.shape) or len(lhs.shape) < _OUTER_DIMS:
            self.refuse(f"of {lhs} and {rhs}; legal: [N, C, *D] and [O, C / groups, *W]")
        options = (self.strides, self.low, self.high, self.gaps, self.dilations)
        if any(len(option) != len(lhs.shape) - _OUTER_DIMS for option in options):
            self.refuse(f"of {lhs} by {self.strides}; legal: a number for each dimension of *D")
        if min((*self.strides, *self.dilations, self.groups), default=1) < 1:
            self.refuse(
                f"by strides of {self.strides} and {self.dilations} in {self.groups} groups; "
                "legal: from 1"
            )
        sides = zip(lhs.shape[_OUTER_DIMS:], self.low, self.high, self.gaps, strict=True)
        if min(self.gaps, default=0) < 0 or any(padded_length(*amounts) < 0 for amounts in sides):
            self.refuse(
                f"of {lhs} padded by {self.low}, {self.high} and {self.gaps}; legal: lengths and "
                "gaps from 0"
            )
        if lhs.shape[1] != rhs.shape[1] * self.groups or rhs.shape[0] % self.groups:
            self.refuse(f"of {lhs} and {rhs} in {self.groups} groups; legal: channels that agree")
        counts = tuple(
            max((padded_length(n, a, z, gap) - padded_length(w, 0, 0, d - 1)) // s + 1, 0)
            for n, w, s, a, z, gap, d in zip(
                lhs.shape[2:],
                rhs.shape[2:],
                self.strides,
                self.low,
                self.high,
                self.gaps,
                self.dilations,
                strict=True,
            )
        )
        return (TensorType((lhs.shape[0], rhs.shape[0], *counts), lhs.dtype),)

    def reference(self, lhs: Array, rhs: Array) -> Array:
        """Sums of products, tap after tap."""
        kind = TensorType(lhs.shape, _F32), TensorType(rhs.shape, _F32)
        shape = self.types(*kind)[0].shape
        unpadded = (0, 0)
        sides = (*unpadded, *self.low), (*unpadded, *self.high), (*unpadded, *self.gaps)
        wide = Pad(*sides).reference(lhs)
        inputs, outputs = rhs.shape[1], rhs.shape[0] // self.groups
        kernels = np.flip(rhs, tuple(range(_OUTER_DIMS, rhs.ndim))) if self.is_reversed else rhs
        sums = np.zeros(shape)
        for at in np.ndindex(*rhs.shape[2:]):
            window = tuple(
                strided(i * d, n, s)
                for i, d, n, s in zip(at, self.dilations, shape[2:], self.strides, strict=True)
            )
            for group in range(self.groups):
                outputs_of_group = slice(group * outputs, (group + 1) * outputs)
                part = wide[(slice(None), slice(group * inputs, (group + 1) * inputs), *window)]
                taps = kernels[(outputs_of_group, slice(None), *at)]
                sums[:, outputs_of_group] += np.moveaxis(np.tensordot(taps, part, (1, 1)), 0, 1)
        return sums

    def flop(self, *tensors: TensorType) -> float:
        """Two for each product, except those with the zeros of gaps."""
        (result,) = self.types(*tensors)
        batch, outputs, *places = result.shape
        pairs = batch * outputs * tensors[1].shape[1]
        for dim, (count, taps) in enumerate(zip(places, tensors[1].shape[2:], strict=True)):
            pairs *= self._counted_pairs(dim, count, taps)
        return 2.0 * pairs

    def _counted_pairs(self, dim: int, count: int, taps: int) -> int:
        """Pairs of a window and a tap, along a dimension, at which the input has no gap."""
        period = self.gaps[dim] + 1
        stride, dilation = self.strides[dim] % period, self.dilations[dim] % period
        windows = [-(-(count - i) // period) for i in range(period)]
        return sum(
            windows[i] * ((i * stride + tap * dilation - self.low[dim]) % period == 0)
            for i in range(period)
            for tap in range(taps)
        )

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Strides, padding, groups, gaps and dilations."""
        ones = (1, 1)
        operands = (TensorType((2, 4, 6, 7), _F32), TensorType((6, 2, 3, 2), _F32))
        plain = (TensorType((1, 3, 5), _F32), TensorType((2, 3, 1), _F32))
        taps = (TensorType((1, 3, 5), _F32), TensorType((2, 3, 3), _F32))
        return (
            Example(cls((2, 1), (1, 0), (1, 1), (0, 0), ones, 2), operands, ("small", "small")),
            Example(cls(ones, (0, 0), (0, 0), (1, 0), (1, 2), 2), operands, ("small", "small")),
            Example(cls((1,), (0,), (0,), (0,), (1,), 1), plain, ("small", "small")),
            Example(cls((1,), (2,), (1,), (1,), (1,), 1, True), taps, ("small", "small")),
        )


class AttentionBase(Operation, abstract=True):
    """The base of attention and its gradient.

    Q is [*B, L, E], K [*B, S, E], V [*B, S, V], the bias [*B, L, S], added to the scores.

    Attributes:
        scale: factor of the products of Q and K.
        is_causal: True if query i has the position of key ``first + apart * i``, and sees no later
            keys.
        first: position of the first query among the keys.
        apart: keys from a query to the next; more than 1 if ranks take turns in a sequence.
        window: maximum number of keys that a query sees; 0 for all. With a causal mask they are the
            last ones up to its own position.
    """

    scale: float = 1.0
    is_causal: bool = False
    first: int = 0
    apart: int = 1
    window: int = 0

    def scores(self, query: Array, key: Array, bias: tuple[Array, ...]) -> Array:
        """Scaled scores with the bias; hidden pairs are minus infinity."""
        scores = self.scaled(query @ key.swapaxes(-1, -2))
        for term in bias:
            scores = scores + term
        starts, ends = (side[:, None] for side in self.visible_keys(*scores.shape[-2:]))
        keys = np.arange(scores.shape[-1])
        return np.where((starts <= keys) & (keys < ends), scores, -np.inf)

    def scaled(self, products: Array) -> Array:
        """Scores from the products of Q and K."""
        return self.scale * products

    def visible_keys(self, queries: int, keys: int) -> tuple[Array, Array]:
        """For each query the first key that no mask hides, and the key after the last one."""
        places = self.first + self.apart * np.arange(queries)
        reach = self.window if self.is_causal else (self.window + 1) // 2
        starts, ends = np.zeros_like(places), np.full_like(places, keys)
        if self.window:
            starts, ends = places + 1 - reach, places + reach
        if self.is_causal:
            ends = places + 1
        return starts.clip(0, keys), ends.clip(0, keys)

    def visible_pairs(self, queries: int, keys: int) -> int:
        """Pairs of a query and a key that no mask hides, in each head.

        With a window and no causal mask, all queries count as if they had keys on both sides.
        """
        max_keys = min(keys, self.window or keys)
        if not self.is_causal:
            return queries * max_keys
        growing_count = min(max((max_keys - self.first - 1) // self.apart + 1, 0), queries)
        growing_pairs = (
            growing_count * (self.first + 1) + self.apart * growing_count * (growing_count - 1) // 2
        )
        return growing_pairs + (queries - growing_count) * max_keys

    def products(self, query: TensorType, value: TensorType) -> float:
        """Multiplications and additions of the forward pass for visible scores."""
        heads, L, S = prod(query.shape[:-2]), query.shape[-2], value.shape[-2]
        return 2.0 * heads * self.visible_pairs(L, S) * (query.shape[-1] + value.shape[-1])


_ATTENTION_SOURCE = "Vaswani et al., arXiv:1706.03762, section 3.2.1; Dao et al., arXiv:2205.14135"


class Attention(AttentionBase, kind=Kind.CONTRACTION, source=_ATTENTION_SOURCE):
    """``softmax(scale * Q @ K.T + bias) @ V``, and the log-sum-exp of each row's scores [*B, L].

    Attributes:
        cap: the bound of scaled scores, ``cap * tanh(score / cap)``; 0 for none.
    """

    operands = ("query", "key", "value", "*bias")
    legal = (FLOATS,)
    cap: float = 0.0

    def scaled(self, products: Array) -> Array:
        """Scores from the products of Q and K, with the cap if there is one."""
        scores = super().scaled(products)
        return self.cap * np.tanh(scores / self.cap) if self.cap else scores

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """[*B, L, V] and [*B, L]."""
        query, key, value = tensors[:3]
        if query.shape[-1] != key.shape[-1] or key.shape[:-1] != value.shape[:-1]:
            self.refuse(
                f"of {query}, {key} and {value}; legal: Q and K of one width, K and V of one length"
            )
        if 0 in (*key.shape, *value.shape) and 0 not in query.shape[:-1]:
            self.refuse(
                f"of {query}, {key} and {value}; legal: one key or more, one element or more in "
                "each key and value"
            )
        return (
            TensorType((*query.shape[:-1], value.shape[-1]), query.dtype),
            TensorType(query.shape[:-1], _F32),
        )

    def reference(self, query: Array, key: Array, value: Array, *bias: Array) -> Any:
        """The results, computed from the matrix of all scores."""
        scores = self.scores(query, key, bias)
        largest = scores.max(-1, keepdims=True)
        powers = np.exp(scores - largest)
        total = powers.sum(-1, keepdims=True)
        return powers / total @ value, (np.log(total) + largest)[..., 0]

    def flop(self, *tensors: TensorType) -> float:
        """FLOP of both products."""
        return self.products(tensors[0], tensors[2])

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """With and without a mask, in more than one tile; windows, and queries further on."""
        masks = (
            cls(0.25),
            cls(0.25, is_causal=True),
            cls(0.25, is_causal=True, first=10, apart=2),
            cls(0.25, is_causal=True, first=3, window=4),
            cls(0.25, window=7),
            cls(0.25, is_causal=True, cap=0.5),
        )
        return tuple(
            Example(
                mask,
                tuple(TensorType((2, n, width), _F32) for n, width in ((L, 16), (S, 16), (S, 8))),
                ("small",) * 3,
            )
            for mask in masks
            for L, S in ((5, 5), (130, 140))
        )


class AttentionBackward(AttentionBase, kind=Kind.CONTRACTION, source=_ATTENTION_SOURCE):
    """Gradients of Q, K and V from that of the result [*B, L, V].

    The result and the log-sum-exps `logs` [*B, L] are those of the forward pass.
    """

    operands = ("query", "key", "value", "grad", "result", "logs", "*bias")
    legal = (FLOATS,)

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """The types of Q, K and V."""
        return tensors[:3]

    def reference(
        self,
        query: Array,
        key: Array,
        value: Array,
        grad: Array,
        result: Array,
        logs: Array,
        *bias: Array,
    ) -> Any:
        """The gradients, computed from the matrix of all weights."""
        weights = np.exp(self.scores(query, key, bias) - logs[..., None])
        drop = (grad * result).sum(-1, keepdims=True)
        slope = self.scale * weights * (grad @ value.swapaxes(-1, -2) - drop)
        return slope @ key, slope.swapaxes(-1, -2) @ query, weights.swapaxes(-1, -2) @ grad

    def flop(self, *tensors: TensorType) -> float:
        """FLOP of five products; the forward pass has two."""
        return 2.5 * self.products(tensors[0], tensors[2])

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Any result and log-sum-exps are legal: the formula holds for all."""
        shapes = ((2, 5, 16), (2, 7, 16), (2, 7, 8), (2, 5, 8), (2, 5, 8), (2, 5))
        operands = tuple(TensorType(shape, _F32) for shape in shapes)
        masks = (
            cls(0.25),
            cls(0.25, is_causal=True),
            cls(0.25, is_causal=True, first=2),
            cls(0.25, is_causal=True, window=3),
            cls(0.25, window=4),
        )
        return tuple(Example(mask, operands, ("small",) * 6) for mask in masks)
