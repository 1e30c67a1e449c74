"""A generator's state in sixteen bytes: its seed, and the number of words drawn.

PyTorch's DTensor reads a device's state as eight bytes of seed and eight of offset. It adds the
number of elements before a process's shard to the offset, and afterwards the number of elements of
the whole tensor. Source: torch/distributed/tensor/_random.py, class OffsetBasedRNGTracker.

Numbers here come from the host's generator, a Mersenne Twister of 32-bit words with a state of
5,056 bytes, which follows from the low half of the seed and the number of words drawn:

    bytes 0 to 3    the low half of the seed
    bytes 4 to 7    words drawn, their low half
    bytes 8 to 13   the offset added by DTensor, zero in a state from a generator
    bytes 14, 15    words drawn, their high part

A state with an offset denotes a separate stream, seeded with a digest of all sixteen bytes: streams
that are only some words apart would draw the same words, one after another.
"""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from trnsim.device.program_line import program_line
from trnsim.torch.device_errors import BadState

if TYPE_CHECKING:
    from torch import Generator, Tensor

_BLOCK_WORDS: Final = 624  # words that the Mersenne Twister generates per block
_MOST_BLOCKS: Final = 4096  # 10 MB of words at a time
_HALF_BITS: Final = 32
_OFFSET_BITS: Final = 48
_LOW_HALF_MASK: Final = (1 << _HALF_BITS) - 1
_POSITIVE_MASK: Final = (1 << (_HALF_BITS - 1)) - 1
_STATE_STRUCT: Final = struct.Struct("<QQ")

# aten/src/ATen/CPUGeneratorImpl.cpp, struct CPUGeneratorImplState and the struct inside it.
_HOST_STATE_DTYPE: Final = np.dtype(
    [
        ("seed", "u8"),
        ("left", "i4"),
        ("seeded", "i4"),
        ("next", "u8"),
        ("block", "u8", _BLOCK_WORDS),
        ("normals", "f8", 3),
        ("has_normal", "i8"),
        ("float_normal", "f4"),
        ("has_float_normal", "i4"),
    ]
)


def fields(state: Tensor) -> Any:
    """The fields of a host generator's state, as views of its memory."""
    return state.numpy().view(_HOST_STATE_DTYPE)[0]


def without_spare_normal(state: Tensor) -> Tensor:
    """The state, from which the spare second number of a pair of normal numbers was removed.

    It is changed in place. Sixteen bytes have no room for that number.
    """
    state_fields = fields(state)
    state_fields["has_normal"] = state_fields["has_float_normal"] = 0
    return state


def pack_state(seed: int, words: int) -> Tensor:
    """The sixteen bytes of a generator that was seeded with `seed` and has drawn `words` words."""
    low = (seed & _LOW_HALF_MASK) | (words & _LOW_HALF_MASK) << _HALF_BITS
    content = _STATE_STRUCT.pack(low, words >> _HALF_BITS << _OFFSET_BITS)
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


def unpack_state(state: Tensor) -> tuple[int, int]:
    """The low half of the seed, and the number of words drawn.

    Raises:
        BadState: for anything but sixteen bytes on the host.
    """
    is_tensor = isinstance(state, torch.Tensor)  # pyright: ignore[reportUnnecessaryIsInstance]  of a user
    is_of_bytes = is_tensor and state.dtype is torch.uint8 and state.is_cpu
    if not is_of_bytes or state.numel() != _STATE_STRUCT.size:
        words = (
            f"{tuple(state.shape)} of {state.dtype} on {state.device}"
            if is_tensor
            else f"{state!r:.60}"
        )
        raise BadState(
            f"the state of a neuron generator is {_STATE_STRUCT.size} bytes on the CPU; this is "
            f"{words}",
            fix="give what torch.neuron.get_rng_state() gave",
            line=program_line(),
        )
    content = state.contiguous().numpy().tobytes()
    low, high = _STATE_STRUCT.unpack(content)
    if high & ((1 << _OFFSET_BITS) - 1):
        return int.from_bytes(hashlib.blake2b(content, digest_size=4).digest(), "little"), 0
    return low & _LOW_HALF_MASK, low >> _HALF_BITS | high >> _OFFSET_BITS << _HALF_BITS


def words_between(start: Tensor, end: Tensor, follower: Generator) -> int:
    """The number of words that a host generator draws between two of its states.

    `follower` is a generator with which to draw them again, up to the block of `end`.
    """
    start_fields, end_fields = fields(start), fields(end)
    if np.array_equal(start_fields["block"], end_fields["block"]):
        return int(end_fields["next"] - start_fields["next"])
    end_words = torch.from_numpy(_temper(end_fields["block"]))
    follower.set_state(start)
    words, blocks = int(start_fields["left"]) - 1, 1
    _draw(words, follower)
    while True:
        block_words = _draw(blocks * _BLOCK_WORDS, follower).view(blocks, _BLOCK_WORDS)
        matches = (block_words == end_words).all(1).nonzero()
        if len(matches):
            return words + int(matches[0]) * _BLOCK_WORDS + int(end_fields["next"])
        words += blocks * _BLOCK_WORDS
        blocks = min(2 * blocks, _MOST_BLOCKS)


def advance(generator: Generator, words: int) -> None:
    """Draw `words` words from a host generator."""
    most_words = _MOST_BLOCKS * _BLOCK_WORDS
    for start in range(0, words, most_words):
        _draw(min(most_words, words - start), generator)


def _draw(words: int, generator: Generator) -> Tensor:
    """Draw words without their highest bit."""
    return torch.empty(words, dtype=torch.int32, device="cpu").random_(generator=generator)


def _temper(block: Any) -> Any:
    """The words of a block as they are drawn (tempered), without their highest bit.

    Source: Matsumoto and Nishimura, Mersenne Twister, 1998, table II.
    """
    words = block.astype(np.uint32)
    words ^= words >> 11
    words ^= words << 7 & np.uint32(0x9D2C5680)
    words ^= words << 15 & np.uint32(0xEFC60000)
    words ^= words >> 18
    return (words & _POSITIVE_MASK).astype(np.int32)
