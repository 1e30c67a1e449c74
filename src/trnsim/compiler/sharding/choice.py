"""The choice of a split for each operation, by least cost of work and exchanges.

Two walks visit every operation once. The first computes for each value its cost in each split, all
operations before it included. If several operations read a value, each has an equal part of its
cost. The second walk goes back from the outputs: an operation gets the split that costs least with
the exchanges that its readers need.
"""

from __future__ import annotations

from typing import Final

from trnsim.compiler.sharding.costs import SplitCosts
from trnsim.compiler.sharding.rules import SplitRule
from trnsim.compiler.sharding.splits import SUM, WHOLE, Split, splittable_dims
from trnsim.graph import Graph, Node, Value

ANY: Final = -3
"""The split that is needed of an output: any, as it lies in HBM, which both cores share."""


class SplitChoice:
    """The split of each operation of a graph.

    Attributes:
        rules: the rule of each operation, in the order of the graph.
        seconds: the estimated time of one core, which is only rough.
    """

    def __init__(self, graph: Graph, work: SplitCosts) -> None:
        self._work = work
        self._uses: dict[int, int] = {}
        for value in (*graph.outputs, *(v for node in graph.nodes for v in node.values)):
            self._uses[value.number] = self._uses.get(value.number, 0) + 1
        self._costs: dict[int, dict[Split, float]] = {}
        for value in graph.inputs:  # in HBM, which both cores read
            self._costs[value.number] = dict.fromkeys((WHOLE, *splittable_dims(value.shape)), 0.0)
        totals = [self._record_costs(node) for node in graph.nodes]
        self._needs: dict[int, set[Split]] = {value.number: {ANY} for value in graph.outputs}
        reversed_rules: list[SplitRule] = []
        for node, rules in zip(reversed(graph.nodes), reversed(totals), strict=True):
            reversed_rules.append(self._choose_rule(node, rules))
        self.rules = tuple(reversed_rules[::-1])
        pairs = zip(graph.nodes, self.rules, strict=True)
        self.seconds = sum(work.rule_s(node)[rule] for node, rule in pairs)

    def _record_costs(self, node: Node) -> dict[SplitRule, float]:
        """The cost of each split of an operation, all operations before it included."""
        costs: dict[SplitRule, float] = {}
        for rule, node_s in self._work.rule_s(node).items():
            operand_costs = (
                self._reader_cost(v, s) for v, s in zip(node.values, rule.operands, strict=True)
            )
            costs[rule] = node_s + sum(operand_costs)
        for place, value in enumerate(node.results):
            ways = self._costs.setdefault(value.number, {})
            for rule, cost in costs.items():
                split = rule.results[place]
                ways[split] = min(ways.get(split, float("inf")), cost / len(node.results))
        return costs

    def _reader_cost(self, value: Value, need: Split) -> float:
        """A reader's part of the cost of a value in a split."""
        ways = self._costs[value.number].items()
        min_cost = min(cost + self._work.move_s(value.type, split, need) for split, cost in ways)
        return min_cost / self._uses[value.number]

    def _choose_rule(self, node: Node, rules: dict[SplitRule, float]) -> SplitRule:
        """The rule that costs least with the exchanges that the readers need."""

        def cost(rule: SplitRule) -> float:
            return rules[rule] + sum(
                self._exchange_s(value, split)
                for value, split in zip(node.results, rule.results, strict=True)
            )

        cheapest = min(rules, key=cost)
        for value, split in zip(node.values, cheapest.operands, strict=True):
            self._needs.setdefault(value.number, set()).add(split)
        return cheapest

    def _exchange_s(self, value: Value, split: Split) -> float:
        """Time of the exchanges from the split of a value's producer to those of its readers."""
        needs = self._needs.get(value.number, set())
        splits = {need if need != ANY else (WHOLE if split == SUM else split) for need in needs}
        return sum(self._work.move_s(value.type, split, need) for need in splits)
