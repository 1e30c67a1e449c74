"""What serving takes for granted: times of layers, of the host, of loading and compiling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trnsim.facts import Evidence, assumed, derived, documented
from trnsim.system.layers.few import FewConstants

if TYPE_CHECKING:
    from trnsim.facts import Rate
    from trnsim.system.layers.times import LayerTimes
    from trnsim.system.serve.machine import Machine

UTILIZATION: Final = documented(
    0.9, "vllm-neuron/docs/guides/reference-configuration.md and vLLM: default of both"
)
NEURON_HOST_S: Final = assumed(
    0.0,
    "asynchronous scheduling is on by default and hides the host; what it does not hide is in the "
    "fixed time of layers, which is fitted to steps of whole servers",
)
GPU_HOST_S: Final = assumed(
    1e-3, "a pass of vLLM's scheduler, and copies of inputs and results; nobody publishes it"
)
LOAD_BYTES_PER_S: Final = derived(
    750e9 / (17.5 * 60),
    "Llama-3.1-405B, 750 GB, from disk to device in 15 to 20 minutes "
    "(vllm-neuron/docs/design/framework/checkpoint_loading.md)",
)
COMPILE_LAYER_S: Final = derived(
    17.5 * 60 / 2 / 80,
    "two graphs of a 70B model of 80 layers in 15 to 20 minutes "
    "(vllm-neuron/docs/tutorials/tutorial-llama3-70b.md)",
)
_CACHE_PASSES: Final = derived(
    2.0, "keys and values cross HBM twice: published Trn1 and Inf2 decode rows"
)
_SMALL_EXCHANGE_S: Final = derived(
    37e-6, "that part of the half-layer latency which is an all-reduce on Trn1 and Inf2"
)


def layer_times(machine: Machine) -> LayerTimes:
    """Times of layers on one rank of a machine, by few constants."""
    facts = machine.platform.facts
    ranks = machine.ranks_per_chip
    hbm, half_layer = facts["HBM efficiency"], facts["half-layer latency s"]
    fixed_s = 2 * max(float(half_layer) - machine.is_neuron * _SMALL_EXCHANGE_S, 0.0)
    kinds = {hbm.provenance.kind, half_layer.provenance.kind}
    return FewConstants(
        flop_per_s=facts["peak FLOP/s (bf16)"] * facts["prefill efficiency"] / ranks,
        bytes_per_s=facts["HBM bytes/s"] * hbm / ranks,
        cache_passes=_CACHE_PASSES if machine.is_neuron else 1.0,
        fixed_s=fixed_s,
        spread=Evidence.ASSUMED.spread if Evidence.ASSUMED in kinds else hbm.provenance.spread,
        source=f"few constants: {hbm.provenance.source}",
    )


def host_s(machine: Machine) -> Rate:
    """Seconds of the host between two steps."""
    return NEURON_HOST_S if machine.is_neuron else GPU_HOST_S
