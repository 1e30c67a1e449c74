"""Calls of ATen's operators on tensors of known shapes, as graphs."""
