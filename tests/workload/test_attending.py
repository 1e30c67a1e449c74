from dataclasses import replace

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st
from workload_sizes import GROUPED, LATENT, layer_of, model, named

from trnsim.workload.architecture import Attention, Layer, Tower
from trnsim.workload.operators import Axis, Pass, Phase, Split
from trnsim.workload.passes import summaries


def layer(attention, given, split=None, **sizes):
    return layer_of(summaries(model(attention, **sizes), given, split or Split()))


def counted(tokens, past, window):
    """Scores that a mask leaves, one by one."""
    rows = range(past, past + tokens)
    reach = window or past + tokens
    return sum(1 for row in rows for key in range(row + 1) if row - key < reach)


@for_all(st.integers(1, 40), st.integers(0, 40), st.integers(0, 50))
def test_a_causal_mask_and_a_window_leave_what_counting_leaves(tokens, past, window):
    block = layer(replace(GROUPED, window=window), Pass(Phase.PREFILL, 1, tokens, past))
    scores = named(block, "scores")
    assert scores.useful_flop == pytest.approx(2 * 4 * 8 * counted(tokens, past, window))
    assert scores.flop == 2 * 4 * 8 * tokens * (tokens + past)


def test_a_mask_of_both_sides_sees_all_and_a_window_its_width():
    both = replace(GROUPED, is_causal=False)
    assert named(layer(both, Pass(Phase.ENCODE, 2, 10)), "scores").causal == 1
    wide = replace(both, window=4)
    assert named(layer(wide, Pass(Phase.ENCODE, 2, 10)), "values").causal == 0.4
    assert named(layer(wide, Pass(Phase.ENCODE, 2, 3)), "values").causal == 1


def test_heads_that_share_keys_are_rows_of_one_product():
    scores = named(layer(GROUPED, Pass(Phase.DECODE, 5, 1, 99)), "scores")
    assert (scores.m, scores.k, scores.n, scores.times) == (4, 4, 100, 5 * 2)


@pytest.mark.parametrize(
    ("tensor", "heads", "kv_heads"), [(1, 8, 2), (2, 4, 1), (3, 3, 1), (4, 2, 1), (16, 1, 1)]
)
def test_heads_are_made_up_and_keys_are_copied(tensor, heads, kv_heads):
    block = layer(GROUPED, Pass(Phase.DECODE, 1, 1, 9), Split(tensor=tensor))
    assert named(block, "query").n == heads * 4
    assert named(block, "key and value").n == kv_heads * 8
    assert named(block, "scores").flop == 2 * heads * 4 * 10
    assert block.cache.written_bytes == kv_heads * 8 * 2
    assert block.cache.read_bytes == 9 * kv_heads * 8 * 2


def test_a_window_bounds_what_a_step_reads():
    short = replace(GROUPED, window=16)
    block = layer(short, Pass(Phase.DECODE, 1, 1, 1000))
    assert named(block, "scores").n == 16
    assert block.cache.read_bytes == 15 * 16 * 2
    assert named(layer(short, Pass(Phase.DECODE, 1, 1, 7)), "scores").n == 8


def test_a_prompt_makes_keys_and_values_of_latent_vectors():
    block = layer(LATENT, Pass(Phase.PREFILL, 2, 10))
    flop = {one.name: one.flop for one in block.products}
    assert flop["query latent"] == 2 * 20 * 32 * 20
    assert flop["query"] == 2 * 20 * 20 * 6 * (5 + 3)
    assert flop["latent"] == 2 * 20 * 32 * (12 + 3)
    assert flop["keys and values"] == 2 * 20 * 12 * 6 * (5 + 7)
    assert flop["scores"] == 2 * 2 * 6 * 10 * (5 + 3) * 10
    assert flop["values"] == 2 * 2 * 6 * 10 * 10 * 7
    assert block.cache.written_bytes == 20 * 15 * 2


def test_a_step_meets_the_latent_vectors_themselves():
    block = layer(LATENT, Pass(Phase.DECODE, 2, 1, 9))
    names = {one.name for one in block.products}
    assert "keys and values" not in names
    scores = named(block, "scores")
    assert (scores.m, scores.k, scores.n, scores.times) == (6, 15, 10, 2)
    assert named(block, "values").n == 12
    assert named(block, "keys absorbed").flop == 2 * 2 * 6 * 5 * 12
    assert named(block, "values absorbed").flop == 2 * 2 * 6 * 12 * 7
    assert block.cache.read_bytes == 2 * 9 * 15 * 2


def test_absorbing_reads_the_same_weights():
    step, prompt = Pass(Phase.DECODE, 1, 1, 9), Pass(Phase.PREFILL, 1, 10)
    assert layer(LATENT, step).weight_bytes == layer(LATENT, prompt).weight_bytes


def test_without_a_query_rank_queries_are_made_of_the_hidden_state():
    block = layer(replace(LATENT, query_rank=0), Pass(Phase.PREFILL, 1, 10))
    assert named(block, "query").flop == 2 * 10 * 32 * 6 * 8


CROSS = Attention(8, 8, 4, 4, is_causal=False, is_cross=True)


def with_cross():
    decoder = model()
    tower = decoder.towers[0]
    (one,) = tower.layers
    crossed = replace(tower, layers=(replace(one, attentions=(GROUPED, CROSS)),))
    encoder = Tower("encoder", 32, (Layer(2, (replace(GROUPED, is_causal=False),), one.mlp, 64),))
    return replace(decoder, towers=(encoder, crossed))


def test_cross_attention_makes_keys_of_the_source_once():
    prompt = summaries(with_cross(), Pass(Phase.PREFILL, 2, 3, source=50))
    assert [block.name for block in prompt] == ["embedding", "layer", "head"] * 2
    encoder, decoder = prompt[1], prompt[4]
    assert named(encoder, "query").m == 100
    made = [one for one in decoder.products if one.name == "key and value"]
    assert [one.m for one in made] == [6, 100]
    assert [one.flop for one in decoder.products if one.name == "scores"] == [
        2 * 2 * 8 * 3 * 4 * 3,
        2 * 2 * 8 * 3 * 4 * 50,
    ]
    assert decoder.cache.written_bytes == 2 * (2 * 8 * 3 + 8 * 8 * 50) * 2


def test_a_step_reads_the_source_from_the_cache_and_leaves_the_encoder_out():
    step = summaries(with_cross(), Pass(Phase.DECODE, 2, 1, 3, source=50))
    assert [block.name for block in step] == ["embedding", "layer", "head"]
    assert [one.m for one in step[1].products if one.name == "key and value"] == [2]
    assert step[1].cache.read_bytes == 2 * (2 * 8 * 3 + 8 * 8 * 50) * 2


def test_ranks_of_a_sequence_share_its_tokens_and_pass_on_keys():
    whole = layer(GROUPED, Pass(Phase.TRAIN, 2, 64))
    part = layer(GROUPED, Pass(Phase.TRAIN, 2, 64), Split(context=4))
    assert part.flop == whole.flop / 4
    (exchange,) = part.exchanges
    assert (exchange.kind, exchange.axis) == ("all_gather", Axis.CONTEXT)
    assert exchange.nbytes == 2 * 64 * 16 * 2


def test_in_a_step_ranks_of_a_sequence_share_the_tokens_before():
    part = layer(GROUPED, Pass(Phase.DECODE, 2, 1, 63), Split(context=4))
    assert named(part, "scores").n == 16
    assert named(part, "query").m == 2
    assert part.cache.read_bytes == 2 * 15 * 16 * 2  # and the new token
    assert [one.kind for one in part.exchanges] == ["all_reduce"]


def test_chunks_of_a_prompt_add_up_to_the_prompt():
    whole = named(layer(GROUPED, Pass(Phase.PREFILL, 1, 64)), "scores").useful_flop
    chunks = [Pass(Phase.PREFILL, 1, 16, past) for past in range(0, 64, 16)]
    assert whole == sum(named(layer(GROUPED, one), "scores").useful_flop for one in chunks)
