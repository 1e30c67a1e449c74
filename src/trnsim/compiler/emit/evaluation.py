"""The computation of a value from those that lie somewhere, span by span."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from trnsim.compiler.emit.compute import (
    compute,
    compute_activated,
    compute_scaled,
    compute_shifted,
    compute_with,
    copied,
    is_activation,
    is_binary,
    scaled,
    sides,
    suits,
    with_a_tile,
)
from trnsim.compiler.emit.framing import covers, framed
from trnsim.compiler.emit.lines import by_rows
from trnsim.compiler.emit.naming import chain_name, chain_node
from trnsim.compiler.emit.paths import Path, along, back, is_passed, widens
from trnsim.compiler.emit.placed import Pending, Placed, in_hbm
from trnsim.compiler.emit.turning import is_straight
from trnsim.compiler.emit.walk import (
    MANY,
    Span,
    filled,
    frame_of,
    is_aligned,
    is_all,
    is_movable,
    is_scattered,
    slice_of,
    spans,
    strips,
    transfers,
    whole,
    write,
)
from trnsim.graph import Kind, Node, Value
from trnsim.graph.ops.arithmetic import Add, Multiply, Relu
from trnsim.graph.ops.layout import BroadcastInDim, Reshape
from trnsim.graph.ops.leaves import Constant
from trnsim.graph.ops.rounding import Convert
from trnsim.graph.types import ITEM_BYTES
from trnsim.lower.kernels.tiles import Tensor, dtype_of, new
from trnsim.nki import language as nl

if TYPE_CHECKING:
    from trnsim.compiler.emit.emission import Emission

PIECE: Final = 2048
"""Elements of a partition in one instruction: long enough to hide its fixed cost."""

_STRIP_BYTES: Final = 4096
"""Bytes of a partition in one transfer; shorter runs take longer (nki_perf_guide.rst, Opt #9)."""
_REPEATED: Final = 3
"""Readers up to which an operation of one instruction is repeated rather than kept."""


class Evaluation:
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
        self.emission, self.value = emission, value
        self.leaves: dict[tuple[int, Path], Placed] = {}
        self._values: dict[int, Value] = {value.number: value}
        self._memo: dict[tuple[int, Path], Tensor] = {}
        self._columns: dict[Any, Tensor] = {}
        self._parts: dict[Any, Tensor] = {}
        self._strip: Span | None = None
        if pending is None:
            self._collect(value, (), is_root=is_kept)
        else:
            self.leaves[value.number, ()] = pending
        numbers = {number for number, _ in self.leaves}
        self.frame = framed(emission, value, self.leaves.values(), numbers)
        if pending is None:
            self._settle_others()

    def run(self) -> Placed:
        """The value's place, with all of it computed."""
        with self._named() as leaves:
            return by_rows(self.emission, self.value, leaves) or self._run()

    @contextmanager
    def _named(self) -> Generator[dict[int, Placed]]:
        """What is issued inside belongs to the operations that it computes, of those leaves."""
        leaves = {number: one for (number, _), one in self.leaves.items()}
        chain = (self.emission.maker, self.value, leaves)
        with self.emission.named(chain_name(*chain), chain_node(*chain)):
            yield leaves

    def _run(self) -> Placed:
        result = self.emission.room(self.frame, self.value)
        self._fill(result)
        return result

    def fill(self, result: Placed) -> None:
        """Compute all of the value into a place of its frame."""
        with self._named():
            self._fill(result)

    def _fill(self, result: Placed) -> None:
        for strip in self._strips(0, self.frame.columns):
            self._strip, self._parts = whole(strip), {}
            if result.is_on_chip:
                for span in strip:
                    self.tile(span, slice_of(result, self.frame, span))
                continue
            one = self._strip
            made = new((one.partitions, one.blocks, one.columns), result.storage.dtype)
            for span in strip:
                at = span.start - one.start
                self.tile(span, made[:, :, at : at + span.columns])
            write(result, self.frame, one, made)
        self._strip = None

    def pending(self) -> list[Pending]:
        """The products among the leaves."""
        return [one.storage for one in self.leaves.values() if one.is_pending]

    def spans(self, start: int = 0, columns: int = 0) -> Iterator[Span]:
        """Spans of some columns, or all: of one bank where sums come from PSUM."""
        for strip in self._strips(start, start + (columns or self.frame.columns)):
            yield from strip

    def _strips(self, start: int, end: int) -> Iterator[list[Span]]:
        """Spans of some columns, those together that transfers bring or take at once."""
        pending = self.pending()
        longest = 1 if pending else PIECE
        most = min((one.span_columns() for one in pending), default=PIECE)
        chunk = min((one.chunk() for one in pending), default=end - start)
        together = _STRIP_BYTES // ITEM_BYTES[self.value.dtype]
        for first in range(start, end, chunk):
            count = min(chunk, end - first)
            for one in pending:
                one.enter(first, count)
            yield from strips(spans(self.frame, first, count, longest, most), together)

    def tile(self, span: Span, dst: Tensor | None = None) -> Tensor:
        """The value's tile of a span, [partitions, blocks, columns]."""
        self._memo.clear()
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
        elif node.kind is Kind.ELEMENTWISE and (is_root or self._inlined(value)):
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

    def _in_order(self, number: int, path: Path) -> Placed:
        """A leaf in HBM, in row-major order of what is computed."""
        value = self._values[number]
        placed = along(path, in_hbm(self.emission.dense(value), value.shape))
        if placed is None:
            last = self.emission.viewed(value, path)
            placed = in_hbm(self.emission.dense(last), last.shape)
        return placed

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
        if key in self.leaves:
            found = self._fetched(key, span)
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
        operands = with_a_tile(node, operands, span.partitions)
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
        return not _moves(placed, self.frame.f_dims)

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

    def _fetched(self, key: tuple[int, Path], span: Span) -> Tensor:
        """A leaf's tile."""
        placed = self.leaves[key]
        if placed.is_pending:
            return placed.storage.tile(span)
        if is_aligned(placed, self.frame):
            found = slice_of(placed, self.frame, span)
            if found is not None:
                return found
        period = self.emission.periodic(key[0], placed, self.frame)
        if period is not None:
            end = span.start + span.columns if period.shape[2] > 1 else 1
            return period[: span.partitions, :, min(span.start, end - 1) : end]
        if not _moves(placed, self.frame.f_dims):
            return self._column(key, placed, span)
        here = self._nearer(key, placed)
        if here == placed:
            return self._filled(key, placed, span)
        self.leaves[key] = here
        return self._fetched(key, span)

    def _nearer(self, key: tuple[int, Path], placed: Placed) -> Placed:
        """A leaf where transfers find it in the frame: in order in HBM, or turned."""
        is_movable_across = covers(placed) and is_movable(placed, self.frame.flipped())
        if not is_movable(placed, self.frame) and not is_movable_across:
            return self._in_order(*key)
        if is_scattered(placed, self.frame) or transfers(placed, self.frame) > MANY:
            return self._in_order(*key)
        if not covers(placed) or is_straight(placed, self.frame):
            return placed
        here = self.emission.reframed(placed, self.frame)
        self._reused(key, here)
        return here

    def _reused(self, key: tuple[int, Path], placed: Placed) -> None:
        """Note where a leaf now lies too."""
        number, path = key
        value = self._values[number]
        for node in reversed(path):
            before = back(node, placed)
            if before is None:
                return
            placed = before
        self.emission.add_place(value, placed)

    def _column(self, key: tuple[int, Path], placed: Placed, span: Span) -> Tensor:
        """A leaf that is one number to a partition, of all blocks at once."""
        if key not in self._columns:
            self._columns[key] = self.emission.column(key[0], placed, self.frame)
        return self._columns[key][: span.partitions, span.block : span.block + span.blocks]

    def _filled(self, key: tuple[int, Path], placed: Placed, span: Span) -> Tensor:
        """A leaf's elements moved by transfers; once where many spans read them."""
        is_row = not any(any(placed.steps[dim]) for dim in self.frame.p_dims)
        blocks = span.blocks if is_row else (span.block, span.blocks)
        short = (*key, blocks, span.partitions, span.start, span.columns)
        if short in self._columns:
            return self._columns[short]
        dtype = placed.storage.tile.dtype if placed.is_on_chip else placed.storage.dtype
        strip = self._strip
        if strip is not None and not is_row and strip.columns > span.columns:
            if key not in self._parts:
                self._parts[key] = filled(placed, self.frame, strip, dtype)
            part, at = self._parts[key], span.start - strip.start
            return part if part.shape[2] == 1 else part[:, :, at : at + span.columns]
        made = filled(placed, self.frame, span, dtype)
        if is_row:
            self._columns[short] = made
        return made


def _is_short(node: Node, readers: int) -> bool:
    """Whether an operation is so short that its readers may each compute it."""
    if isinstance(node.operation, Convert):
        return _are_floats(node)
    return readers <= _REPEATED and is_binary(node)


def _are_floats(node: Node) -> bool:
    return node.values[0].type.is_floating and node.result.type.is_floating


def _moves(placed: Placed, dims: tuple[int, ...]) -> bool:
    """Whether a leaf's elements differ along some dimensions."""
    return any(any(placed.steps[dim]) for dim in dims if placed.shape[dim] > 1)
