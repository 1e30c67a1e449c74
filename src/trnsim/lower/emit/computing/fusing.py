"""Several operations in one instruction: ``f(data * scale + shift)`` and the like."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from trnsim.graph import Node, Value
from trnsim.graph.ops.arithmetic import Add, Multiply, Relu
from trnsim.graph.ops.comparison import Compare
from trnsim.graph.ops.rounding import Convert
from trnsim.graph.patterns import number_of
from trnsim.graph.types import ITEM_BYTES
from trnsim.lower.emit.computing.compute import (
    ScaledOperation,
    are_single_block,
    as_scaled,
    compute_activated,
    compute_scaled,
    compute_scaled_with_tensor,
    compute_shifted,
    is_activation,
    is_binary,
    tensor_operands,
    with_tile_operand,
)
from trnsim.lower.emit.computing.leaves import Leaves, varies_along
from trnsim.lower.emit.places.paths import Path, is_passed
from trnsim.lower.emit.places.walk import TileSpan
from trnsim.lower.kernels.elementwise import apply
from trnsim.lower.kernels.instructions import copied
from trnsim.lower.kernels.tiles import Tensor, dtype_of, new
from trnsim.nki import language as nl


class FusedComputation(Leaves):
    """A computation whose operations are fused into instructions as engines allow."""

    value: Value
    _memo: dict[tuple[int, Path], Tensor]
    _row_reductions: dict[int, Node]

    def _tile_of(
        self, value: Value, path: Path, span: TileSpan, dst: Tensor | None = None
    ) -> Tensor:
        """The tile of a value in a span."""
        raise NotImplementedError

    def _fused_tile(self, node: Node, path: Path, span: TileSpan, dst: Tensor | None) -> Tensor:
        """The tile of a node; one instruction also computes an operand's node if possible."""
        outer = as_scaled(node, partial(self._is_column, path=path))
        if outer is not None:
            inner, inner_path = self._inner_scaled(outer.data, path)
            if inner is not None:
                data = self._operand(inner.data, inner_path, span)
                steps = [
                    (inner.op, self._operand(inner.other, inner_path, span), inner.is_reversed),
                    (outer.op, self._operand(outer.other, path, span), outer.is_reversed),
                ]
                return compute_scaled(node, data, steps, dst)
        elif is_binary(node):
            for value, other, is_reversed in tensor_operands(node):
                inner, inner_path = self._inner_scaled(value, path)
                if inner is not None:
                    data = self._operand(inner.data, inner_path, span)
                    column = self._operand(inner.other, inner_path, span)
                    step = inner.op, column, inner.is_reversed
                    second = self._operand(other, path, span)
                    return compute_scaled_with_tensor(
                        node, data, step, second, dst, is_reversed=is_reversed
                    )
        if is_activation(node):
            inner, inner_path = self._inner_scaled(node.values[0], path)
            if inner is not None and inner.is_column_addition:
                data = self._operand(inner.data, inner_path, span)
                shift = self._operand(inner.other, inner_path, span)
                return compute_shifted(node, data, shift, dst)
        operands = [self._operand(operand, path, span) for operand in node.operands]
        operands = with_tile_operand(node, operands, span.partitions)
        if isinstance(node.operation, Convert) and are_floats(node) and not self._is_elided(node):
            rounded = copied(operands[0], dtype_of(node.result.dtype))
            return rounded if dst is None else copied(rounded, dst.dtype, dst)
        return apply(node, operands, dst)

    def _inner_scaled(self, value: Value, path: Path) -> tuple[ScaledOperation | None, Path]:
        """The operation with a number or a column that computes a value, else None; its path."""
        inner, inner_path = self._inner_operation(value, path)
        if inner is None:
            return None, inner_path
        return as_scaled(inner, partial(self._is_column, path=inner_path)), inner_path

    def _is_elided(self, node: Node) -> bool:
        """True if a conversion between floats needs no instruction.

        It widens, or its result is at least as wide as `self.value`, the value of the whole
        computation. A number that is rounded and then widened stays rounded.
        """
        if not are_floats(node):
            return False
        size = ITEM_BYTES[node.result.dtype]
        return size >= min(ITEM_BYTES[node.values[0].dtype], ITEM_BYTES[self.value.dtype])

    def _activation_tile(
        self, node: Node, path: Path, span: TileSpan, dst: Tensor | None
    ) -> Tensor | None:
        """The tile of ``f(data * scale + shift)`` or ``f(data * scale + shift + other)``.

        None for other nodes.
        """
        if not (is_activation(node) or isinstance(node.operation, Relu)):
            return None
        inner, inner_path = self._inner_operation(node.values[0], path)
        operands = self._scale_and_shift(inner, inner_path)
        if operands is None:
            return self._activated_sum(node, inner, inner_path, span, dst)
        data, scale, shift = (self._operand(operand, at, span) for operand, at in operands)
        if not are_single_block([scale, shift]):
            return None
        return compute_activated(node, data, scale, shift, dst)

    def _scale_and_shift(self, node: Node | None, path: Path) -> list[tuple[Any, Path]] | None:
        """Data, scale and shift of ``data * scale + shift``, each with its path; else None."""
        steps: list[tuple[Any, Path]] = []
        for operation in (Add, Multiply):
            step = None if node is None else as_scaled(node, partial(self._is_column, path=path))
            if node is None or step is None or not isinstance(node.operation, operation):
                return None
            steps.append((step.other, path))
            data, data_path = step.data, path
            node, path = self._inner_operation(data, path)
        return [(data, data_path), *steps[::-1]]

    def _activated_sum(
        self, node: Node, sum_: Node | None, path: Path, span: TileSpan, dst: Tensor | None
    ) -> Tensor | None:
        """The tile of ``f(data * scale + shift + other)``; None for other nodes.

        The Vector Engine computes ``data * scale + other``, and the Scalar Engine the rest.
        """
        if sum_ is None or not isinstance(sum_.operation, Add) or not is_binary(sum_):
            return None
        for value, other, _ in tensor_operands(sum_):
            operands = self._scale_and_shift(*self._inner_operation(value, path))
            if operands is None or not isinstance(other, Value) or self._is_column(other, path):
                continue
            data, scale, shift = (self._operand(operand, at, span) for operand, at in operands)
            second = self._operand(other, path, span)
            if are_single_block([scale, shift]) and tuple(second.shape) == tuple(data.shape):
                sums = new(data.shape)
                compute_scaled_with_tensor(sum_, data, (nl.multiply, scale, False), second, sums)
                return compute_activated(node, sums, 1.0, shift, dst)
        return None

    def _inner_operation(self, value: Value, path: Path) -> tuple[Node | None, Path]:
        """The node that computes a value for one reader alone, and the path to its result.

        If views or elided conversions compute the value, it is the node of their operand. The node
        is None for a leaf, for a value that is computed already, and for one with several readers.
        """
        while (value.number, path) not in self.leaves and (value.number, path) not in self._memo:
            node = self.emission.facts.producers.get(value.number)
            if node is None or self.emission.facts.uses.get(value.number, 0) > 1:
                break
            if is_passed(node):
                value, path = node.values[0], (node, *path)
            elif isinstance(node.operation, Convert) and self._is_elided(node):
                value = node.values[0]
            else:
                return node, path
        return None, path

    def _is_column(self, value: Value, path: Path = ()) -> bool:
        """True if a value is a constant, or a leaf with one element for each partition."""
        if self._constant_number(value) is not None or (
            not path and value.number in self._row_reductions
        ):
            return True
        place = self.leaves.get((value.number, path))
        if place is None or place.is_pending or "float" not in value.dtype:
            return False
        return not varies_along(place, self.frame.f_dims)

    def _operand(self, value: Value | float, path: Path, span: TileSpan) -> Any:
        """A number if every element of the value is that number, else its tile in a span."""
        if not isinstance(value, Value):
            return value
        number = self._constant_number(value)
        return self._tile_of(value, path, span) if number is None else number

    def _constant_number(self, value: Value) -> float | None:
        """The number that every element of a constant tensor is; None for other tensors."""
        return number_of(self.emission.facts.producers, value)


def are_floats(node: Node) -> bool:
    """True if a node converts one format of floating point to another."""
    return node.values[0].type.is_floating and node.result.type.is_floating


def is_short(node: Node, readers: int) -> bool:
    """True if an operation is so short that its readers may each compute it."""
    if isinstance(node.operation, Convert):
        return are_floats(node)
    return readers <= _MOST_READERS and (is_binary(node) or isinstance(node.operation, Compare))


_MOST_READERS: Final = 3
"""Most readers that each compute an operation of one instruction, instead of sharing its result."""
