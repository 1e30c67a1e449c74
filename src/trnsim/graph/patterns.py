"""Forms: patterns of operations in a graph, to be matched from a result to its operands.

    form_of(Negate, form_of(Negate, TensorForm("x")))

is the form of ``-(-x)``. Values that a form names are captured. `trnsim.graph.rewriting` replaces
operations that match a form.

After tinygrad's UPat, in our own terms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trnsim.graph.graph import Graph, Node, Operand, Value
from trnsim.graph.operation import Operation
from trnsim.graph.ops.layout import BroadcastInDim, Reshape
from trnsim.graph.ops.leaves import Constant

Captures = dict[str, Any]
"""The captures of a match by name: values, and tuples of values."""


@dataclass(frozen=True, slots=True)
class Producers:
    """The node that makes each value of a graph, and the number of its readers.

    Attributes:
        nodes: nodes by the numbers of their results.
        uses: how often each value is an operand or an output, by its number.
    """

    nodes: Mapping[int, Node]
    uses: Mapping[int, int] = field(default_factory=dict[int, int])

    @classmethod
    def of_graph(cls, graph: Graph) -> Producers:
        """The producers of the values of a graph, and the counts of their readers."""
        uses = Counter(v.number for node in graph.nodes for v in node.values)
        uses.update(v.number for v in graph.outputs)
        return cls({v.number: node for node in graph.nodes for v in node.results}, uses)


def number_of(producers: Mapping[int, Node], operand: Operand) -> float | None:
    """The number that an operand is or repeats; None for other operands."""
    while isinstance(operand, Value):
        node = producers.get(operand.number)
        if node is not None and isinstance(node.operation, Constant):
            return float(node.operation.number)
        if node is None or not isinstance(node.operation, BroadcastInDim | Reshape):
            return None
        operand = node.values[0]
    return float(operand)


class Form:
    """A pattern that an operand matches or not; each subclass is a kind of pattern."""

    def match(
        self, operand: Operand, producers: Producers, captures: Captures, readers: int = 0
    ) -> Captures | None:
        """`captures` with those of this form; None where the operand does not match.

        `readers` is the maximum number of readers of the operand; 0 for any number.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class TensorForm(Form):
    """The form of a tensor.

    Attributes:
        name: the name under which it is captured; a name that occurs several times stands for the
            same tensor.
        form: the form of the operation that makes it; None for any tensor.
        readers: maximum number of its readers; 0 for any number.
    """

    name: str = ""
    form: Form | None = None
    readers: int = 0

    def match(
        self, operand: Operand, producers: Producers, captures: Captures, readers: int = 0
    ) -> Captures | None:
        """`captures` with the tensor under its name, and with those of `form`."""
        if not isinstance(operand, Value) or captures.get(self.name, operand) != operand:
            return None
        captures = {**captures, self.name: operand} if self.name else captures
        if self.form is None:
            return captures
        return self.form.match(operand, producers, captures, self.readers or readers)


@dataclass(frozen=True, slots=True)
class Number(Form):
    """The form of a number, or of a tensor that repeats a number."""

    def match(
        self, operand: Operand, producers: Producers, captures: Captures, readers: int = 0
    ) -> Captures | None:
        """`captures` without additions, if the operand is a number."""
        del readers
        return None if number_of(producers.nodes, operand) is None else captures


@dataclass(frozen=True, slots=True)
class Op(Form):
    """The form of the result of an operation of given classes, with given operands.

    Attributes:
        operations: the operation's class, or several alternatives.
        operands: their forms; () matches any operands.
        name: the name under which its result is captured.
        readers: maximum number of readers of its result; 0 for any number.
        skips: function that is True for nodes between the operand and the operation that are
            skipped, such as casts, if each has a single reader.
        where: further condition, a function of the operation's node and of the matched operand,
            which is the node's result unless nodes are skipped.
        is_commutative: True if the operands may match in reverse order.
    """

    operations: tuple[type[Operation], ...]
    operands: tuple[Form, ...] = ()
    name: str = ""
    readers: int = 0
    skips: Callable[[Node], bool] = lambda _: False
    where: Callable[[Node, Value], bool] = lambda _node, _operand: True
    is_commutative: bool = False

    def match(
        self, operand: Operand, producers: Producers, captures: Captures, readers: int = 0
    ) -> Captures | None:
        """`captures` with those of the operation that makes the operand."""
        if not isinstance(operand, Value):
            return None
        value, max_readers = operand, readers or self.readers
        while not max_readers or producers.uses.get(value.number, 0) <= max_readers:
            node = producers.nodes.get(value.number)
            if node is None or not self.skips(node):
                return (
                    None if node is None else self.captures_of(node, producers, captures, operand)
                )
            value, max_readers = node.values[0], 1
        return None

    def captures_of(
        self,
        node: Node,
        producers: Producers,
        captures: Captures | None = None,
        operand: Value | None = None,
    ) -> Captures | None:
        """`captures` with those of a node; None where it does not match.

        `operand` is the value that is matched, for `where`; None for the node's result.
        """
        if not isinstance(node.operation, self.operations):
            return None
        if not self.where(node, operand or node.result):
            return None
        captures = {**(captures or {}), self.name: node.result} if self.name else captures or {}
        if not self.operands:
            return captures
        orders = [node.operands, node.operands[::-1]][: 1 + self.is_commutative]
        matches = (_match_all(self.operands, order, producers, captures) for order in orders)
        return next((captured for captured in matches if captured is not None), None)


def _match_all(
    forms: Sequence[Form], operands: Sequence[Operand], producers: Producers, captures: Captures
) -> Captures | None:
    captured: Captures | None = captures if len(forms) == len(operands) else None
    for form, operand in zip(forms, operands, strict=False):
        captured = None if captured is None else form.match(operand, producers, captured)
    return captured


def form_of(operations: Any, *operands: Form, **options: Any) -> Op:
    """The form of an operation of one class, or of one of several, with forms of its operands.

    `options` are the other attributes of `Op`.
    """
    classes = operations if isinstance(operations, tuple) else (operations,)
    return Op(classes, operands, **options)


@dataclass(frozen=True, slots=True)
class Either(Form):
    """The form of any of several alternatives; the first that matches counts."""

    forms: tuple[Form, ...]

    def match(
        self, operand: Operand, producers: Producers, captures: Captures, readers: int = 0
    ) -> Captures | None:
        """`captures` with those of the first alternative that matches."""
        matches = (form.match(operand, producers, captures, readers) for form in self.forms)
        return next((captured for captured in matches if captured is not None), None)


@dataclass(frozen=True, slots=True)
class Chain(Form):
    """The form of any number of operations, each the first operand of the next, after a base.

    Attributes:
        step: the form of each operation.
        base: the form of the first operation's first operand.
        name: the name under which the results are captured, the last operation's first.
    """

    step: Op
    base: Form
    name: str

    def match(
        self, operand: Operand, producers: Producers, captures: Captures, readers: int = 0
    ) -> Captures | None:
        """`captures` with the results of the chain and the captures of its base."""
        values: tuple[Value, ...] = ()
        step = replace(self.step, name=self.name)
        while (captured := step.match(operand, producers, {}, readers)) is not None:
            values = (*values, captured[self.name])
            operand, readers = producers.nodes[values[-1].number].operands[0], 0
        return self.base.match(operand, producers, {**captures, self.name: values}, readers)
