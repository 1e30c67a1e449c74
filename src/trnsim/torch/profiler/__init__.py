"""PyTorch's profiler with the device's time."""
