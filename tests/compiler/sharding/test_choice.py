"""Which ways are chosen, in models as they are."""

from itertools import pairwise

import pytest
from made_graphs import Made

from trnsim import arch
from trnsim.compiler.sharding import halve_graph
from trnsim.compiler.sharding.choice import SplitChoice
from trnsim.compiler.sharding.costs import split_costs
from trnsim.compiler.sharding.splits import SUM, WHOLE
from trnsim.graph.ops.contraction import Attention, DotGeneral

CORE = arch.paired(arch.target("trn2"))


def gives(made, operation=DotGeneral):
    """How the results of its products are split."""
    choice = SplitChoice(made.graph, split_costs(made.graph, CORE))
    pairs = zip(made.graph.nodes, choice.rules, strict=True)
    return [rule.results[0] for node, rule in pairs if isinstance(node.operation, operation)]


def mlp(tokens, width=4096, hidden=8192):
    made = Made("bfloat16")
    x = made.of("exponential", made.given(tokens, width))
    up = made.of("silu", made.linear(x, hidden, has_bias=False))
    made.graph.outputs = [made.of("add", x, made.linear(up, width, has_bias=False))]
    return made


@pytest.mark.slow
def test_few_tokens_split_the_weights_with_one_exchange():
    assert gives(mlp(1)) == [1, SUM]


@pytest.mark.slow
def test_many_tokens_are_split_themselves_as_no_exchange_is_needed():
    assert gives(mlp(2048)) == [0, 0]


def test_what_is_small_is_not_worth_an_exchange():
    made = Made("float32")
    made.graph.outputs = [made.linear(made.softmax(made.given(1, 64)), 3)]
    assert gives(made) == [WHOLE]


def test_heads_are_split_where_a_single_sequence_decodes():
    made = Made("bfloat16")
    cache = [made.given(1, 8, 2048, 128) for _ in range(2)]
    query = made.heads(made.linear(made.given(1, 1, 4096), 1024, has_bias=False), 8)
    attended = made.attention(query, *cache)
    made.graph.outputs = [made.linear(made.joined(attended), 4096, has_bias=False)]
    assert gives(made, Attention) == [1]
    assert gives(made)[0] == 1


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [3, 129])
def test_odd_numbers_of_tokens_are_split_another_way(tokens):
    assert 0 not in gives(mlp(tokens))


def test_nothing_is_split_where_nothing_is_even():
    made = mlp(3, 129, 257)
    assert gives(made) == [WHOLE, WHOLE]
    assert not halve_graph(made.graph, made.weights, CORE).is_split


def layers(count):
    made = Made("float32")
    x = made.given(2, 8)
    for _ in range(count):
        x = made.of("add", x, made.of("tanh", made.of("multiply", x, x)))
    made.graph.outputs = [x]
    return made.graph


def test_its_time_grows_with_the_graph_and_not_with_its_paths():
    def steps(count):
        graph, seen = layers(count), []

        class Counting(type(split_costs(graph, CORE))):
            def rule_s(self, node):
                seen.append(node)
                return super().rule_s(node)

            def move_s(self, tensor, before, after):
                seen.append(tensor)
                return super().move_s(tensor, before, after)

        work = split_costs(graph, CORE)
        SplitChoice(graph, Counting(work.core, work.hbm_values))
        return len(seen)

    counts = [steps(count) for count in (10, 20, 40)]
    assert all(b == pytest.approx(2 * a, rel=0.01) for a, b in pairwise(counts))
