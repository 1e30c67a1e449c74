import math

import pytest

from trnsim.errors import BadInput
from trnsim.workload.architecture import Rotary
from trnsim.workload.config import FAMILIES, from_config
from trnsim.workload.expert_rules import Routing
from trnsim.workload.families.decoder_rows import ROWS
from trnsim.workload.families.decoder_wiring import TRAITS, DecoderConfig
from trnsim.workload.families.keys import ConfigKeys

SIZES = {
    "vocab_size": 40,
    "hidden_size": 24,
    "intermediate_size": 36,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "max_position_embeddings": 64,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
PHI = {"original_max_position_embeddings": 16, "max_position_embeddings": 128}
ONE_POSITION = {"max_position_embeddings": 1}
EXPERTS = {
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 10,
    "num_key_value_heads": 2,
}


def tower(model_type="llama", **given):
    (found,) = from_config({"model_type": model_type, **SIZES, **given}, "mine.json").towers
    return found


def rotaries(found):
    kinds = [layer.attentions[0].rotary for layer in found.layers]
    return [kinds[number] for number in found.order]


def test_every_family_with_facts_is_one_of_decoders():
    assert set(TRAITS) <= set(FAMILIES)


@pytest.mark.parametrize(
    ("given", "factor"),
    [
        ({}, 1.0),
        ({"rope_scaling": YARN}, 0.1 * math.log(4) + 1),
        ({"rope_scaling": {**YARN, "attention_factor": 1.5}}, 1.5),
        ({"rope_parameters": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}}, 1.0),
        ({"rope_scaling": {**YARN, "rope_type": "longrope"}}, math.sqrt(1.5)),
        ({"rope_scaling": {**YARN, "rope_type": "linear"}}, 1.0),
        ({"rope_scaling": {"rope_type": "longrope"}, **PHI}, math.sqrt(1.75)),
        (
            {"rope_scaling": {**YARN, "rope_type": "longrope", "factor": None}, **PHI},
            math.sqrt(1.75),
        ),
        ({"rope_scaling": {"rope_type": "longrope", "factor": 4.0}, **ONE_POSITION}, 1.0),
        ({"rope_scaling": {"type": "su"}, **PHI}, math.sqrt(1.75)),
        ({"rope_scaling": {"type": "yarn"}, "model_type": "phi3", **PHI}, math.sqrt(1.75)),
        ({"rope_scaling": {**YARN, "rope_type": None, "type": "yarn"}}, 0.1 * math.log(4) + 1),
        ({"rope_scaling": {"type": "linear", "factor": 4.0, "attention_factor": 1.5}}, 1.0),
    ],
)
def test_cosines_grow_as_places_are_stretched(given, factor):
    assert rotaries(tower(**given)) == [Rotary(4, factor=pytest.approx(factor))] * 4


@pytest.mark.parametrize(
    ("model_type", "given", "widths"),
    [
        ("smollm3", {"no_rope_layers": [1, 0, 1, 0], "num_key_value_heads": 2}, [4, 0, 4, 0]),
        ("smollm3", {"num_key_value_heads": 2}, [4, 4, 4, 0]),
        ("cohere2", {"sliding_window": 8}, [4, 4, 4, 0]),
        ("exaone_moe", {"sliding_window": 8, **EXPERTS}, [4, 4, 4, 0]),
        ("exaone_moe", {"sliding_window": None, **EXPERTS}, [4] * 4),
        ("minimax_m2", {"rotary_dim": 2, "head_dim": 4, **EXPERTS}, [2] * 4),
        ("nemotron", {}, [2] * 4),
        ("gpt_neox", {"rotary_pct": 0.5}, [2] * 4),
        ("gptj", {"rotary_dim": 2}, [2] * 4),
        ("gpt2", {}, [0] * 4),
    ],
)
def test_some_layers_or_a_part_of_a_head_are_turned(model_type, given, widths):
    found = [one.width if one else 0 for one in rotaries(tower(model_type, **given))]
    assert found == widths


@pytest.mark.parametrize(
    ("model_type", "given"),
    [
        ("llama", {"hidden_act": "mish"}),
        ("llama", {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}),
        ("llama", {"rope_scaling": {"type": "dynamic", "factor": 2.0}}),
        ("llama", {"rope_scaling": {"type": "dynamic", "factor": 2.0, "alpha": 1000.0}}),
        ("llama", {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}),
        ("olmo", {"clip_qkv": 8.0}),
        ("bloom", {"apply_residual_connection_post_layernorm": True}),
        ("falcon", {"alibi": True}),
        ("arcee", {"rope_parameters": {**YARN, "llama_4_scaling_beta": 0.1}}),
    ],
)
def test_what_is_not_known_leaves_sizes_alone(model_type, given):
    assert tower(model_type).wiring is not None
    assert tower(model_type, **given).wiring is None


def test_frequencies_that_grow_in_some_layers_alone_are_not_known():
    given = {"num_key_value_heads": 2, "sliding_window": 8}
    for kind, is_wired in (("linear", True), ("dynamic", False)):
        parts = {"sliding_attention": {"type": kind, "factor": 2.0}}
        assert (tower("gemma3_text", **given, rope_parameters=parts).wiring is not None) == is_wired


@pytest.mark.parametrize(
    ("model_type", "given", "said"),
    [
        (
            "llama",
            {"head_dim": 5},
            "head_dim is 5; legal: a value by which pairs of up to 5",
        ),
        ("gptj", {"rotary_dim": 6}, "rotary_dim is 6; legal: a value by which pairs of up to 4"),
        ("llama", {"rope_scaling": {**YARN, "factor": "x"}}, "rope_scaling.factor is 'x'"),
        (
            "deepseek_v3",
            {"rope_scaling": {**YARN, "factor": math.e, "mscale": 1.0, "mscale_all_dim": -10.0}}
            | {"kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 4}
            | {"n_routed_experts": 16, **EXPERTS, "first_k_dense_replace": 1},
            "rope_scaling.mscale_all_dim is -10.0; legal: numbers from 0: cosines grow with it",
        ),
        ("llama", {"rms_norm_eps": 1e999}, "rms_norm_eps is inf; .* computed with it, so it is f"),
        ("granite", {"residual_multiplier": "x"}, "residual_multiplier is 'x'; legal: a number"),
        ("granite", {"logits_scaling": 0}, "logits_scaling is 0.0; legal: any number but 0"),
        (
            "phi3",
            {"rope_scaling": {"type": "longrope"}, "original_max_position_embeddings": 1},
            "original_max_position_embeddings is 1, it must be a whole number from 2 on",
        ),
    ],
)
def test_numbers_that_cannot_be_are_refused(model_type, given, said):
    with pytest.raises(BadInput, match=f"^mine.json: {said}"):
        tower(model_type, **given)


def test_phi_3_was_trained_on_4096_positions_where_the_file_does_not_say():
    found = tower("phi3", rope_scaling={"type": "longrope"}, max_position_embeddings=131072)
    assert rotaries(found)[0].factor == pytest.approx(math.sqrt(1 + math.log(32) / math.log(4096)))


GROUPED = {
    "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 10,
    "kv_lora_rank": 8, "q_lora_rank": 10, "qk_rope_head_dim": 4, "qk_nope_head_dim": 6,
    "v_head_dim": 5, "first_k_dense_replace": 0,
}  # fmt: skip


def test_the_rotated_part_of_latent_attention_is_named():
    sizes = {**GROUPED, "n_group": 1, "topk_group": 1, "qk_rope_head_dim": 3}
    with pytest.raises(BadInput, match="qk_rope_head_dim is 3; legal: a value by which pairs of"):
        tower("deepseek_v3", **sizes)


def test_experts_of_groups_are_chosen_as_the_file_says():
    found = tower("deepseek_v3", n_group=4, topk_group=2, **GROUPED).layers[0].mlp.routing
    wanted = Routing("logistic", factor=2.5, is_corrected=True, groups=4, groups_per_token=2)
    assert found == wanted
    with pytest.raises(BadInput, match=r"^mine.json: n_group is 3; legal: divisors of 8 experts"):
        tower("deepseek_v3", n_group=3, topk_group=2, **GROUPED)
    message = (
        "n_group is 8; legal: divisors of 8 experts, at most 4: groups of equally many, 2 or more"
    )
    with pytest.raises(BadInput, match=message):
        tower("deepseek_v3", n_group=8, topk_group=2, **GROUPED)
    with pytest.raises(BadInput, match=r"^mine.json: topk_group is 5; legal: 1 to 4"):
        tower("deepseek_v3", n_group=4, topk_group=5, **GROUPED)


FALCON_H1 = {"hidden_size": 24, "model_type": "falcon_h1", "key_multiplier": 0.5}


def factors(**given):
    keys = ConfigKeys({**FALCON_H1, **given}, "mine.json")
    model_type = keys.config["model_type"]
    return dict(DecoderConfig(keys, ROWS[model_type], model_type, 24).factors())


def test_factors_of_products_are_those_of_the_file():
    assert factors() == {"attention.key": 0.5}
    assert factors(model_type="bamba") == {}
    listed = factors(ssm_multipliers=[1.0, 2, 3.0, 4.0, 5.0], mlp_multipliers=[0.5, 1.0])
    assert listed == {
        "attention.key": 0.5,
        "mixer.value": 2.0,
        "mixer.key": 3.0,
        "mixer.query": 4.0,
        "mixer.step": 5.0,
        "mlp.gate": 0.5,
    }


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"ssm_multipliers": [1.0]},
            "is 'a list of 1'; legal: a list of 5: factors of gate, value, key",
        ),
        ({"mlp_multipliers": ["a", 1.0]}, "mlp_multipliers is 'a'; legal: a number"),
        ({"mlp_multipliers": [float("nan"), 1.0]}, "mlp_multipliers is nan"),
        ({"ssm_in_multiplier": "a"}, "ssm_in_multiplier is 'a'; legal: a number"),
    ],
)
def test_factors_that_are_no_numbers_are_refused(values, message):
    with pytest.raises(BadInput, match=message):
        factors(**values)


def test_hunyuans_fixed_stretch_is_none_that_grows_with_the_sequence():
    growing = {"type": "dynamic", "factor": 2.0}
    for rope, is_wired in ((growing, False), ({**growing, "alpha": 1000.0}, True)):
        values = {"model_type": "hunyuan_v1_dense", **SIZES, "rope_parameters": rope}
        (tower,) = from_config(values, "mine.json").towers
        assert (tower.wiring is not None) == is_wired
