import numpy as np
import pytest

from trnsim.graph.ops.reductions import TopK
from trnsim.workload.architecture import Experts, Mlp
from trnsim.workload.expert_rules import Routing
from trnsim.workload.rank_graph import RankGraph
from trnsim.workload.routing import ExpertRows

TOKENS, COUNT, EACH, HIDDEN = 7, 6, 2, 4
SCORES = np.random.default_rng(0).normal(size=(TOKENS, COUNT)).astype(np.float32)
ROWS = np.arange(TOKENS * HIDDEN, dtype=np.float32).reshape(TOKENS, HIDDEN)


def softmax(x):
    powers = np.exp(x)
    return powers / powers.sum(-1, keepdims=True)


def logistic(x):
    return 1 / (1 + np.exp(-x))


def expert_rows(rank_graph, mlp, scores, *, is_wired=True, is_whole=True):
    return ExpertRows(rank_graph, mlp, scores, columns=3, is_wired=is_wired, is_whole=is_whole)


def found(routing, correction=None, *, is_whole=True):
    """Each token's rows as its experts take them, and their sum where each gives what it got.

    First the expert of each row.
    """
    rank_graph = RankGraph(bits=32)
    scores, rows = rank_graph.input(TOKENS, COUNT), rank_graph.input(TOKENS, HIDDEN)
    mlp = Experts(COUNT, EACH, Mlp(3), routing=routing)
    routed = expert_rows(rank_graph, mlp, scores, is_whole=is_whole)
    taken = routed.expert_inputs(rows)
    rank_graph.graph.outputs = [routed.experts, taken, routed.combine(taken, rows.shape)]
    given = [SCORES, ROWS, *([] if correction is None else [correction])]
    return rank_graph.graph.reference(given)


def wanted(known, chosen_by, routing):
    """The sum of the weights of each token's chosen experts."""
    chosen = np.argsort(-chosen_by, -1, kind="stable")[:, :EACH]
    weights = np.take_along_axis(known, chosen, -1)
    if routing.function == "chosen":
        weights = softmax(weights)
    if routing.is_normed:
        weights /= weights.sum(-1, keepdims=True)
    return chosen, routing.factor * weights.sum(-1, keepdims=True)


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize(
    ("routing", "known"),
    [
        (Routing(), softmax(SCORES)),
        (Routing(is_normed=False, factor=3.0), softmax(SCORES)),
        (Routing("chosen", is_normed=False), SCORES),
        (Routing("logistic", is_normed=False), logistic(SCORES)),
    ],
)
def test_tokens_are_weighed_by_the_scores_of_their_experts(routing, known, is_whole):
    experts, taken, total = found(routing, is_whole=is_whole)
    chosen, weights = wanted(known, known, routing)
    assert sorted(experts) == sorted(chosen.reshape(-1))
    assert set(taken[:, 0]) == set(ROWS[:, 0])
    np.testing.assert_allclose(total, weights * ROWS, rtol=1e-5)


@pytest.mark.parametrize(("tokens", "has_blocks"), [(1, False), (3, False), (4, True)])
def test_rows_lie_in_blocks_where_they_are_more_than_the_experts(tokens, has_blocks):
    rank_graph = RankGraph(bits=32)
    scores = rank_graph.input(tokens, COUNT)
    routed = expert_rows(rank_graph, Experts(COUNT, EACH, Mlp(3)), scores)
    assert (routed.blocks is not None) == has_blocks


@pytest.mark.parametrize("tokens", [4, 33, 150])
@pytest.mark.parametrize("is_even", [True, False])
def test_each_block_has_rows_of_one_expert(tokens, is_even):
    rank_graph = RankGraph(bits=32)
    values = rank_graph.input(tokens, COUNT), rank_graph.input(tokens, HIDDEN)
    routed = expert_rows(rank_graph, Experts(COUNT, EACH, Mlp(3)), values[0])
    blocks = routed.blocks
    rank_graph.graph.outputs = [routed.experts, blocks.experts, blocks.tokens, blocks.places]
    random = np.random.default_rng(tokens)
    scores = random.normal(size=(tokens, COUNT)).astype(np.float32)
    if not is_even:
        scores[:, 2:4] += 9  # all tokens go to two experts
    experts, owners, sources, places = rank_graph.graph.reference([scores, np.zeros((tokens, 4))])
    assert len(sources) == len(owners) * blocks.size
    assert len(set(places.ravel())) == places.size
    assert (owners[places // blocks.size] == experts.reshape(places.shape)).all()
    assert (sources[places] == np.arange(tokens)[:, None]).all()


def test_a_correction_decides_and_does_not_weigh():
    routing = Routing("logistic", is_normed=False, is_corrected=True)
    correction = np.array([5, 0, 0, 0, 0, 4], np.float32)
    experts, _, total = found(routing, correction)
    assert sorted(set(experts)) == [0, 5]
    known = logistic(SCORES)
    np.testing.assert_allclose(total, (known[:, :1] + known[:, 5:]) * ROWS, rtol=1e-5)


def test_experts_of_the_best_groups_are_left():
    routing = Routing("logistic", is_normed=False, groups=3, groups_per_token=1, scores_per_group=1)
    experts, _, _ = found(routing, is_whole=False)
    best = logistic(SCORES).reshape(TOKENS, 3, 2).max(-1).argmax(-1)
    assert (experts.reshape(TOKENS, EACH) // 2 == best[:, None]).all()


def test_routers_of_which_sizes_are_known_alone_choose_and_do_not_weigh():
    rank_graph = RankGraph()
    scores = rank_graph.input(TOKENS, COUNT)
    routed = expert_rows(rank_graph, Experts(COUNT, EACH, Mlp(3)), scores, is_wired=False)
    assert routed.weights is None
    assert isinstance(rank_graph.graph.nodes[0].operation, TopK)


def test_corrections_that_are_parameters_are_added_in_float32():
    rank_graph = RankGraph(bits=16)
    scores, rows = rank_graph.input(TOKENS, COUNT), rank_graph.input(TOKENS, HIDDEN)
    routing = Routing("logistic", is_corrected=True)
    mlp = Experts(COUNT, EACH, Mlp(3), router_biases=COUNT, routing=routing)
    expert_rows(rank_graph, mlp, scores).expert_inputs(rows)
    (bias,) = (value for value in rank_graph.graph.inputs if value.number in rank_graph.weights)
    readers = [node for node in rank_graph.graph.nodes if bias in node.values]
    assert bias.dtype == "bfloat16"
    assert [(node.name, node.result.dtype) for node in readers] == [("convert", "float32")]
