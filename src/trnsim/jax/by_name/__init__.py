"""AWS's packages around JAX and XLA, by their names: `jax_neuronx` and `libneuronxla`."""
