"""Times of layers: seconds that one rank takes for a block of a workload."""
