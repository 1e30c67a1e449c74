"""Builders of graphs, for importers of frameworks and lowerings that replace operations.

A `Build` (`build`) holds the graph so far, and implements conveniences of tensor languages: shapes
that broadcast, dtypes that mix, reductions over any dimensions. Other modules build what takes
several operations: indexing (`indexing`), windows (`windows`), convolutions as products
(`convolution`), functions of real numbers (`functions`) and triangular systems (`triangular`).
"""
