"""The time of a plan in closed form: a phase takes the time of its busiest resource.

``start + sum over phases of repeat * (hop + largest of bytes / bandwidth)``. Exact where all ranks
keep step: tests compare it with a simulation by events, which needs no such assumption.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from trnsim.fabric.fabric import Fabric
from trnsim.fabric.transfers import Plan, TransferPhase


def time_s(fabric: Fabric, plan: Plan) -> float:
    """Seconds that a plan takes; 0 for one without phases."""
    if not plan:
        return 0.0
    return fabric.start_s + sum(phase_s(fabric, phase) * phase.repeat for phase in plan)


def latency_s(fabric: Fabric, plan: Plan) -> float:
    """Seconds of a plan's start and hops; 0 for one without phases."""
    if not plan:
        return 0.0
    return fabric.start_s + sum(fabric.hop_s(phase) * phase.repeat for phase in plan)


def phase_s(fabric: Fabric, phase: TransferPhase) -> float:
    """Seconds of one repetition of a phase."""
    if not phase.nbytes.any() and not fabric.factors and fabric.nodes == 1:
        return fabric.hop_s(phase)  # no fault or missing EFA can refuse it
    load = loads(fabric, phase)
    with np.errstate(divide="ignore", invalid="ignore"):
        busy_s = np.where(load > 0, load / fabric.capacity, 0.0)
    return fabric.hop_s(phase) + float(busy_s.max(initial=0.0))


def loads(fabric: Fabric, phase: TransferPhase) -> npt.NDArray[np.float64]:
    """Bytes that one repetition of a phase passes through each resource."""
    uses = fabric.uses(phase)
    weights = phase.nbytes[uses.transfer] * uses.weight
    return np.bincount(uses.resource, weights, len(fabric.capacity)).astype(np.float64)


def plan_loads(fabric: Fabric, plan: Plan) -> npt.NDArray[np.float64]:
    """Bytes that a plan passes through each resource."""
    total = np.zeros(len(fabric.capacity))
    for phase in plan:
        total += loads(fabric, phase) * phase.repeat
    return total
