"""Tensors without operands: constants, indices, random numbers."""

from __future__ import annotations

from math import isfinite, prod
from typing import Final

import numpy as np

from trnsim.graph.operation import Example, Kind, Operation
from trnsim.graph.types import BOOL, ELEMENT_TYPES, INTEGERS, Array, Shape, TensorType


class Leaf(Operation, kind=Kind.LEAF, abstract=True):
    """A tensor without operands, which each reader makes for itself.

    Attributes:
        dtype: element type of the result.
    """

    shape: Shape = ()
    dtype: str = "float32"

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """By `shape` and `dtype`."""
        del tensors
        if self.dtype not in ELEMENT_TYPES:
            self.refuse(f"of {self.dtype}; legal: {', '.join(ELEMENT_TYPES)}")
        return (TensorType(self.shape, self.dtype),)


class Constant(Leaf):
    """A tensor filled with a number."""

    number: float = 0.0

    def check(self, tensors: tuple[TensorType, ...]) -> None:
        """Check that the number of an integer type is neither an infinity nor NaN."""
        super().check(tensors)
        if self.dtype in INTEGERS and not isfinite(self.number):
            self.refuse(f"of {self.number} as {self.dtype}; legal: what is an integer")

    def reference(self) -> Array:
        """The number everywhere."""
        kind = np.float64 if "float" in self.dtype else np.bool_ if self.dtype == BOOL else np.int64
        return np.full(self.shape, self.number, kind)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """An example of each element type."""
        return tuple(Example(cls((3, 40), dtype, 1.0), ()) for dtype in ELEMENT_TYPES)


class Iota(Leaf):
    """The index of each element along `dim`."""

    dtype: str = "int32"
    dim: int = 0

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """By `shape` and `dtype`."""
        if not 0 <= self.dim < len(self.shape):
            self.refuse(f"of {self.shape} along {self.dim}; legal: one of its dimensions")
        return super().types(*tensors)

    def reference(self) -> Array:
        """The index."""
        return np.broadcast_to(np.indices(self.shape, sparse=True)[self.dim], self.shape)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Along each of two dimensions, and of one element."""
        return (
            Example(cls((3, 40), "int32", 0), ()),
            Example(cls((3, 40), "int32", 1), ()),
            Example(cls((1,), "int32", 0), ()),
        )


class Rng(Leaf):
    """Uniform random numbers in [0, 1) from the chip's generator; values are not specified."""

    def reference(self) -> Array:
        """Numbers of numpy's generator; a test compares their range and mean."""
        return np.random.default_rng(0).random(self.shape)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """A tensor of random numbers."""
        return (Example(cls((128, 64)), ()),)


class RngBitGenerator(Operation, kind=Kind.KERNEL):
    """Random bits from a state of four words: the state after, and a uint32 tensor of `shape`.

    StableHLO leaves the algorithm DEFAULT to the implementation: here it is `Threefry`. The state's
    first two words are the key, the other two the count of blocks so far, low word first. Of n
    blocks the bits are all first words, then all second words.
    """

    operands = ("initial_state",)
    legal = (("uint32",),)
    shape: Shape = ()

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """The types of the state and of the bits."""
        if tensors[0].shape != (_STATE_WORDS,):
            self.refuse(f"of {tensors[0]}; legal: a state of {_STATE_WORDS} words")
        return tensors[0], TensorType(self.shape, "uint32")

    def reference(self, initial_state: Array) -> tuple[Array, Array]:
        """Blocks by their numbers, modulo 2**64."""
        key, (low, high) = initial_state[:2], (int(word) for word in initial_state[2:])
        elements = prod(self.shape)
        first = low + 2**32 * high
        blocks = np.arange(-(-elements // 2), dtype=np.uint64) + np.uint64(first)
        bits = np.concatenate(Threefry.words(key, blocks % 2**32, blocks >> 32))
        after = (first + len(blocks)) % 2**64
        state = np.array([*key, after % 2**32, after >> 32], np.int64)
        return state, bits[:elements].reshape(self.shape).astype(np.int64)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """An even and an odd number of words."""
        state = (TensorType((_STATE_WORDS,), "uint32"),)
        return (
            Example(cls((128, 64)), state, ("places",), 1000),
            Example(cls((3, 5)), state, ("edges",)),
        )


_STATE_WORDS: Final = 4


class Threefry:
    """Threefry2x32: two random words from a key of two words and the number of a block.

    Source: J. Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3 (SC 2011), section 4.1,
    with 20 rounds and a key entering after every fourth.
    """

    PARITY: Final = 0x1BD11BDA
    _TURNS: Final = (13, 15, 26, 6, 17, 29, 16, 24)
    _ROUNDS: Final = 20

    @classmethod
    def turns(cls) -> tuple[int, ...]:
        """Bits by which each round rotates a word to the left."""
        return tuple(cls._TURNS[number % len(cls._TURNS)] for number in range(cls._ROUNDS))

    @classmethod
    def words(cls, key: Array, low: Array, high: Array) -> tuple[Array, Array]:
        """Both words of each block, whose number has a low and a high word; uint64 below 2**32."""
        word, keys = np.uint64(2**32 - 1), [np.uint64(key_word) for key_word in key]
        keys.append(keys[0] ^ keys[1] ^ np.uint64(cls.PARITY))
        left, right = (low + keys[0]) & word, (high + keys[1]) & word
        for number, turn in enumerate(cls.turns()):
            left = (left + right) & word
            high_part, low_part = right << np.uint64(turn), right >> np.uint64(32 - turn)
            right = (high_part | low_part) & word ^ left
            if number % 4 == 3:  # noqa: PLR2004  every fourth round
                step = number // 4 + 1
                left = (left + keys[step % 3]) & word
                right = (right + keys[(step + 1) % 3] + np.uint64(step)) & word
        return left, right
