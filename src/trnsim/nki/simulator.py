"""`nki.simulator`: where vllm-neuron and others find `simulate_kernel`."""

from trnsim.nki.entry import simulate_kernel

__all__ = ["simulate_kernel"]
