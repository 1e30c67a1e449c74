"""The places of results: in SBUF until their last reader, or in HBM if SBUF has no room."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

from trnsim.graph import Kind, Node, Value
from trnsim.graph.types import ITEM_BYTES
from trnsim.lower.emit.eviction import evict
from trnsim.lower.emit.graph_facts import GraphFacts
from trnsim.lower.emit.places import transposing
from trnsim.lower.emit.places.paths import is_view
from trnsim.lower.emit.places.tensor_place import TensorPlace
from trnsim.lower.emit.places.walk import Frame, TileSpan, write_span
from trnsim.lower.emit.sbuf_demand import SbufDemand
from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.tiles import P, Tensor, dtype_of
from trnsim.nki import language as nl

_TRANSPOSED_BYTES: Final = 64 * 1024
"""Most bytes of a partition that are transposed at once on their way to HBM."""


class Residents:
    """The results of a program in SBUF, and the room for them.

    Attributes:
        places: the places of each value, by its number.
        dense: a function that returns a value in HBM in row-major order, written there if needed.
        most_bytes: maximum bytes of a partition for all results.
        spilled: tensors in HBM of the results for which SBUF had no room.
        demand: the bytes that all unread results would take at once.
    """

    def __init__(
        self,
        facts: GraphFacts,
        places: dict[int, list[TensorPlace]],
        dense: Callable[[Value], Tensor],
        most_bytes: int,
    ) -> None:
        self.facts, self.places, self.dense, self.most_bytes = facts, places, dense, most_bytes
        self.spilled: list[Tensor] = []
        self.demand = SbufDemand(self)
        self._residents: list[tuple[Value, int]] = []

    def allocate(self, frame: Frame, value: Value) -> TensorPlace:
        """A new place for a value: in SBUF if there is room, else in HBM in the frame's order."""
        nbytes = frame.blocks * frame.columns * ITEM_BYTES[value.dtype]
        has_room = frame.is_replicated or self.free_bytes() >= nbytes
        if has_room or evict(self, value, nbytes):
            place = frame.matrix(dtype_of(value.dtype))
            self.add(value, place)
            return place
        spilled = self.allocate_in_hbm(frame, dtype_of(value.dtype))
        self.spilled.append(spilled.storage)
        self.demand.add(value, spilled.storage, nbytes)
        return spilled

    def allocate_in_hbm(self, frame: Frame, dtype: Any) -> TensorPlace:
        """The place of a new tensor in HBM, [rows, columns] of a frame."""
        tensor = nl.ndarray((frame.rows, frame.columns), dtype=dtype, buffer=nl.shared_hbm)
        steps = tuple((p * frame.columns + f,) for p, f in frame.steps())
        return TensorPlace(tensor, frame.shape, steps, (0,))

    def reframe(self, place: TensorPlace, frame: Frame) -> TensorPlace:
        """A copy of a value in another frame: in SBUF if there is room, else in HBM."""
        dtype = place.storage.tile.dtype if place.is_on_chip else place.storage.dtype
        size = frame.blocks * dtype.itemsize
        if frame.columns * size <= self.free_bytes():
            return transposing.copy_in_frame(place, frame)
        result = self.allocate_in_hbm(frame, dtype)
        full_blocks, last_rows = divmod(frame.rows, frame.block)
        blocks_at_once = max(_TRANSPOSED_BYTES // dtype.itemsize // P, 1)
        groups = [(*piece, frame.block) for piece in tiles.pieces(full_blocks, blocks_at_once)]
        groups += [(full_blocks, 1, last_rows)] if last_rows else []
        for start, columns in tiles.pieces(
            frame.columns, max(_TRANSPOSED_BYTES // size // P, 1) * P
        ):
            for block, blocks, rows in groups:
                span = TileSpan(block, blocks, rows, start, columns)
                write_span(result, frame, span, transposing.load_part(place, frame, span))
        return result

    def add(self, value: Value, place: TensorPlace) -> None:
        """Record a new place of a value, if it lies in SBUF in a tile of its own."""
        if place.is_on_chip:
            tile = place.storage.tile
            self._residents.append((value, prod(tile.shape[1:]) * tile.dtype.itemsize))
            self.demand.add(value, tile, self._residents[-1][1])

    def free_bytes(self) -> int:
        """Bytes of a partition that are left for results."""
        return self.most_bytes - sum(nbytes for _, nbytes in self.unread())

    def unread(self) -> list[tuple[Value, int]]:
        """Values in SBUF that are yet to be read, with their bytes of a partition."""
        is_read_later: dict[int, bool] = {}
        self._residents = [
            resident
            for resident in self._residents
            if self._may_lie_on_chip(resident[0]) and self.is_unread(resident[0], is_read_later)
        ]
        return self._residents

    def _may_lie_on_chip(self, value: Value) -> bool:
        """True if a value has a place on the chip, or none yet."""
        places = self.places.get(value.number)
        return places is None or any(place.is_on_chip for place in places)

    def is_passed_on(self, node: Node) -> bool:
        """True if the readers of a node's result read the node's operands through it.

        They do for views, and for nodes that are deferred or pending.
        """
        places = self.places.get(node.result.number)
        if is_view(node) or (places is not None and places[0].is_pending):
            return True
        is_gather = node.result.number in self.facts.deferred_gathers
        return places is None and (node.kind is Kind.ELEMENTWISE or is_gather)

    def is_unread(self, value: Value, is_read_later: dict[int, bool]) -> bool:
        """True if a value is an output or still to be read, directly or by deferred nodes.

        `is_read_later` caches the answers, by the numbers of values.
        """
        pending, visited = [value], set[int]()
        while pending:
            current = pending.pop()
            if current.number in visited or is_read_later.get(current.number) is False:
                continue
            visited.add(current.number)
            is_read = is_read_later.get(current.number, False) or self.facts.is_output(current)
            for node in self.facts.readers(current):
                if self.is_passed_on(node):
                    pending.append(node.result)
                else:
                    is_read |= node.result.number not in self.places
            if is_read:
                is_read_later[value.number] = True
                return True
        is_read_later.update(dict.fromkeys(visited, False))
        return False
