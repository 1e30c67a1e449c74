"""Convolutions as products: the elements under each place of the kernel become columns.

The columns are written to HBM once, kernel size times as large as the input. Not here: groups,
dilation, transposed convolutions, and gradients where places overlap with a stride.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any, Final

from trnsim.graph import TensorType, Value
from trnsim.torch.importer.build import Build, Importer, Unlowered
from trnsim.torch.importer.movement import pad

Sizes = Sequence[int]


def _check(dilation: Sizes, groups: int, *, transposed: bool) -> None:
    if transposed or groups != 1 or any(step != 1 for step in dilation):
        raise Unlowered("groups, dilation or transposition")


def _spread(sizes: Sizes, rank: int) -> tuple[int, ...]:
    return tuple(sizes) * rank if len(sizes) == 1 else tuple(sizes)


def _columns(b: Build, x: Value, kernel: Sizes, stride: Sizes, padding: Sizes) -> Value:
    """``[C * kernel, N * places]`` of x ``[N, C, *sizes]``."""
    rank = len(kernel)
    x = pad(b, x, [side for size in reversed(padding) for side in (size, size)])
    x = b.graph.transpose(x, (1, 0, *range(2, 2 + rank)))
    channels, batch, *sizes = x.shape
    places = [(n - k) // s + 1 for n, k, s in zip(sizes, kernel, stride, strict=True)]
    shape = (channels, batch, *places)
    taps = [
        b.graph.add(
            "slice", (x,), TensorType(shape, x.dtype), starts=(0, 0, *tap), strides=(1, 1, *stride)
        )
        for tap in product(*(range(k) for k in kernel))
    ]
    flat = batch * prod(places)
    rows = [b.graph.reshape(tap, (channels, 1, flat)) for tap in taps]
    joined = TensorType((channels, len(rows), flat), x.dtype)
    whole = b.graph.add("concatenate", rows, joined, dim=1) if len(rows) > 1 else rows[0]
    return b.graph.reshape(whole, (channels * len(rows), flat))


def convolution(
    b: Build,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
) -> Value:
    """The weight times the columns, plus the bias of each channel."""
    del output_padding
    _check(dilation, groups, transposed=transposed)
    kernel = weight.shape[2:]
    rank = len(kernel)
    columns = _columns(b, x, kernel, _spread(stride, rank), _spread(padding, rank))
    flat = b.graph.reshape(weight, (weight.shape[0], columns.shape[0]))
    found = b.graph.dot_general(flat, columns, (1, 0), "float32")
    batch, channels, *places = b.results[0].shape
    found = b.graph.reshape(found, (channels, batch, *places))
    found = b.graph.transpose(found, (1, 0, *range(2, 2 + rank)))
    if bias is not None:
        found = b.ew("add", found, b.graph.broadcast_in_dim(bias, found.shape, (1,)))
    return b.result(found)


def convolution_backward(
    b: Build,
    grad: Value,
    x: Value,
    weight: Value,
    bias_sizes: Any,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
    mask: Sequence[bool],
) -> tuple[Value | None, ...]:
    """Gradients of the input, the weight and the bias."""
    del bias_sizes, output_padding
    _check(dilation, groups, transposed=transposed)
    rank = len(weight.shape) - 2
    stride, padding = _spread(stride, rank), _spread(padding, rank)
    order = (1, 0, *range(2, 2 + rank))
    flat = b.graph.transpose(grad, order)
    flat = b.graph.reshape(flat, (flat.shape[0], prod(flat.shape[1:])))
    rows = b.graph.reshape(weight, (weight.shape[0], prod(weight.shape[1:])))
    found: list[Value | None] = [None, None, None]
    if mask[0]:
        spread = b.graph.dot_general(rows, flat, (0, 0), x.dtype)
        found[0] = _folded(b, spread, x, weight, grad.shape[2:], (stride, padding))
    if mask[1]:
        columns = _columns(b, x, weight.shape[2:], stride, padding)
        product_ = b.graph.dot_general(flat, columns, (1, 1), weight.dtype)
        found[1] = b.graph.reshape(product_, weight.shape)
    if mask[2]:
        total = b.reduce("add", grad, [0, *range(2, 2 + rank)])
        found[2] = b.convert(total, weight.dtype)
    return tuple(found)


def _folded(
    b: Build, spread: Value, x: Value, weight: Value, places: Sizes, how: tuple[Sizes, Sizes]
) -> Value:
    """Each column's gradient added where its element came from."""
    stride, padding = how
    kernel, rank = weight.shape[2:], len(places)
    channels, batch = x.shape[1], x.shape[0]
    if tuple(stride) == tuple(kernel) and not any(padding):
        parts = b.graph.reshape(spread, (channels, *kernel, batch, *places))
        order = [1 + rank, 0]
        for dim in range(rank):
            order += [2 + rank + dim, 1 + dim]
        whole = b.graph.transpose(parts, order)
        sizes = [n * k for n, k in zip(places, kernel, strict=True)]
        whole = b.graph.reshape(whole, (batch, channels, *sizes))
        rest = [n - size for n, size in zip(x.shape[2:], sizes, strict=True)]
        return pad(b, whole, [side for size in reversed(rest) for side in (0, size)])
    if any(step != 1 for step in stride):
        raise Unlowered("the gradient of overlapping places with a stride")
    parts = b.graph.reshape(spread, (channels, prod(kernel), batch, *places))
    total: Value | None = None
    for number, tap in enumerate(product(*(range(k) for k in kernel))):
        shape = (channels, 1, batch, *places)
        starts = (0, number, *(0 for _ in range(rank + 1)))
        one = b.graph.add(
            "slice", (parts,), TensorType(shape, x.dtype), starts=starts, strides=(1,) * len(shape)
        )
        one = b.graph.reshape(one, (channels, batch, *places))
        sides = [s for k, at in zip(kernel, tap, strict=True) for s in (at, k - 1 - at)]
        pairs = [sides[i : i + 2] for i in range(0, len(sides), 2)]
        one = pad(b, one, [side for pair in reversed(pairs) for side in pair])
        total = one if total is None else b.ew("add", total, one)
    if total is None:
        raise Unlowered("a kernel without elements")
    inner = TensorType((channels, batch, *x.shape[2:]), x.dtype)
    if any(padding):
        total = b.graph.add(
            "slice", (total,), inner, starts=(0, 0, *padding), strides=(1,) * (2 + rank)
        )
    return b.graph.transpose(total, (1, 0, *range(2, 2 + rank)))


IMPORTERS: Final[dict[str, Importer]] = {
    "convolution": convolution,
    "convolution_backward": convolution_backward,
}
