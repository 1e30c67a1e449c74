"""What the figures mean: the bound, advice, what-if, comparison of two runs."""
