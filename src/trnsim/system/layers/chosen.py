"""Which answer is taken for the time of a layer: constants of a family of chips, for now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trnsim.arch import TARGETS
from trnsim.facts import Rate, assumed, derived
from trnsim.system.layers.few import FewConstants

if TYPE_CHECKING:
    from trnsim.system.layers.times import LayerTimes
    from trnsim.system.machine import Machine

_ENGINES: Final = derived(
    0.40,
    "one constant for six published Trn1 training rows (aws-neuron-sdk, benchmarks/trn1)",
    spread=0.25,
)
_CARRIED: Final = assumed(_ENGINES, "carried over from Trn1")
_AMPERE: Final = derived(
    0.66, "eight steps of GPTs on A100, their exchanges taken off (Korthikanti et al., table 5)"
)
_BLACKWELL: Final = derived(
    0.42, "twelve steps of Llama-3-70B's layers on 8 x B200, exchanges taken off (SimuMax 1.2)"
)
_GPUS: Final = {
    "a100-40": _AMPERE,
    "a100-80": _AMPERE,
    "b200": _BLACKWELL,
    **dict.fromkeys(("gb200", "b300", "gb300"), assumed(_BLACKWELL, "carried over from B200")),
}
_OTHER_GPU: Final = assumed(0.50, "between A100 and B200; 38-43 % MFU on H100 (Llama 3, table 4)")
HBM_SHARE: Final = assumed(
    0.72, "294 of 410 GB/s that Trn1's DMA engines were measured at, taken for each chip"
)
_FIXED_S: Final = assumed(60e-6, "launches and small operators of a layer; about 30 us a half")
_GPU_FIXED_S: Final = assumed(20e-6, "launches of a layer's kernels")


def product_share(machine: Machine) -> Rate:
    """The part of the peak that products of layers reach on a machine."""
    if not machine.lnc:
        return _GPUS.get(machine.chip.name, _OTHER_GPU)
    is_own = any(one.is_fitted for one in TARGETS.values() if one.chip == machine.chip.name)
    return _ENGINES if is_own else _CARRIED


def bytes_per_s(machine: Machine) -> float:
    """Bytes per second of HBM that one rank of a machine reaches."""
    return HBM_SHARE * machine.memory_bytes_per_s


def layer_times(machine: Machine, family: str, dtype: str = "bf16") -> LayerTimes:
    """What knows the times of layers of a family of workloads on a rank of a machine.

    Args:
        machine: where they run.
        family: "train", "encode", "prefill" or "decode".
        dtype: of products.
    """
    products = product_share(machine)
    fixed_s = _FIXED_S if machine.lnc else _GPU_FIXED_S
    peak = machine.peak(dtype) / machine.ranks_per_chip
    return FewConstants(
        flop_per_s=products * peak,
        bytes_per_s=bytes_per_s(machine),
        cache_passes=2.0,
        fixed_s=float(fixed_s),
        spread=products.provenance.spread,
        source=f"few constants: {family} at {products:.0%} of the peak, {_told(products)}",
    )


def _told(fact: Rate) -> str:
    return f"{fact.provenance.kind.value}: {fact.provenance.source}"
