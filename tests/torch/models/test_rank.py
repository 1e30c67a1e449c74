from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch import nn

from trnsim.errors import BadInput
from trnsim.torch.models import rank
from trnsim.torch.models.model_graph import module_graph


def config(**given):
    sizes = {"num_attention_heads": 8, "num_key_value_heads": 2, "hidden_size": 64}
    return SimpleNamespace(**sizes, model_type="tiny", **given)


@pytest.mark.parametrize(("ranks", "heads", "shared"), [(1, 8, 2), (2, 4, 1), (4, 2, 1), (8, 1, 1)])
def test_heads_are_shared_out_and_each_rank_has_keys(ranks, heads, shared):
    mine = rank.rank_config(config(), ranks, is_padded=False)
    assert (mine.num_attention_heads, mine.num_key_value_heads) == (heads, shared)


@pytest.mark.parametrize(("ranks", "share"), [(2, 50), (3, 34), (100, 1), (101, 1)])
def test_what_ranks_do_not_divide_is_rounded_up(ranks, share):
    given = config(vocab_size=100, intermediate_size=100)
    mine = rank.rank_config(given, ranks, is_padded=True)
    assert (mine.vocab_size, mine.intermediate_size) == (share, share)


def test_the_width_of_a_head_stays():
    assert rank.rank_config(config(), 4, is_padded=False).head_dim == 8
    assert rank.rank_config(config(head_dim=32), 4, is_padded=False).head_dim == 32


def test_the_given_configuration_stays_as_it_was():
    given = config(vocab_size=100)
    rank.rank_config(given, 4, is_padded=False)
    assert (given.num_attention_heads, given.vocab_size) == (8, 100)


@pytest.mark.parametrize("ranks", [3, 5, 16])
def test_ranks_that_do_not_divide_the_heads_are_refused(ranks):
    with pytest.raises(
        BadInput,
        match=f"tp of {ranks} does not divide the 8 attention heads of tiny; legal: 1, 2, 4, 8",
    ):
        rank.rank_config(config(), ranks, is_padded=False)


class Split(nn.Module):
    """Two layers, the first cut by columns, the second by rows."""

    tp_plan = {"layers.*.up": "colwise", "layers.*.down": "rowwise"}  # noqa: RUF012  a test's

    def __init__(self, inner, plan=None):
        super().__init__()
        self.config = SimpleNamespace(model_type="tiny")
        self.tp_plan = plan or self.tp_plan
        layer = nn.ModuleDict({"up": nn.Linear(4, inner), "down": nn.Linear(inner, 4)})
        self.layers = nn.ModuleList([layer])

    def forward(self, x):
        return self.layers[0]["down"](self.layers[0]["up"](x))


def test_what_is_cut_by_rows_is_added_up():
    mine = Split(6)
    rank.register_exchanges(mine, Split(12), 2)
    made = module_graph(mine, (torch.zeros(3, 4),), 2)
    (node,) = [node for node in made.graph.nodes if node.name == "all_reduce"]
    assert (node.result.shape, node.operation.replica_groups) == ((3, 4), ((0, 1),))


def test_a_layer_that_is_not_cut_is_refused():
    with pytest.raises(
        BadInput, match=r"tp of 2 for tiny: layers.0.up keeps out_features 12 of 12"
    ):
        rank.register_exchanges(Split(12), Split(12), 2)


def test_a_style_that_is_not_known_is_refused():
    plan = {"layers.*.up": "sideways"}
    with pytest.raises(
        BadInput, match=r"tp of 2 for tiny, which splits by sideways in transformers"
    ):
        rank.register_exchanges(Split(6, plan), Split(12, plan), 2)


def test_a_loss_of_shares_is_the_loss(monkeypatch):
    torch.manual_seed(0)
    logits, labels = torch.randn(2, 5, 12), torch.randint(0, 12, (2, 5))
    # One rank that has all scores: an exchange gives back what it is given.
    monkeypatch.setattr(rank, "all_reduce", lambda given, *_: given)
    found = rank.vocab_parallel_cross_entropy(logits, labels)
    expected = nn.functional.cross_entropy(logits[:, :-1].reshape(-1, 12), labels[:, 1:].flatten())
    torch.testing.assert_close(found, expected)
