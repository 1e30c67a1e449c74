"""Rewriting: a pattern has a form, a condition, and the operations that replace its matches.

    DOUBLE = Pattern(
        "double negation",
        "-(-x) is x",
        before=form_of(Negate, form_of(Negate, TensorForm("x"))),
        after=lambda match: match["x"],
    )
    rewrite_graph(graph, [DOUBLE])

One walk rewrites a graph. Patterns are indexed by their last operation, and the first that matches
is applied. The new graph is verified. `observe_patterns` omits patterns by name, and counts how
often each of the others is applied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Generator, Hashable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from math import copysign
from typing import Any, Final

from trnsim.context_values import context_value
from trnsim.errors import InternalError
from trnsim.graph.graph import Graph, Node, Value
from trnsim.graph.operation import Operation
from trnsim.graph.ops.layout import Pad
from trnsim.graph.ops.leaves import Constant
from trnsim.graph.patterns import Captures, Op, Producers
from trnsim.graph.verifier import verify

ANY: Final = Op((Operation,))
"""Every operation."""
_NO_PRODUCERS: Final = Producers({})


@dataclass(frozen=True, slots=True)
class Pattern:
    """A rule that replaces some operations by others.

    Attributes:
        meaning: its effect, in a line.
        before: the form of the operations, from the last one.
        after: a function that adds the replacement to the new graph and returns its results, of
            the same types; None where the operations stay and are issued together.
        when: predicate of the matches that are rewritten.
        is_needed: True if the chip has no instructions for the operations of `before`.
        source: a document of AWS's compiler that describes it, or "".
    """

    name: str
    meaning: str
    before: Op
    after: Callable[[Match], Value | tuple[Value, ...]] | None = None
    when: Callable[[Match], bool] = lambda _: True
    is_needed: bool = False
    source: str = ""


@dataclass(frozen=True, slots=True)
class Match:
    """Operations that match a pattern's form.

    Attributes:
        node: the last one; its operands are those of the new graph.
        captured: the captured values of the old graph, by name.
        walk: the rewriting in progress.
    """

    node: Node
    captured: Captures
    walk: _Walk

    @property
    def graph(self) -> Graph:
        """The new graph so far."""
        return self.walk.new_graph

    @property
    def facts(self) -> Any:
        """The facts that `rewrite_graph` was called with."""
        return self.walk.facts

    @property
    def producers(self) -> Producers:
        """The node that makes each value of the old graph."""
        return self.walk.producers

    def __getitem__(self, name: str) -> Value:
        """A captured tensor, in the new graph."""
        return self.walk.new_value(self.captured[name])

    def operation(self, name: str) -> Any:
        """The operation that makes a captured tensor."""
        return self.producers.nodes[self.captured[name].number].operation

    def twin(self) -> tuple[Value, ...] | None:
        """The results of the first equal operation on the same operands; None if this is the first.

        Result types are compared too, as a graph may name them beside the operation.
        """
        node = self.node
        types = tuple(value.type for value in node.results)
        key = node.operation, node.operands, types, _signs_of_zeros(node)
        first = self.walk.twins.setdefault(key, node)
        return None if first is node else tuple(map(self.walk.new_value, first.results))


def rewrite_graph(graph: Graph, patterns: Sequence[Pattern], facts: Any = None) -> Graph:
    """A graph rewritten by patterns; the graph itself where no pattern matches.

    Inputs keep their numbers. `facts` are what the patterns' conditions read as `Match.facts`.

    Raises:
        InternalError: a pattern's results have other types, or the new graph is malformed.
    """
    walk = _Walk(graph, [pattern for pattern in patterns if not _is_omitted(pattern)], facts)
    for place, node in enumerate(graph.nodes):
        pattern_match = walk.first_match(node)
        if pattern_match is not None:
            walk.replace_node(place, *pattern_match)
    if not walk.counts:
        return graph
    observation = _observation.get()
    if observation is not None:
        observation.counts.update(walk.counts)
    new_graph = walk.graph_until(len(graph.nodes))
    new_graph.outputs = [walk.new_value(value) for value in graph.outputs]
    verify(new_graph, set(map(id, graph.nodes)))
    return new_graph


class _Walk:
    """A rewriting in progress.

    Attributes:
        new_graph: the new graph so far.
        counts: number of applications of each pattern.
        replacements: values of the new graph by the numbers of the old values that they replace.
        twins: first nodes by operation, operands and result types.
    """

    def __init__(
        self,
        graph: Graph,
        patterns: Sequence[Pattern] = (),
        facts: Any = None,
        producers: Producers | None = None,
    ) -> None:
        self.facts = facts
        self.new_graph = graph.without_nodes()
        self.counts: Counter[str] = Counter()
        self.replacements: dict[int, Value] = {}
        self.twins: dict[Hashable, Node] = {}
        self._graph, self._producers, self._node_count = graph, producers, 0
        self._patterns = patterns
        self._by_operation: dict[type[Operation], list[Pattern]] = {}

    @property
    def producers(self) -> Producers:
        """The node that makes each value of the old graph, found at the first use."""
        if self._producers is None:
            self._producers = Producers.of_graph(self._graph)
        return self._producers

    def new_value(self, value: Value) -> Value:
        """A value of the old graph in the new one."""
        return self.replacements.get(value.number, value)

    def new_node(self, node: Node) -> Node:
        """A node of the old graph in the new one."""
        numbers = self.replacements.keys()
        if not numbers or not any(getattr(o, "number", -1) in numbers for o in node.operands):
            return node
        renamed = (self.new_value(o) if isinstance(o, Value) else o for o in node.operands)
        return replace(node, operands=tuple(renamed))

    def graph_until(self, place: int) -> Graph:
        """The new graph with all nodes of the old one up to a place."""
        for node in self._graph.nodes[self._node_count : place]:
            self.new_graph.append(self.new_node(node))
        self._node_count = place
        return self.new_graph

    def first_match(self, node: Node) -> tuple[Pattern, Match] | None:
        """The first pattern that matches a node, and its match; None if none does."""
        kind = type(node.operation)
        if kind not in self._by_operation:
            candidates = (
                pattern for pattern in self._patterns if issubclass(kind, pattern.before.operations)
            )
            self._by_operation[kind] = [
                pattern for pattern in candidates if pattern.after is not None
            ]
        for pattern in self._by_operation[kind]:
            # A pattern of one operation reads no producers, which take a walk over the whole graph.
            producers = self.producers if pattern.before.operands else _NO_PRODUCERS
            captured = pattern.before.captures_of(node, producers)
            if captured is not None:
                match = Match(self.new_node(node), captured, self)
                if pattern.when(match):
                    return pattern, match
        return None

    def replace_node(self, place: int, pattern: Pattern, match: Match) -> None:
        """Add a pattern's replacement of the node at a place."""
        self.graph_until(place).current_origin = match.node.origin
        self._node_count = place + 1
        replacement = pattern.after(match) if pattern.after is not None else match.node.results
        results = replacement if isinstance(replacement, tuple) else (replacement,)
        if [result.type for result in results] != [result.type for result in match.node.results]:
            types = ", ".join(str(result.type) for result in results)
            raise InternalError(f"{pattern.name} of {match.node.name} gives {types}")
        pairs = zip(match.node.results, results, strict=True)
        self.replacements.update((old.number, new) for old, new in pairs if old != new)
        self.counts[pattern.name] += 1


def _signs_of_zeros(node: Node) -> tuple[float, ...]:
    """The signs of the zeros among a node's numbers: 0.0 equals -0.0, by which 1 / x differs."""
    numbers = [operand for operand in node.operands if not isinstance(operand, Value)]
    if isinstance(node.operation, Constant | Pad):
        numbers.append(node.operation.number)
    return tuple(copysign(1.0, number) for number in numbers if not number)


@dataclass(frozen=True, slots=True)
class _Observation:
    """Names of omitted patterns, and the number of applications of the others."""

    omitted: frozenset[str] = frozenset()
    counts: Counter[str] = field(default_factory=Counter[str])


_observation: ContextVar[_Observation | None] = ContextVar("observation", default=None)


@contextmanager
def observe_patterns(names: Collection[str] = ()) -> Generator[Counter[str]]:
    """Context that omits patterns by name, and counts the applications of the others."""
    observation = _Observation(frozenset(names) | omitted_patterns())
    with context_value(_observation, observation):
        yield observation.counts


def match_node(pattern: Pattern, node: Node, producers: Producers) -> Match | None:
    """The match of a node with a pattern whose operations stay; None if it does not match."""
    captured = None if _is_omitted(pattern) else pattern.before.captures_of(node, producers)
    match = Match(node, captured or {}, _Walk(Graph(), producers=producers))
    return match if captured is not None and pattern.when(match) else None


def omitted_patterns() -> frozenset[str]:
    """Names of the patterns that are omitted in this context."""
    observation = _observation.get()
    return observation.omitted if observation is not None else frozenset()


def _is_omitted(pattern: Pattern) -> bool:
    return not pattern.is_needed and pattern.name in omitted_patterns()
