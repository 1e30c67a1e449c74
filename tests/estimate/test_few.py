from dataclasses import replace

import pytest
from layer_sizes import LLAMA, layer

from trnsim.estimate.few import (
    FewConstants,
    PhaseConstants,
    attentions,
    halves,
    repeats,
    returned_elements,
    scores,
    unmasked_scores,
)
from trnsim.workload.config import from_config
from trnsim.workload.operators import Pass, Phase, Split
from trnsim.workload.passes import summaries

DECODE = Pass(Phase.DECODE, 2, 1, 1023)
FORM = FewConstants(
    flop_per_s=40e12,
    bytes_per_s=300e9,
    cache_passes=1.5,
    fixed_s=60e-6,
    spread=0.1,
    source="a test",
    repeats_keys=True,
)
PRICED = replace(FORM, element_s=1e-11, host_bytes_per_s=5e9)


def test_a_step_is_its_weights_its_keys_for_each_query_head_and_a_fixed_time():
    hidden, middle, heads, kv_heads, dim = 4096, 14336, 8, 2, 128  # of one of four ranks
    weights = 2 * (hidden * (2 * heads + 2 * kv_heads) * dim + 3 * hidden * middle / 4 + 2 * hidden)
    keys = 2 * 2 * heads * dim * 1023 * 2  # keys and values, sequences, bytes
    written = 2 * 2 * kv_heads * dim * 2
    found = FORM.forward(layer(LLAMA, DECODE, Split(4)), DECODE)
    expected = (weights + 1.5 * keys + written) / 300e9 + 60e-6
    assert found.time_s == pytest.approx(expected, rel=1e-9)
    assert sum(found.parts_s.values()) == found.time_s


def test_products_hide_the_reading_of_weights():
    given = Pass(Phase.PREFILL, 1, 2048)
    block = layer(LLAMA, given)
    found = FORM.forward(block, given)
    assert found.parts_s["weights"] == 0
    assert found.parts_s["products"] == block.flop / 40e12


def test_scores_have_a_time_of_their_own():
    given = Pass(Phase.PREFILL, 3, 512)
    block = layer(LLAMA, given)
    assert scores(block) == 3 * 32 * 512 * 512
    slower = replace(FORM, score_s=1e-10)
    more = slower.forward(block, given).time_s - FORM.forward(block, given).time_s
    assert more == pytest.approx(3 * 32 * 512 * 512 * 1e-10)


def test_a_backward_pass_is_two_products_and_two_fixed_times():
    given = Pass(Phase.TRAIN, 1, 4096)
    block = layer(LLAMA, given)
    found = FORM.backward(block, given)
    assert found.time_s == pytest.approx(2 * FORM.forward(block, given).time_s)


@pytest.mark.parametrize(("tensor", "expected"), [(1, 4), (4, 4), (8, 4), (16, 2), (32, 1)])
def test_keys_are_repeated_for_the_query_heads_that_share_them(tensor, expected):
    assert repeats(layer(LLAMA, DECODE, Split(tensor)), DECODE) == expected


def test_latents_are_not_repeated():
    block = layer(LLAMA, DECODE)
    latent = replace(
        block, products=(*block.products, replace(block.products[0], name="keys absorbed"))
    )
    assert repeats(latent, DECODE) == 1


MIXERS = {
    "hidden_size": 64, "num_hidden_layers": 1, "vocab_size": 40, "intermediate_size": 90,
    "num_attention_heads": 4, "num_key_value_heads": 2, "mamba_n_heads": 4, "mamba_d_state": 8,
}  # fmt: skip


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"model_type": "bamba"}, 2),
        ({"model_type": "bamba", "attn_layer_indices": [0]}, 2),
        ({"model_type": "falcon_h1", "mamba_d_ssm": None}, 3),
        ({"model_type": "mamba2", "num_heads": 16, "head_dim": 8, "mamba_n_heads": None}, 1),
    ],
)
def test_a_mixer_is_a_half(values, expected):
    model = from_config({**MIXERS, **values}, "mine.json")
    for model_pass in (DECODE, Pass(Phase.PREFILL, 1, 8)):
        assert [halves(block) for block in summaries(model, model_pass)] == [0, expected, 0]


def test_a_layer_has_two_halves_and_what_is_around_the_layers_none():
    assert [halves(block) for block in summaries(LLAMA, DECODE)] == [0, 2, 0]


def test_each_phase_has_its_form():
    slow = replace(FORM, flop_per_s=1e12)
    both = PhaseConstants({Phase.PREFILL: FORM, Phase.TRAIN: slow})
    filling, training = Pass(Phase.PREFILL, 1, 512), Pass(Phase.TRAIN, 1, 512)
    block = layer(LLAMA, training)
    assert both.forward(block, filling) == FORM.forward(block, filling)
    assert both.forward(block, training) == slow.forward(block, training)
    assert both.backward(block, training) == slow.backward(block, training)


def test_norms_softmax_and_activations_pass_the_vector_engine():
    given = Pass(Phase.PREFILL, 2, 256)
    block = layer(LLAMA, given)
    rows = 2 * 256
    seen = 257 / 512
    norms, softmax, activation = (
        2 * 4 * rows * 4096,
        2 * 2 * 32 * 256 * 256 * seen,
        4 * rows * 14336,
    )
    found = PRICED.forward(block, given).parts_s["elements"]
    assert found == pytest.approx((norms + softmax + activation) * 1e-11)


def test_what_an_encoder_gives_goes_to_the_host_as_float32():
    given = Pass(Phase.ENCODE, 3, 128)
    *_, head = summaries(LLAMA, given)
    assert PRICED.forward(head, given).parts_s["host"] == pytest.approx(4 * 3 * 128 * 128256 / 5e9)
    assert "host" not in PRICED.forward(layer(LLAMA, given), given).parts_s
    assert "host" not in FORM.forward(head, given).parts_s


def test_a_dense_product_on_the_first_token_is_not_all_that_is_given():
    given = Pass(Phase.ENCODE, 3, 128)
    *_, head = summaries(LLAMA, given)
    pooled = replace(head, products=(replace(head.products[0], name="dense", m=3, n=4096),))
    assert returned_elements(pooled) == 3 * 128 * 4096


def test_an_element_of_a_softmax_may_take_longer_and_in_one_kernel_another_time():
    given = Pass(Phase.TRAIN, 2, 512)
    block = layer(LLAMA, given)
    scored = next(one.elements for one in block.elementwise if one.name == "softmax")
    plain = replace(FORM, element_s=1e-11)
    longer = replace(plain, softmax_weight=2.0, kernel_softmax_s=3e-12)
    kernel = replace(given, is_one_kernel=True)
    more = longer.forward(block, given).time_s - plain.forward(block, given).time_s
    assert more == pytest.approx(scored * 1e-11)
    less = longer.forward(block, given).time_s - longer.forward(block, kernel).time_s
    assert less == pytest.approx(scored * (2e-11 - 3e-12))
    less = longer.backward(block, given).time_s - longer.backward(block, kernel).time_s
    assert less == pytest.approx(2 * scored * (2e-11 - 3e-12))


@pytest.mark.parametrize("batch", [1, 8])
def test_each_sequence_adds_to_each_half(batch):
    given = Pass(Phase.PREFILL, batch, 128)
    block = layer(LLAMA, given)
    more = (
        replace(FORM, sequence_s=4e-5).forward(block, given).time_s
        - FORM.forward(block, given).time_s
    )
    assert more == pytest.approx(2 * batch * 4e-5)


@pytest.mark.parametrize("longest", ["products", "weights", "elements"])
def test_of_a_graph_the_longest_of_three_counts(longest):
    given = Pass(Phase.ENCODE, 1, 64)
    block = layer(LLAMA, given)
    slow = {
        "products": {"flop_per_s": 1e9},
        "weights": {"bytes_per_s": 1e6, "cache_passes": 0.0},
        "elements": {"element_s": 1e-6},
    }[longest]
    given_form = replace(
        FORM, overlaps_elements=True, fixed_s=0.0, repeats_keys=False, element_s=1e-11
    )
    form = replace(given_form, **slow)
    each_s = {
        "products": block.flop / form.flop_per_s,
        "weights": block.weight_bytes / form.bytes_per_s,
        "elements": sum(one.elements for one in block.elementwise) * form.element_s,
    }
    found = form.forward(block, given)
    kept_s = block.cache.read_bytes * form.cache_passes + block.cache.written_bytes
    assert max(each_s, key=each_s.get) == longest
    assert found.time_s == pytest.approx(each_s[longest] + kept_s / form.bytes_per_s)


def test_attention_of_prompts_in_one_kernel_takes_the_scores_that_no_mask_discards():
    given = Pass(Phase.PREFILL, 2, 512)
    block = layer(LLAMA, given)
    plain = replace(FORM, element_s=1e-11)
    kernel = replace(plain, kernel_score_s=3e-11)
    apart, found = plain.forward(block, given).parts_s, kernel.forward(block, given).parts_s
    met = sum(one.flop for one in block.products if one.name in ("scores", "values"))
    scored = next(one.elements for one in block.elementwise if one.name == "softmax")
    assert unmasked_scores(block) == pytest.approx(2 * 32 * 512 * 513 / 2, rel=1e-3)
    assert found["scores"] == pytest.approx(unmasked_scores(block) * 3e-11)
    assert apart["products"] - found["products"] == pytest.approx(met / 40e12)
    assert apart["elements"] - found["elements"] == pytest.approx(scored * 1e-11)


def test_an_attention_of_a_graph_counts_as_some_halves():
    given = Pass(Phase.ENCODE, 1, 128)
    block = layer(LLAMA, given)
    form = replace(FORM, overlaps_elements=True)
    plain = form.forward(block, given)
    counted = replace(form, attention_halves=1.5).forward(block, given)
    half_s = form.fixed_s / 2 + form.sequence_s
    assert attentions(block) == 1
    assert counted.parts_s["fixed"] - plain.parts_s["fixed"] == pytest.approx(1.5 * half_s)
    for times in (0, 2):  # a part without attention, and a block of two
        products = [product for product in block.products if product.name != "scores"]
        products += times * [product for product in block.products if product.name == "scores"]
        part = replace(block, products=tuple(products))
        more_s = (
            replace(form, attention_halves=1.5).forward(part, given).parts_s["fixed"]
            - form.forward(part, given).parts_s["fixed"]
        )
        assert more_s == pytest.approx(times * 1.5 * half_s)


def test_gradients_of_one_kernels_attention_take_twice_its_scores_and_no_products():
    given = Pass(Phase.PREFILL, 2, 512)
    block = layer(LLAMA, given)
    kernel = replace(FORM, kernel_score_s=3e-11)
    ahead, back = kernel.forward(block, given).parts_s, kernel.backward(block, given).parts_s
    assert back["scores"] == pytest.approx(2 * ahead["scores"])
    assert back["products"] == pytest.approx(2 * ahead["products"])
