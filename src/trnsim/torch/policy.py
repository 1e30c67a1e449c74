"""What PyTorch allows and the chip does not: refused by name, or left to the host and counted.

TRNSIM_POLICY=chip refuses a tensor of a dtype that no NeuronCore has; host, the default, keeps its
values right by computing them on the host, warns once for each dtype, and counts. Integers of 64
bits are no such case: PyTorch's indices have them, and the device takes them as 32.

Source: nki.api.shared.rst, Supported Data Types.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from typing import Final, Literal

import torch

from trnsim.errors import BadInput
from trnsim.torch.faults import DtypeRefused, program_line

Policy = Literal["chip", "host"]

_VARIABLE: Final = "TRNSIM_POLICY"
_SOURCE: Final = "nki.api.shared.rst, Supported Data Types"
LACKING: Final = frozenset(
    {torch.float64, torch.complex32, torch.complex64, torch.complex128, torch.uint64}
)
"""The dtypes of PyTorch that no NeuronCore has."""


class HostFallback(UserWarning):
    """A tensor that the chip could not hold; the host computes with it instead."""


class _State:
    """The policy in force, and how many tensors of each dtype it let pass."""

    def __init__(self) -> None:
        self.policy = _checked(os.environ.get(_VARIABLE, "host"))
        self.on_host: Counter[str] = Counter()


def _checked(value: str) -> Policy:
    if value == "chip":
        return "chip"
    if value == "host":
        return "host"
    raise BadInput(f"{_VARIABLE}={value!r}; legal: chip, host", fix=f"{_VARIABLE}=host")


state: Final = _State()


def set_policy(policy: Policy) -> None:
    """Choose what happens to tensors that the chip cannot hold: "chip" or "host"."""
    state.policy = _checked(policy)


def host_fallbacks() -> dict[str, int]:
    """How many tensors of each dtype that the chip lacks were made on the device."""
    return dict(state.on_host)


def admit(dtype: torch.dtype) -> None:
    """Let a tensor of a dtype that the chip lacks pass, or refuse it.

    Raises:
        DtypeRefused: under the policy `chip`.
    """
    if state.policy == "chip":
        raise DtypeRefused(
            f"a tensor of {dtype} on the neuron device; a NeuronCore has no such format",
            fix=f"cast it first, for example to float32, or set {_VARIABLE}=host",
            source=_SOURCE,
            line=program_line(),
        )
    name = str(dtype).removeprefix("torch.")
    state.on_host[name] += 1
    if state.on_host[name] == 1:
        warnings.warn(
            f"{dtype} runs on the host: a NeuronCore has no such format, so it has no device time; "
            f"{_VARIABLE}=chip refuses it (at {program_line()})",
            HostFallback,
            stacklevel=3,
        )
