import pytest

from trnsim.system.expert_load import imbalance
from trnsim.system.train.layout import Layout
from trnsim.system.train.stages import all_parts, chunks
from trnsim.workload.resident import parameters


def held(parts):
    return sum(part.times * (part.dense + part.experts) for part in parts)


@pytest.mark.parametrize(
    "axes", [{}, {"pipeline": 4}, {"pipeline": 4, "virtual": 2}, {"tensor": 8}]
)
def test_stages_hold_all_parameters_between_them(axes, llama):
    layout = Layout(**axes)
    parts = [part for chunk in chunks(llama, layout) for part in chunk]
    assert held(parts) * layout.tensor == pytest.approx(
        parameters(llama), rel=5e-4
    )  # norms are copied


def test_experts_are_held_by_their_ranks(mixtral):
    whole, shared = (
        sum(part.times * part.experts for part in all_parts(mixtral, Layout(data=4, expert=ep)))
        for ep in (1, 4)
    )
    assert whole == 32 * 8 * 3 * 4096 * 14336
    assert shared == whole / 4


def test_a_tied_table_is_held_by_the_first_stage_and_the_last(make_llama):
    tied = make_llama(tie_word_embeddings=True)
    alone = held(all_parts(tied, Layout()))
    stages = [held(chunk) for chunk in chunks(tied, Layout(pipeline=2))]
    assert alone == parameters(tied)
    assert sum(stages) == parameters(tied) + 128256 * 4096


def test_layers_are_dealt_out_in_their_order(llama):
    made = chunks(llama, Layout(pipeline=4, virtual=2))
    names = [[(part.summary.name, part.times) for part in chunk] for chunk in made]
    assert names == [
        [("embedding", 1), ("layer", 4)],
        *[[("layer", 4)]] * 6,
        [("layer", 4), ("head", 1)],
    ]


def test_tokens_that_a_rank_does_not_expect_are_multiplied_and_sent(mixtral):
    (layer,) = (part for part in all_parts(mixtral, Layout(data=8, expert=8)) if part.is_layer)
    ups = [one for one in layer.summary.products if one.name == "expert up"]
    sent, back = (one for one in layer.summary.exchanges if one.kind == "all_to_all")
    factor = imbalance(2 * 4096, 8)
    assert sum(one.m * one.times for one in ups) == pytest.approx(2 * 4096 * factor)
    assert sent.nbytes == back.nbytes == pytest.approx(2 * 4096 * 4096 * 2 * factor)
