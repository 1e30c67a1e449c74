"""PyTorch's profiler with device time."""
