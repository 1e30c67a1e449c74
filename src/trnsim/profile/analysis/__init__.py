"""Interpretation of the figures: bottleneck, advice, what-if, comparison of two runs."""
