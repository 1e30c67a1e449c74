"""Several operations in one instruction: ``f(data * scale + shift)`` and the like."""

from __future__ import annotations

from functools import partial
from typing import Any

from trnsim.graph import Node, Value
from trnsim.graph.ops.arithmetic import Add, Multiply, Relu
from trnsim.graph.ops.rounding import Convert
from trnsim.graph.patterns import number_of
from trnsim.graph.types import ITEM_BYTES
from trnsim.lower.emit.computing.compute import (
    are_single_block,
    as_scaled,
    compute_activated,
    compute_scaled,
    compute_shifted,
    compute_with,
    is_activation,
    is_binary,
    sides,
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
    _rows: dict[int, Node]

    def _tile_of(
        self, value: Value, path: Path, span: TileSpan, dst: Tensor | None = None
    ) -> Tensor:
        """The tile of a value in a span."""
        raise NotImplementedError

    def _fused_tile(self, node: Node, path: Path, span: TileSpan, dst: Tensor | None) -> Tensor:
        """The tile of a node, fused with the node of its operand if an instruction has both."""
        outer = as_scaled(node, partial(self._is_column, path=path))
        if outer is not None:
            inner, at = self._inner_operation(outer.data, path)
            before = None if inner is None else as_scaled(inner, partial(self._is_column, path=at))
            if before is not None:
                data = self._operand(before.data, at, span)
                steps = [
                    (before.op, self._operand(before.other, at, span), before.is_reversed),
                    (outer.op, self._operand(outer.other, path, span), outer.is_reversed),
                ]
                return compute_scaled(node, data, steps, dst)
        elif is_binary(node):
            for data, other, is_reversed in sides(node):
                inner, at = self._inner_operation(data, path)
                before = (
                    None if inner is None else as_scaled(inner, partial(self._is_column, path=at))
                )
                if before is not None:
                    first = self._operand(before.data, at, span)
                    step = before.op, self._operand(before.other, at, span), before.is_reversed
                    second = self._operand(other, path, span)
                    return compute_with(node, first, step, second, dst, is_reversed=is_reversed)
        if is_activation(node):
            inner, at = self._inner_operation(node.values[0], path)
            before = None if inner is None else as_scaled(inner, partial(self._is_column, path=at))
            if before is not None and before.is_shift:
                data = self._operand(before.data, at, span)
                return compute_shifted(node, data, self._operand(before.other, at, span), dst)
        operands = [self._operand(operand, path, span) for operand in node.operands]
        operands = with_tile_operand(node, operands, span.partitions)
        if isinstance(node.operation, Convert) and are_floats(node) and not self._is_elided(node):
            rounded = copied(operands[0], dtype_of(node.result.dtype))
            return rounded if dst is None else copied(rounded, dst.dtype, dst)
        return apply(node, operands, dst)

    def _is_elided(self, node: Node) -> bool:
        """True if a conversion needs no instruction: to a wider format, or before one as narrow.

        A number that is rounded and then widened stays rounded.
        """
        if not are_floats(node):
            return False
        size = ITEM_BYTES[node.result.dtype]
        return size >= min(ITEM_BYTES[node.values[0].dtype], ITEM_BYTES[self.value.dtype])

    def _activation_tile(
        self, node: Node, path: Path, span: TileSpan, dst: Tensor | None
    ) -> Tensor | None:
        """``f(data * scale + shift)`` or ``f(data * scale + shift + other)``; None for others."""
        if not (is_activation(node) or isinstance(node.operation, Relu)):
            return None
        inner, at = self._inner_operation(node.values[0], path)
        operands = self._scale_and_shift(inner, at)
        if operands is None:
            return self._activated_sum(node, inner, at, span, dst)
        data, scale, shift = (self._operand(operand, at, span) for operand, at in operands)
        if not are_single_block([scale, shift]):
            return None
        return compute_activated(node, data, scale, shift, dst)

    def _scale_and_shift(self, node: Node | None, path: Path) -> list[tuple[Any, Path]] | None:
        """Data, scale and shift of ``data * scale + shift``, each with its path."""
        steps: list[tuple[Any, Path]] = []
        for operation in (Add, Multiply):
            step = None if node is None else as_scaled(node, partial(self._is_column, path=path))
            if node is None or step is None or not isinstance(node.operation, operation):
                return None
            steps.append((step.other, path))
            data, at = step.data, path
            node, path = self._inner_operation(data, path)
        return [(data, at), *steps[::-1]]

    def _activated_sum(
        self, node: Node, sum_: Node | None, path: Path, span: TileSpan, dst: Tensor | None
    ) -> Tensor | None:
        """``f((data * scale + other) + shift)`` of ``f((data * scale + shift) + other)``.

        The Vector Engine then has one instruction and the Scalar Engine another.
        """
        if sum_ is None or not isinstance(sum_.operation, Add) or not is_binary(sum_):
            return None
        for value, other, _ in sides(sum_):
            operands = self._scale_and_shift(*self._inner_operation(value, path))
            if operands is None or not isinstance(other, Value) or self._is_column(other, path):
                continue
            data, scale, shift = (self._operand(operand, at, span) for operand, at in operands)
            second = self._operand(other, path, span)
            if are_single_block([scale, shift]) and tuple(second.shape) == tuple(data.shape):
                sums = new(data.shape)
                compute_with(sum_, data, (nl.multiply, scale, False), second, sums)
                return compute_activated(node, sums, 1.0, shift, dst)
        return None

    def _inner_operation(self, value: Value, path: Path) -> tuple[Node | None, Path]:
        """The node that computes a value for one reader alone, past conversions; else None."""
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
        if self._constant_number(value) is not None or (not path and value.number in self._rows):
            return True
        place = self.leaves.get((value.number, path))
        if place is None or place.is_pending or "float" not in value.dtype:
            return False
        return not varies_along(place, self.frame.f_dims)

    def _operand(self, value: Value | float, path: Path, span: TileSpan) -> Any:
        if not isinstance(value, Value):
            return value
        number = self._constant_number(value)
        return self._tile_of(value, path, span) if number is None else number

    def _constant_number(self, value: Value) -> float | None:
        """The number of which a tensor is a constant; else None."""
        return number_of(self.emission.facts.producers, value)


def are_floats(node: Node) -> bool:
    """True if a node converts one format of floating point to another."""
    return node.values[0].type.is_floating and node.result.type.is_floating
