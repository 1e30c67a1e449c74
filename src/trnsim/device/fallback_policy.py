"""The policy for what the chip lacks: refuse it by name, or leave it to the host and count it.

TRNSIM_POLICY=chip refuses dtypes that no NeuronCore has, what neuronx-cc refuses of a compiled
graph, and in exact numerics operations without a lowering to the chip's instructions.
TRNSIM_POLICY=host, the default, computes all of it on the host, warns once of each, and counts.
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
    """The host computes what the chip cannot hold or compute."""


class _State:
    """The policy in force, and how often it let something pass, by dtype or operation."""

    def __init__(self) -> None:
        self.policy = _checked(os.environ.get(VARIABLE, "host"))
        self.on_host: Counter[str] = Counter()


def _checked(value: str) -> Policy:
    if value == "chip":
        return "chip"
    if value == "host":
        return "host"
    raise BadInput(f"{VARIABLE}={value!r}; legal: chip, host", fix=f"{VARIABLE}=host")


state: Final = _State()


def set_policy(policy: Policy) -> None:
    """Set the policy for what the chip cannot hold or compute: "chip" or "host"."""
    state.policy = _checked(policy)


def host_fallbacks() -> dict[str, int]:
    """The number of times that the host stood in for the chip.

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
