"""How the values of a device are computed, as a program asks for it: the same for every framework.

- `fast`, the default: the host computes an operator or a program as a whole.
- `exact`: instruction by instruction, as the chip does.
- `shapes`: no values.
"""

from __future__ import annotations

import os
from typing import Final, Literal

from trnsim.errors import BadInput

Numerics = Literal["fast", "exact", "shapes"]
KINDS: Final[tuple[Numerics, ...]] = ("fast", "exact", "shapes")
VARIABLE: Final = "TRNSIM_NUMERICS"
STOCHASTIC: Final = "NEURON_RT_STOCHASTIC_ROUNDING_EN"


def checked(value: str, setting: str = "numerics ") -> Numerics:
    """`value`, checked to be one of the three.

    Raises:
        BadInput: naming what it was given to.
    """
    for kind in KINDS:
        if value == kind:
            return kind
    raise BadInput(f"{setting}{value!r}; legal: {', '.join(KINDS)}", fix=f"{VARIABLE}=fast")


def asked_numerics() -> Numerics:
    """The numerics that the environment asks for.

    Raises:
        BadInput: for another word.
    """
    return checked(os.environ.get(VARIABLE, "fast"), f"{VARIABLE}=")


def asks_for_stochastic_rounding() -> bool:
    """Whether the environment asks for it, as it asks AWS's runtime."""
    return os.environ.get(STOCHASTIC, "0") == "1"
