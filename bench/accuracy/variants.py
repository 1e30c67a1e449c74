"""Variants: an emulator that lowers a kernel to other instructions, for the ablation.

What no constant and no policy of the schedule can undo is undone here, in a second recording of the
kernels that it concerns.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from unittest import mock

from trnsim.nki import tiles


@dataclass(frozen=True)
class Variant:
    """A change of the emulator.

    Attributes:
        kernels: those whose instructions it changes.
        change: makes a context in which the emulator is changed.
    """

    kernels: frozenset[str]
    change: Callable[[], AbstractContextManager[object]]


def _no_products():
    """Broadcasts over partitions move each row within its 32 partitions, as integers are."""
    return mock.patch.object(tiles, "_can_be_multiplied", return_value=False)


VARIANTS = {
    "shuffles": Variant(
        frozenset({"mamba", "nkibench matmul_add_rmsnorm"}),
        _no_products,
    ),
}
"""Name -> variant. Of the kernels with rows, these alone call `nl.broadcast_to` over partitions."""
