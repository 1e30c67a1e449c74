"""``nccom-test``: the time of collectives on emulated instances, size by size.

Nothing runs: a time is the fabric's, of a program of its own that the host starts
(`trnsim.fabric.floors`), as AWS's tool has launched its iterations. Some versions put several
collectives into a program, whose times are then nearer to those inside one.

Source: aws-neuron-sdk tools/neuron-sys-tools/nccom-test.rst, for the columns, the default of 32 MB
of uint8, and bandwidths in units of 2**30 bytes. Sizes are powers of 1024, as in its tables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from trnsim.arch.catalogue import catalogue
from trnsim.errors import BadInput
from trnsim.fabric.collective_time import CollectiveTime, time_on
from trnsim.fabric.exchange import check_ranks
from trnsim.fabric.fabric import Fabric
from trnsim.fabric.floors import Floor

DEFAULT_SIZE: Final = "32MB"
OPERATIONS: Final = {
    "allr": "all_reduce",
    "allreduce": "all_reduce",
    "allg": "all_gather",
    "allgather": "all_gather",
    "redsct": "reduce_scatter",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
}
"""Names of operations for the fabric's kinds."""
DTYPES: Final = {
    **dict.fromkeys(("uint8", "int8"), 1),
    **dict.fromkeys(("uint16", "int16", "fp16", "bf16"), 2),
    **dict.fromkeys(("int32", "uint32", "fp32"), 4),
}
"""Bytes of an element."""
_SIZE: Final = re.compile(r"(\d+)\s*(|[kmgt])i?b?", re.IGNORECASE)
_POWERS: Final = {unit: 1024**power for power, unit in enumerate(("", "k", "m", "g", "t"))}
_UNIT_BYTES: Final = 2**30
_US: Final = 1e-6
_PASSES: Final = {"all_reduce": 2}
_HEADS: Final = ("size(B)", "count(elems)", "type", "time(us)", "algbw(GB/s)", "busbw(GB/s)")
_ALGORITHM: Final = "algorithm"
_GAP: Final = 4


class SizeTime(NamedTuple):
    """A size with its time.

    Attributes:
        nbytes: bytes of the message.
        dtype: dtype of its elements.
        ranks: ranks that take part.
        kind: the fabric's kind of the collective.
        time: its time.
    """

    nbytes: int
    dtype: str
    ranks: int
    kind: str
    time: CollectiveTime

    @property
    def algorithm_rate(self) -> float:
        """Units of 2**30 bytes a second of the message."""
        return self.nbytes / self.time.time_s / _UNIT_BYTES

    @property
    def bus_rate(self) -> float:
        """The same over each rank's links: times ``passes (ranks - 1) / ranks``."""
        factor = _PASSES.get(self.kind, 1) * (self.ranks - 1) / self.ranks
        return factor * self.algorithm_rate

    @property
    def figures(self) -> dict[str, int | float | str]:
        """Its columns by name."""
        return {
            "size(B)": self.nbytes,
            "count(elems)": self.nbytes // DTYPES[self.dtype],
            "type": self.dtype,
            "time(us)": round(self.time.time_s / _US, 2),
            "algbw(GB/s)": round(self.algorithm_rate, 2),
            "busbw(GB/s)": round(self.bus_rate, 2),
            _ALGORITHM: self.time.algorithm,
        }


def size_bytes(text: str) -> int:
    """The bytes of a size such as 8, 64KB or 1gb, in powers of 1024.

    Raises:
        BadInput: for another text, or no bytes.
    """
    match = _SIZE.fullmatch(text.strip())
    nbytes = int(match[1]) * _POWERS[match[2].lower()] if match else 0
    if not nbytes:
        raise BadInput(
            f"size {text!r}; legal: a whole number above 0, with KB, MB, GB or TB of powers of "
            "1024, or without",
            fix="for example -b 1KB -e 64MB",
        )
    return nbytes


def sizes(least: str, most: str, factor: int) -> list[int]:
    """Sizes from `least` to `most`, each `factor` times the one before; `least` alone for "".

    Raises:
        BadInput: for sizes that are none, the first above the last, or a factor below 2.
    """
    first = size_bytes(least)
    last = size_bytes(most) if most else first
    if first > last:
        raise BadInput(
            f"sizes from {least} to {most}: the first is the larger", fix=f"-b {most} -e {least}"
        )
    if factor < 2:  # noqa: PLR2004  as the message says
        raise BadInput(f"--stepfactor {factor}; legal: whole numbers from 2 on")
    found = [first]
    while found[-1] * factor <= last:
        found.append(found[-1] * factor)
    return found


def size_times(
    operation: str, nbytes: Iterable[int], dtype: str, ranks: int, instance: tuple[str, int, int]
) -> list[SizeTime]:
    """The times of a collective of `ranks`, size by size.

    Args:
        operation: one of `OPERATIONS`.
        nbytes: the sizes in bytes.
        dtype: one of `DTYPES`.
        ranks: ranks on all instances.
        instance: the instance type, NeuronCores of a rank, and number of instances.

    Raises:
        BadInput: for another operation or dtype, ranks that the instances do not have or cannot
            share evenly, and several instances without EFA.
    """
    if operation not in OPERATIONS:
        raise BadInput(f"operation {operation!r}; legal: {', '.join(OPERATIONS)}")
    if dtype not in DTYPES:
        raise BadInput(f"--datatype {dtype}; legal: {', '.join(DTYPES)}")
    name, lnc, nodes = instance
    if ranks < 2 or nodes < 1 or ranks % nodes:  # noqa: PLR2004  as the message says
        raise BadInput(
            f"{ranks} ranks on {nodes} instances; legal: from 2 on, as many on each instance",
            fix="for example -r 32, or -r 64 -N 2",
        )
    fabric = Fabric(catalogue().instance(name), nodes, lnc, ranks // nodes)
    check_ranks(fabric, ranks)
    kind = OPERATIONS[operation]
    group = [range(ranks)]
    return [
        SizeTime(size, dtype, ranks, kind, time_on(fabric, kind, size, group, Floor.HOST))
        for size in nbytes
    ]


def floor_text(rows: Sequence[SizeTime]) -> str:
    """The floor that the times paid, in words."""
    hidden = [row.nbytes for row in rows if row.time.time_s > row.time.floors.start_s]
    said = f"each is {Floor.HOST.value}"
    return f"{said}, which transfers outlast from {hidden[0]:,} bytes on" if hidden else said


def table(rows: Sequence[SizeTime], *, has_algorithm: bool = False) -> str:
    """The table, and the mean of the bus bandwidths below it."""
    heads = (*_HEADS, _ALGORITHM) if has_algorithm else _HEADS
    cells = [heads, *([_cell(row.figures[head]) for head in heads] for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(heads))]
    lines = [
        "".join(" " * _GAP + cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in cells
    ]
    mean = fmean(row.bus_rate for row in rows)
    return "\n".join([*lines, f"Avg bus bandwidth:      {mean:.4f}GB/s"])


def as_json(rows: Sequence[SizeTime]) -> str:
    """The rows as JSON, with the floor and P10 and P90 of each time."""
    return json.dumps(
        {
            "results": [
                {
                    **row.figures,
                    "floor": row.time.floors.paid(row.time.floor),
                    "p10(us)": round(row.time.interval.p10 / _US, 2),
                    "p90(us)": round(row.time.interval.p90 / _US, 2),
                }
                for row in rows
            ]
        },
        indent=1,
    )


def _cell(figure: float | str) -> str:
    return f"{figure:.2f}" if isinstance(figure, float) else str(figure)
