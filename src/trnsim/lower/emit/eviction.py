"""Eviction of values from SBUF to HBM, which makes room for values that are read sooner.

A value may move if its next reader comes after the next reader of the value that needs room. Values
with the farthest next reader move first (Belady, IBM Systems Journal 5(2), 1966). An output is
written in row-major order, as it is returned; any other value keeps the layout that it has in SBUF.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.graph import Value
from trnsim.lower.emit.places.tensor_place import SbufMatrix, TensorPlace
from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.tiles import Tensor
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

if TYPE_CHECKING:
    from trnsim.lower.emit.residents import Residents


def evict(residents: Residents, value: Value, nbytes: int) -> bool:
    """Move values from SBUF to HBM until there are `nbytes` of room.

    Returns False, and moves nothing, if that is impossible.

    Args:
        residents: the results in SBUF.
        value: the value that needs room; only values that are read after it move.
        nbytes: bytes of a partition that it needs.
    """
    reader = next_reader(residents, value)
    unread = [(next_reader(residents, other), other, size) for other, size in residents.unread()]
    later = sorted((entry for entry in unread if entry[0] > reader), key=lambda entry: -entry[0])
    evicted: list[Value] = []
    missing_bytes = nbytes - residents.free_bytes()
    for _, candidate, size in later:
        if missing_bytes <= 0:
            break
        if _can_move(residents, candidate):
            evicted.append(candidate)
            missing_bytes -= size
    for candidate in evicted:
        _move(residents, candidate)
    return missing_bytes <= 0


def next_reader(residents: Residents, value: Value) -> int:
    """The position in the graph of the next node that reads a value.

    The readers of a view, a deferred or a pending node count in its place. If only outputs need the
    value, the position is after all nodes, in the order of the value's readers.
    """
    end = len(residents.facts.graph.nodes)
    first, pending, visited = end, [value], {value.number}
    while pending:
        for node in residents.facts.readers(pending.pop()):
            if residents.is_passed_on(node):
                if node.result.number not in visited:
                    visited.add(node.result.number)
                    pending.append(node.result)
            elif node.result.number not in residents.places:
                first = min(first, residents.facts.order[node.result.number])
    if first < end:
        return first
    is_read_later: dict[int, bool] = {}
    results = [reader.result for reader in residents.facts.readers(value)]
    unread = [result for result in results if residents.is_unread(result, is_read_later)]
    return end + min((residents.facts.order[result.number] for result in unread), default=end)


def _can_move(residents: Residents, value: Value) -> bool:
    """True if a value lies on the chip, and in no replicated matrix."""
    places = residents.places.get(value.number, [])
    on_chip = [place for place in places if place.is_on_chip]
    return bool(on_chip) and not any(place.storage.is_replicated for place in on_chip)


def _move(residents: Residents, value: Value) -> None:
    """Replace all places of a value, and of its views, on the chip by places in HBM."""
    if residents.facts.is_output(value):
        residents.dense(value)
    matrices = [place.storage for place in residents.places[value.number] if place.is_on_chip]
    is_in_hbm = any(not place.is_on_chip for place in residents.places[value.number])
    copies: dict[int, Tensor] = {}
    if not is_in_hbm:
        copies[id(matrices[0])] = _copy_to_hbm(matrices[0])
    evicted = {id(matrix) for matrix in matrices}
    for number, places in residents.places.items():
        if any(id(place.storage) in evicted for place in places):
            candidates = [
                _new_place(place, copies) if id(place.storage) in evicted else place
                for place in places
            ]
            new_places = [place for place in candidates if place is not None]
            if new_places:
                residents.places[number] = new_places


def _copy_to_hbm(matrix: SbufMatrix) -> Tensor:
    """A copy of a matrix in HBM, [rows, columns]."""
    columns, tile = matrix.columns, matrix.tile
    out = nl.ndarray((matrix.rows, columns), dtype=tile.dtype, buffer=nl.shared_hbm)
    for block, (row, count) in enumerate(tiles.pieces(matrix.rows, matrix.block)):
        view = tiles.strided(out, [(columns, count), (1, columns)], row * columns)
        nisa.dma_copy(dst=view, src=tile[:count, block])
    return out


def _new_place(place: TensorPlace, copies: dict[int, Tensor]) -> TensorPlace | None:
    """The place in HBM for a place on the chip; None if its matrix was not copied."""
    tensor = copies.get(id(place.storage))
    if tensor is None:
        return None
    columns = place.storage.columns
    steps = tuple((p * columns + f,) for p, f in place.steps)
    p, f = place.offset
    return TensorPlace(tensor, place.shape, steps, (p * columns + f,))
