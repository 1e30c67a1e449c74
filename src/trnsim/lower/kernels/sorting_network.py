"""The order of long rows, by a bitonic network of comparisons: the largest element first.

Element e of a row lies on partition e // C, in column e % C. A step compares each element with the
one `distance` elements further, and exchanges pairs that are out of order. If `distance` is less
than C, both lie on one partition. Otherwise both lie in one column, and columns are transposed for
the step. If a phase sorts a block in ascending order, its keys and indices are negated, so that
every step is the same.

Source: K. E. Batcher, Sorting networks and their applications, AFIPS 1968.
"""

from __future__ import annotations

from typing import Final

from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.tiles import P, Tensor, new
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl
from trnsim.program import current_core

_MOST_COLUMNS: Final = 2048
"""Most elements of a partition, as about twelve tiles of them are in SBUF at once."""
_STEP_INSTRUCTIONS: Final = 11
"""Instructions of a step, each on half of the elements."""

Pair = tuple[Tensor, Tensor]
"""Keys and indices."""


def columns_of(length: int) -> int:
    """Elements of a row on each partition, a power of two; 0 for a row that is too long."""
    columns = max(1 << (-(-length // P) - 1).bit_length(), P)
    return columns if columns <= _MOST_COLUMNS else 0


def network_cycles(rows: int, length: int) -> float:
    """Cycles of the Vector Engine that order `rows` rows."""
    columns = columns_of(length)
    together = max(min(rows, _MOST_COLUMNS // columns), 1)
    bits = (P * columns).bit_length() - 1
    latency = float(current_core().core.access_latency_cycles)
    step = _STEP_INSTRUCTIONS * (together * columns / 2 + latency)
    return -(-rows // together) * bits * (bits + 1) / 2 * step


def network_order(source: Tensor, out: Tensor, shape: tuple[int, int], k: int) -> None:
    """Store the indices of the `k` largest of each row, in order, in `out` [rows, k], int32.

    Equal elements keep their order. Infinities count as the largest finite numbers, as a transpose
    on NeuronCore-v2 multiplies by zero.
    """
    rows, length = shape
    columns = columns_of(length)
    for first, many in tiles.pieces(rows, _MOST_COLUMNS // columns):
        pair = _load_keys(source, (first, many), length, columns)
        _, indices = _sort_keys(pair, columns)
        result = new(indices.shape, nl.int32)
        nisa.tensor_copy(dst=result, src=indices)
        full, rest = divmod(k, columns)
        lines = result.reshape((P, many, columns))
        for start, partitions, width in ((0, full, columns), (full, 1, rest)):
            if partitions and width:
                pattern = [(columns, partitions), (k, many), (1, width)]
                target = tiles.strided(out, pattern, first * k + start * columns)
                nisa.dma_copy(dst=target, src=lines[start : start + partitions, :, :width])


def _load_keys(source: Tensor, rows: tuple[int, int], length: int, columns: int) -> Pair:
    """Keys and indices of (first, count) rows; keys after the end of a row are the lowest."""
    first, many = rows
    keys, counts = new((P, many, columns), source.dtype), new((P, many, columns), nl.int32)
    full, rest = divmod(length, columns)
    lowest = -tiles.LARGEST_FLOAT32
    if full < P:
        nisa.memset(dst=keys, value=0.0)
    for start, partitions, width in ((0, full, columns), (full, 1, rest)):
        if partitions and width:
            pattern = [(columns, partitions), (length, many), (1, width)]
            view = tiles.strided(source, pattern, first * length + start * columns)
            nisa.dma_copy(dst=keys[start : start + partitions, :, :width], src=view)
    nisa.iota(dst=counts, pattern=[[0, many], [1, columns]], channel_multiplier=columns)
    flat = (P, many * columns)
    indices, bounded, is_inside = new(flat), new(flat), new(flat, nl.uint8)
    nisa.tensor_copy(dst=indices, src=counts.reshape(flat))
    result = new(flat)
    nisa.memset(dst=result, value=lowest)
    nisa.tensor_scalar(
        dst=bounded,
        data=keys.reshape(flat),
        op0=nl.maximum,
        operand0=lowest,
        op1=nl.minimum,
        operand1=tiles.LARGEST_FLOAT32,
    )
    nisa.tensor_scalar(dst=is_inside, data=indices, op0=nl.less, operand0=float(length))
    nisa.tensor_copy_predicated(dst=result, src=bounded, predicate=is_inside)
    return result, indices


def _sort_keys(pair: Pair, columns: int) -> Pair:
    """Keys and indices in order, phase by phase: blocks of 2, 4, ... elements."""
    count = P * columns
    places, shifted, gray = (new(pair[0].shape, nl.int32) for _ in range(3))
    many = pair[0].shape[1] // columns
    nisa.iota(
        dst=places.reshape((P, many, columns)),
        pattern=[[0, many], [1, columns]],
        channel_multiplier=columns,
    )
    nisa.tensor_scalar(dst=shifted, data=places, op0=nl.right_shift, operand0=1)
    nisa.tensor_tensor(dst=gray, data1=places, data2=shifted, op=nl.bitwise_xor)
    block = 2
    while block <= count:
        # A block is negated if bit `block` of its places is set, but already is if the last was.
        sign_places, bit = (places, block) if block == 2 else (gray, block // 2)  # noqa: PLR2004  first
        pair = _negate_blocks(pair, sign_places, bit)
        distance = block // 2
        if distance >= columns:
            pair = _transpose_pair(pair)
            while distance >= columns:
                pair = _exchange(pair, distance // columns)
                distance //= 2
            pair = _transpose_pair(pair)
        while distance:
            pair = _exchange(pair, distance)
            distance //= 2
        block *= 2
    return pair


def _negate_blocks(pair: Pair, places: Tensor, bit: int) -> Pair:
    """Keys and indices, negated where a bit of `places` is set."""
    bits, signs = new(places.shape, nl.int32), new(places.shape)
    nisa.tensor_scalar(dst=bits, data=places, op0=nl.bitwise_and, operand0=bit)
    nisa.tensor_scalar(
        dst=signs, data=bits, op0=nl.multiply, operand0=-2.0 / bit, op1=nl.add, operand1=1.0
    )
    keys, indices = new(places.shape), new(places.shape)
    nisa.tensor_tensor(dst=keys, data1=pair[0], data2=signs, op=nl.multiply)
    nisa.tensor_tensor(dst=indices, data1=pair[1], data2=signs, op=nl.multiply)
    return keys, indices


def _transpose_pair(pair: Pair) -> Pair:
    """Keys and indices with each block of 128 columns transposed."""
    return _transpose_blocks(pair[0]), _transpose_blocks(pair[1])


def _transpose_blocks(tile: Tensor) -> Tensor:
    result = new(tile.shape)
    for first, columns in tiles.pieces(tile.shape[1], tiles.BANK):
        flipped = new((P, columns), nl.float32, nl.psum)
        for at in range(0, columns, P):
            data = tile[:, first + at : first + at + P]
            nisa.nc_transpose(dst=flipped[:, at : at + P], data=data)
        nisa.tensor_copy(dst=result[:, first : first + columns], src=flipped)
    return result


def _exchange(pair: Pair, distance: int) -> Pair:
    """Keys and indices after the exchange of elements `distance` columns apart."""
    columns = pair[0].shape[1]
    shape = P, columns // (2 * distance), 2, distance
    half = P, columns // (2 * distance), distance
    keys, indices = (tile.reshape(shape) for tile in pair)
    (key, other_key), (index, other_index) = (
        (tile[:, :, 0], tile[:, :, 1]) for tile in (keys, indices)
    )
    new_keys, new_indices = new(shape), new(shape)

    def combine(op: object, left: Tensor, right: Tensor, dst: Tensor | None = None) -> Tensor:
        """``left <op> right``, in `dst` or in a new tile."""
        result = new(half) if dst is None else dst
        nisa.tensor_tensor(dst=result, data1=left, data2=right, op=op)
        return result

    combine(nl.maximum, key, other_key, new_keys[:, :, 0])
    combine(nl.minimum, key, other_key, new_keys[:, :, 1])
    is_equal = combine(nl.equal, key, other_key)
    is_earlier = combine(nl.less, index, other_index)
    is_equal_and_first = combine(nl.multiply, is_equal, is_earlier)
    is_larger = combine(nl.greater, key, other_key)
    is_first = combine(nl.add, is_larger, is_equal_and_first)
    apart = combine(nl.subtract, index, other_index)
    moved = combine(nl.multiply, apart, is_first)
    combine(nl.add, other_index, moved, new_indices[:, :, 0])
    combine(nl.subtract, index, moved, new_indices[:, :, 1])
    flat = P, columns
    return new_keys.reshape(flat), new_indices.reshape(flat)
