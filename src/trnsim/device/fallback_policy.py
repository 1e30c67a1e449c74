"""The policy for operations and dtypes that the chip lacks: refuse, or compute on the host.

TRNSIM_POLICY=chip refuses dtypes that no NeuronCore has, graphs that neuronx-cc refuses, and in
exact numerics operations without a lowering to the chip's instructions. TRNSIM_POLICY=host, the
default, computes them on the host, warns once of each, and counts.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from typing import Final, Literal

from trnsim.device.program_line import program_line
from trnsim.errors import BadInput

Policy = Literal["chip", "host"]

VARIABLE: Final = "TRNSIM_POLICY"


class HostFallback(UserWarning):
    """Warning that the host computes an operation or dtype that the chip lacks."""


class _State:
    """The policy in force, and the number of fallbacks by dtype or operation."""

    def __init__(self) -> None:
        self.policy = _policy_of(os.environ.get(VARIABLE, "host"))
        self.on_host: Counter[str] = Counter()


def _policy_of(value: str) -> Policy:
    if value == "chip":
        return "chip"
    if value == "host":
        return "host"
    raise BadInput(f"{VARIABLE}={value!r}; legal: chip, host", fix=f"{VARIABLE}=host")


state: Final = _State()


def set_policy(policy: Policy) -> None:
    """Set the policy for operations and dtypes that the chip lacks: "chip" or "host"."""
    state.policy = _policy_of(policy)


def host_fallbacks() -> dict[str, int]:
    """The number of times that the host computed in place of the chip.

    Arrays made on the device by dtype ("float64"), and calls in exact numerics by operation
    ("aten::nonzero").
    """
    return dict(state.on_host)


def count_host_fallback(key: str, message: str) -> None:
    """Count a fallback, and warn of the first one of its key."""
    state.on_host[key] += 1
    if state.on_host[key] == 1:
        warnings.warn(
            f"{message}; {VARIABLE}=chip refuses it (at {program_line()})",
            HostFallback,
            stacklevel=4,
        )
