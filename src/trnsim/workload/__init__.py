"""Workloads: what a model computes in one pass, as operators with shapes, without its weights."""
