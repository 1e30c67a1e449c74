from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch.nn.functional as F  # noqa: N812  its usual name
from torch import nn

from trnsim.torch.models.attending import attend
from trnsim.torch.models.model_graph import module_graph

torch.manual_seed(0)


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *given):
        return self.function(*given)


def graph_and_values(function, *given, kept=None):
    made = module_graph(Function(function), given)
    arrays = {str(place): tensor.numpy() for place, tensor in enumerate(given)}
    if kept is not None:
        arrays["_tensor_constant0"] = kept.numpy()
    inputs = [arrays[made.names[value.number]] for value in made.graph.inputs]
    return made.graph, torch.from_numpy(made.graph.reference(inputs)[0].copy())


def attentions(graph):
    return [node for node in graph.nodes if node.name == "attention"]


CALLS = {
    "plain": ({}, 6),
    "causal": ({"is_causal": True}, 6),
    "scaled": ({"scale": 0.3}, 6),
    "grouped": ({"enable_gqa": True}, 2),
    "masked": ({"attn_mask": torch.ones(5, 7, dtype=torch.bool).tril(2)}, 6),
    "biased": ({"attn_mask": torch.randn(2, 1, 5, 7)}, 6),
}


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("call", CALLS)
def test_attention_of_pytorch_is_one_operation(call):
    options, heads = CALLS[call]
    query = torch.randn(2, 6, 5, 4)
    key, value = torch.randn(2, heads, 7, 4), torch.randn(2, heads, 7, 4)
    graph, found = graph_and_values(
        lambda *given: F.scaled_dot_product_attention(*given, **options),
        *(query, key, value),
        kept=options.get("attn_mask"),
    )
    assert len(attentions(graph)) == 1
    torch.testing.assert_close(found, F.scaled_dot_product_attention(query, key, value, **options))


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("heads", [1, 2, 6])
@pytest.mark.parametrize("queries", [1, 5])
def test_heads_of_a_group_share_their_keys(heads, queries):
    query, key = torch.randn(2, 6, queries, 4), torch.randn(2, heads, 5, 4)
    module = SimpleNamespace(is_causal=True)
    graph, found = graph_and_values(lambda q, k: attend(module, q, k, k, None)[0], query, key)
    (node,) = attentions(graph)
    is_causal = queries > 1
    expected = F.scaled_dot_product_attention(query, key, key, is_causal=is_causal, enable_gqa=True)
    # A transposed result is left as it lies in memory, heads first.
    torch.testing.assert_close(found.reshape(expected.shape), expected)
    # Of one query a head, the queries of a group are the rows of one matrix, and no key is copied.
    assert node.values[1].shape[1] == (6 if is_causal else heads)


def test_a_head_that_all_queries_share_is_broadcast_as_pytorch_does():
    query, key = torch.randn(2, 4, 3, 8), torch.randn(2, 1, 3, 8)
    graph, found = graph_and_values(F.scaled_dot_product_attention, query, key, key)
    (node,) = attentions(graph)
    assert [value.shape for value in node.values] == [(2, 4, 3, 8)] * 3
    torch.testing.assert_close(found, F.scaled_dot_product_attention(query, key, key))


@pytest.mark.parametrize(("key_heads", "expands"), [(4, 0), (1, 2)])
def test_only_what_is_broadcast_is_expanded(key_heads, expands):
    query, key = torch.randn(2, 4, 3, 8), torch.randn(2, key_heads, 3, 8)
    made = module_graph(Function(F.scaled_dot_product_attention), (query, key, key))
    assert made.operators.count("aten::expand") == expands
