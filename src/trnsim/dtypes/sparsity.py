"""Structured sparsity M:N: of every N values along an axis, at most M are not zero.

A sparse matrix is stored as the M values of each block and a tag for each value: its index within
the block, in 4 bits.  The axis is the last one here; the instruction chooses the real axis and
packs four tags into a uint16.

AWS's sources disagree on the legal patterns: the hardware pages list seven, the (unpublished)
section of the NKI guide "currently supports" 4:8, 4:12 and 4:16, and its sample writes 4:16 as
(16, 4) and "16:4".  All seven are here, named M:N.

Source: neuron-core-v3.rst and neuron-core-v4.rst, Tensor Engine; trainium2_arch.rst, M:N Structured
Sparsity.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from trnsim.dtypes.conversion import Array, Float32Array, UInt8Array
from trnsim.dtypes.rounding import to_float32
from trnsim.errors import IllegalInstruction


class SparsityPattern(NamedTuple):
    """A pattern M:N: at most `nonzeros` of every `block` values are not zero.

    Attributes:
        nonzeros: M, the values stored per block.
        block: N, consecutive values of the dense matrix.
    """

    nonzeros: int
    block: int

    @property
    def compression(self) -> int:
        """N / M: the length of the dense axis over that of the stored one."""
        return self.block // self.nonzeros

    def __str__(self) -> str:
        return f"{self.nonzeros}:{self.block}"


SPARSITY_PATTERNS: Final = {
    str(pattern): pattern
    for pattern in (
        SparsityPattern(4, 16),
        SparsityPattern(4, 12),
        SparsityPattern(4, 8),
        SparsityPattern(2, 8),
        SparsityPattern(2, 4),
        SparsityPattern(1, 4),
        SparsityPattern(1, 2),
    )
}


class SparseValues(NamedTuple):
    """A sparse array as stored.

    Attributes:
        values: ``[..., K * M / N]`` values.
        tags: the index of each value within its block of N, ascending within a block.
    """

    values: Array
    tags: UInt8Array


def compress(values: Array, pattern: str) -> SparseValues:
    """The M values of largest magnitude in each block of N of ``values [..., K]``, and their tags.

    Of equal magnitudes the value of the lower index is kept, and a NaN counts as the largest. A
    block with more than M non-zero values loses the smallest.

    Raises:
        IllegalInstruction: if there is no such pattern, or K is not a multiple of N.
    """
    form = _pattern(pattern)
    blocks = _blocks(values, form.block, f"values, for {pattern}")
    magnitude = np.abs(to_float32(blocks))
    order = np.where(np.isnan(magnitude), -np.inf, -magnitude).argsort(axis=-1, kind="stable")
    tags = np.sort(order[..., : form.nonzeros], axis=-1)
    largest_values = np.take_along_axis(blocks, tags, axis=-1)
    shape = (*values.shape[:-1], values.shape[-1] // form.compression)
    return SparseValues(largest_values.reshape(shape), tags.astype(np.uint8).reshape(shape))


def expand(values: Array, tags: npt.NDArray[np.integer], pattern: str) -> Float32Array:
    """The dense float32 ``[..., K]`` that ``values [..., K * M / N]`` and their tags stand for.

    Where a tag repeats within a block the values add, as their products with one and the same
    moving value would.

    Raises:
        IllegalInstruction: if there is no such pattern, the shapes disagree, the last axis is not a
            whole number of blocks, or a tag lies outside its block.
    """
    form = _pattern(pattern)
    if values.shape != tags.shape:
        raise IllegalInstruction(
            f"kept values of shape {values.shape} with tags of shape {tags.shape}; legal: one tag "
            "for each value",
            source="trainium2_arch.rst, M:N Structured Sparsity",
        )
    elements = to_float32(_blocks(values, form.nonzeros, f"kept values, for {pattern}"))
    indices = _blocks(tags, form.nonzeros, f"tags, for {pattern}").astype(np.int64)
    _check_tags(indices, form)
    dense = np.zeros((*elements.shape[:-1], form.block), np.float32)
    for slot in range(form.nonzeros):
        index = indices[..., slot : slot + 1]
        total = np.take_along_axis(dense, index, axis=-1) + elements[..., slot : slot + 1]
        np.put_along_axis(dense, index, total, axis=-1)
    return dense.reshape(*values.shape[:-1], values.shape[-1] * form.compression)


def _pattern(name: str) -> SparsityPattern:
    pattern = SPARSITY_PATTERNS.get(name)
    if pattern is None:
        raise IllegalInstruction(
            f"sparsity pattern {name!r}; legal: {', '.join(SPARSITY_PATTERNS)} (kept:block)",
            source="neuron-core-v3.rst, Tensor Engine",
        )
    return pattern


def _blocks(values: Array, length: int, unit: str) -> Array:
    """``[..., K]`` as ``[..., K / length, length]``."""
    size = values.shape[-1] if values.ndim else 1
    if values.ndim == 0 or size % length:
        raise IllegalInstruction(
            f"the last axis has {size} {unit}; legal: a multiple of {length}",
            fix="pad the axis with zeros",
            source="trainium2_arch.rst, M:N Structured Sparsity",
        )
    return values.reshape(*values.shape[:-1], size // length, length)


def _check_tags(tags: npt.NDArray[np.int64], form: SparsityPattern) -> None:
    illegal_tags = tags[(tags < 0) | (tags >= form.block)]
    if illegal_tags.size:
        raise IllegalInstruction(
            f"tag {illegal_tags[0]} in a block of {form.block}; legal: 0 to {form.block - 1}",
            source="trainium2_arch.rst, M:N Structured Sparsity",
        )
