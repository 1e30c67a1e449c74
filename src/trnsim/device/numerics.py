"""The mode in which values of a device are computed: by the host, by instructions, or not at all.

- `fast`, the default: the host computes an operation as a whole, and rounds once.
- `exact`: the instructions of the chip are emulated, so that sums are added in the order of tiles
  and functions are the engines' functions; a compiled graph runs as the program that was timed.
- `shapes`: no values are computed. A step has its calls, memory and time; a value that the program
  reads from a tensor is undefined.

Random numbers are the host's in all modes. `fast` and `exact` agree within one rounding of the
output plus ``2 * K * 2**-24 * sum(abs(a) * abs(b))`` for a reduction over K, and within
`FUNCTION_BOUNDS` for the functions of the Scalar Engine. `fast` rounds to nearest, or
stochastically where NEURON_RT_STOCHASTIC_ROUNDING_EN=1 asks for it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, Literal

import numpy as np

from trnsim.errors import BadInput

Numerics = Literal["fast", "exact", "shapes"]
_MODES: Final[tuple[Numerics, ...]] = ("fast", "exact", "shapes")
_MODE_VARIABLE: Final = "TRNSIM_NUMERICS"
STOCHASTIC: Final = "NEURON_RT_STOCHASTIC_ROUNDING_EN"
_SEED_VARIABLE: Final = "NEURON_RT_STOCHASTIC_ROUNDING_SEED"

FUNCTION_BOUND: Final = 2.0**-21
"""Bound of the difference between a function in `exact` and in `fast`, over max(abs(f), 1)."""
FUNCTION_BOUNDS: Final = {
    "gelu": 2.0**-19,
    "silu_backward": 2.0**-20,
    "asinh": 2.0**-18,
    "acosh": 2.0**-19,
}
"""Bounds of functions that are less precise: they subtract nearly equal numbers, or are long."""


class _Mode:
    """The numerics in force.

    Attributes:
        is_stochastic: true if `fast` rounds stochastically.
        host_fallbacks: number of operations that the host computed in `exact`, by reason.
    """

    def __init__(self) -> None:
        self.is_stochastic = os.environ.get(STOCHASTIC, "0") == "1"
        self.kind: Numerics = _mode_of(os.environ.get(_MODE_VARIABLE, "fast"), f"{_MODE_VARIABLE}=")
        self.host_fallbacks: Counter[str] = Counter()


def _mode_of(value: str, setting: str = "numerics ") -> Numerics:
    """`value` as a mode; the error for any other text names the `setting` that it came from."""
    for kind in _MODES:
        if value == kind:
            return kind
    raise BadInput(f"{setting}{value!r}; legal: {', '.join(_MODES)}", fix=f"{_MODE_VARIABLE}=fast")


mode: Final = _Mode()


def rounding_generator(core: int, default_seed: int = 0) -> np.random.Generator:
    """A new generator of a core's stochastic rounding.

    NEURON_RT_STOCHASTIC_ROUNDING_SEED, where it is set, is its seed, else `default_seed`.
    Source: aws-neuron-sdk neuron-runtime/guides/nrt-developer-guide.rst.

    Raises:
        BadInput: for a seed that is no number.
    """
    seed = os.environ.get(_SEED_VARIABLE, str(default_seed))
    if not seed.isdecimal():
        raise BadInput(
            f"{_SEED_VARIABLE}={seed!r} is no number from 0 on", fix=f"{_SEED_VARIABLE}=0"
        )
    return np.random.default_rng([int(seed), core])


@contextmanager
def numerics(kind: Numerics, *, is_stochastic: bool | None = None) -> Generator[Counter[str]]:
    """Context in which values are computed in a mode; it yields its count of host fallbacks.

    Args:
        kind: the mode.
        is_stochastic: true if `fast` rounds stochastically; None leaves that as it is.
    """
    earlier_state = mode.kind, mode.is_stochastic, mode.host_fallbacks
    mode.kind = _mode_of(kind)
    mode.is_stochastic = mode.is_stochastic if is_stochastic is None else is_stochastic
    mode.host_fallbacks = inner_count = Counter[str]()
    try:
        yield inner_count
    finally:
        mode.kind, mode.is_stochastic, mode.host_fallbacks = earlier_state
        mode.host_fallbacks += inner_count
