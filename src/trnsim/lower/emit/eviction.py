"""Room in SBUF for what is read soon, made by moving to HBM what is read late.

Where a result has no room, what lies on the chip and is read later than it goes: an output in
row-major order, as it is returned; anything else in the order in which it lies. Of two the one
whose next reader is farther goes first (Belady, IBM Systems Journal 5(2), 1966).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.graph import Kind, Value
from trnsim.lower.emit.places.paths import is_view
from trnsim.lower.emit.places.placed import Matrix, Placed
from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.tiles import Tensor
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

if TYPE_CHECKING:
    from trnsim.lower.emit.residents import Residents


def evict(residents: Residents, value: Value, nbytes: int) -> bool:
    """Make room for a value; False, and nothing moves, where all else is read sooner.

    Args:
        residents: the results in SBUF.
        value: what needs room.
        nbytes: bytes of a partition that it needs.
    """
    latest = next_reader(residents, value)
    found = [(next_reader(residents, one), one, size) for one, size in residents.held()]
    found = sorted((one for one in found if one[0] > latest), key=lambda one: -one[0])
    chosen: list[Value] = []
    missing = nbytes - residents.free_bytes()
    for _, one, size in found:
        if missing <= 0:
            break
        if _leave(residents, one):
            chosen.append(one)
            missing -= size
    for one in chosen:
        _move(residents, one)
    return missing <= 0


def next_reader(residents: Residents, value: Value) -> int:
    """The place of the next operation that reads a value.

    What is a view, waits, or is pending reads for who reads it; what waits for the results to be
    returned is computed in its order after all others.
    """
    last = len(residents.facts.graph.nodes)
    best, waiting, seen = last, [value], {value.number}
    while waiting:
        for node in residents.facts.readers(waiting.pop()):
            places = residents.placed.get(node.result.number)
            waits = is_view(node) or (node.kind is Kind.ELEMENTWISE and places is None)
            if waits or (places is not None and places[0].is_pending):
                if node.result.number not in seen:
                    seen.add(node.result.number)
                    waiting.append(node.result)
            elif places is None:
                best = min(best, residents.facts.order[node.result.number])
    if best < last:
        return best
    known: dict[int, bool] = {}
    wanted = [one.result for one in residents.facts.readers(value)]
    wanted = [one for one in wanted if residents.is_wanted(one, known)]
    return last + min((residents.facts.order[one.number] for one in wanted), default=last)


def _leave(residents: Residents, value: Value) -> bool:
    """Whether a value may go: it lies in matrices whose partitions differ."""
    places = residents.placed.get(value.number, [])
    mine = [one for one in places if one.is_on_chip]
    return bool(mine) and not any(one.storage.is_replicated for one in mine)


def _move(residents: Residents, value: Value) -> None:
    """Leave no place of a value, nor of its views, on the chip."""
    if residents.facts.is_returned(value):
        residents.dense(value)
    matrices = [one.storage for one in residents.placed[value.number] if one.is_on_chip]
    others = [one for one in residents.placed[value.number] if not one.is_on_chip]
    made: dict[int, Tensor] = {}
    if not others:
        made[id(matrices[0])] = _stored(matrices[0])
    gone = {id(one) for one in matrices}
    for number, places in residents.placed.items():
        if any(id(one.storage) in gone for one in places):
            moved = [_moved(one, made) if id(one.storage) in gone else one for one in places]
            kept = [one for one in moved if one is not None]
            if kept:
                residents.placed[number] = kept


def _stored(matrix: Matrix) -> Tensor:
    """A matrix in HBM, [rows, columns]."""
    columns, tile = matrix.columns, matrix.tile
    out = nl.ndarray((matrix.rows, columns), dtype=tile.dtype, buffer=nl.shared_hbm)
    for block, (row, count) in enumerate(tiles.pieces(matrix.rows, matrix.block)):
        view = tiles.strided(out, [(columns, count), (1, columns)], row * columns)
        nisa.dma_copy(dst=view, src=tile[:count, block])
    return out


def _moved(placed: Placed, made: dict[int, Tensor]) -> Placed | None:
    """A place in HBM for one on the chip; None where another place of the same value is enough."""
    tensor = made.get(id(placed.storage))
    if tensor is None:
        return None
    columns = placed.storage.columns
    steps = tuple((p * columns + f,) for p, f in placed.steps)
    p, f = placed.offset
    return Placed(tensor, placed.shape, steps, (p * columns + f,))
