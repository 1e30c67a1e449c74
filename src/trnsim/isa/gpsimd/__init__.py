"""Instructions of the GpSimd Engine: patterns, gathers, sorting, sums across partitions."""
