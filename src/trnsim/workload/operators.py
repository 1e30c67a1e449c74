"""Operators of one rank in a layer's pass: products, elementwise operators, caches, exchanges."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from trnsim.errors import BadInput

PER_MULTIPLICATION: Final = 2
"""FLOPs of a multiplication and the addition of its result."""

ACTIVATIONS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("silu", "swish"), ("silu",)),
    "gelu": ("gelu",),
    **dict.fromkeys(("gelu_new", "gelu_fast", "gelu_pytorch_tanh"), ("gelu_tanh",)),
    "relu": ("relu",),
    "relu2": ("relu", "square"),
    "quick_gelu": ("quick_gelu",),
    "tanh": ("tanh",),
}
"""Operations of an activation, by its name in transformers."""
_BYTE_BITS: Final = 8


def bytes_of(elements: float, bits: float) -> float:
    """Bytes of `elements` of `bits` each."""
    return elements * bits / _BYTE_BITS


class Phase(StrEnum):
    """The purpose of a pass."""

    ENCODE = "encode"
    """All tokens at once, without a cache."""
    PREFILL = "prefill"
    """All tokens of a prompt, whose keys and values are cached."""
    DECODE = "decode"
    """One token a sequence, with cached keys and values of the earlier tokens."""
    TRAIN = "train"
    """Forward and backward."""


@dataclass(frozen=True)
class Pass:
    """A pass through a model: phase, sequences and tokens.

    Attributes:
        batch: sequences.
        tokens: new tokens of each sequence.
        past: earlier tokens, whose keys and values are cached.
        source: tokens of each sequence of the encoder, which cross attention reads; 0 for as many
            as `tokens`.
        image: pixels of an image along a side; 0 for the model's own.
        is_one_kernel: whether attention is one kernel, which keeps its scores on the chip.
    """

    phase: Phase
    batch: int
    tokens: int
    past: int = 0
    source: int = 0
    image: int = 0
    is_one_kernel: bool = False

    def __post_init__(self) -> None:
        for name, floor in (("batch", 1), ("tokens", 1), ("past", 0), ("source", 0), ("image", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < floor:
                raise BadInput(f"{name} of a pass is {value!r}; legal: whole numbers from {floor}")

    @property
    def rows(self) -> int:
        """New tokens of all sequences: the rows of its products."""
        return self.batch * self.tokens


@dataclass(frozen=True)
class Split:
    """Numbers of ranks that divide the work of one layer among them.

    Attributes:
        tensor: ranks that divide heads and columns.
        expert: ranks that divide experts; each of them has tokens of its own.
        context: ranks that divide the tokens of a sequence.
        is_sequence: whether norms and residuals are spread over the tensor ranks too.
    """

    tensor: int = 1
    expert: int = 1
    context: int = 1
    is_sequence: bool = False

    def __post_init__(self) -> None:
        for name in ("tensor", "expert", "context"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise BadInput(f"{name} ranks are {value!r}; legal: whole numbers from 1")

    @property
    def ranks(self) -> int:
        """Ranks of one layer."""
        return self.tensor * self.context


WHOLE: Final = Split()
"""A layer on one rank."""


@dataclass(frozen=True)
class Product:
    """Equal matrix products: ``times`` of (m, k) by (k, n).

    Attributes:
        name: "query", "scores", "gate".
        m: rows.
        k: elements of a row, which are added up.
        n: columns.
        times: number of products.
        weight_bits: bits of an element of (k, n) if (k, n) is a weight; 0 if it is computed.
        causal: the share of its multiplications whose results no mask discards.
        bits: bits of its operands, which decide the rate.
    """

    name: str
    m: float
    k: float
    n: float
    times: float = 1.0
    weight_bits: float = 0
    causal: float = 1.0
    bits: float = 16

    @property
    def flop(self) -> float:
        """``2 m k n times``: all results, masked ones too."""
        return PER_MULTIPLICATION * self.m * self.k * self.n * self.times

    @property
    def useful_flop(self) -> float:
        """FLOPs of the results that a mask leaves."""
        return self.flop * self.causal

    @property
    def weight_bytes(self) -> float:
        """Bytes of its weights."""
        return bytes_of(self.k * self.n * self.times, self.weight_bits)

    @property
    def activation_elements(self) -> float:
        """Elements of its inputs and results that are no weights."""
        computed = 0.0 if self.weight_bits else self.k * self.n
        return (self.m * (self.k + self.n) + computed) * self.times


@dataclass(frozen=True)
class Elementwise:
    """An elementwise operator: norm, activation, softmax or residual.

    Attributes:
        name: "norm", "softmax".
        elements: elements read and written.
        weight_bytes: bytes of parameters read.
    """

    name: str
    elements: float
    weight_bytes: float = 0.0


@dataclass(frozen=True)
class Cache:
    """Keys and values of earlier tokens, read from HBM, and those of new ones, written.

    Attributes:
        read_bytes: bytes of earlier tokens, and of states.
        written_bytes: bytes of new tokens, and of states.
        replaced_bytes: bytes read that the written bytes replace: states.
    """

    read_bytes: float
    written_bytes: float
    replaced_bytes: float = 0.0

    def __add__(self, other: Cache) -> Cache:
        return Cache(
            self.read_bytes + other.read_bytes,
            self.written_bytes + other.written_bytes,
            self.replaced_bytes + other.replaced_bytes,
        )

    def times(self, count: int) -> Cache:
        """The caches of `count` equal layers."""
        return Cache(
            count * self.read_bytes, count * self.written_bytes, count * self.replaced_bytes
        )

    @property
    def kept_bytes(self) -> float:
        """Bytes that are kept after a step."""
        return self.read_bytes + self.written_bytes - self.replaced_bytes


class Axis(StrEnum):
    """The axis of ranks of an exchange."""

    TENSOR = "tensor"
    EXPERT = "expert"
    CONTEXT = "context"


@dataclass(frozen=True)
class Exchange:
    """A collective of the ranks of an axis.

    Attributes:
        kind: one of `trnsim.fabric.choice.KINDS`.
        nbytes: bytes of the whole message: the larger of a rank's input and output.
        axis: the ranks that take part.
        times: number of exchanges.
    """

    kind: str
    nbytes: float
    axis: Axis
    times: float = 1.0
