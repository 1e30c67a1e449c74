"""Kernels of operators on the device: values, memory, recording."""
