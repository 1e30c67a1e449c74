"""The one constant of training: how often elements pass the Vector Engine in a step.

All else is the planner's: exchanges, bubbles, the optimizer; products reach what those of encoders
do. The constant is that of the least absolute error: squares would be those of the one row that is
off by a factor of two. It is judged on an architecture that it did not see.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from folds import LANES, PEAK, Judged, sigma

from trnsim.estimate import constants
from trnsim.estimate.few import FewConstants, PhaseConstants
from trnsim.workload.operators import Phase

PASSES = np.exp(np.arange(0.0, 2.75, 0.025))
"""What the constant may be: from once to 15 times."""
INSTANCE = "trn1.32xlarge"


def seconds(case, encode, passes):
    """A step of a case by the planner."""
    from trnsim.place.machine import machine  # noqa: PLC0415  pages without training need none
    from trnsim.system.train import memory  # noqa: PLC0415
    from trnsim.system.train.step import TrainingSteps  # noqa: PLC0415

    form = FewConstants(
        flop_per_s=encode.products * PEAK,
        bytes_per_s=encode.bytes_per_s,
        cache_passes=0.0,
        fixed_s=2 * encode.half_s,
        spread=0.1,
        source="training_fit.py",
        element_s=passes / (LANES * 1.12e9),
        softmax_weight=float(constants.NEURON[Phase.TRAIN].softmax_weight),
        kernel_softmax_s=float(constants.KERNEL_PASSES) / (LANES * 1.12e9),
    )
    layout = case.layout()
    nodes = machine(INSTANCE, case.row["nodes"])
    steps = TrainingSteps(case.model, nodes, PhaseConstants({Phase.TRAIN: form}))
    found = steps.timed(layout, tuple(memory.stages(case.model, layout)))
    return sum(found.parts_s.values())


def judge(cases, encode):
    """Each case judged by the constant of all other architectures, and that of all cases."""
    table = np.array([[seconds(case, encode, one) for one in PASSES] for case in cases])
    published = np.array([case.published_s for case in cases])
    errors = np.log(table / published[:, None])
    sizes = np.abs(errors)
    names = np.array([case.architecture for case in cases])
    best = {name: int(np.argmin(np.mean(sizes[names != name], axis=0))) for name in names}
    own = np.array([errors[at, best[name]] for at, name in enumerate(names)])
    judged = [
        Judged(
            case,
            float(table[at, best[case.architecture]]),
            sigma(own[names != case.architecture]),
            replace(encode, element_s=float(PASSES[best[case.architecture]])),
        )
        for at, case in enumerate(cases)
    ]
    return judged, float(PASSES[int(np.argmin(np.mean(sizes, axis=0)))])
