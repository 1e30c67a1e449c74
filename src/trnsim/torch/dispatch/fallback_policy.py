"""The fallback policy for PyTorch: dtypes that the chip lacks, and operators without a kernel.

64-bit integers are exempt: PyTorch's indices have 64 bits, and the device stores them in 32.

Source: nki.api.shared.rst, Supported Data Types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch

from trnsim.device.fallback_policy import VARIABLE, count_host_fallback, state
from trnsim.device.program_line import program_line
from trnsim.torch.device_errors import DtypeRefused, OperatorNotModelled
from trnsim.torch.narrowing import dtype_on_device

_SOURCE: Final = "nki.api.shared.rst, Supported Data Types"
UNSUPPORTED_DTYPES: Final = frozenset(
    {torch.float64, torch.complex32, torch.complex64, torch.complex128, torch.uint64}
)
"""The dtypes of PyTorch that no NeuronCore has."""


def count_or_refuse_dtype(dtype: torch.dtype) -> None:
    """Count a tensor of a dtype that the chip lacks, or refuse it.

    Raises:
        DtypeRefused: under the policy `chip`.
    """
    if dtype_on_device(dtype) not in UNSUPPORTED_DTYPES:
        return
    if state.policy == "chip":
        raise DtypeRefused(
            f"a tensor of {dtype} on the neuron device; a NeuronCore has no such format",
            fix=f"cast it first, for example to float32, or set {VARIABLE}=host",
            source=_SOURCE,
            line=program_line(),
        )
    count_host_fallback(
        str(dtype).removeprefix("torch."),
        f"{dtype} runs on the host: a NeuronCore has no such format, so it has no device time",
    )


def leave_to_host(
    name: str, reason: str, operands_text: str, similar_names: Sequence[str] = ()
) -> None:
    """Leave an operator without a kernel to the host in exact numerics, or refuse it.

    Args:
        name: the operator's full name.
        reason: the reason that it has no kernel.
        operands_text: its operands as text ("on float32[4]").
        similar_names: names of similar operators that have a kernel.

    Raises:
        OperatorNotModelled: under the policy `chip`.
    """
    if state.policy == "chip":
        similar_text = (
            f"; operators of a like name that have one: {', '.join(similar_names)}"
            if similar_names
            else ""
        )
        raise OperatorNotModelled(
            f"{reason}; it was called {operands_text} in exact numerics{similar_text}",
            fix="compute this part on the CPU, or let the host compute it on the device's tensors "
            f"and count it: {VARIABLE}=host, or torch.neuron.set_policy('host')",
            source="docs/generated/torch-ops.md: which operators have a lowering",
            line=program_line(),
        )
    count_host_fallback(name, f"{name} runs on the host, not instruction by instruction: {reason}")
