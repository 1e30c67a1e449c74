"""The graph between frameworks and instructions: a language of operations, as StableHLO has them.

An operation is one class (`operation`, `ops`): operands and attributes, the types of its results,
its reference in numpy, its kind. A graph (`graph`) holds operations on tensors; `verifier` checks
graphs and `building` constructs them. The translation of a framework's operators is in the package
of the framework; their lowering to a chip's instructions in `trnsim.lower`.

Source: StableHLO Specification, Ops; CHLO dialect; nki.api.shared.rst for functions of the engines.
"""

from trnsim.graph.graph import Graph, Node, Operand, Value, rounding_with
from trnsim.graph.operation import OPERATIONS, Example, Kind, Operation
from trnsim.graph.origin import Origin
from trnsim.graph.types import TensorType
from trnsim.graph.verifier import verify

__all__ = [
    "OPERATIONS",
    "Example",
    "Graph",
    "Kind",
    "Node",
    "Operand",
    "Operation",
    "Origin",
    "TensorType",
    "Value",
    "rounding_with",
    "verify",
]
