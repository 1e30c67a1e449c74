"""The graph between frameworks and instructions: operations as StableHLO has them."""

from trnsim.graph.ir import Graph, Node, TensorType, Value

__all__ = ["Graph", "Node", "TensorType", "Value"]
