"""Random bits by a counter-based generator: Threefry, in additions, shifts and exclusive ors.

The chip's own generator cannot begin from a tensor (nki.isa.rng), and equal states must give equal
bits.
"""

from __future__ import annotations

from math import prod

from trnsim.graph import TensorType, Value
from trnsim.graph.building.build import Build
from trnsim.graph.ops.leaves import RngBitGenerator, Threefry
from trnsim.lower.rules import legal

_WORD_DTYPE = "uint32"
"""The dtype of a word of random bits."""


@legal(RngBitGenerator)
def rng_bit_generator(b: Build, op: RngBitGenerator, state: Value) -> tuple[Value, ...]:
    """The state with its counter advanced, and random words of the result's shape."""
    elements = prod(op.shape)
    blocks = -(-elements // 2)
    words = [b.graph.slice(state, (place,), (1,)) for place in range(4)]
    key, count = words[:2], words[2:]
    number = b.convert(b.graph.iota((blocks,), 0), _WORD_DTYPE)
    counters = _advance(b, [_repeat(b, word, blocks) for word in count], number)
    first, second = _threefry(b, [_repeat(b, word, blocks) for word in key], counters)
    bits = b.graph.slice(b.graph.concatenate([first, second], 0), (0,), (elements,))
    after = _advance(b, count, b.filled(blocks, TensorType((1,), _WORD_DTYPE)))
    return b.graph.concatenate([*key, *after], 0), b.graph.reshape(bits, op.shape)


def _repeat(b: Build, word: Value, blocks: int) -> Value:
    """A word [1] repeated for each block, [blocks]."""
    return b.graph.broadcast_in_dim(word, (blocks,), (0,))


def _advance(b: Build, count: list[Value], step: Value) -> list[Value]:
    """A 64-bit counter, low word first, advanced by `step`."""
    low = b.ew("add", count[0], step)
    carry = b.convert(b.ew("compare", low, step, direction="LT", dtype="bool"), _WORD_DTYPE)
    return [low, b.ew("add", count[1], carry)]


def _threefry(b: Build, key: list[Value], block: list[Value]) -> list[Value]:
    """Two words of each block: `Threefry.words` as graph operations."""
    parity = b.ew("xor", b.ew("xor", *key), float(Threefry.PARITY))
    keys = [*key, parity]
    left, right = (b.ew("add", word, subkey) for word, subkey in zip(block, key, strict=True))
    for number, turn in enumerate(Threefry.turns()):
        left = b.ew("add", left, right)
        right = b.ew("xor", _rotate(b, right, turn), left)
        if number % 4 == 3:  # noqa: PLR2004  a key enters after four rounds
            step = number // 4 + 1
            left = b.ew("add", left, keys[step % 3])
            right = b.ew("add", b.ew("add", right, keys[(step + 1) % 3]), float(step))
    return [left, right]


def _rotate(b: Build, word: Value, places: int) -> Value:
    """A word rotated left."""
    high = b.ew("shift_left", word, float(places), bits=32)
    low = b.ew("shift_right_logical", word, float(32 - places), bits=32)
    return b.ew("or", high, low)
