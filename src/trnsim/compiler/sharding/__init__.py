"""A graph over the two cores of a logical one.

For every value it is chosen whether it is split along a dimension, whole on both cores, or a sum of
what the cores have. Operations then become one core's part of them, with exchanges in between.
"""

from trnsim.compiler.sharding.halved import HalvedGraph, halve_graph

__all__ = ["HalvedGraph", "halve_graph"]
