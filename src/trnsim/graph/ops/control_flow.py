"""Graphs that values choose or repeat: if, case, while."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from trnsim.graph.operation import Example, Kind, Operation
from trnsim.graph.types import BOOL, ELEMENT_TYPES, Array, TensorType

if TYPE_CHECKING:
    from trnsim.graph.graph import Graph


class Control(Operation, kind=Kind.CONTROL, abstract=True):
    """An operation that runs other graphs."""

    reads_stored = True

    def check_graph(
        self, graph: Graph, tensors: Sequence[TensorType], results: Sequence[TensorType]
    ) -> None:
        """Check that a graph takes and returns tensors of these types.

        Raises:
            BadInput: where it does not.
        """
        input_types, output_types = (
            [value.type for value in side] for side in (graph.inputs, graph.outputs)
        )
        if input_types != list(tensors) or output_types != list(results):
            words = [
                ", ".join(map(str, side)) for side in (input_types, output_types, tensors, results)
            ]
            self.refuse(
                f"of a graph from ({words[0]}) to ({words[1]}); legal: from ({words[2]}) "
                f"to ({words[3]})"
            )


class Branching(Control, abstract=True):
    """An operation that runs one of its graphs on all operands but the first, which selects it."""

    branches: tuple[Graph, ...] = ()

    def branch(self, selector: Array) -> Graph:
        """The graph that runs for a value of the first operand."""
        raise NotImplementedError

    def reference(self, selector: Array, *inputs: Array) -> Any:
        """The results of the graph that runs."""
        return self.branch(selector).reference(inputs)

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """The result types of the first graph; those of the others must agree."""
        if tensors[0].shape or not self.branches:
            self.refuse(f"of {tensors[0]} among {len(self.branches)}; legal: a scalar, some graphs")
        result_types = tuple(value.type for value in self.branches[0].outputs)
        for branch in self.branches:
            self.check_graph(branch, tensors[1:], result_types)
        return result_types


class Case(Branching):
    """``branches[index]`` of the inputs; the last branch for an index out of range."""

    operands = ("index", "*inputs")
    legal = (("int32",), ELEMENT_TYPES)

    def branch(self, selector: Array) -> Graph:
        """The graph that runs for an index."""
        place, last = int(selector.item()), len(self.branches) - 1
        return self.branches[place if 0 <= place <= last else last]

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Three branches, and a number beyond them."""
        row, index = TensorType((3, 40), "float32"), TensorType((), "int32")
        branches = tuple(_single_op_graph(row, name) for name in ("negate", "square", "abs"))
        return tuple(
            Example(cls(branches), (index, row), ("places", "small"), limit) for limit in (1, 3, 9)
        )


_IF_BRANCHES: Final = 2
"""Graphs of an `If`: taken, and not taken."""


class If(Branching):
    """``branches[0] if pred else branches[1]`` of the inputs."""

    operands = ("pred", "*inputs")
    legal = ((BOOL,), ELEMENT_TYPES)

    def check(self, tensors: tuple[TensorType, ...]) -> None:
        """Check that there are two graphs."""
        super().check(tensors)
        if len(self.branches) != _IF_BRANCHES:
            self.refuse(f"of {len(self.branches)} graphs; legal: two graphs")

    def branch(self, selector: Array) -> Graph:
        """The graph that runs for a truth value."""
        return self.branches[0 if selector.item() else 1]

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Two graphs of one tensor."""
        row = TensorType((3, 40), "float32")
        branches = _single_op_graph(row, "negate"), _single_op_graph(row, "square")
        return (Example(cls(branches), (TensorType((), BOOL), row), ("places", "small"), 2),)


class While(Control):
    """The operands after `body` has run on them as long as `condition` holds.

    Attributes:
        condition: graph from the operands to a truth value.
        body: graph from the operands to values of the same types.
        trips: number of runs of the body; None if the program does not determine it, and then the
            loop has no time.
    """

    operands = ("*operands",)
    condition: Graph | None = None
    body: Graph | None = None
    trips: int | None = None

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """The operands' types."""
        if self.condition is None or self.body is None:
            self.refuse("without a condition or a body")
        self.check_graph(self.condition, tensors, [TensorType((), BOOL)])
        self.check_graph(self.body, tensors, tensors)
        return tensors

    def reference(self, *operands: Array) -> Any:
        """The operands after the last run of the body."""
        if self.condition is None or self.body is None:
            self.refuse("without a condition or a body")
        carry: Sequence[Array] = operands
        while bool(self.condition.reference(carry)[0]):
            carry = self.body.reference(carry)
        return tuple(carry)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """A count to 5 that doubles a row."""
        from trnsim.graph.graph import Graph  # noqa: PLC0415  graphs hold operations

        count, row = TensorType((), "int32"), TensorType((3, 40), "float32")
        condition, body = Graph(), Graph()
        number, _ = condition.input((), "int32"), condition.input(row.shape, row.dtype)
        condition.outputs = [condition.elementwise("compare", number, 5.0, direction="LT")]
        number, carry = body.input((), "int32"), body.input(row.shape, row.dtype)
        body.outputs = [body.elementwise("add", number, 1.0), body.elementwise("add", carry, carry)]
        return (Example(cls(condition, body, 5), (count, row), ("zeros", "small")),)


def _single_op_graph(row: TensorType, name: str) -> Graph:
    """A graph of one elementwise operation."""
    from trnsim.graph.graph import Graph  # noqa: PLC0415  graphs hold operations

    graph = Graph()
    graph.outputs = [graph.elementwise(name, graph.input(row.shape, row.dtype))]
    return graph
