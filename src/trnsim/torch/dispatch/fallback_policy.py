"""What PyTorch allows and the chip does not: refused by name, or left to the host and counted.

TRNSIM_POLICY=chip refuses a tensor of a dtype that no NeuronCore has, and in exact numerics an
operator that has no lowering to the chip's instructions; host, the default, computes either on the
host, warns once for each, and counts. Integers of 64 bits are no such case: PyTorch's indices have
them, and the device takes them as 32.

Source: nki.api.shared.rst, Supported Data Types.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal

import torch

from trnsim.device.program_line import program_line
from trnsim.errors import BadInput
from trnsim.torch.device_errors import DtypeRefused, OperatorNotModelled

Policy = Literal["chip", "host"]

_VARIABLE: Final = "TRNSIM_POLICY"
_SOURCE: Final = "nki.api.shared.rst, Supported Data Types"
LACKING: Final = frozenset(
    {torch.float64, torch.complex32, torch.complex64, torch.complex128, torch.uint64}
)
"""The dtypes of PyTorch that no NeuronCore has."""


class HostFallback(UserWarning):
    """What the chip could not hold or compute; the host computes it instead."""


class _State:
    """The policy in force, and how many tensors of each dtype and which calls it let pass."""

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
    """Choose what happens to what the chip cannot hold or compute: "chip" or "host"."""
    state.policy = _checked(policy)


def host_fallbacks() -> dict[str, int]:
    """How often the host stood in for the chip.

    By dtype ("float64") the tensors made on the device; by operator ("aten::nonzero") the calls of
    exact numerics.
    """
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
    _left_to_host(
        str(dtype).removeprefix("torch."),
        f"{dtype} runs on the host: a NeuronCore has no such format, so it has no device time",
    )


def leave_to_host(name: str, reason: str, tensors: str, near: Sequence[str] = ()) -> None:
    """Let the host compute an operator that exact numerics has no kernel for, or refuse it.

    Args:
        name: the operator's full name.
        reason: why it has no kernel.
        tensors: what it was called on, in words ("on float32[4]").
        near: operators of a like name that have one.

    Raises:
        OperatorNotModelled: under the policy `chip`.
    """
    if state.policy == "chip":
        like = f"; operators of a like name that have one: {', '.join(near)}" if near else ""
        raise OperatorNotModelled(
            f"{reason}; it was called {tensors} in exact numerics{like}",
            fix="compute this part on the CPU, or let the host compute it on the device's tensors "
            f"and count it: {_VARIABLE}=host, or torch.neuron.set_policy('host')",
            source="docs/torch-ops.md: which operators have a lowering",
            line=program_line(),
        )
    _left_to_host(name, f"{name} runs on the host, not instruction by instruction: {reason}")


def _left_to_host(key: str, message: str) -> None:
    """Count it, and warn of the first."""
    state.on_host[key] += 1
    if state.on_host[key] == 1:
        warnings.warn(
            f"{message}; {_VARIABLE}=chip refuses it (at {program_line()})",
            HostFallback,
            stacklevel=4,
        )
