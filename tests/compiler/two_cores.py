"""Both halves of a graph in numpy, with the exchanges between them."""

import numpy as np

from trnsim import arch
from trnsim.compiler.sharding.core_exchanges import CoreGather, CoreReduce
from trnsim.compiler.sharding.halved import halve_by_rules, halve_graph
from trnsim.compiler.sharding.rules import split_rules
from trnsim.compiler.sharding.splits import SUM
from trnsim.graph import Value, verify
from trnsim.graph.graph import reference_of

EXCHANGES = (CoreGather, CoreReduce)


def halves_of(graph, rules=None, weights=(), target="trn2"):
    """One graph for each core; both are graphs."""
    core = arch.paired(arch.target(target))
    made = [
        halve_graph(graph, weights, core, rank)
        if rules is None
        else halve_by_rules(graph, weights, rules, rank)
        for rank in (0, 1)
    ]
    for one in made:
        verify(one.graph)
    return made


def values_of(graph, arrays, rules=None):
    """The outputs of a graph by both halves, put together."""
    halves = halves_of(graph, rules)
    whole = {value.number: array for value, array in zip(graph.inputs, arrays, strict=True)}
    known = [
        {
            value.number: half_of(whole[number], split, rank)
            for value, (number, split) in zip(one.graph.inputs, one.inputs, strict=True)
        }
        for rank, one in enumerate(halves)
    ]
    for nodes in zip(*(one.graph.nodes for one in halves), strict=True):
        given = [
            [mine[o.number] if isinstance(o, Value) else o for o in node.operands]
            for node, mine in zip(nodes, known, strict=True)
        ]
        if isinstance(nodes[0].operation, EXCHANGES):
            met = np.stack([wide(one[0]) for one in given])
            dtype = nodes[0].result.type.numpy_dtype()
            results = [(one.astype(dtype),) for one in nodes[0].operation.reference(met)]
        else:
            results = [reference_of(*one) for one in zip(nodes, given, strict=True)]
        for node, mine, found in zip(nodes, known, results, strict=True):
            mine.update(zip((value.number for value in node.results), found, strict=True))
    parts = [
        [mine[value.number] for value in one.graph.outputs]
        for one, mine in zip(halves, known, strict=True)
    ]
    return [joined(*pair, split) for *pair, split in zip(*parts, halves[0].outputs, strict=True)]


def half_of(array, split, rank):
    return array if split < 0 else np.split(array, 2, split)[rank]


def joined(first, second, split):
    """An output of both cores; where it is whole, both have the same."""
    if split >= 0:
        return np.concatenate([first, second], split)
    np.testing.assert_array_equal(wide(first), wide(second))
    return first


def wide(array):
    return array if array.dtype.kind in "biu" else array.astype(np.float64)


def rules_by_chance(graph, random):
    """Any way of each operation that can follow those before it."""
    made, rules = {}, []
    for node in graph.nodes:
        legal = [rule for rule in split_rules(node) if follows(node, rule, made)]
        rules.append(random.choice(legal))
        numbers = (value.number for value in node.results)
        made.update(zip(numbers, rules[-1].results, strict=True))
    return rules


def follows(node, rule, made):
    """Whether it takes sums only of what was made as sums."""
    pairs = zip(node.values, rule.operands, strict=True)
    return all(split != SUM or made.get(value.number) == SUM for value, split in pairs)
