"""Work: the time of a kernel by kinds of work, along its critical path.

A kind is an engine with an instruction ("vector tensor_tensor"), a transfer with the class of its
rows ("dma rows from 4 KiB"), the issue of transfers, waiting, or the launch on one core or on the
two of a logical core. Two kernels whose times consist of the same kinds are alike to the model.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from trnsim.isa import Engine
from trnsim.isa.dma.transfer import count_runs
from trnsim.timing.occupancy import columns, critical_steps

if TYPE_CHECKING:
    from trnsim.program import Checked
    from trnsim.timing.timeline import Timeline

ISSUE: Final = "issue of transfers"
WAITING: Final = "waiting"
LAUNCH: Final = "launch"
_ROW_CLASSES: Final = ((512, "below 512 B"), (4096, "below 4 KiB"), (float("inf"), "from 4 KiB"))
"""The classes of transfers: the upper bound of the bytes of a row, and the name.

Documents name both bounds: nki-dma-bandwidth-guide.rst advises 512 B at least, and a packet has
4 KiB (compute-comm-overlap.rst).
"""

Shares = Mapping[str, float]
"""Kind of work -> its share of the total time; all shares sum to 1."""


def work_shares(timeline: Timeline) -> Shares:
    """The share of each kind of work in the total time of `timeline`, launch included."""
    program, steps = timeline.program, critical_steps(timeline)
    which = columns(timeline).which[steps.index]
    issuing_s = np.where(steps.is_issue, steps.busy_s, 0.0)
    seconds: defaultdict[str, float] = defaultdict(float)
    seconds[f"{LAUNCH} LNC={2 if program.core.is_paired else 1}"] = timeline.launch_s
    seconds[WAITING] = float(steps.waiting_s.sum())
    seconds[ISSUE] = float(issuing_s.sum())
    busy_s = np.bincount(which, steps.busy_s - issuing_s, len(program.checked))
    for checked, time_s in zip(program.checked, busy_s.tolist(), strict=True):
        if time_s:
            seconds[_work_kind(checked)] += time_s
    total_s = sum(seconds.values())
    return {kind: time_s / total_s for kind, time_s in seconds.items() if time_s > 0}


def by_engine(shares: Shares) -> Shares:
    """`shares` with the kinds of each engine merged: "vector", "dma", "issue", "waiting" ..."""
    totals: defaultdict[str, float] = defaultdict(float)
    for kind, share in shares.items():
        totals[kind.partition(" ")[0]] += share
    return totals


def _work_kind(checked: Checked) -> str:
    """The kind of an instruction while it occupies its engine."""
    engine = checked.engine
    if engine is not Engine.dma or checked.opcode != "dma_copy":
        return f"{engine.name} {checked.opcode}"
    row_bytes = min(tile.nbytes / count_runs(tile) for _, tile in checked.instruction.tiles())
    return f"dma rows {next(name for limit, name in _ROW_CLASSES if row_bytes < limit)}"
