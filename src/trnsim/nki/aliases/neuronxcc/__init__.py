"""`neuronxcc`: the few names of the older package that newer kernels and suites still import."""
