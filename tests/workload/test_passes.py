from dataclasses import replace

import pytest
from parameter_formulas import multiplied, of_layer, of_model
from published_models import COUNTS
from workload_sizes import GROUPED, LATENT, experts, layer_of, model, named

from trnsim.workload.architecture import PLAIN_MATRICES, Mlp, Norm, Projection, Wiring
from trnsim.workload.config import from_config
from trnsim.workload.operators import Axis, Pass, Phase, Split
from trnsim.workload.passes import RankTower, passes, summaries
from trnsim.workload.whole_graph import is_known

PROMPT = Pass(Phase.PREFILL, 2, 10)


def test_a_pass_is_an_embedding_layers_and_a_head():
    found = summaries(model(), PROMPT)
    assert [(block.name, block.times) for block in found] == [
        ("embedding", 1),
        ("layer", 3),
        ("head", 1),
    ]


@pytest.mark.parametrize("attention", [GROUPED, LATENT])
@pytest.mark.parametrize("mlp", [Mlp(50), Mlp(50, PLAIN_MATRICES), experts(4, 4, shared=Mlp(20))])
@pytest.mark.parametrize("is_tied", [False, True])
def test_blocks_read_and_hold_all_parameters(attention, mlp, is_tied):
    one = model(attention, mlp, is_tied=is_tied)
    found = summaries(one, Pass(Phase.TRAIN, 2, 10))
    read = sum(block.times * block.weight_bytes for block in found)
    assert read == 2 * multiplied(one)
    assert sum(block.times * block.resident_bytes for block in found) == 2 * of_model(one)


def test_products_of_a_token_take_two_flop_a_parameter():
    one = model()
    found = summaries(one, Pass(Phase.TRAIN, 1, 1))
    flop = sum(block.times * block.flop for block in found)
    norms = 3 * 64 + 32
    scores = 3 * 2 * (2 * 8 * 4)
    assert flop == 2 * (multiplied(one) - norms) + scores


@pytest.mark.parametrize(("phase", "rows"), [(Phase.PREFILL, 2), (Phase.TRAIN, 20)])
def test_a_prompt_gives_scores_of_its_last_token_alone(phase, rows):
    head = summaries(model(), Pass(phase, 2, 10))[-1]
    assert named(head, "scores of words").m == rows


@pytest.mark.parametrize("tensor", [1, 2, 3, 7, 64])
def test_columns_words_and_experts_are_made_up(tensor):
    split = Split(tensor=tensor, expert=3)
    embedding, layer, head = summaries(model(mlp=experts(16)), PROMPT, split)
    assert named(head, "scores of words").n == -(-100 // tensor)
    assert named(layer, "expert down").k == -(-10 // tensor)
    assert embedding.resident_bytes == 2 * 100 * -(-32 // tensor)
    attention = 32 * 8 * (-(-8 // tensor) + -(-2 // tensor))
    mlp = 6 * 3 * 32 * -(-10 // tensor)  # six of sixteen experts
    assert layer.resident_bytes == 2 * (attention + mlp + 32 * 16 + 64)


def test_ranks_of_a_layer_do_all_of_it():
    whole, part = model(), Split(tensor=2)
    for one, shared in zip(summaries(whole, PROMPT), summaries(whole, PROMPT, part), strict=True):
        assert shared.flop == one.flop / 2


def test_experts_are_met_as_often_as_tokens_take_them():
    few = layer_of(summaries(model(mlp=experts(16, 2)), Pass(Phase.DECODE, 1, 1, 9)))
    up = named(few, "expert up")
    assert (up.times, up.m) == (2, 1)
    assert up.flop == 2 * 2 * 32 * 20
    many = layer_of(summaries(model(mlp=experts(16, 2)), Pass(Phase.TRAIN, 1, 4096)))
    assert named(many, "expert up").times == pytest.approx(16)
    assert named(many, "expert up").flop == pytest.approx(4096 * up.flop)


@pytest.mark.parametrize("expert", [2, 16])
def test_expert_ranks_share_experts_and_send_tokens(expert):
    whole = layer_of(summaries(model(mlp=experts(16, 2)), Pass(Phase.TRAIN, 1, 512)))
    part = layer_of(
        summaries(model(mlp=experts(16, 2)), Pass(Phase.TRAIN, 1, 512), Split(1, expert))
    )
    assert named(part, "expert up").flop == named(whole, "expert up").flop
    assert named(part, "expert up").times == pytest.approx(16 / expert)
    assert [(sent.kind, sent.axis, sent.nbytes) for sent in part.exchanges] == [
        ("all_to_all", Axis.EXPERT, 512 * 2 * 32 * 2)
    ] * 2


def test_shared_experts_take_every_token():
    block = layer_of(summaries(model(mlp=experts(shared=Mlp(20))), PROMPT))
    assert named(block, "shared up").flop == 2 * 20 * 32 * 40
    assert named(block, "router").flop == 2 * 20 * 32 * 16


def kinds(block):
    return [one.kind for one in block.exchanges]


def test_tensor_ranks_add_up_each_half_layer():
    two = Split(tensor=2)
    embedding, layer, head = summaries(model(), PROMPT, two)
    assert kinds(embedding) == ["all_gather"]
    assert kinds(layer) == ["all_reduce"] * 2
    assert {one.nbytes for one in layer.exchanges} == {20 * 32 * 2}
    assert [(one.kind, one.nbytes) for one in head.exchanges] == [("all_gather", 2 * 100 * 2)]
    spread = replace(two, is_sequence=True)
    assert (
        kinds(layer_of(summaries(model(), PROMPT, spread))) == ["all_gather", "reduce_scatter"] * 2
    )
    assert not any(kinds(block) for block in summaries(model(), PROMPT))


def test_a_parallel_layer_is_added_up_once():
    one = model()
    (tower,) = one.towers
    parallel = replace(tower, layers=(replace(tower.layers[0], is_parallel=True),))
    block = layer_of(summaries(replace(one, towers=(parallel,)), PROMPT, Split(tensor=2)))
    assert kinds(block) == ["all_reduce"]


def test_a_loss_exchanges_three_numbers_a_token():
    head = summaries(model(), Pass(Phase.TRAIN, 2, 10), Split(tensor=2))[-1]
    assert [(one.kind, one.nbytes) for one in head.exchanges] == [("all_reduce", 20 * 4)] * 3
    spread = Split(tensor=2, is_sequence=True)
    assert kinds(summaries(model(), Pass(Phase.TRAIN, 2, 10), spread)[-1]) == [
        "all_gather",
        *["all_reduce"] * 3,
    ]


def test_short_weights_are_read_short_and_say_what_multiplies():
    one = model(mlp=experts(), weight_bits=8, product_bits=8, mlp_bits=4)
    embedding, layer, head = summaries(one, PROMPT)
    bits = {product.name: (product.weight_bits, product.bits) for product in layer.products}
    assert bits["query"] == (8, 8)
    assert bits["expert up"] == (4, 8)
    assert bits["router"] == (16, 16)
    assert bits["scores"] == (0, 16)
    assert named(head, "scores of words").weight_bits == 16
    assert embedding.resident_bytes == 2 * 100 * 32


def test_towers_of_images_have_their_own_tokens():
    one = model()
    patches = Projection("patches", 48, 32, 32)
    images = replace(
        one.towers[0],
        name="images",
        table_rows=0,
        outputs=0,
        input_projections=(patches,),
        output_projections=(Projection("classes", 32, 7, is_each_token=False),),
        tokens=17,
    )
    alone = replace(one, towers=(images,))
    embedding, layer, head = summaries(alone, Pass(Phase.ENCODE, 3, 1))
    assert named(embedding, "patches").m == 51
    assert named(layer, "query").m == 51
    assert named(head, "classes").m == 3
    two = replace(one, towers=(images, one.towers[0]))
    assert [(t.name, p.tokens) for t, p in passes(two, Pass(Phase.PREFILL, 3, 5))] == [
        ("images", 17),
        ("decoder", 5),
    ]
    assert len(list(passes(two, Pass(Phase.DECODE, 3, 1, 5)))) == 1


def test_layers_of_shared_weights_are_held_once_and_read_each_time():
    one = model()
    (tower,) = one.towers
    shared = replace(tower, layers=(replace(tower.layers[0], is_shared=True),))
    block = layer_of(summaries(replace(one, towers=(shared,)), PROMPT))
    assert block.times * block.resident_bytes == 2 * of_layer(tower.layers[0], 32)
    assert block.weight_bytes == layer_of(summaries(one, PROMPT)).weight_bytes


def test_the_last_norm_counts_all_rows_whatever_is_behind_it():
    one = model()
    (tower,) = one.towers
    pooled = replace(
        tower, outputs=0, output_projections=(Projection("dense", 32, 32, is_each_token=False),)
    )
    head = summaries(replace(one, towers=(pooled,)), Pass(Phase.ENCODE, 2, 10))[-1]
    assert sum(operator.elements for operator in head.elementwise) == 2 * 2 * 10 * 32
    assert named(head, "dense").m == 2


WIRED = [name for name, (config, _) in COUNTS.items() if is_known(from_config(config, name))]


PAIRS = {"gate": "up", "key": "key and value"}
"""The first of two products of the same rows in a wired block, and what plans call both as one."""


def with_pairs_as_one(block):
    """A wired block with those pairs as one product each, as plans count them."""
    products = []
    for product in block.products:
        before = products[-1] if products else product
        *outer, last = before.name.rpartition(" ")
        if last in PAIRS and product == replace(before, name=product.name, n=product.n):
            name = "".join((*outer, PAIRS[last]))
            products[-1] = replace(product, name=name, n=before.n + product.n)
        else:
            products.append(product)
    return replace(block, products=tuple(products))


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("name", WIRED)
def test_what_is_wired_between_products_counts_for_nothing_more(name):
    model = from_config(COUNTS[name][0], name)
    steps = Pass(Phase.TRAIN, 2, 16), Pass(Phase.PREFILL, 2, 16), Pass(Phase.DECODE, 2, 1, 63)
    for step in steps:
        wired = summaries(model, step, is_wired=True)
        assert [*map(with_pairs_as_one, wired)] == list(summaries(model, step))


@pytest.mark.parametrize("tensor", [1, 2])
def test_the_bias_of_shared_experts_is_added_once_to_the_sum_over_ranks(tensor):
    wiring = Wiring(Norm(1))
    whole = model(mlp=experts(shared=Mlp(20, PLAIN_MATRICES, biases=20 + 32)))
    tower = replace(whole.decoder, wiring=wiring)
    built = RankTower(whole, tower, PROMPT, Split(tensor=tensor), wiring)
    graph = (rank_graph := built.layer(tower.layers[0])).graph
    (bias,) = (n for n, name in rank_graph.names.items() if name == "mlp.shared down bias")
    read = {rank_graph.named_outputs["hidden"].number}
    for node in reversed(graph.nodes):
        if node.result.number in read:
            read |= {value.number for value in node.values}
    assert bias in read


@pytest.mark.parametrize("is_parallel", [False, True])
@pytest.mark.parametrize("tensor", [1, 2, 4])
def test_tensor_ranks_hold_their_columns_biases_and_the_whole_biases_of_sums(tensor, is_parallel):
    wiring = Wiring(Norm(1))
    biased = replace(GROUPED, biases=(8 + 2 + 2) * 4 + 32, output_biases=32)
    whole = model(biased, Mlp(20, PLAIN_MATRICES, biases=20 + 32))
    (layer,) = whole.decoder.layers
    tower = replace(whole.decoder, wiring=wiring, layers=(replace(layer, is_parallel=is_parallel),))
    split = Split(tensor=tensor)
    rank_graph = RankTower(whole, tower, PROMPT, split, wiring).layer(tower.layers[0])
    held = sum(
        value.type.elements
        for value in rank_graph.graph.inputs
        if value.number in rank_graph.weights
    )
    heads = 8 // tensor + 2 * -(-2 // tensor)
    matrices = 32 * 4 * (heads + 8 // tensor) + 2 * 32 * 20 // tensor
    assert held == matrices + 4 * heads + 20 // tensor + 2 * 32 + 64
