"""Traffic over time of the links of a world and its other resources: HBM, DMA engines, EFA.

A collective passes its bytes evenly between its start and its end: the phases of its algorithm are
not told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trnsim.fabric.exchange import exchange
from trnsim.isa import Collective
from trnsim.profile.measures.collectives import meetings
from trnsim.profile.measures.throughput import Throughput, throughput
from trnsim.timing import Timeline


class LinkRate(NamedTuple):
    """The bytes a second that pass a link or another resource of the fabric."""

    name: str
    rate: Throughput


def loads(instruction: Collective, group: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Bytes that one group of a collective passes through each resource of the fabric."""
    fabric = instruction.setting.fabric
    exchange_time = exchange(fabric, instruction.kind, instruction.nbytes(), instruction.rings())
    return exchange_time.loads(fabric, group)


def link_rates(ranks: Sequence[Sequence[Timeline]]) -> list[LinkRate]:
    """The rate of each resource that has traffic, in the fabric's order."""
    starts: list[float] = []
    ends: list[float] = []
    nbytes: list[npt.NDArray[np.float64]] = []
    names: tuple[str, ...] = ()
    for members in meetings(ranks):
        first_member = members[0]
        timeline = ranks[first_member.rank][first_member.core]
        instruction = timeline.program.instruction(first_member.instruction).instruction
        # Exchanges that each core makes by itself count once, with its rank's first core.
        if not isinstance(instruction, Collective) or all(member.core for member in members):
            continue
        names = instruction.setting.fabric.names
        span = timeline.span(first_member.instruction)
        starts.append(span.start_s)
        ends.append(span.busy_until_s)
        nbytes.append(loads(instruction, instruction.group_of(first_member.rank)))
    if not nbytes:
        return []
    start_s, end_s, table = np.array(starts), np.array(ends), np.array(nbytes)
    return [
        LinkRate(names[column], throughput(start_s, end_s, table[:, column]))
        for column in np.flatnonzero(table.any(axis=0)).tolist()
    ]
