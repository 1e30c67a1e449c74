"""The policy for what the chip lacks: refuse it by name, or leave it to the host and count it.

TRNSIM_POLICY=chip refuses tensors of a dtype that no NeuronCore has, and in exact numerics
operators without a lowering to the chip's instructions. TRNSIM_POLICY=host, the default, computes
both on the host, warns once of each, and counts. 64-bit integers are exempt: PyTorch's indices have
64 bits, and the device stores them in 32. What neuronx-cc refuses of a compiled graph follows the
same policy (`trnsim.torch.compile.refused`).

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
    """The host computes what the chip cannot hold or compute."""


class _State:
    """The policy in force, and the number of tensors by dtype and of calls that it let pass."""

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
    """Set the policy for what the chip cannot hold or compute: "chip" or "host"."""
    state.policy = _checked(policy)


def host_fallbacks() -> dict[str, int]:
    """The number of times that the host stood in for the chip.

    Tensors made on the device by dtype ("float64"), and calls in exact numerics by operator
    ("aten::nonzero").
    """
    return dict(state.on_host)


def admit(dtype: torch.dtype) -> None:
    """Count a tensor of a dtype that the chip lacks, or refuse it.

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
    """Leave an operator without a kernel to the host in exact numerics, or refuse it.

    Args:
        name: the operator's full name.
        reason: why it has no kernel.
        tensors: its operands as text ("on float32[4]").
        near: operators with a similar name that have a kernel.

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
    """Count a fallback, and warn of the first one."""
    state.on_host[key] += 1
    if state.on_host[key] == 1:
        warnings.warn(
            f"{message}; {_VARIABLE}=chip refuses it (at {program_line()})",
            HostFallback,
            stacklevel=4,
        )
