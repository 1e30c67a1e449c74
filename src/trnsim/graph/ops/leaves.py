"""Operations without operands: constants, counts, random numbers."""

from __future__ import annotations

from math import prod

import numpy as np

from trnsim.graph.operation import Example, Kind, Operation
from trnsim.graph.types import BOOL, ELEMENT_TYPES, Array, Shape, TensorType


class Leaf(Operation, kind=Kind.LEAF, abstract=True):
    """A tensor that each reader makes for itself.

    Attributes:
        shape: the result's.
        dtype: the result's.
    """

    shape: Shape = ()
    dtype: str = "float32"

    def types(self, *given: TensorType) -> tuple[TensorType, ...]:
        """As asked."""
        del given
        return (TensorType(self.shape, self.dtype),)


class Constant(Leaf):
    """A tensor of one number."""

    number: float = 0.0

    def reference(self) -> Array:
        """The number everywhere."""
        kind = np.float64 if "float" in self.dtype else np.bool_ if self.dtype == BOOL else np.int64
        return np.full(self.shape, self.number, kind)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Each type."""
        return tuple(Example(cls((3, 40), dtype, 1.0), ()) for dtype in ELEMENT_TYPES)


class Iota(Leaf):
    """Each element's place along `dim`."""

    dtype: str = "int32"
    dim: int = 0

    def reference(self) -> Array:
        """The place."""
        places = np.arange(self.shape[self.dim])
        return np.broadcast_to(np.expand_dims(places, self._others()), self.shape)

    def _others(self) -> tuple[int, ...]:
        return tuple(dim for dim in range(len(self.shape)) if dim != self.dim)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Along each of two dimensions, and of one element."""
        return (
            Example(cls((3, 40), "int32", 0), ()),
            Example(cls((3, 40), "int32", 1), ()),
            Example(cls((1,), "int32", 0), ()),
        )


class Rng(Leaf):
    """Uniform random numbers in [0, 1) of the chip's own generator: no values are promised."""

    def reference(self) -> Array:
        """Numbers of numpy's generator; a test compares their range and mean."""
        return np.random.default_rng(0).random(self.shape)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """A tensor of them."""
        return (Example(cls((128, 64)), ()),)


class RngBitGenerator(Operation, kind=Kind.KERNEL):
    """Random bits from a state: the state after, and a uint32 tensor of `shape`.

    StableHLO leaves the algorithm DEFAULT to the implementation. Equal states give equal bits.
    """

    operands = ("initial_state",)
    legal = (("uint32",),)
    shape: Shape = ()

    def types(self, *given: TensorType) -> tuple[TensorType, ...]:
        """The state's and the bits'."""
        return given[0], TensorType(self.shape, "uint32")

    def reference(self, initial_state: Array) -> tuple[Array, Array]:
        """Philox, keyed by the state (numpy.random.Philox)."""
        words = [int(word) for word in initial_state.ravel()]
        key = sum(word << (32 * place) for place, word in enumerate(words)) % 2**128
        generator = np.random.Generator(np.random.Philox(key=key))
        bits = generator.integers(0, 2**32, self.shape, np.uint32)
        after = (key + prod(self.shape)) % 2**128
        state = [(after >> (32 * place)) % 2**32 for place in range(len(words))]
        return np.array(state, np.int64).reshape(initial_state.shape), bits.astype(np.int64)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """A state of four words."""
        return (Example(cls((128, 64)), (TensorType((4,), "uint32"),), ("places",), 1000),)
