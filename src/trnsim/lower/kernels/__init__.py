"""Tile kernels, written in our own `nki`: one file for each kind of operation.

Each kernel takes HBM tensors and returns one. They promise the values of the operation, computed in
float32 and rounded once on the way out, on every generation; they are plain rather than tuned.
"""
