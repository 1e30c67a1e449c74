"""Elementwise operations and reductions over the last dimensions, in one pass where they fit.

The iteration space is cut into tiles of 128 rows. A row that does not fit on the chip is walked in
pieces: once for each reduction that depends on another one, and once for the result, each time from
HBM, as softmax over a large vocabulary is. Inside, values are float32.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import product
from math import prod
from typing import Any, Final

from trnsim.errors import NotModelled
from trnsim.graph import Kind, Node, Value
from trnsim.graph.operation import Operation
from trnsim.graph.ops.leaves import Constant, Iota, Rng
from trnsim.graph.ops.reductions import Reduce
from trnsim.graph.types import INTEGERS
from trnsim.isa import FREE_DIMENSIONS
from trnsim.lower.fusion import Group
from trnsim.lower.kernels import integers, tiles
from trnsim.lower.kernels.elementwise import apply
from trnsim.lower.kernels.space import PIECE, Space, first_elements, spaces
from trnsim.lower.kernels.tiles import P, Tensor, new
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

_ROW_BYTES: Final = 64 * 1024
"""Bytes of a partition that one tile's values may take: a third of SBUF, as two overlap."""
_SHARED_BYTES: Final = 16 * 1024
"""Bytes of a partition up to which an operand that all rows share stays on the chip."""
_NEAR: Final = 16
"""Elements from one to the next up to which those between are loaded as well."""
_REDUCTIONS: Final = {
    "add": nl.add,
    "multiply": nl.multiply,
    "maximum": nl.maximum,
    "minimum": nl.minimum,
}


def fused(inputs: list[Tensor], group: Group) -> tuple[Tensor, ...]:
    """The outputs of a fused group, each a dense tensor in HBM."""
    given = dict(zip((value.number for value in group.inputs), inputs, strict=True))
    for node in group.nodes:
        if node.kind is Kind.VIEW and node.values[0].number in given:
            given[node.result.number] = given[node.values[0].number]
    outputs = {value.number: tiles.output(value.shape, value.dtype) for value in group.outputs}
    for space in spaces(group):
        walk = _Walk(group, space, given, outputs)
        *outer, inner = space.rows
        for index in product(*(range(axis.length) for axis in outer)):
            for start, length in tiles.pieces(inner.length, P):
                _Rows(walk, (*index, start), length).run()
    return tuple(outputs.values())


class _Walk:
    """What all rows of a space share.

    Attributes:
        given: tensors in HBM by value, and those that views are of.
        nodes: what is computed, by value.
        first: the element at which each view begins.
        columns: the values that are one number to a row.
        shared: tiles that all rows read, once they are loaded.
    """

    def __init__(
        self, group: Group, space: Space, given: dict[int, Tensor], outputs: dict[int, Tensor]
    ) -> None:
        self.group, self.space, self.given, self.outputs = group, space, given, outputs
        self.nodes = {n.result.number: n for n in group.nodes if n.result.number not in given}
        self.first = first_elements(group)
        self.shared: dict[Hashable, Tensor] = {}
        self.columns = {
            number for number in given if not any(axis.steps.get(number) for axis in space.columns)
        }
        for number, node in self.nodes.items():
            if self._is_column(node):
                self.columns.add(number)

    def _is_column(self, node: Node) -> bool:
        if node.kind is Kind.LEAF:
            # One of the rows' shape has one number to a row.
            is_wide = node.result.shape == self.group.shape
            return isinstance(node.operation, Constant) or not is_wide
        is_reduced = node.kind is Kind.REDUCTION
        return is_reduced or all(value.number in self.columns for value in node.values)


class _Rows:
    """Up to 128 rows of the space: values are computed when asked for, and each reduction once."""

    def __init__(self, walk: _Walk, place: tuple[int, ...], count: int) -> None:
        self._walk, self._group, self._space = walk, walk.group, walk.space
        self._given, self._nodes, self._shared = walk.given, walk.nodes, walk.shared
        self._place, self._count = place, count
        self._kept: dict[int, Tensor] = {}
        self._of_piece: dict[int, Tensor] = {}
        self._pieces = self._cut()
        self._piece = self._pieces[0]

    def run(self) -> None:
        """Compute and store the outputs of these rows."""
        for piece in self._pieces:
            self._enter(piece)
            for value in self._group.outputs:
                key = -1 - value.number
                if piece == self._pieces[0] or any(a.steps[key] for a in self._space.columns):
                    self._store(value, key)

    def _cut(self) -> list[tuple[int, int]]:
        """Pieces of the first column axis; one if a whole row's values fit on the chip."""
        first, *rest = (axis.length for axis in self._space.columns)
        width = prod(rest)
        needed = first * width * (len(self._nodes) + len(self._given)) * nl.float32.itemsize
        is_whole = self._group.columns and needed <= _ROW_BYTES
        longest = first * width if is_whole else PIECE
        if width > longest:
            raise NotModelled(
                f"a reduction over {[first, *rest]}, whose inner dimensions exceed {longest}",
                fix="reduce over one dimension at a time",
            )
        return list(tiles.pieces(first, longest // width))

    def _enter(self, piece: tuple[int, int]) -> None:
        """Go to a piece; what was computed of another one is forgotten."""
        if piece != self._piece:
            self._of_piece.clear()
        self._piece = piece

    def _value(self, number: int) -> Tensor:
        """A tile [rows, columns of the piece], or [rows, 1]."""
        kept = self._kept if number in self._walk.columns else self._of_piece
        if number not in kept:
            kept[number] = self._made(number)
        return kept[number]

    def _made(self, number: int) -> Tensor:
        if number in self._given:
            return self._loaded(number)
        node = self._nodes[number]
        if node.kind is Kind.LEAF:
            return _LEAVES[type(node.operation)](node.operation, *self._pattern(number))
        if isinstance(node.operation, Reduce):
            return self._reduced(node, _REDUCTIONS[node.operation.op])
        if node.kind is Kind.VIEW:
            return self._value(node.values[0].number)
        return apply(
            node, [self._value(o.number) if isinstance(o, Value) else o for o in node.operands]
        )

    def _loaded(self, number: int) -> Tensor:
        """An operand from HBM; a short one that all rows share is loaded once for all of them."""
        is_shared = not any(axis.steps[number] for axis in self._space.rows)
        key = (number, self._piece, self._count)
        if is_shared and key in self._shared:
            return self._shared[key]
        tile = _repeated_on_chip(*self._compact(number))
        whole = prod(axis.length for axis in self._space.columns)
        if is_shared and whole * tile.dtype.itemsize <= _SHARED_BYTES:
            self._shared[key] = tile
        return tile

    def _compact(self, number: int) -> tuple[Tensor, list[int]]:
        """An operand's elements, each once to a row, as [rows, *columns]; the columns' lengths."""
        pattern, offset = self._pattern(number)
        rows, *columns = pattern
        once = [rows, *((step or 1, length if step else 1) for step, length in columns)]
        return _loaded_once(self._given[number], once, offset), [length for _, length in columns]

    def _reduced(self, node: Node, op: Any) -> Tensor:
        """A reduction over all pieces."""
        outside, total = self._piece, None
        for piece in self._pieces:
            self._enter(piece)
            part = new((self._count, 1))
            nisa.tensor_reduce(dst=part, op=op, data=self._whole(node.values[0].number), axis=1)
            if total is not None:
                nisa.tensor_tensor(dst=part, data1=total, data2=part, op=op)
            total = part
        self._enter(outside)
        return integers.wrapped(total, node.result.dtype)

    def _whole(self, number: int) -> Tensor:
        """A value with all columns of the piece: a sum takes one number to a row so many times."""
        tile = self._value(number)
        columns = self._piece[1] * prod(axis.length for axis in self._space.columns[1:])
        return tile if tile.shape[1] == columns else tile.broadcast(1, columns)

    def _view(self, tensor: Tensor, key: int) -> Tensor:
        """The elements of a tensor in HBM that belong to these rows and this piece."""
        pattern, offset = self._pattern(key)
        return tiles.strided(tensor, pattern, offset)

    def _pattern(self, key: int) -> tuple[list[tuple[int, int]], int]:
        """[step, count] of rows and columns, and the first element, in a tensor's elements."""
        rows, columns = self._space.rows, self._space.columns
        offset = self._space.offset if any(a.steps.get(key) for a in (*rows, *columns)) else 0
        offset += self._walk.first.get(key, 0)
        offset += sum(a.steps.get(key, 0) * at for a, at in zip(rows, self._place, strict=True))
        pattern = [(rows[-1].steps.get(key, 0), self._count)]
        is_leaf = key in self._nodes and self._nodes[key].kind is Kind.LEAF
        is_wide = is_leaf and key not in self._walk.columns
        if not is_wide and not any(axis.steps.get(key, 0) for axis in columns):
            return [*pattern, (1, 1)], offset
        start, length = self._piece
        pattern.append((columns[0].steps.get(key, 0), length))
        pattern += [(axis.steps.get(key, 0), axis.length) for axis in columns[1:]]
        return pattern, offset + start * columns[0].steps.get(key, 0)

    def _store(self, value: Value, key: int) -> None:
        """Write a value, its column repeated where the output has all columns."""
        view = self._view(self._walk.outputs[value.number], key)
        tile, columns = self._value(value.number), prod(view.shape[1:])
        if tile.shape[1] != columns:
            tile = self._widened(value.number, tile, columns, view.dtype)
        tiles.store(view, tile)

    def _widened(self, number: int, tile: Tensor, columns: int, dtype: Any) -> Tensor:
        """A column repeated on the chip: a transfer of it would move element by element.

        A constant is repeated once for all rows.
        """
        key = ("wide", number, self._count, columns)
        if key in self._shared:
            return self._shared[key]
        wide = new((self._count, columns), dtype)
        nisa.tensor_copy(dst=wide, src=tile.broadcast(1, columns))
        if number in self._nodes and isinstance(self._nodes[number].operation, Constant):
            self._shared[key] = wide
        return wide


def _loaded_once(tensor: Tensor, pattern: list[tuple[int, int]], offset: int) -> Tensor:
    """The elements of a pattern; with what lies between them where those are few.

    A transfer of single elements takes as long for each as for a run of hundreds of bytes.
    """
    *outer, (step, count) = pattern
    reach = (count - 1) * step + 1
    nbytes = prod(length for _, length in outer[1:]) * reach * tensor.dtype.itemsize
    is_near = 1 < step <= _NEAR and count > 1 and nbytes <= _SHARED_BYTES
    if not is_near or len(pattern) > FREE_DIMENSIONS:
        view = tiles.strided(tensor, pattern, offset)
        tile = new(view.shape, view.dtype)
        nisa.dma_copy(dst=tile, src=view)
        return tile
    view = tiles.strided(tensor, [*outer, (1, reach)], offset)
    whole = new(view.shape, view.dtype)
    nisa.dma_copy(dst=whole, src=view)
    tile = new((*view.shape[:-1], count), view.dtype)
    nisa.tensor_copy(dst=tile, src=whole[..., ::step])
    return tile


def _repeated_on_chip(tile: Tensor, lengths: list[int]) -> Tensor:
    """A tile [rows, *columns] as [rows, columns], a column of length 1 repeated where it must be.

    A transfer that repeats moves element by element.
    """
    repeated = [dim for dim, length in enumerate(lengths, 1) if tile.shape[dim] != length]
    # Contiguous columns around one repeat are three dimensions; more repeats may be too many.
    at_once = [repeated] if len(lengths) <= FREE_DIMENSIONS else [[dim] for dim in repeated]
    for dims in filter(None, at_once):
        view = tile
        for dim in dims:
            view = view.broadcast(dim, lengths[dim - 1])
        tile = new(view.shape, tile.dtype)
        nisa.tensor_copy(dst=tile, src=view)
    return tile.reshape((tile.shape[0], prod(lengths)))


def _constant(leaf: Constant, pattern: list[tuple[int, int]], offset: int) -> Tensor:
    """One number to a row: what needs more repeats it. An integer keeps all its bits."""
    del offset
    number, is_integer = leaf.number, leaf.dtype in INTEGERS
    tile = new((pattern[0][1], 1), nl.int32 if is_integer else nl.float32)
    nisa.memset(dst=tile, value=_as_int32(int(number)) if is_integer else float(number))
    return tile.view(nl.uint32) if leaf.dtype == "uint32" else tile


def _as_int32(number: int) -> int:
    """The 32 bits that the chip keeps of an integer, as a number with a sign."""
    return (number + 2**31) % 2**32 - 2**31


def _counted(leaf: Iota, pattern: list[tuple[int, int]], offset: int) -> Tensor:
    """Each element's place along one dimension."""
    del leaf
    (step, rows), *columns = pattern
    tile = new((rows, prod(length for _, length in columns)), nl.int32)
    nisa.iota(dst=tile, pattern=columns, offset=offset, channel_multiplier=step)
    return tile


def _drawn(leaf: Rng, pattern: list[tuple[int, int]], offset: int) -> Tensor:
    """Uniform numbers in [0, 1): random bits as a fraction of 2**32.

    Float32 would round the last few of them to 1, so these become the number before it.
    """
    del leaf, offset
    (_, rows), *columns = pattern
    bits = new((rows, prod(length for _, length in columns)), nl.uint32)
    nisa.rng(dst=bits)
    tile = new(bits.shape)
    nisa.tensor_scalar(
        dst=tile,
        data=bits,
        op0=nl.multiply,
        operand0=2.0**-_RANDOM_BITS,
        op1=nl.minimum,
        operand1=_BELOW_ONE,
    )
    return tile


_RANDOM_BITS: Final = 32
_BELOW_ONE: Final = 1 - 2.0**-24
_LEAVES: Final[dict[type[Operation], Any]] = {Constant: _constant, Iota: _counted, Rng: _drawn}
