"""The computation of a value from those that lie somewhere, span by span."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from trnsim.compiler.emit import lines
from trnsim.compiler.emit.balance import balanced
from trnsim.compiler.emit.compute import (
    compute,
    compute_activated,
    compute_scaled,
    compute_shifted,
    compute_with,
    copied,
    filled_with,
    is_activation,
    is_binary,
    scaled,
    sides,
    suits,
)
from trnsim.compiler.emit.framing import framed
from trnsim.compiler.emit.leaves import Leaves, moves
from trnsim.compiler.emit.paths import Path, along, is_passed, widens
from trnsim.compiler.emit.placed import Pending, Placed, in_hbm
from trnsim.compiler.emit.walk import (
    Frame,
    Span,
    frame_of,
    is_all,
    slice_of,
    spans,
    write,
)
from trnsim.graph import Kind, Node, Value
from trnsim.graph.ops.arithmetic import Add, Multiply, Relu
from trnsim.graph.ops.layout import BroadcastInDim, Reshape
from trnsim.graph.ops.leaves import Constant
from trnsim.graph.ops.rounding import Convert
from trnsim.graph.types import ITEM_BYTES
from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.tiles import Tensor, dtype_of, new
from trnsim.nki import language as nl

if TYPE_CHECKING:
    from trnsim.compiler.emit.emission import Emission

PIECE: Final = 2048
"""Elements of a partition in one instruction: long enough to hide its fixed cost."""

_REPEATED: Final = 3
"""Readers up to which an operation of one instruction is repeated rather than kept."""


class Evaluation(Leaves):
    """The operations that compute a value, from the leaves that lie somewhere."""

    def __init__(
        self,
        emission: Emission,
        value: Value,
        pending: Placed | None = None,
        *,
        is_kept: bool = True,
    ) -> None:
        """The computation of a value, or of what is `pending` alone.

        One that is not kept is read by another operation and forgotten: what several read is
        computed and kept before.
        """
        super().__init__(emission)
        self.value = value
        self._memo: dict[tuple[int, Path], Tensor] = {}
        self._places: dict[int, Placed] = {}
        self._beside: dict[int, Value] = {}
        self._joins = is_kept and pending is None
        if pending is None:
            self._collect(value, (), is_root=is_kept)
            if self._beside and self.pending():
                # Sums that several read are computed once, and kept.
                self._joins = False
                for known in (self._beside, self.leaves, self._values):
                    known.clear()
                self._collect(value, (), is_root=is_kept)
        else:
            self.leaves[value.number, ()] = pending
        numbers = {number for number, _ in self.leaves}
        self.frame = framed(emission, value, self.leaves.values(), numbers)
        if pending is None:
            self._settle_others()

    @property
    def name(self) -> str:
        """The operations that it computes, in words."""
        found: list[str] = [one.storage.name for one in self.leaves.values() if one.is_pending]
        waiting, seen = [self.value], set[int]()
        while waiting:
            value = waiting.pop()
            node = self.emission.maker.get(value.number)
            if value.number in seen:
                continue
            seen.add(value.number)
            if node is None or any(number == value.number for number, _ in self.leaves):
                continue
            if node.kind is Kind.ELEMENTWISE:
                found.append(node.name)
            waiting += node.values
        return "+".join(dict.fromkeys(sorted(found, key=_is_convert))) or "copy"

    def run(self) -> Placed:
        """The value's place, with all of it computed."""
        with self.emission.named(self.name):
            if self.pending():
                return self._run()
            with balanced():
                return self._as_line() or self._run()

    def _as_line(self) -> Placed | None:
        """A long line, by rows that lie along the partitions or by a kernel; None of others."""
        if not lines.is_line(self.value.shape, self.leaves.values()):
            return None
        shape = lines.rows(self.value.shape)
        if shape is None:
            numbers = {number for number, _ in self.leaves}
            return lines.by_kernel(self.emission, self.value, numbers)
        self.leaves = lines.as_rows(self.leaves, shape)
        self.frame = Frame(shape, (0,), (1,))
        return self._run(is_line=True)

    def fill(self, result: Placed) -> None:
        """Compute all of the value into a place of its frame."""
        with self.emission.named(self.name):
            self._places[self.value.number] = result
            self._run()

    def _run(self, *, is_line: bool = False) -> Placed:
        """The value's place, with it and what is kept beside it computed."""
        for value in (*self._beside.values(), self.value):
            if value.number not in self._places:
                self._places[value.number] = self._room(value, is_line=is_line)
        for span in self.spans():
            self.tile(span)
        for number, value in (*self._beside.items(), (self.value.number, self.value)):
            placed = self._places[number]
            if is_line:
                placed = in_hbm(placed.storage, value.shape)
            self.emission.placed[number] = [placed]
        return self.emission.placed[self.value.number][0]

    def _room(self, value: Value, *, is_line: bool) -> Placed:
        if not is_line:
            return self.emission.room(self.frame, value)
        tensor = tiles.output(value.shape, value.dtype)
        return Placed(tensor, self.frame.shape, in_hbm(tensor, self.frame.shape).steps, (0,))

    def _put(self, value: Value, span: Span) -> Tensor:
        """Compute a value's tile where it belongs."""
        placed = self._places[value.number]
        dst = slice_of(placed, self.frame, span) if placed.is_on_chip else None
        if dst is None:
            dst = new((span.partitions, span.blocks, span.columns), dtype_of(value.dtype))
        made = self._computed(value, (), span, dst)
        if not placed.is_on_chip:
            write(placed, self.frame, span, made)
        return made

    def pending(self) -> list[Pending]:
        """The products among the leaves."""
        return [one.storage for one in self.leaves.values() if one.is_pending]

    def spans(self, start: int = 0, columns: int = 0) -> Iterator[Span]:
        """Spans of some columns, or all: of one bank where sums come from PSUM."""
        pending, end = self.pending(), start + (columns or self.frame.columns)
        longest = 1 if pending else PIECE
        most = min((one.span_columns() for one in pending), default=PIECE)
        chunk = min((one.chunk() for one in pending), default=end - start)
        for first in range(start, end, chunk):
            count = min(chunk, end - first)
            for one in pending:
                one.enter(first, count)
            yield from spans(self.frame, first, count, longest, most)

    def tile(self, span: Span, dst: Tensor | None = None) -> Tensor:
        """The value's tile of a span, [partitions, blocks, columns]."""
        self._memo.clear()
        if self._places:
            return self._put(self.value, span)
        return self._made(self.value, (), span, dst)

    # The operations

    def _collect(self, value: Value, path: Path, *, is_root: bool = False) -> None:
        """Find the leaves below a value."""
        emission = self.emission
        node = emission.maker.get(value.number)
        key = (value.number, path)
        self._values[value.number] = value
        if value.number in emission.placed or node is None:
            self.leaves[key] = self._leaf(value, path)
        elif isinstance(node.operation, Constant):
            return
        elif is_passed(node) and self._inlined(node.values[0]):
            self._collect(node.values[0], (node, *path))
        elif not path and value.number in self._beside:
            return
        elif node.kind is Kind.ELEMENTWISE and (
            is_root or self._inlined(value) or self._is_beside(value, path)
        ):
            for operand in node.values:
                self._collect(operand, path)
        else:
            self.leaves[key] = self._leaf(value, path)

    def _inlined(self, value: Value) -> bool:
        """Whether a value is computed where it is read, and not before."""
        emission = self.emission
        node = emission.maker.get(value.number)
        if node is None or value.number in emission.placed:
            return False
        if is_passed(node):
            return self._inlined(node.values[0])
        if node.kind is not Kind.ELEMENTWISE:
            return False
        if widens(node):
            return True
        return emission.uses.get(value.number, 0) <= 1 or self._is_cheap(value)

    def _is_beside(self, value: Value, path: Path) -> bool:
        """Whether a value of this shape that others read too is computed on the way, and kept."""
        is_alike = self._joins and not path and value.shape == self.value.shape
        if is_alike and value.number not in self.emission.later:
            self._beside[value.number] = value
            return True
        return False

    def _is_cheap(self, value: Value) -> bool:
        """Whether a value is one operation on what lies somewhere: each reader repeats it."""
        emission = self.emission
        node = emission.maker[value.number]
        if not _is_short(node, emission.uses[value.number]):
            return False
        if isinstance(node.operation, Convert):
            places = [emission.placed.get(one.number) for one in node.values]
            return all(one is not None and not one[0].is_pending for one in places)
        return all(self._is_at_hand(one) for one in node.values)

    def _is_at_hand(self, value: Value) -> bool:
        """Whether a value lies somewhere, as it is, converted, or repeated."""
        emission = self.emission
        while value.number not in emission.placed:
            node = emission.maker.get(value.number)
            is_passed = node is not None and (
                isinstance(node.operation, BroadcastInDim | Reshape)
                or (isinstance(node.operation, Convert) and _are_floats(node))
            )
            if node is None or not is_passed:
                return self._number(value) is not None
            value = node.values[0]
        return not emission.placed[value.number][0].is_pending

    def _leaf(self, value: Value, path: Path) -> Placed:
        """Where a leaf lies, in the shape that is computed."""
        emission = self.emission
        found = emission.places(value)
        if found[0].is_pending:
            placed = along(path, found[0])
            is_once = emission.uses.get(value.number, 0) <= 1
            if is_once and placed is not None and is_all(placed):
                return placed
        for one in emission.settled(value):
            placed = along(path, one)
            if placed is not None:
                return placed
        return self._in_order(value.number, path)

    def _settle_others(self) -> None:
        """Compute what is pending in another frame, as its tiles are those of its own."""
        for (number, path), placed in list(self.leaves.items()):
            if placed.is_pending and frame_of(placed, self.value.shape) != self.frame:
                value = self._values[number]
                self.emission.settled(value)
                self.leaves[number, path] = self._leaf(value, path)

    def _made(self, value: Value, path: Path, span: Span, dst: Tensor | None = None) -> Tensor:
        """The tile of a value in a span."""
        key = (value.number, path)
        if key in self._memo and dst is None:
            return self._memo[key]
        if path or value.number not in self._beside:
            return self._computed(value, path, span, dst)
        found = self._put(value, span)
        return found if dst is None else copied(found, dst.dtype, dst)

    def _computed(self, value: Value, path: Path, span: Span, dst: Tensor | None) -> Tensor:
        """The tile of a value, computed or fetched."""
        key = (value.number, path)
        if key in self.leaves:
            found = self.fetched(key, span)
            if dst is not None:
                found = copied(found, dst.dtype, dst)
        else:
            node = self.emission.maker[value.number]
            if is_passed(node):
                return self._made(node.values[0], (node, *path), span, dst)
            if dst is not None and isinstance(node.operation, Convert) and self._is_elided(node):
                return self._made(node.values[0], path, span, dst)
            found = self._activated(node, path, span, dst)
            if found is None:
                found = self._joined(node, path, span, dst)
        self._memo[key] = found
        return found

    def _joined(self, node: Node, path: Path, span: Span, dst: Tensor | None) -> Tensor:
        """A node's tile, its operand computed by the same instruction where one can."""
        outer = scaled(node, partial(self._is_column, path=path))
        if outer is not None:
            inner, at = self._below(outer.data, path)
            before = None if inner is None else scaled(inner, partial(self._is_column, path=at))
            if before is not None:
                data = self._operand(before.data, at, span)
                steps = [
                    (before.op, self._operand(before.other, at, span), before.is_reversed),
                    (outer.op, self._operand(outer.other, path, span), outer.is_reversed),
                ]
                return compute_scaled(node, data, steps, dst)
        elif is_binary(node):
            for data, other, is_reversed in sides(node):
                inner, at = self._below(data, path)
                before = None if inner is None else scaled(inner, partial(self._is_column, path=at))
                if before is not None:
                    first = self._operand(before.data, at, span)
                    step = before.op, self._operand(before.other, at, span), before.is_reversed
                    second = self._operand(other, path, span)
                    return compute_with(node, first, step, second, dst, is_reversed=is_reversed)
        if is_activation(node):
            inner, at = self._below(node.values[0], path)
            before = None if inner is None else scaled(inner, partial(self._is_column, path=at))
            if before is not None and before.is_shift:
                data = self._operand(before.data, at, span)
                return compute_shifted(node, data, self._operand(before.other, at, span), dst)
        operands = [self._operand(one, path, span) for one in node.operands]
        if all(isinstance(one, int | float) for one in operands):
            operands[0] = filled_with(operands[0], node.values[0].dtype, span.partitions)
        if isinstance(node.operation, Convert) and _are_floats(node) and not self._is_elided(node):
            rounded = copied(operands[0], dtype_of(node.result.dtype))
            return rounded if dst is None else copied(rounded, dst.dtype, dst)
        return compute(node, operands, dst)

    def _is_elided(self, node: Node) -> bool:
        """Whether a conversion needs no instruction: to a wider format, or on the way to as narrow.

        A number that is rounded before it becomes wider again stays rounded.
        """
        if not _are_floats(node):
            return False
        size = ITEM_BYTES[node.result.dtype]
        return size >= min(ITEM_BYTES[node.values[0].dtype], ITEM_BYTES[self.value.dtype])

    def _activated(self, node: Node, path: Path, span: Span, dst: Tensor | None) -> Tensor | None:
        """``f(data * scale + shift)`` or ``f(data * scale + shift + other)``, if it is one."""
        if not (is_activation(node) or isinstance(node.operation, Relu)):
            return None
        inner, at = self._below(node.values[0], path)
        found = self._scale_and_shift(inner, at)
        if found is None:
            return self._activated_sum(node, inner, at, span, dst)
        data, scale, shift = (self._operand(one, at, span) for one, at in found)
        if not suits([scale, shift]):
            return None
        return compute_activated(node, data, scale, shift, dst)

    def _scale_and_shift(self, node: Node | None, path: Path) -> list[tuple[Any, Path]] | None:
        """Data, scale and shift of ``data * scale + shift``, each with its path."""
        found: list[tuple[Any, Path]] = []
        for operation in (Add, Multiply):
            step = None if node is None else scaled(node, partial(self._is_column, path=path))
            if node is None or step is None or not isinstance(node.operation, operation):
                return None
            found.append((step.other, path))
            data, at = step.data, path
            node, path = self._below(data, path)
        return [(data, at), *found[::-1]]

    def _activated_sum(
        self, node: Node, sum_: Node | None, path: Path, span: Span, dst: Tensor | None
    ) -> Tensor | None:
        """``f((data * scale + other) + shift)`` of ``f((data * scale + shift) + other)``.

        So the Vector Engine has one instruction and the Scalar Engine another.
        """
        if sum_ is None or not isinstance(sum_.operation, Add) or not is_binary(sum_):
            return None
        for value, other, _ in sides(sum_):
            found = self._scale_and_shift(*self._below(value, path))
            if found is None or not isinstance(other, Value) or self._is_column(other, path):
                continue
            data, scale, shift = (self._operand(one, at, span) for one, at in found)
            second = self._operand(other, path, span)
            if suits([scale, shift]) and tuple(second.shape) == tuple(data.shape):
                whole = new(data.shape)
                compute_with(sum_, data, (nl.multiply, scale, False), second, whole)
                return compute_activated(node, whole, 1.0, shift, dst)
        return None

    def _below(self, value: Value, path: Path) -> tuple[Node | None, Path]:
        """The operation that computes a value here and for one reader alone, past conversions."""
        while (value.number, path) not in self.leaves and (value.number, path) not in self._memo:
            node = self.emission.maker.get(value.number)
            if node is None or self.emission.uses.get(value.number, 0) > 1:
                break
            if is_passed(node):
                value, path = node.values[0], (node, *path)
            elif isinstance(node.operation, Convert) and self._is_elided(node):
                value = node.values[0]
            else:
                return node, path
        return None, path

    def _is_column(self, value: Value, path: Path = ()) -> bool:
        """Whether a value is a leaf with one number to a partition, or a constant."""
        if self._number(value) is not None:
            return True
        placed = self.leaves.get((value.number, path))
        if placed is None or placed.is_pending or "float" not in value.dtype:
            return False
        return not moves(placed, self.frame.f_dims)

    def _operand(self, value: Value | float, path: Path, span: Span) -> Any:
        if not isinstance(value, Value):
            return value
        number = self._number(value)
        return self._made(value, path, span) if number is None else number

    def _number(self, value: Value) -> float | None:
        """The number that a tensor repeats, if it is constant."""
        node: Node | None = self.emission.maker.get(value.number)
        while node is not None and isinstance(node.operation, Reshape | BroadcastInDim):
            node = self.emission.maker.get(node.values[0].number)
        if node is not None and isinstance(node.operation, Constant):
            return float(node.operation.number)
        return None


def _is_convert(name: str) -> bool:
    return name == "convert"


def _is_short(node: Node, readers: int) -> bool:
    """Whether an operation is so short that its readers may each compute it."""
    if isinstance(node.operation, Convert):
        return _are_floats(node)
    return readers <= _REPEATED and is_binary(node)


def _are_floats(node: Node) -> bool:
    return node.values[0].type.is_floating and node.result.type.is_floating
