"""Instructions of the DMA engines: copies, transposes, and sums during a transfer."""
