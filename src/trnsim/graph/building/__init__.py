"""What graphs are built with: by importers of frameworks, and by lowerings that replace operations.

A `Build` (`build`) holds the graph so far.
"""
