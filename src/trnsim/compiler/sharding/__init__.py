"""A graph over the two cores of a logical core.

Every value is split along a dimension, whole on both cores, or the sum of two partial results.
Operations then become one core's part of them, with exchanges in between.
"""

from trnsim.compiler.sharding.halved import HalvedGraph, halve_graph

__all__ = ["HalvedGraph", "halve_graph"]
