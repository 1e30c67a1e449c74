"""XORWOW pseudo-random numbers: the generators of the Vector and the GpSimd Engine.

AWS names the algorithm (Marsaglia, Xorshift RNGs, 2003) and the size of the state: 6 words per lane
on the GpSimd Engine, and four generators, thus 24 words, on the Vector Engine of NeuronCore-v4. Our
choices where AWS is silent:

- The words of a generator are Marsaglia's x, y, z, w, v, d in this order; the Vector Engine's four
  generators follow each other.
- Element i of a lane comes from generator i modulo the number of generators. All generators advance
  together, so if their number does not divide the number of elements, the last numbers are unused.
- The lane of an element is that of the partition that is written.
- A 32-bit seed becomes the words of all lanes by numpy's SeedSequence of (seed, engine). Engines
  start as if seeded with 0, so that a run repeats exactly; a chip's start is not documented.
- Before v4 the Vector Engine has a shift register that AWS does not describe (trainium3_arch.rst,
  XORWOW-based PRNG). Here it is XORWOW too: the distribution is the chip's, the bits are not.

Source: trainium3_arch.rst, XORWOW-based PRNG; nki.isa.rand_set_state.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from trnsim.isa.language.modes import Engine

Words = npt.NDArray[np.uint32]

STATE_WORDS: Final = 6
"""32-bit words of a generator."""
GENERATORS: Final = {Engine.gpsimd: 1, Engine.vector: 4}
"""Engine -> its generators per lane."""

_SHIFTED_WORDS: Final = 5
_WEYL: Final = 362437
_RIGHT: Final = np.uint32(2)
_LEFT_OLD: Final = np.uint32(1)
_LEFT_NEW: Final = np.uint32(4)


def advance(states: Words, steps: int) -> tuple[Words, Words]:
    """The next `steps` numbers of n generators, [steps, n], and their new states, [n, 6].

    Args:
        states: the words of each generator, [n, 6].
        steps: how many numbers each generator gives.
    """
    history = np.empty((steps + _SHIFTED_WORDS, len(states)), np.uint32)
    history[:_SHIFTED_WORDS] = states[:, :_SHIFTED_WORDS].T
    for first in range(0, steps, _SHIFTED_WORDS):
        # A step combines the oldest word with the newest: five oldest words are known at once.
        block = history[first : first + min(_SHIFTED_WORDS, steps - first)]
        mixed = block ^ (block >> _RIGHT)
        mixed ^= mixed << _LEFT_OLD
        for row, step in enumerate(mixed, first + _SHIFTED_WORDS):
            newest = history[row - 1]
            history[row] = newest ^ (newest << _LEFT_NEW) ^ step
    weyl = np.arange(1, steps + 1, dtype=np.uint32) * np.uint32(_WEYL)
    counters = states[:, -1] + weyl[:, None]
    next_states = np.empty_like(states)
    next_states[:, :_SHIFTED_WORDS] = history[steps:].T
    next_states[:, -1] = counters[-1] if steps else states[:, -1]
    return history[_SHIFTED_WORDS:] + counters, next_states


class RandomState:
    """The generators of one engine, the same number in each lane.

    Attributes:
        lanes: number of lanes.
        generators: number of generators per lane.
    """

    def __init__(self, engine: Engine, lanes: int) -> None:
        self.lanes = lanes
        self.generators = GENERATORS[engine]
        self._engine = engine
        self._states: Words | None = None

    @property
    def states(self) -> Words:
        """The words of each generator of each lane, [lanes, generators, 6]."""
        if self._states is None:
            return self.seed(0)
        return self._states

    def seed(self, seed: int) -> Words:
        """Set the states of all lanes from a 32-bit seed, and return them."""
        shape = (self.lanes, self.generators, STATE_WORDS)
        sequence = np.random.SeedSequence((seed, self._engine.value))
        words = sequence.generate_state(int(np.prod(shape)), np.uint32)
        states: Words = words.astype(np.uint32).reshape(shape)
        self._states = states
        return states

    def words(self, first_lane: int, lanes: int) -> Words:
        """The states of `lanes` lanes from `first_lane` on, [lanes, 6 * generators]."""
        return self.states[first_lane : first_lane + lanes].reshape(lanes, -1)

    def put(self, first_lane: int, words: Words) -> None:
        """Replace the states of lanes from `first_lane` on by `words` [lanes, 6 * generators]."""
        states = words.reshape(-1, self.generators, STATE_WORDS)
        self.states[first_lane : first_lane + len(states)] = states

    def draw(self, first_lane: int, lanes: int, count: int) -> Words:
        """`count` random 32-bit numbers for each of `lanes` lanes from `first_lane` on.

        Returns:
            [lanes, count].
        """
        steps = -(-count // self.generators)
        words = self.states[first_lane : first_lane + lanes].reshape(-1, STATE_WORDS)
        numbers, next_states = advance(words, steps)
        self.put(first_lane, next_states)
        by_lane = numbers.reshape(steps, lanes, self.generators).transpose(1, 0, 2)
        return by_lane.reshape(lanes, -1)[:, :count]
