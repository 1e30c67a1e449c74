"""Layers: how long one rank takes for a block of a workload."""
