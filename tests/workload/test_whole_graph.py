import numpy as np
import pytest
from workload_sizes import model

from trnsim.errors import NotModelled
from trnsim.graph import Value, verify
from trnsim.graph.graph import reference_of
from trnsim.graph.operation import Kind
from trnsim.workload.config import from_config
from trnsim.workload.operators import Pass, Phase, Split
from trnsim.workload.whole_graph import is_known, whole_graph

SIZES = {
    "vocab_size": 40,
    "hidden_size": 24,
    "intermediate_size": 36,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "torch_dtype": "float32",
}


def named(model_type="llama", **given):
    return from_config({"model_type": model_type, **SIZES, **given}, "mine.json")


def values(made, given, cache=()):
    """What a graph gives of weights that their names decide."""
    earlier, arrays = iter(cache), []
    for value in made.graph.inputs:
        name = made.names[value.number]
        if name in given:
            arrays.append(np.asarray(given[name], np.int32).reshape(value.shape))
        elif name.endswith("cache"):
            arrays.append(next(earlier)[..., -value.shape[-2] :, :])
        else:
            rng = np.random.default_rng(sum(map(ord, name)))
            arrays.append(rng.normal(size=value.shape).astype(np.float32) / 4)
    return made.graph.reference(arrays)


@pytest.mark.parametrize(
    ("model_type", "given"),
    [
        ("llama", {}),
        ("llama", {"tie_word_embeddings": True, "attention_bias": True}),
        ("gemma2", {"sliding_window": 3, "head_dim": 4}),
        ("mixtral", {"num_local_experts": 3, "num_experts_per_tok": 2}),
        ("hunyuan_v1_dense", {"head_dim": 4}),
        ("gpt_oss", {"num_local_experts": 3, "num_experts_per_tok": 2, "sliding_window": 3}),
    ],
)
def test_a_prompt_and_a_step_give_what_all_tokens_at_once_do(model_type, given):
    one, tokens = named(model_type, **given), [3, 1, 4, 1, 5, 9]
    every = whole_graph(one, Pass(Phase.ENCODE, 1, 6))
    (scores,) = values(every, {"words": tokens, "places": range(6)})
    prompt = whole_graph(one, Pass(Phase.PREFILL, 1, 5))
    last, *cache = values(prompt, {"words": tokens[:5], "places": range(5)})
    np.testing.assert_allclose(last[0], scores[4], atol=1e-4)
    assert len(cache) == 2 * 3
    step = whole_graph(one, Pass(Phase.DECODE, 1, 1, 5))
    found, *_ = values(step, {"words": tokens[5:], "places": [5]}, cache)
    np.testing.assert_allclose(found[0], scores[5], atol=1e-4)
    for made in (every, prompt, step):
        verify(made.graph)


def test_layers_come_in_the_order_of_the_model():
    one = named("gemma2", sliding_window=3, head_dim=4)
    made = whole_graph(one, Pass(Phase.PREFILL, 1, 8))
    windows = [getattr(node.operation, "window", None) for node in made.graph.nodes]
    assert [window for window in windows if window is not None] == [3, 0, 3]
    modules = dict.fromkeys(node.origin.module for node in made.graph.nodes)
    assert list(modules)[:3] == ["embedding", "layers.0.attention", "layers.0.mlp"]


def test_a_tied_table_is_one_input():
    tied, own = (named(tie_word_embeddings=flag) for flag in (True, False))
    counts = [
        sum(
            value.shape == (40, 24)
            for value in whole_graph(one, Pass(Phase.ENCODE, 1, 4)).graph.inputs
        )
        for one in (tied, own)
    ]
    assert counts == [1, 2]


@pytest.mark.parametrize("biases", [False, True])
def test_keys_and_values_are_products_of_their_own(biases):
    made = whole_graph(named(attention_bias=biases), Pass(Phase.PREFILL, 1, 4))
    shapes = {made.names[value.number]: value.shape for value in made.graph.inputs}
    first, bias = "layers.0.attention", " bias"
    for role in ("key", "value"):
        assert shapes[f"{first}.{role}"] == (24, 8)
        assert shapes.get(f"{first}.{role}{bias}") == ((8,) if biases else None)
    cut = [n for n in made.graph.nodes if n.name == "slice" and len(n.result.shape) == 2]
    assert not any(n.origin.module == first for n in cut)


def test_ranks_have_their_share_of_weights_and_meet_in_exchanges():
    made = whole_graph(named(), Pass(Phase.PREFILL, 1, 4), Split(tensor=2))
    shapes = {made.names[value.number]: value.shape for value in made.graph.inputs}
    assert shapes["layers.0.attention.query"] == (24, 12)
    assert shapes["layers.0.mlp.down"] == (18, 24)
    kinds = [node.name for node in made.graph.nodes if node.name.startswith("all_")]
    assert kinds == ["all_gather", *["all_reduce"] * 6, "all_gather"]


def test_weights_are_what_stays_from_step_to_step():
    made = whole_graph(named(), Pass(Phase.DECODE, 1, 1, 3))
    steps = {made.names[v.number] for v in made.graph.inputs if v.number not in made.weights}
    assert steps == {"words", "places", *(f"layers.{n}.cache" for n in range(3))}


def test_a_model_of_which_sizes_are_known_alone_has_no_graph():
    assert is_known(named())
    assert not is_known(model())
    with pytest.raises(NotModelled, match=r"^the graph of llama: only its sizes are known"):
        whole_graph(model(), Pass(Phase.ENCODE, 1, 4))
    narrow = named("opt", ffn_dim=36, word_embed_proj_dim=10, max_position_embeddings=9)
    with pytest.raises(NotModelled, match=r"^2 tensor ranks of opt, whose table is cut"):
        whole_graph(narrow, Pass(Phase.ENCODE, 1, 4), Split(tensor=2))


def shares(name, array, rank, ranks):
    """A rank's part of a weight, by what it is."""
    role = name.rpartition(".")[2]
    kind = role.removesuffix(" bias")
    by_columns = ("query", "key", "value", "table", "gate", "up", "sinks")
    if kind in by_columns or role == "scores of words bias":
        return np.split(array, ranks, -1)[rank]
    if kind == "expert up":
        halves = np.split(array, 2, -1)
        return np.concatenate([np.split(half, ranks, -1)[rank] for half in halves], -1)
    if role in ("expert down", "cache"):
        return np.split(array, ranks, 1)[rank]
    if role in ("output", "down", "scores of words"):
        return np.split(array, ranks, 0)[rank]
    return array


def together(graph, given):
    """What each of several ranks' graphs gives, operation by operation, exchanges among them."""
    known = [
        {value.number: array for value, array in zip(graph.inputs, arrays, strict=True)}
        for arrays in given
    ]
    for node in graph.nodes:
        operands = [
            [one[o.number] if isinstance(o, Value) else o for o in node.operands] for one in known
        ]
        if node.kind is Kind.COLLECTIVE:
            found = [(one,) for one in node.operation.reference(np.stack([o[0] for o in operands]))]
        else:
            found = [reference_of(node, one) for one in operands]
        for one, results in zip(known, found, strict=True):
            one.update(zip((value.number for value in node.results), results, strict=True))
    return [[one[value.number] for value in graph.outputs] for one in known]


EXPERTS = {"num_experts_per_tok": 2, "sliding_window": 3, "head_dim": 4}


@pytest.mark.parametrize("count", [3, 64], ids=["blocks", "rows"])
@pytest.mark.parametrize("phase", [Phase.PREFILL, Phase.DECODE])
def test_ranks_share_experts_biases_and_sinks(phase, count):
    one, ranks = named("gpt_oss", num_local_experts=count, **EXPERTS), 2
    one_pass = Pass(phase, 1, 4) if phase is Phase.PREFILL else Pass(phase, 4, 1, 6)
    words = {"words": [3, 1, 4, 1], "places": range(4)}
    alone, part = (whole_graph(one, one_pass, Split(tensor=n)) for n in (1, ranks))
    verify(part.graph)
    wholes, rng = [], np.random.default_rng(0)
    for value in alone.graph.inputs:
        array = words.get(alone.names[value.number])
        array = rng.normal(size=value.shape) / 2 if array is None else np.asarray(array)
        wholes.append(array.astype(value.type.numpy_dtype()).reshape(value.shape))
    names = [part.names[value.number] for value in part.graph.inputs]
    assert names == [alone.names[value.number] for value in alone.graph.inputs]
    arrays = [
        [shares(name, whole, rank, ranks) for name, whole in zip(names, wholes, strict=True)]
        for rank in range(ranks)
    ]
    (wanted, *_), found = alone.graph.reference(wholes), together(part.graph, arrays)
    scores = np.concatenate(np.split(found[0][0], ranks, 0), -1)
    np.testing.assert_allclose(scores, wanted, atol=1e-4 * np.abs(wanted).max())


def trained(made):
    """The names of a graph's parameters, in the order of its inputs."""
    names = [made.names[v.number] for v in made.graph.inputs if v.number in made.weights]
    return [name for name in names if name not in ("frequencies", "first word")]


@pytest.mark.parametrize(
    ("model_type", "given"),
    [
        ("llama", {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": False}),
        ("phi", {"num_key_value_heads": 6}),
    ],
)
@pytest.mark.parametrize("phase", [Phase.PREFILL, Phase.TRAIN])
def test_ranks_give_together_what_one_gives(model_type, given, phase):
    one, ranks = named(model_type, **given), 2
    words = {"words": [3, 1, 4, 1], "places": range(4), "labels": [1, 31, 22, -100]}
    alone, part = (whole_graph(one, Pass(phase, 1, 4), Split(tensor=n)) for n in (1, ranks))
    shapes = {alone.names[value.number]: value.shape for value in alone.graph.inputs}
    arrays = []
    for rank in range(ranks):
        arrays.append([])
        for value in part.graph.inputs:
            name = part.names[value.number]
            if name == "first word":
                arrays[-1].append(np.array([rank * 40 // ranks], np.int32))
                continue
            if name in words:
                arrays[-1].append(np.asarray(words[name], np.int32).reshape(value.shape))
                continue
            rng = np.random.default_rng(sum(map(ord, name)))
            array = (rng.normal(size=shapes[name]) / 4).astype(np.float32)
            arrays[-1].append(shares(name, array, rank, ranks).reshape(value.shape))
    wanted, found = values(alone, words), together(part.graph, arrays)
    if phase is Phase.PREFILL:
        scores = np.concatenate(np.split(found[0][0], ranks, 0), -1)
        np.testing.assert_allclose(scores, wanted[0], atol=1e-3)
        return
    np.testing.assert_allclose(found[0][0], wanted[0], rtol=1e-4)
    slopes = dict(zip(trained(alone), wanted[1:], strict=True))
    for rank in range(ranks):
        for name, slope in zip(trained(part), found[rank][1:], strict=True):
            if name == "table" and rank:  # a program is that of the first rank
                continue
            share = shares(name, slopes[name], rank, ranks)
            np.testing.assert_allclose(slope, share, atol=1e-4, err_msg=name)
