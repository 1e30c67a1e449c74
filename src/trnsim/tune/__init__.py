"""The search of a kernel's parameters on the timing model.

A file of kernels declares the values of a kernel's parameters (`gate.kernel_file`). The search
times a part of their combinations, which processes of this machine or a Ray cluster share, and
compares the best under the same draws of the model's constants.
"""
