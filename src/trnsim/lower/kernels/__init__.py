"""Instructions on tiles, and kernels from HBM to HBM, written in our own `nki`.

Each kernel takes HBM tensors and returns one or several. They return the values of the operation,
computed in float32 and rounded once on the way out, on every generation; they are plain rather than
tuned.
"""
