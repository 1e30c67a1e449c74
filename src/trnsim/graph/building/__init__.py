"""What graphs are built with: by importers of frameworks, and by lowerings that replace operations.

A `Build` (`build`) holds the graph so far, and what a language of tensors lets its users leave out:
shapes that broadcast, dtypes that mix, reductions over any dimensions. Beside it stands what takes
several operations: elements by their places (`indexing`), windows (`windows`), convolutions as
products (`convolution`), functions of real numbers (`functions`) and triangular systems
(`triangular`).
"""
