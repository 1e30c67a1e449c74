"""A whole graph as one program: what each operation issues, and where its result lies.

Elementwise operations and products wait until their result is needed. Then they are computed
together, span by span, so that sums of products go from PSUM through the operations that follow.
Results stay in SBUF while there is room.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

from trnsim.compiler.emit import turning
from trnsim.compiler.emit.evaluation import Evaluation
from trnsim.compiler.emit.placed import Placed, in_hbm
from trnsim.compiler.emit.rules import EMITTERS
from trnsim.compiler.emit.walk import Frame, filled, spans
from trnsim.graph import Graph, Kind, Node, Value
from trnsim.graph.ops.contraction import Attention, DotGeneral
from trnsim.graph.ops.layout import BroadcastInDim, Reshape, Slice, Transpose
from trnsim.graph.ops.leaves import Constant
from trnsim.graph.types import ITEM_BYTES
from trnsim.lower.fusion import alone
from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.fused import fused
from trnsim.lower.kernels.tiles import P, Tensor, dtype_of, new
from trnsim.lower.rules import KERNELS
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

_RING_BYTES: Final = 32 * 1024
"""Bytes of a partition for weights that pass: several panels ahead."""


@dataclass
class Emission:
    """A program in the making.

    Attributes:
        graph: what it computes.
        weights: the inputs whose layout in HBM may be chosen, as they do not change.
        resident_bytes: bytes of a partition for results that stay in SBUF.
        placed: where each value lies; several places if it lies in several layouts.
        prepared: weights in layouts of their own, in the order of their use.
    """

    graph: Graph
    weights: frozenset[int]
    resident_bytes: int
    prepare: Callable[..., Tensor]
    placed: dict[int, list[Placed]] = field(default_factory=dict[int, list[Placed]])

    def __post_init__(self) -> None:
        self.maker = {v.number: node for node in self.graph.nodes for v in node.results}
        self.uses = uses(self.graph)
        self._readers: dict[int, list[Node]] = {}
        for node in self.graph.nodes:
            for value in node.values:
                self._readers.setdefault(value.number, []).append(node)
        self.standing = standing(self)
        self._rings: dict[Any, tuple[Tensor, int]] = {}
        self.is_narrow = not any(
            value.dtype == "float32" for value in (*self.graph.inputs, *self.graph.outputs)
        )
        self._constants: dict[Any, Tensor] = {}
        self.later: set[int] = set()
        self._death = deaths(self)
        self._live: dict[int, tuple[int, int]] = {}
        self._now = 0
        self._columns: dict[Any, Tensor] = {}
        self._inputs: dict[int, int] = {}

    def run(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Issue everything; the outputs, dense in HBM."""
        for value, tensor in zip(self.graph.inputs, inputs, strict=True):
            self.placed[value.number] = [in_hbm(tensor, value.shape)]
            self._inputs[id(tensor)] = value.number
        for place, node in enumerate(self.graph.nodes):
            self._now = place
            if node.kind is not Kind.ELEMENTWISE and not is_free(node):
                EMITTERS.get(type(node.operation), Emission.by_kernel)(self, node)
        return tuple(self._returned(value) for value in self.graph.outputs)

    def _returned(self, value: Value) -> Tensor:
        tensor = self.dense(value)
        if id(tensor) not in self._inputs and tuple(tensor.shape) == value.shape:
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
        """The places of what was pending; what it was a view of is computed."""
        node = self.maker[value.number]
        (placed,) = self.placed.pop(value.number)
        if is_view(node):
            self.settled(node.values[0])
            return self.places(value)
        self.placed[value.number] = [Evaluation(self, value, placed).run()]
        return self.placed[value.number]

    def add_place(self, value: Value, placed: Placed) -> None:
        """Another place of a value, and of what it is a reshape of."""
        self.placed[value.number].append(placed)
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
        size, most = blocks * columns, _RING_BYTES // dtype.itemsize
        if size * 2 > most or rows != P:
            return new(shape, dtype)
        ring, at = self._rings.get(dtype) or (new((P, most), dtype), 0)
        at = at if at + size <= most else 0
        self._rings[dtype] = ring, at + size
        return ring[:, at : at + size].reshape(shape)

    def weight_of(self, placed: Placed) -> int | None:
        """The weight that a place holds all of, in order, if it does."""
        number = None if placed.is_on_chip else self._inputs.get(id(placed.storage))
        return number if number in self.weights and is_dense(placed) else None

    def column(self, number: int, placed: Placed, frame: Frame) -> Tensor:
        """One number to a partition of a frame, [128, blocks, 1], loaded once."""
        key = (number, frame.rows, frame.block)
        if key not in self._columns:
            thin = Frame(
                tuple(placed.shape[dim] for dim in frame.p_dims),
                tuple(range(len(frame.p_dims))),
                (),
                frame.block,
            )
            flat = Placed(
                placed.storage,
                thin.shape,
                tuple(placed.steps[dim] for dim in frame.p_dims),
                placed.offset,
            )
            weight = self.weight_of(flat)
            if weight is not None:
                source = self.prepare(weight, thin)
                tile = new(source.shape, source.dtype)
                nisa.dma_copy(dst=tile, src=source)
            else:
                dtype = flat.storage.tile.dtype if flat.is_on_chip else flat.storage.dtype
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
        dims = (*inner, *frame.f_dims)
        moved = [dim for dim in dims if any(placed.steps[dim]) or frame.shape[dim] == 1]
        if moved != list(dims):
            return None
        thin = Frame(
            tuple(frame.shape[dim] for dim in dims),
            tuple(range(len(inner))),
            tuple(range(len(inner), len(dims))),
            length,
        )
        steps = tuple(placed.steps[dim] for dim in dims)
        once = turning.framed(Placed(placed.storage, thin.shape, steps, placed.offset), thin)
        tile = once.storage.tile
        if length < frame.block:
            whole = new((frame.block, 1, thin.columns), tile.dtype)
            for at in range(0, frame.block, length):
                nisa.dma_copy(dst=whole[at : at + length], src=tile)
            tile = whole
        self._constants[key] = tile
        return tile

    def places(self, value: Value) -> list[Placed]:
        """All places of a value, which may be pending."""
        if value.number not in self.placed:
            node = self.maker[value.number]
            if isinstance(node.operation, Constant) or value.number in self.later:
                self.by_kernel(node)
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

    def dense(self, value: Value) -> Tensor:
        """A value in HBM, its elements in row-major order."""
        for one in self.settled(value):
            if not one.is_on_chip and one == in_hbm(one.storage, value.shape):
                return one.storage
        maker = self.maker.get(value.number)
        if maker is not None and isinstance(maker.operation, BroadcastInDim):
            self.by_kernel(maker)  # by runs, where steps of 0 would be element by element
            return self.placed[value.number][0].storage
        made = turning.written(self.settled(value)[0], value)
        self.placed[value.number].append(in_hbm(made, value.shape))
        return made

    def by_kernel(self, node: Node) -> None:
        """Run an operation by its own kernel, from HBM to HBM."""
        group = alone(node)
        group.outputs = list(node.results)
        given = [self.dense(value) for value in group.inputs]
        if group.is_fused:
            made: Any = fused(given, group)
        else:
            by_number = dict(zip((v.number for v in group.inputs), given, strict=True))
            operands = [by_number[value.number] for value in node.values]
            made = KERNELS[type(node.operation)](node.operation, node, *operands)
        results = made if isinstance(made, tuple) else (made,)
        for value, tensor in zip(node.results, results, strict=True):
            self.placed[value.number] = [in_hbm(tensor, value.shape)]

    def room(self, frame: Frame, value: Value) -> Placed:
        """Room for a value: in SBUF while there is some, else in HBM in the frame's order."""
        nbytes = frame.blocks * frame.columns * ITEM_BYTES[value.dtype]
        self._live = {n: one for n, one in self._live.items() if one[1] >= self._now}
        held = sum(size for size, _ in self._live.values())
        if held + nbytes <= self.resident_bytes or frame.is_replicated:
            self._live[value.number] = nbytes, self._death.get(value.number, len(self.graph.nodes))
            return frame.matrix(dtype_of(value.dtype))
        shape = (frame.rows, frame.columns)
        tensor = nl.ndarray(shape, dtype=dtype_of(value.dtype), buffer=nl.shared_hbm)
        steps = tuple((p * frame.columns + f,) for p, f in frame.steps())
        return Placed(tensor, frame.shape, steps, (0,))


def view(node: Node, source: Placed) -> Placed | None:
    """A view of what lies somewhere; None where steps cannot say it."""
    operation = node.operation
    if isinstance(operation, Reshape):
        return source.reshaped(operation.shape)
    if isinstance(operation, Transpose):
        return source.transposed(operation.permutation)
    if isinstance(operation, BroadcastInDim):
        return source.repeated(operation.shape, operation.dims)
    if isinstance(operation, Slice):
        return source.sliced(operation.shape, operation.starts, operation.strides)
    return None


def is_view(node: Node) -> bool:
    """Whether its result is its operand's elements by other steps."""
    return isinstance(node.operation, Reshape | Transpose | BroadcastInDim | Slice)


def is_free(node: Node) -> bool:
    """Whether nothing is issued for it until somebody reads it."""
    return is_view(node) or isinstance(node.operation, Constant)


def uses(graph: Graph) -> dict[int, int]:
    """How many operations read each value, looking through views."""
    found: dict[int, int] = {}
    for value in graph.outputs:
        found[value.number] = found.get(value.number, 0) + 1
    for node in reversed(graph.nodes):
        times = found.get(node.result.number, 0) if is_view(node) else 1
        for value in node.values:
            found[value.number] = found.get(value.number, 0) + times
    return found


def is_dense(placed: Placed) -> bool:
    """Whether it is all of a tensor in HBM, in order."""
    return (
        not placed.is_on_chip
        and placed == in_hbm(placed.storage, placed.shape)
        and (prod(placed.storage.shape) == prod(placed.shape))
    )


def standing(emission: Emission) -> set[int]:
    """The products whose rows lie best along the partitions: values of attention."""
    found: set[int] = set()
    waiting = [
        node.values[2] for node in emission.graph.nodes if isinstance(node.operation, Attention)
    ]
    while waiting:
        value = waiting.pop()
        node = emission.maker.get(value.number)
        if node is None:
            continue
        if isinstance(node.operation, DotGeneral):
            found.add(value.number)
        elif is_view(node) or (
            node.kind is Kind.ELEMENTWISE and emission.uses.get(value.number, 0) <= 1
        ):
            waiting += node.values
    return found


def deaths(emission: Emission) -> dict[int, int]:
    """The place of the last operation that reads each value, when it is computed or before."""
    nodes = emission.graph.nodes
    end = len(nodes)
    when: dict[int, int] = {}
    found: dict[int, int] = {value.number: end for value in emission.graph.outputs}
    for place in range(end - 1, -1, -1):
        node = nodes[place]
        readers = [when[id(one)] for value in node.results for one in emission.readers(value)]
        is_waiting = node.kind is Kind.ELEMENTWISE or is_view(node)
        when[id(node)] = min(readers, default=end) if is_waiting else place
        last = found.get(node.result.number, place) if is_view(node) else when[id(node)]
        for value in node.values:
            found[value.number] = max(found.get(value.number, 0), last)
    return found
