"""Which answer is taken for the times of layers on a rank of a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from trnsim.arch import TARGETS
from trnsim.errors import BadInput
from trnsim.system.layers import constants
from trnsim.system.layers.few import ByPhase, FewConstants
from trnsim.system.layers.gpu import gpu_times
from trnsim.system.workload.operators import Phase

if TYPE_CHECKING:
    from trnsim.arch import Target
    from trnsim.arch.catalogue import Accelerator
    from trnsim.system.layers.times import LayerTimes

_EIGHT_BITS: Final = ("fp8", "fp8_e4", "mxfp8", "cfp8")


class Ranks(Protocol):
    """What is asked of a machine."""

    @property
    def chip(self) -> Accelerator:
        """Its chip or GPU."""
        ...

    @property
    def lnc(self) -> int:
        """NeuronCores of a rank; 0 for a GPU."""
        ...

    @property
    def ranks_per_chip(self) -> int:
        """Ranks of a chip."""
        ...


def layer_times(machine: Ranks, family: str = "", dtype: str = "bf16") -> LayerTimes:
    """What knows the times of layers on a rank of a machine.

    Args:
        machine: where they run.
        family: a `Phase` where only its passes are asked for; "" for all phases.
        dtype: of products: "fp32", "bf16" or "fp8"; on T4, "fp16".

    Raises:
        BadInput: the chip has no published peak in the dtype.
    """
    if not machine.lnc:
        return gpu_times(machine.chip, dtype)
    phases = (Phase(family),) if family else tuple(Phase)
    return ByPhase({phase: _neuron(machine, phase, dtype) for phase in phases})


def bytes_per_s(machine: Ranks) -> float:
    """Bytes per second of HBM that one rank of a machine reaches."""
    if not machine.lnc:
        return float(constants.GPU_HBM * machine.chip.memory_bytes_per_s)
    target = _target(machine.chip)
    share = float(machine.chip.memory_bytes_per_s) / machine.chip.cores
    if target is not None and target.is_fitted:
        return machine.lnc * float(constants.HBM_BYTES_PER_S)
    if target is None:
        return machine.lnc * share * constants.OLD_HBM
    core = target.core.paired() if machine.lnc > 1 else target.core
    return machine.lnc * min(float(core.dma_bytes_per_s), share)


def peak(machine: Ranks, dtype: str) -> float:
    """Published dense FLOP per second of one rank.

    Raises:
        BadInput: the chip has no published peak in the dtype.
    """
    peaks = machine.chip.peak_flop_per_s
    names = _EIGHT_BITS if dtype == "fp8" else (dtype,)
    for name in names:
        if name in peaks:
            return float(peaks[name]) / machine.ranks_per_chip
    raise BadInput(
        f"{machine.chip.name} has no published peak in {dtype}; legal: {', '.join(peaks)}",
        fix="for example --dtype bf16",
    )


def _neuron(machine: Ranks, phase: Phase, dtype: str) -> FewConstants:
    found = constants.NEURON[phase]
    target = _target(machine.chip)
    is_fitted = target is not None and target.is_fitted
    more = 0.0 if is_fitted else float(constants.EXTRAPOLATED_SPREAD)
    told = f"fitted to {found.rows}" if is_fitted else f"extrapolated: fitted to {found.rows}"
    scale = peak(machine, "bf16") / _V2_PEAK
    return FewConstants(
        flop_per_s=found.products * peak(machine, dtype),
        bytes_per_s=bytes_per_s(machine),
        cache_passes=float(found.cache_passes),
        fixed_s=2 * float(found.half_s),
        spread=(found.spread**2 + more**2) ** 0.5,
        source=f"few constants ({phase}), {told}",
        score_s=float(found.score_s) / scale,
        repeats_keys=True,
    )


_V2_PEAK: Final = 95e12
"""BF16 FLOP per second of a NeuronCore-v2, on which constants were fitted."""


def _target(chip: Accelerator) -> Target | None:
    """The target whose chip this is; None for a GPU or an Inferentia1."""
    return next((one for one in TARGETS.values() if one.chip == chip.name), None)
