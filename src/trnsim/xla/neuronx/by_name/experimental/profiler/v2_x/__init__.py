"""`torch_neuronx.experimental.profiler.v2_x`: names of operations for NxD's traces."""
