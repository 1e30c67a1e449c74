"""Limits of a whole program: the HBM of a device, and the number of instructions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trnsim.lower import MemoryPlan
from trnsim.profile.units import bytes_text

INSTRUCTIONS_MAX: Final = 5_000_000
"""Maximum number of instructions of a program.

No page of AWS gives the number; it is in a message of neuronx-cc that a user reports.
Source: aws-neuron-sdk issue 819, XTP002.
"""


def memory_refusals(plan: MemoryPlan, hbm_bytes: int) -> Iterator[tuple[str, str]]:
    """The error's code and the memory needed, if a graph's tensors exceed a device's HBM."""
    output_bytes = sum(
        tensor.type.nbytes for tensor in plan.lifetimes if tensor.first >= 0 and tensor.is_returned
    )
    kept_bytes = plan.input_bytes + output_bytes
    for code, contents, nbytes in (
        ("NCC_EVRF009", "inputs and outputs", kept_bytes),
        ("NCC_EXSP001", "tensors that die inside", plan.arena.nbytes),
        ("NCC_EOOM001", "tensors at once", plan.peak_bytes),
    ):
        if nbytes > hbm_bytes:
            yield code, f"{bytes_text(nbytes)} of {contents}, in {bytes_text(hbm_bytes)} of HBM"
            return


def instruction_refusals(instructions: int) -> Iterator[tuple[str, str]]:
    """The error's code and the number of instructions, if there are too many."""
    if instructions > INSTRUCTIONS_MAX:
        yield "NCC_EVRF007", f"{instructions:,} instructions, of {INSTRUCTIONS_MAX:,} at most"
