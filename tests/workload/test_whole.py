import numpy as np
import pytest
from workload_sizes import model

from trnsim.errors import NotModelled
from trnsim.graph import verify
from trnsim.workload.config import from_config
from trnsim.workload.operators import Pass, Phase, Split
from trnsim.workload.whole import is_known, whole

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
    ],
)
def test_a_prompt_and_a_step_give_what_all_tokens_at_once_do(model_type, given):
    one, tokens = named(model_type, **given), [3, 1, 4, 1, 5, 9]
    every = whole(one, Pass(Phase.ENCODE, 1, 6))
    (scores,) = values(every, {"words": tokens, "places": range(6)})
    prompt = whole(one, Pass(Phase.PREFILL, 1, 5))
    last, *cache = values(prompt, {"words": tokens[:5], "places": range(5)})
    np.testing.assert_allclose(last[0], scores[4], atol=1e-4)
    assert len(cache) == 2 * 3
    step = whole(one, Pass(Phase.DECODE, 1, 1, 5))
    found, *_ = values(step, {"words": tokens[5:], "places": [5]}, cache)
    np.testing.assert_allclose(found[0], scores[5], atol=1e-4)
    for made in (every, prompt, step):
        verify(made.graph)


def test_layers_come_in_the_order_of_the_model():
    one = named("gemma2", sliding_window=3, head_dim=4)
    made = whole(one, Pass(Phase.PREFILL, 1, 8))
    windows = [getattr(node.operation, "window", None) for node in made.graph.nodes]
    assert [window for window in windows if window is not None] == [3, 0, 3]
    modules = dict.fromkeys(node.origin.module for node in made.graph.nodes)
    assert list(modules)[:3] == ["embedding", "layers.0.attention", "layers.0.mlp"]


def test_a_tied_table_is_one_input():
    tied, own = (named(tie_word_embeddings=flag) for flag in (True, False))
    counts = [
        sum(value.shape == (40, 24) for value in whole(one, Pass(Phase.ENCODE, 1, 4)).graph.inputs)
        for one in (tied, own)
    ]
    assert counts == [1, 2]


def test_ranks_have_their_share_of_weights_and_meet_in_exchanges():
    made = whole(named(), Pass(Phase.PREFILL, 1, 4), Split(tensor=2))
    shapes = {made.names[value.number]: value.shape for value in made.graph.inputs}
    assert shapes["layers.0.attention.query"] == (24, 12)
    assert shapes["layers.0.mlp.down"] == (18, 24)
    kinds = [node.name for node in made.graph.nodes if node.name.startswith("all_")]
    assert kinds == ["all_gather", *["all_reduce"] * 6, "all_gather"]


def test_weights_are_what_stays_from_step_to_step():
    made = whole(named(), Pass(Phase.DECODE, 1, 1, 3))
    steps = {made.names[v.number] for v in made.graph.inputs if v.number not in made.weights}
    assert steps == {"words", "places", *(f"layers.{n}.cache" for n in range(3))}


def test_a_model_of_which_sizes_are_known_alone_has_no_graph():
    assert is_known(named())
    assert not is_known(model())
    with pytest.raises(NotModelled, match=r"^the graph of llama: only its sizes are known"):
        whole(model(), Pass(Phase.ENCODE, 1, 4))
    narrow = named("opt", ffn_dim=36, word_embed_proj_dim=10, max_position_embeddings=9)
    with pytest.raises(NotModelled, match=r"^2 tensor ranks of opt, whose table is cut"):
        whole(narrow, Pass(Phase.ENCODE, 1, 4), Split(tensor=2))
