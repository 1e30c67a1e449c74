"""Instructions of the DMA engines: copies, transposes and sums on the way."""
