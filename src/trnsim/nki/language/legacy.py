"""Names of `nki.language` that NKI 0.2 removed: some still work, the others are refused.

Source: nki/migration/index.rst.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trnsim.absence import Absence
from trnsim.errors import NotModelled
from trnsim.nki.arguments import documented, integers, lengths

_NDARRAY = "nki.language.ndarray"
_SOURCE = "nki/migration/index.rst, NKI 0.1 to 0.2"
REPLACEMENTS = {
    "arange": "index with slices, or with tensor.ap([[stride, count], ...])",
    "mgrid": "index with slices, or with tensor.ap([[stride, count], ...])",
    "nc": "launch the kernel as kernel[2]",
    "spmd_dim": "launch the kernel as kernel[2]",
    "atomic_rmw": "use nisa.dma_compute",
    "all_reduce": "reduce partitions with nisa.nc_matmul by ones, or transpose first",
    "loop_reduce": "accumulate in a tile of its own with nisa.tensor_tensor",
    "static_cast": "cast with nl.copy(tile, dtype=...)",
}
"""The replacement of each removed name."""


class PartitionLength(int):
    """A length that `nl.par_dim` marked as the partition axis."""

    __slots__ = ()


@documented
def par_dim(length: int) -> PartitionLength:
    """`length` marked as the partition axis, which since NKI 0.2 is always the first axis."""
    return PartitionLength(*integers("nl.par_dim", length, source=_SOURCE))


def check_partition_axis(shape: Any) -> tuple[int, ...]:
    """A shape as plain integers, with the partition axis first.

    Raises:
        NotModelled: if the partition axis is not the first (a block of tiles in NKI 0.1).
    """
    if shape.__class__ is tuple and {int}.issuperset(map(type, shape)):  # the usual case
        plain_lengths: tuple[int, ...] = shape
        return plain_lengths
    axes: tuple[Any, ...] = tuple(shape) if isinstance(shape, Iterable) else ()
    if PartitionLength in map(type, axes[1:]):
        raise NotModelled(
            f"a tensor of shape {axes} with its partition axis behind block dimensions, which "
            "NKI 0.2 removed",
            fix="make a list of tiles, or move the partition axis to the front",
            source=_SOURCE,
        )
    return tuple(map(int, lengths("shape", axes or shape, _NDARRAY)))


def explain(name: str) -> Absence | None:
    """The absence of a removed name, with its replacement."""
    if name not in REPLACEMENTS:
        return None
    reason = f"nl.{name} belongs to NKI 0.1, which is not emulated yet"
    return Absence(reason, fix=REPLACEMENTS[name], source=_SOURCE)
