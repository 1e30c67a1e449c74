"""Which answer is taken for the time of a layer: constants of a family of chips, for now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trnsim.facts import Rate, assumed, derived, measured
from trnsim.system.layers.few import FewConstants

if TYPE_CHECKING:
    from trnsim.system.layers.times import LayerTimes
    from trnsim.system.machine import Machine

_ENGINES: Final = derived(
    0.40,
    "one constant for six published Trn1 training rows (aws-neuron-sdk, benchmarks/trn1)",
    spread=0.25,
)
_TENSOR_CORES: Final = measured(
    0.60, "products of a GPT on A100: 45-57 % MFU of whole steps (Korthikanti et al., table 5)"
)
_HBM: Final = assumed(
    0.72, "294 of 410 GB/s that Trn1's DMA engines were measured at, taken for each chip"
)
_FIXED_S: Final = assumed(60e-6, "launches and small operators of a layer; about 30 us a half")
_GPU_FIXED_S: Final = assumed(20e-6, "launches of a layer's kernels")


def layer_times(machine: Machine, family: str, dtype: str = "bf16") -> LayerTimes:
    """What knows the times of layers of a family of workloads on a rank of a machine.

    Args:
        machine: where they run.
        family: "train", "encode", "prefill" or "decode".
        dtype: of products.
    """
    products = _ENGINES if machine.lnc else _TENSOR_CORES
    fixed_s = _FIXED_S if machine.lnc else _GPU_FIXED_S
    peak = machine.peak(dtype) / machine.ranks_per_chip
    return FewConstants(
        flop_per_s=products * peak,
        bytes_per_s=_HBM * machine.memory_bytes_per_s,
        cache_passes=2.0,
        fixed_s=float(fixed_s),
        spread=products.provenance.spread,
        source=f"few constants: {family} at {products:.0%} of the peak, {_told(products)}",
    )


def _told(fact: Rate) -> str:
    return f"{fact.provenance.kind.value}: {fact.provenance.source}"
