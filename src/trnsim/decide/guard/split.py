"""Cost of a workload split between a new chip and a GPU for the operators that the chip lacks.

A step leaves the chip and comes back once for each such operator of each layer. Each crossing moves
the activations of the step's tokens:

    bytes per token   = 2 x operators x layers x hidden x bytes per element
    seconds per step  = 2 x operators x layers x hop + bytes per token x tokens / bandwidth

It is an upper bound: neighbouring operators cross together, and crossings may overlap with work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trnsim.decide.guard.limits import WorkloadLimits
from trnsim.facts import assumed, documented
from trnsim.workload.architecture import Architecture

HOP_S: Final = documented(
    15e-6, "about 15 us per hop over EFA (aws-neuron-sdk, internode-collective-comm.rst)"
)
NO_EFA_BYTES_PER_S: Final = assumed(
    1.25e9, "10 Gb/s between instances of which one has no EFA; AWS states it by size of instance"
)
ELEMENT_BYTES: Final = assumed(2, "activations travel in BF16")


@dataclass(frozen=True)
class WorkloadSplit:
    """A workload on two kinds of chips.

    Attributes:
        bytes_per_token: traffic between the two, both ways.
        step_s: time added to each step, in seconds; an upper bound.
        gpu_instances: GPU instances beside the new one, of today's type.
        usd_per_month: cost of the new instances, grown by the longer steps, and of the GPU; None
            if the new instance has no price.
        saving: share of today's bill that is saved; None without that price.
    """

    operators: tuple[str, ...]
    bytes_per_token: float
    step_s: float
    gpu_instances: int
    usd_per_month: float | None
    saving: float | None

    @property
    def is_cheaper(self) -> bool:
        """True if the split workload costs less than today."""
        return self.saving is not None and self.saving > 0


def split(
    limits: WorkloadLimits,
    model: Architecture,
    *,
    bytes_per_s: float,
    usd_per_gpu_month: float,
    tokens: int = 1,
) -> WorkloadSplit:
    """Cost of running the operators of `limits.workload.split` on a GPU.

    Args:
        limits: predicted figures of the workload.
        model: architecture of its model.
        bytes_per_s: bandwidth between the two instances.
        usd_per_gpu_month: cost of one GPU instance.
        tokens: tokens of a step; 1 when a single sequence is decoded.
    """
    operators = limits.workload.split
    crossings = model.depth * len(operators)
    hidden_width = max(tower.hidden for tower in model.towers)
    per_token = 2.0 * crossings * hidden_width * ELEMENT_BYTES
    added_s = 2 * crossings * HOP_S + per_token * tokens / bytes_per_s
    usd = saving = None
    predicted_usd, step_s = limits.candidate.usd_per_month, sum(limits.candidate.ms.values()) / 1e3
    if predicted_usd is not None and step_s:
        usd = predicted_usd.p50 * (1 + added_s / step_s) + usd_per_gpu_month
        saving = 1 - usd / limits.workload.today.usd_per_month
    return WorkloadSplit(operators, per_token, added_s, 1, usd, saving)
