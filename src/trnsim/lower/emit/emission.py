"""A whole graph as one program: what each operation issues, and where its result lies.

Elementwise operations and products wait until their result is needed. Then they are computed
together, span by span, so that sums of products go from PSUM through the operations that follow.
Results stay in SBUF while there is room.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

from trnsim.graph import Graph, Kind, Node, Value
from trnsim.graph.ops.layout import (
    BroadcastInDim,
    Reinterpret,
    Reshape,
)
from trnsim.graph.ops.leaves import Constant, Iota
from trnsim.graph.ops.rounding import Convert
from trnsim.graph.types import ITEM_BYTES, TensorType
from trnsim.lower.emit.computing.evaluation import Evaluation
from trnsim.lower.emit.computing.rows import waits
from trnsim.lower.emit.crowding import Crowding
from trnsim.lower.emit.eviction import evict
from trnsim.lower.emit.naming import Named
from trnsim.lower.emit.places import turning
from trnsim.lower.emit.places.framing import vectors_of_channels
from trnsim.lower.emit.places.paths import Path, is_free, is_view, view
from trnsim.lower.emit.places.placed import Placed, in_hbm
from trnsim.lower.emit.places.walk import Frame, Span, filled, is_aligned, repeated, spans, write
from trnsim.lower.emit.reading import contracted, of_long_rows, standing, uses
from trnsim.lower.emit.rules import EMITTERS
from trnsim.lower.emit.schedule import FIRST
from trnsim.lower.emit.waiting import Waiting
from trnsim.lower.exchanges import Links
from trnsim.lower.fusion import Group, alone
from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.issue import check_kernel, issue
from trnsim.lower.kernels.tiles import P, Tensor, dtype_of, new
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl
from trnsim.program import current_core

_TURNED_BYTES: Final = 64 * 1024
"""Bytes of a partition that are turned at once on their way to HBM."""
_CONVERTING: Final = 2
"""Readers that each convert what lies in HBM: as many bytes as writing it narrow and reading it."""


@dataclass
class Emission:
    """A program in the making.

    Attributes:
        graph: what it computes.
        weights: the inputs whose layout in HBM may be chosen, as they do not change.
        resident_bytes: bytes of a partition for results that stay in SBUF.
        ring_bytes: bytes of a partition for weights that pass, several panels ahead.
        links: the links to other ranks, if exchanges take their time in the program.
        placed: where each value lies; several places if it lies in several layouts.
        prepared: weights in layouts of their own, in the order of their use.
        names: what each stretch of instructions computes.
        spilled: results in HBM for which SBUF had no room.
    """

    graph: Graph
    weights: frozenset[int]
    resident_bytes: int
    prepare: Callable[..., Tensor]
    ring_bytes: int = FIRST.ring_bytes
    links: Links | None = None
    placed: dict[int, list[Placed]] = field(default_factory=dict[int, list[Placed]])

    def __post_init__(self) -> None:
        self.maker = {v.number: node for node in self.graph.nodes for v in node.results}
        self.order = {v.number: n for n, node in enumerate(self.graph.nodes) for v in node.results}
        self.uses = uses(self.graph)
        self._readers: dict[int, list[Node]] = {}
        for node in self.graph.nodes:
            for value in node.values:
                self._readers.setdefault(value.number, []).append(node)
        self.long_rows = of_long_rows(self.graph)
        self.standing = standing(self)
        self.features = contracted(self.graph) - self.long_rows
        self.vectors_of_channels = vectors_of_channels(self.graph)
        self._rings: dict[Any, tuple[Tensor, int]] = {}
        self.is_narrow = not any(
            value.dtype == "float32" for value in (*self.graph.inputs, *self.graph.outputs)
        )
        self._constants: dict[Any, Tensor] = {}
        self.is_ring_full = False
        self.later: set[int] = set()
        self.folded: dict[int, Node] = {}
        self._asked: set[int] = set()
        self._waiting = Waiting(self)
        self.passing: tuple[Any, Placed] | None = None
        self.crowding = Crowding(self)
        self.names = [Named(0, "")]
        self.spilled: list[Tensor] = []
        self._returns = {value.number for value in self.graph.outputs}
        self._held: list[tuple[Value, int]] = []
        self._columns: dict[Any, Tensor] = {}
        self._inputs: dict[int, int] = {}

    def run(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Issue everything; the outputs, dense in HBM."""
        for value, tensor in zip(self.graph.inputs, inputs, strict=True):
            self.placed[value.number] = [in_hbm(tensor, value.shape)]
            self._inputs[id(tensor)] = value.number
        for node in self.graph.nodes:
            if node.kind is Kind.ELEMENTWISE or is_free(node):
                self._waiting.add(node)
            else:
                self._emit(node)
        with self.named("results to HBM"):
            return tuple(self._returned(value) for value in self.graph.outputs)

    def _emit(self, node: Node) -> None:
        with self.named(node.name, node):
            EMITTERS.get(type(node.operation), Emission.by_kernel)(self, node)

    def folds(self, node: Node) -> bool:
        """Whether a reduction is left to who reads it: once, as whoever comes back needs it."""
        number = node.result.number
        if number in self._asked or not waits(self, node):
            return False
        self._asked.add(number)
        self.folded[number] = node
        return True

    def _returned(self, value: Value) -> Tensor:
        tensor = self.dense(value)
        maker = self.maker.get(value.number)
        is_made = maker is not None and not isinstance(maker.operation, Reinterpret)
        if is_made and id(tensor) not in self._inputs and tuple(tensor.shape) == value.shape:
            return tensor
        out = tiles.output(value.shape, value.dtype)
        tiles.copy_run(out, 0, tensor, 0, value.type.elements)
        return out

    def settled(self, value: Value) -> list[Placed]:
        """All places of a value, computed if it was not."""
        found = self.places(value)
        if found[0].is_pending:
            found = self._computed(value)
        return sorted(found, key=lambda one: not one.is_on_chip)

    def _computed(self, value: Value) -> list[Placed]:
        """The places of what was pending; what it was a view of is computed, if it has a place."""
        node = self.maker[value.number]
        (placed,) = self.placed.pop(value.number)
        if is_view(node) and node.values[0].number in self.placed:
            self.settled(node.values[0])
            return self.places(value)
        self.placed[value.number] = [Evaluation(self, value, placed).run()]
        return self.placed[value.number]

    @contextmanager
    def named(self, name: str, node: Node | None = None) -> Generator[None]:
        """What is issued inside belongs to an operation of that name."""
        outside = self.names[-1]
        self.names.append(Named(len(current_core().program), name, node))
        try:
            yield
        finally:
            self.names.append(outside._replace(first=len(current_core().program)))

    def add_place(self, value: Value, placed: Placed) -> None:
        """Another place of a value, and of what it is a reshape of."""
        self.placed.setdefault(value.number, []).append(placed)
        self.hold(value, placed)
        maker = self.maker.get(value.number)
        if maker is not None and isinstance(maker.operation, Reshape):
            before = placed.reshaped(maker.values[0].shape)
            if before is not None:
                self.add_place(maker.values[0], before)

    def readers(self, value: Value) -> list[Node]:
        """The operations that read a value."""
        return self._readers.get(value.number, [])

    def streamed(self, shape: tuple[int, int, int], dtype: Any) -> Tensor:
        """A tile for what is loaded, read and forgotten: it takes the place of an earlier one."""
        rows, blocks, columns = shape
        size, most = blocks * columns, self.ring_bytes // dtype.itemsize
        if size * 2 > most or rows != P:
            return new(shape, dtype)
        ring, at = self._rings.get(dtype) or (new((P, most), dtype), 0)
        if at + size > most:
            at = 0
            self.is_ring_full = True
        self._rings[dtype] = ring, at + size
        return ring[:, at : at + size].reshape(shape)

    def stored(self, value: Value) -> list[Placed]:
        """Where a value lies, or the weight that it is converted from: transfers convert."""
        node = self.maker.get(value.number)
        is_new = node is not None and value.number not in self.placed
        if node is not None and is_new and isinstance(node.operation, Convert):
            found = self.placed.get(node.values[0].number, [])
            if value.type.is_floating and any(self.weight_of(one) is not None for one in found):
                return found
        return self.settled(value)

    def unconverted(self, value: Value) -> Placed | None:
        """Where what a value is converted from lies in HBM, as transfers convert on their way.

        None where so many read it that they had better find it narrow.
        """
        node = self.maker.get(value.number)
        if node is None or value.number in self.placed or not isinstance(node.operation, Convert):
            return None
        (given,) = node.values
        is_alone = given.number not in self.placed and self.uses.get(given.number, 0) <= 1
        is_long = self.uses.get(value.number, 0) > _CONVERTING
        if is_alone or is_long or not given.type.is_floating:
            return None
        found = self.places(given)
        return None if found[0].is_pending or found[0].is_on_chip else found[0]

    def weight_of(self, placed: Placed) -> int | None:
        """The weight that a place holds all of, in order, if it does."""
        number = None if placed.is_on_chip else self._inputs.get(id(placed.storage))
        return number if number in self.weights and is_dense(placed) else None

    def column(self, number: int, placed: Placed, frame: Frame) -> Tensor:
        """One number to a partition of a frame, [128, blocks, 1], loaded once."""
        dims = frame.p_dims
        shape = tuple(placed.shape[dim] for dim in dims)
        steps = tuple(placed.steps[dim] for dim in dims)
        key = (number, shape, steps, frame.block, frame.is_replicated)
        if key not in self._columns:
            order = tuple(range(len(dims)))
            thin = Frame(shape, order, (), frame.block, frame.is_replicated)
            flat = Placed(placed.storage, shape, steps, placed.offset)
            weight = None if thin.is_replicated else self.weight_of(flat)
            if weight is not None:
                source = self.prepare(weight, thin)
                tile = new(source.shape, source.dtype)
                nisa.dma_copy(dst=tile, src=source)
            else:
                dtype = flat.storage.tile.dtype if flat.is_on_chip else flat.storage.dtype
                if flat.is_on_chip and is_aligned(flat, thin.flipped()):
                    flat = turning.framed(flat, thin)
                tile = new((min(thin.block, thin.rows), thin.blocks, 1), dtype)
                for span in spans(thin, 0, 1, thin.blocks, 1):
                    part = filled(flat, thin, span, dtype)
                    if span.partitions == thin.rows or span.blocks == thin.blocks:
                        tile = part
                        break
                    here = tile[: span.partitions, span.block : span.block + span.blocks]
                    nisa.tensor_copy(dst=here, src=part)
            if tile.dtype.name in ("bfloat16", "float16"):  # engines take columns in float32
                wide = new(tile.shape)
                nisa.tensor_copy(dst=wide, src=tile)
                tile = wide
            self._columns[key] = tile
        return self._columns[key]

    def constant(self, key: Any, make: Callable[[], Tensor]) -> Tensor:
        """A tile that a program makes once."""
        if key not in self._constants:
            self._constants[key] = make()
        return self._constants[key]

    def ones(self, dtype: Any) -> Tensor:
        """A block of ones, [128, 128]."""

        def make() -> Tensor:
            tile = new((P, P), dtype)
            nisa.memset(dst=tile, value=1.0)
            return tile

        return self.constant(("ones", dtype), make)

    def periodic(self, number: int, placed: Placed, frame: Frame) -> Tensor | None:
        """One block of a tensor in HBM that all blocks repeat, [block, 1, columns]."""
        outer = [dim for dim in frame.p_dims if frame.shape[dim] > 1 and not any(placed.steps[dim])]
        inner = frame.p_dims[len(outer) :]
        length = prod(frame.shape[dim] for dim in inner)
        if not outer or frame.p_dims[: len(outer)] != tuple(outer) or frame.block % length:
            return None
        key = ("periodic", number, frame)
        if key in self._constants:
            return self._constants[key]
        moves = [dim for dim in frame.f_dims if any(placed.steps[dim])]
        if any(not any(placed.steps[dim]) and frame.shape[dim] > 1 for dim in inner):
            return None
        if moves and any(not any(placed.steps[d]) and frame.shape[d] > 1 for d in frame.f_dims):
            return None
        dims = (*inner, *moves)
        thin = Frame(
            tuple(frame.shape[dim] for dim in dims),
            tuple(range(len(inner))),
            tuple(range(len(inner), len(dims))),
            length,
        )
        if thin.columns * nl.float32.itemsize > self.resident_bytes // 2:
            return None
        steps = tuple(placed.steps[dim] for dim in dims)
        own = Placed(placed.storage, thin.shape, steps, placed.offset)
        if length == 1 and not placed.is_on_chip:
            tile = turning.repeated(own, thin, frame.block)
        else:
            tile = repeated(turning.framed(own, thin).storage.tile, frame.block)
        self._constants[key] = tile
        return tile

    def places(self, value: Value) -> list[Placed]:
        """All places of a value, which may be pending."""
        if value.number not in self.placed:
            node = self.maker[value.number]
            if isinstance(node.operation, Constant | Iota) or value.number in self.later:
                self.by_kernel(node)
            elif self.folded.pop(value.number, None):
                self._emit(node)
            elif is_view(node):
                self.placed[value.number] = self._views(node)
            else:
                self.placed[value.number] = [Evaluation(self, value).run()]
        return self.placed[value.number]

    def _views(self, node: Node) -> list[Placed]:
        source = node.values[0]
        views = [view(node, one) for one in self.places(source)]
        found = [one for one in views if one is not None]
        if not found:
            # Steps do not say where its elements are, but for those that lie in order.
            dense = view(node, in_hbm(self.dense(source), source.shape))
            found = [] if dense is None else [dense]
        if not found:
            self.by_kernel(node)
            found = self.placed[node.result.number]
        return found

    def viewed(self, value: Value, path: Path) -> Value:
        """A value by the views of others that are computed of it."""
        for node in path:
            if node.values[0] != value:
                number = min(0, *self.maker) - 1  # the graph's own are not below 0
                made = Value(number, TensorType(node.result.shape, value.dtype))
                node = Node(node.operation, (value,), (made,))  # noqa: PLW2901  another operand
                self.maker[made.number] = node
            value = node.result
        return value

    def dense(self, value: Value) -> Tensor:
        """A value in HBM, its elements in row-major order."""
        for one in self.settled(value):
            if not one.is_on_chip and one == in_hbm(one.storage, value.shape):
                return one.storage
        (first, *_), node = self.settled(value), self.maker.get(value.number)
        if node is not None and isinstance(node.operation, BroadcastInDim):
            self.by_kernel(node)  # by runs, where steps of 0 would be element by element
            return self.placed[value.number][0].storage
        if node is not None and is_view(node) and turning.is_scattered(first, value):
            return self._in_order(node)
        made = turning.written(first, value)
        self.placed[value.number].append(in_hbm(made, value.shape))
        return made

    def _in_order(self, node: Node) -> Tensor:
        """A view in row-major order, of its operand in row-major order, by a kernel."""
        number = node.result.number
        places = self.placed[number]
        if isinstance(node.operation, Reshape):
            self.placed[number] = [in_hbm(self.dense(node.values[0]), node.result.shape)]
        else:
            self.by_kernel(node)
        (made,) = self.placed[number]
        self.placed[number] = [*places, made]
        return made.storage

    def by_kernel(self, node: Node) -> None:
        """Run an operation by its own kernel, from HBM to HBM.

        Raises:
            NotModelled: if it has none.
        """
        if isinstance(node.operation, Reinterpret):
            (value,) = node.values
            whole = self.dense(value).reshape(value.shape)
            made = whole.view(dtype_of(node.operation.to))
            self.placed[node.result.number] = [in_hbm(made, node.result.shape)]
            return
        group = alone(node)
        check_kernel(group)
        group.outputs = list(node.results)
        given = [self.dense(value) for value in group.inputs]
        made = issue(group, given)
        results = made if isinstance(made, tuple) else (made,)
        for value, tensor in zip(node.results, results, strict=True):
            self.placed[value.number] = [in_hbm(tensor, value.shape)]

    def by_group(self, group: Group) -> Placed:
        """Operations together by a kernel from HBM to HBM; the place of the one result."""
        (made,) = issue(group, [self.dense(value) for value in group.inputs])
        return in_hbm(made, group.outputs[0].shape)

    def room(self, frame: Frame, value: Value) -> Placed:
        """Room for a value: in SBUF while there is some, else in HBM in the frame's order."""
        nbytes = frame.blocks * frame.columns * ITEM_BYTES[value.dtype]
        has_room = frame.is_replicated or self.free_bytes() >= nbytes
        if has_room or evict(self, value, nbytes):
            placed = frame.matrix(dtype_of(value.dtype))
            self.hold(value, placed)
            return placed
        found = self.in_order(frame, dtype_of(value.dtype))
        self.spilled.append(found.storage)
        self.crowding.add(value, found.storage, nbytes)
        return found

    def in_order(self, frame: Frame, dtype: Any) -> Placed:
        """A tensor in HBM in a frame's order."""
        tensor = nl.ndarray((frame.rows, frame.columns), dtype=dtype, buffer=nl.shared_hbm)
        steps = tuple((p * frame.columns + f,) for p, f in frame.steps())
        return Placed(tensor, frame.shape, steps, (0,))

    def reframed(self, placed: Placed, frame: Frame) -> Placed:
        """What lies across a frame, turned into it: in SBUF if there is room, else in HBM."""
        dtype = placed.storage.tile.dtype if placed.is_on_chip else placed.storage.dtype
        size = frame.blocks * dtype.itemsize
        if frame.columns * size <= self.free_bytes():
            return turning.framed(placed, frame)
        result = self.in_order(frame, dtype)
        whole, rest = divmod(frame.rows, frame.block)
        most = max(_TURNED_BYTES // dtype.itemsize // P, 1)
        groups = [(*one, frame.block) for one in tiles.pieces(whole, most)]
        groups += [(whole, 1, rest)] if rest else []
        for start, columns in tiles.pieces(frame.columns, max(_TURNED_BYTES // size // P, 1) * P):
            for block, blocks, rows in groups:
                span = Span(block, blocks, rows, start, columns)
                write(result, frame, span, turning.stretch(placed, frame, span))
        return result

    def hold(self, value: Value, placed: Placed) -> None:
        """Note that a value lies in SBUF, by a tile of its own."""
        if placed.is_on_chip:
            tile = placed.storage.tile
            self._held.append((value, prod(tile.shape[1:]) * tile.dtype.itemsize))
            self.crowding.add(value, tile, self._held[-1][1])

    def free_bytes(self) -> int:
        """Bytes of a partition that results may still take."""
        return self.resident_bytes - sum(nbytes for _, nbytes in self.held())

    def held(self) -> list[tuple[Value, int]]:
        """What lies in SBUF and is yet to be read, with its bytes of a partition."""
        known: dict[int, bool] = {}
        self._held = [
            one
            for one in self._held
            if self._may_lie_on_chip(one[0]) and self.is_wanted(one[0], known)
        ]
        return self._held

    def _may_lie_on_chip(self, value: Value) -> bool:
        """Whether a value has a place on the chip, or is on its way there."""
        places = self.placed.get(value.number)
        return places is None or any(one.is_on_chip for one in places)

    def is_returned(self, value: Value) -> bool:
        """Whether the caller gets it."""
        return value.number in self._returns

    def is_wanted(self, value: Value, known: dict[int, bool]) -> bool:
        """Whether an operation that is yet to be computed reads a value, or the caller does."""
        waiting, seen = [value], set[int]()
        while waiting:
            one = waiting.pop()
            if one.number in seen or known.get(one.number) is False:
                continue
            seen.add(one.number)
            is_read = known.get(one.number, False) or one.number in self._returns
            for node in self.readers(one):
                places = self.placed.get(node.result.number)
                is_lazy = node.kind is Kind.ELEMENTWISE and places is None
                if is_view(node) or is_lazy or (places is not None and places[0].is_pending):
                    waiting.append(node.result)  # it reads for who reads it
                else:
                    is_read |= places is None
            if is_read:
                known[value.number] = True
                return True
        known.update(dict.fromkeys(seen, False))
        return False


def is_dense(placed: Placed) -> bool:
    """Whether it is all of a tensor in HBM, in order."""
    return (
        not placed.is_on_chip
        and placed == in_hbm(placed.storage, placed.shape)
        and (prod(placed.storage.shape) == prod(placed.shape))
    )
