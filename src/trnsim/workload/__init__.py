"""Workloads: the operators of a model's pass with their shapes, without its weights."""
