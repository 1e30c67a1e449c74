"""The highest rates of a NeuronCore, which follow from its facts."""

from __future__ import annotations

from trnsim.arch.catalogue import catalogue
from trnsim.arch.neuroncore import NeuronCore
from trnsim.arch.targets import TARGETS


def peak_flop_per_s(core: NeuronCore) -> float:
    """``2 * rows * columns * clock``: a multiplication and an addition per PE and cycle, BF16."""
    return 2 * core.pe_rows * core.pe_columns * core.tensor_clock_hz


def hbm_stack_bytes_per_s(core: NeuronCore) -> float:
    """Bandwidth of one HBM stack: the chip's, by the stack's part of the chip's capacity."""
    name = next(t.chip for t in TARGETS.values() if t.core.name == core.name)
    chip = catalogue().chips[name]
    return chip.memory_bytes_per_s * core.hbm_bytes / chip.memory_bytes
