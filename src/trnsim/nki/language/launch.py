"""The launch grid as a kernel sees it, and printing from the device.

Source: nki.language.program_id, num_programs, program_ndim, device_print.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trnsim.errors import IllegalInstruction
from trnsim.nki.arguments import check_tensor, documented, integers
from trnsim.nki.tensor import NkiTensor
from trnsim.program import current_core

_SOURCE = "nki.language.program_id"


@documented
def program_id(axis: int = 0) -> int:
    """The index of this core along an axis of the launch grid; 0 on a single core.

    Raises:
        IllegalInstruction: for an axis that no grid has.
    """
    _check_axes((axis,))
    peer = current_core().peer
    return peer.rank if peer is not None else 0


@documented
def num_programs(axes: int | tuple[int, ...] | None = 0) -> int:
    """The number of cores in the launch grid; 1 on a single core.

    Raises:
        IllegalInstruction: for an axis that no grid has.
    """
    _check_axes(axes)
    peer = current_core().peer
    return peer.cores if peer is not None else 1


@documented
def program_ndim() -> int:
    """The number of axes of the launch grid; 0 on a single core."""
    return 1 if current_core().peer is not None else 0


@documented
def device_print(print_prefix: str, tensor: NkiTensor) -> None:
    """Print a prefix and a tensor's values."""
    check_tensor("nl.device_print", tensor, "nki.language.device_print")
    core = current_core()
    core.refuse_capture("it prints from the device")
    values: Any = np.asarray(tensor.array) if core.has_values else "(no values)"
    print(print_prefix, values)  # noqa: T201  printing is its purpose


def _check_axes(axes: int | tuple[int, ...] | None) -> None:
    for axis in axes if isinstance(axes, tuple) else (axes,):
        if axis is not None and integers("the launch grid", axis, source=_SOURCE) != (0,):
            raise IllegalInstruction(
                f"axis {axis} of the launch grid; legal: 0",
                fix="the grid of a logical core has one axis: kernel[2]",
                source=_SOURCE,
            )
