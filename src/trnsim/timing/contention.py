"""Contention: transfers of a core while a collective takes part of its DMA engines.

"DMA engines are shared resources between computation and communication." They serve up to 16 rings
in turn, packet by packet. A packet of a collective has 64 KiB, a packet of a transfer 4 KiB (stated
for descriptors made ahead of time). So a collective keeps at least 16/17 of its demand, and is
assumed to keep all of it: transfers share the rest, and the collective takes as long as without
them. Its demand is the time in which the engines copy the data that the rank passes on
(`Cost.engine_share`), spread evenly over the collective.

A transfer lasts longer by the share of the engines that it loses, so a program beside collectives
never takes longer than both in sequence. Not modelled: that they share HBM, and that Trn3 has
priorities.

Source: aws-neuron-sdk neuron-runtime/explore/compute-comm-overlap.rst, Adjusting Static DMA
Priority.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from trnsim.arch import NeuronCore
from trnsim.isa import Engine
from trnsim.program import Program
from trnsim.timing.schedule import EnginePlacement, Schedule, replay

if TYPE_CHECKING:
    from trnsim.timing.order import Order

_ROUNDS: Final = 8
"""Maximum number of schedules; the times of the last are accepted.

Each schedule makes the times of at least one more collective that depends on a slower transfer
final.
"""


class TakenInterval(NamedTuple):
    """An interval of time in which collectives take a share of the DMA engines."""

    start_s: float
    end_s: float
    share: float


def with_contention(
    programs: Sequence[Program],
    core: NeuronCore,
    order: Order,
    tables: Sequence[Sequence[EnginePlacement]],
) -> Order:
    """The order with longer times for transfers beside collectives; unchanged without collectives.

    A transfer's time is its time without collectives times a factor, its stretch
    (`Order.stretches`). The transfers beside a collective depend on its start, and that depends on
    earlier transfers: scheduling is iterated to a fixed point.
    """
    have_shares = [[cost.engine_share > 0 for _, cost in table] for table in tables]
    if not any(map(any, have_shares)):
        return order
    for _ in range(_ROUNDS):
        schedules = replay(programs, core, order, tables)
        stretches = [
            _stretches(program, table, schedule, stretches, has_share)
            for program, table, schedule, stretches, has_share in zip(
                programs, tables, schedules, order.stretches, have_shares, strict=True
            )
        ]
        if stretches == order.stretches:
            break
        order = replace(order, stretches=stretches)
    return order


def transfer_time_s(start_s: float, length_s: float, intervals: Sequence[TakenInterval]) -> float:
    """The duration of a transfer that alone takes `length_s`.

    `intervals` are in order of time, and do not overlap.
    """
    now_s, left_s, missed_s = start_s, length_s, 0.0
    for interval in intervals[
        bisect_right(intervals, now_s, key=lambda interval: interval.end_s) :
    ]:
        free_s = max(interval.start_s - now_s, 0.0)
        if left_s <= free_s:
            break
        beside_s = interval.end_s - now_s - free_s
        moved_s = beside_s * (1 - interval.share)
        if left_s - free_s <= moved_s:
            missed_s += (left_s - free_s) * interval.share / (1 - interval.share)
            break
        left_s -= free_s + moved_s
        missed_s += beside_s * interval.share
        now_s = interval.end_s
    return length_s + missed_s


def _stretches(
    program: Program,
    table: Sequence[EnginePlacement],
    schedule: Schedule,
    previous_stretches: array[float],
    has_share: Sequence[bool],
) -> array[float]:
    """The factors on the times of a core's instructions in the next round.

    Factors of transfers follow from concurrent collectives; other factors are unchanged.
    `has_share` tells for each entry of the table whether it is a collective with an `engine_share`.
    """
    if not any(has_share):
        return previous_stretches
    start_s, end_s = schedule.start_s, schedule.busy_until_s
    intervals = sorted(
        TakenInterval(start_s[index], end_s[index], min(table[which].cost.engine_share, 1.0))
        for index, which in enumerate(program.which)
        if has_share[which]
    )
    stretches = previous_stretches[:]
    for index, which in enumerate(program.which):
        engine, cost = table[which]
        if engine is Engine.dma and cost.interval_s:
            stretches[index] = (
                transfer_time_s(start_s[index], cost.interval_s, intervals) / cost.interval_s
            )
    return stretches
