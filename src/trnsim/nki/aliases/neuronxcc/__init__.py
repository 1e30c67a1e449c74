"""`neuronxcc`: the few names of the older package that newer kernels and test suites import."""
