"""Constants of serving: times of the host, of loading and of compiling."""

from __future__ import annotations

from typing import Final

from trnsim.facts import Rate, assumed, derived, documented
from trnsim.place.machine import Machine

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


def host_s(machine: Machine) -> Rate:
    """Seconds of the host between two steps."""
    return NEURON_HOST_S if machine.is_neuron else GPU_HOST_S
