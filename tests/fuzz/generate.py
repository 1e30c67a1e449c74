"""Random legal kernels: a kernel for each seed."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from control import exchange
from instruction_families import FAMILIES
from kernel import Kernel
from maker import Maker
from oracle import GENERATIONS, Refused

_STEPS = (2, 10)
_OUTPUTS = 8
_TWO_CORES = 0.03


def generate(seed):
    """The legal kernel that belongs to a seed; it has something to compare."""
    rng = np.random.default_rng(seed)
    target = tuple(GENERATIONS)[int(rng.integers(len(GENERATIONS)))]
    maker = Maker(rng, target)
    left = int(rng.integers(*_STEPS))
    while left > 0 or not _outputs(maker):
        left -= 1
        # A family may name a tensor that another one, at the same address, has replaced.
        with suppress(Refused), np.errstate(all="ignore"):
            maker.pick(FAMILIES)(maker)
    # core_barrier comes with NeuronCore-v3.
    cores = 2 if maker.generation > 2 and rng.random() < _TWO_CORES else 1
    if cores > 1:
        exchange(maker)
    return Kernel(seed, target, cores, maker.inputs, tuple(maker.steps), _outputs(maker))


def _outputs(maker):
    """The tensors written last, of those that are written as a whole."""
    found = [
        (name, tensor.shape, tensor.format.name, tensor.buffer)
        for name, tensor in maker.oracle.tensors.items()
        if name not in maker.inputs and tensor.written.all() and tensor.format.kind != "code"
    ]
    return tuple(found[-_OUTPUTS:])
