"""The operations of nccom-test, with the factor of their bus bandwidth and their buffers.

Source: aws-neuron-sdk tools/neuron-sys-tools/nccom-test.rst, Required Arguments, Bus Bandwidth
Calculation; Data types in Input/Output Data.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final, NamedTuple

from trnsim.errors import BadInput

_MOST_SIMILAR_NAMES: Final = 3
SOURCE: Final = "nccom-test.rst, CLI arguments"


class NccomOperation(NamedTuple):
    """An operation.

    Attributes:
        kind: name of the collective in `trnsim.fabric`.
        passes: number of times that each chunk crosses a rank's links.
        is_split: whether each rank has a part of the message and sends the other parts: the factor
            of the bus bandwidth is then ``passes (ranks - 1) / ranks``, otherwise 1.
        input_parts: whether a rank's input is a part of the message rather than the whole message.
        output_parts: whether a rank's output is a part of the message.
        has_counts: whether chunks have different sizes, which a file states.
        has_pairs: whether each rank sends its message to a single other rank.
    """

    name: str
    kind: str
    passes: int = 1
    is_split: bool = True
    input_parts: bool = False
    output_parts: bool = False
    has_counts: bool = False
    has_pairs: bool = False

    def bus_factor(self, ranks: int) -> float:
        """Bus bandwidth over algorithm bandwidth, for groups of `ranks` ranks."""
        return self.passes * (ranks - 1) / ranks if self.is_split else 1.0

    def buffers(self, nbytes: int, itemsize: int, ranks: int) -> tuple[int, int]:
        """Bytes of a rank's input and output; a part is of whole elements."""
        part = -(-nbytes // itemsize // ranks) * itemsize
        return part if self.input_parts else nbytes, part if self.output_parts else nbytes


_ROWS: Final = (
    NccomOperation("all_reduce", "all_reduce", passes=2),
    NccomOperation("all_gather", "all_gather", input_parts=True),
    NccomOperation("all_gatherv", "all_gather", input_parts=True, has_counts=True),
    NccomOperation("reduce_scatter", "reduce_scatter", output_parts=True),
    NccomOperation("sendrecv", "permute", is_split=False, has_pairs=True),
    NccomOperation("alltoall", "all_to_all"),
    NccomOperation("alltoallv", "all_to_all", has_counts=True),
    NccomOperation("permute", "permute", is_split=False, has_pairs=True),
)
_SHORT_NAMES: Final = {
    "allr": "all_reduce",
    "allg": "all_gather",
    "allgv": "all_gatherv",
    "redsct": "reduce_scatter",
}
OPERATIONS: Final = {row.name: row for row in _ROWS} | {
    short: row for short, name in _SHORT_NAMES.items() for row in _ROWS if row.name == name
}
"""Operations by their long and short names."""

ITEM_BYTES: Final = {
    **dict.fromkeys(("uint8", "int8", "fp8", "fp8e4"), 1),
    **dict.fromkeys(("uint16", "int16", "fp16", "bf16"), 2),
    **dict.fromkeys(("uint32", "int32", "fp32"), 4),
}
"""Data types, with the bytes of an element."""


def operation(name: str) -> NccomOperation:
    """The operation of that name.

    Raises:
        BadInput: there is no such operation.
    """
    if name in OPERATIONS:
        return OPERATIONS[name]
    similar_names = get_close_matches(name[:100], OPERATIONS, _MOST_SIMILAR_NAMES)
    raise BadInput(
        f"operation {name!r}; legal: {', '.join(OPERATIONS)}",
        fix=f"perhaps {' or '.join(similar_names)}" if similar_names else "",
        source=SOURCE,
    )


def item_bytes(dtype: str) -> int:
    """Bytes of an element of a data type.

    Raises:
        BadInput: there is no such data type.
    """
    if dtype in ITEM_BYTES:
        return ITEM_BYTES[dtype]
    similar_names = get_close_matches(dtype[:100], ITEM_BYTES, _MOST_SIMILAR_NAMES)
    raise BadInput(
        f"--datatype {dtype}; legal: {', '.join(ITEM_BYTES)}",
        fix=f"perhaps {' or '.join(similar_names)}" if similar_names else "",
        source=SOURCE,
    )
