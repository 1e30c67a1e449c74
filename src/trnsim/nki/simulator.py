"""`nki.simulator`: the module from which vllm-neuron and others import `simulate_kernel`."""

from trnsim.nki.entry import simulate_kernel

__all__ = ["simulate_kernel"]
