import re
from dataclasses import replace

import pytest
from published_models import llama

from trnsim.errors import BadInput
from trnsim.workload.config import from_config
from trnsim.workload.families.keys import ConfigKeys
from trnsim.workload.operators import Pass, Phase
from trnsim.workload.passes import summaries
from trnsim.workload.quantization import METHODS, bits_of
from trnsim.workload.resident import cache_bytes, weights_bytes

LLAMA = llama(32, 2, 4, 48, 100, num_key_value_heads=2)


def of(**given):
    return bits_of(ConfigKeys(given, "mine.json"))


def quantized(**given):
    return of(quantization_config=given)


@pytest.mark.parametrize(
    ("given", "bits"),
    [
        ({}, 16),
        ({"torch_dtype": "auto"}, 16),
        ({"torch_dtype": "float16"}, 16),
        ({"torch_dtype": "torch.float32"}, 32),
        ({"dtype": "float32"}, 32),
    ],
)
def test_a_dtype_is_that_of_all(given, bits):
    found = of(**given)
    assert {found.weight_bits, found.other_bits, found.kv_bits, found.product_bits} == {bits}


WEIGHTS = {"num_bits": 4, "type": "int", "group_size": 128}
EIGHT = {"num_bits": 8}


@pytest.mark.parametrize(
    ("given", "weight", "product"),
    [
        ({"quant_method": "fp8"}, 8, 8),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 8 + 32 / 16384, 8),
        ({"quant_method": "fp8", "weight_block_size": [1, 128]}, 8 + 32 / 128, 8),
        ({"quant_method": "fbgemm_fp8"}, 8, 8),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, 4 + 20 / 128, 16),
        ({"quant_method": "awq", "w_bit": 4, "group_size": 64}, 4 + 20 / 64, 16),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, 8, 16),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 8, 8),
        ({"load_in_8bit": True}, 8, 8),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 4.5, 16),
        (
            {"load_in_4bit": True, "bnb_4bit_use_double_quant": True},
            4 + (8 + 32 / 256) / 64,
            16,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": WEIGHTS}},
            },
            4.125,
            16,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {"weights": {"num_bits": 8}, "input_activations": {"num_bits": 8}}
                },
            },
            8,
            8,
        ),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 4.5, 4),
    ],
)
def test_weights_have_the_bits_of_their_method(given, weight, product):
    found = quantized(**given)
    assert found.weight_bits == found.mlp_bits == pytest.approx(weight)
    assert (found.product_bits, found.other_bits, found.kv_bits) == (product, 16, 16)


def test_mxfp4_is_of_experts_alone():
    found = quantized(quant_method="mxfp4")
    assert (found.weight_bits, found.mlp_bits) == (16, 4.25)


def test_keys_and_values_may_be_short():
    groups = {"group_0": {"weights": WEIGHTS}}
    cache = {"num_bits": 8}
    found = quantized(
        quant_method="compressed-tensors", config_groups=groups, kv_cache_scheme=cache
    )
    assert found.kv_bits == 8


def test_keys_and_values_or_activations_may_be_short_alone():
    cache = {"num_bits": 8}
    found = quantized(quant_method="compressed-tensors", config_groups={}, kv_cache_scheme=cache)
    assert (found.weight_bits, found.product_bits, found.kv_bits) == (16, 16, 8)
    groups = {"group_0": {"weights": None, "input_activations": {"num_bits": 8}}}
    found = quantized(quant_method="compressed-tensors", config_groups=groups)
    assert (found.weight_bits, found.product_bits, found.kv_bits) == (16, 8, 16)


def listed(config=LLAMA, **given):
    return from_config({**config, "quantization_config": given}, "mine.json")


def wide_layers(model, name, index=0):
    """The layers in which a product's weight and operands are of 16 bits."""
    tower = model.towers[index]
    parts = [p for p in summaries(model, Pass(Phase.ENCODE, 1, 4)) if p.name == "layer"]
    wide = set()
    for number, group in enumerate(tower.order):
        (product,) = (p for p in parts[group].products if p.name == name)
        assert (product.weight_bits == 16) == (product.bits == 16)
        if product.weight_bits == 16:
            wide.add(number)
    return wide


BOTH = {0, 1}


@pytest.mark.parametrize(
    ("names", "query", "output", "up"),
    [
        (["lm_head"], set(), set(), set()),
        (["model.layers.*.self_attn", "lm_head"], BOTH, BOTH, set()),
        (["re:.*mlp$"], set(), set(), BOTH),
        (["model.layers.0.self_attn.q_proj"], {0}, set(), set()),
        (
            ["model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj"],
            BOTH,
            set(),
            set(),
        ),
        (["model.layers.0.mlp.up_proj", "model.layers.1.mlp.up_proj"], set(), set(), BOTH),
        (["re:.*mlp.gate$"], set(), set(), set()),  # the router
        (["model.layers.1.mlp.gate", "model.layers.1.input_layernorm"], set(), set(), set()),
        (["vision_model.attention"], set(), set(), set()),
        (["model.layers.1"], {1}, {1}, {1}),
        (["o_proj"], set(), BOTH, set()),
        (["self_attn"], BOTH, BOTH, set()),
        (["model.layers.[1-9].mlp", "re:model.layers.0.self_attn.*"], {0}, {0}, {1}),
    ],
)
@pytest.mark.parametrize("key", ["modules_to_not_convert", "ignored_layers"])
def test_what_a_list_names_keeps_its_bits_in_those_layers(key, names, query, output, up):
    found = listed(quant_method="fp8", **{key: names})
    wide = [wide_layers(found, name) for name in ("query", "output", "up")]
    assert wide == [query, output, up]
    assert (found.kv_bits, found.other_bits) == (16, 16)


def test_weights_and_reads_of_a_kept_half_are_those_of_16_bits():
    whole, half = (
        listed(quant_method="fp8", modules_to_not_convert=names)
        for names in ([], ["model.layers.0.self_attn", "model.layers.1.self_attn"])
    )
    attention = 2 * (2 * 32 * 32 + 2 * 32 * 16)  # of both layers: query and output, key and value
    assert weights_bytes(half) - weights_bytes(whole) == attention
    step = Pass(Phase.DECODE, 1, 1, 8)
    read = [sum(p.times * p.weight_bytes for p in summaries(m, step)) for m in (whole, half)]
    assert read[1] - read[0] == attention
    assert cache_bytes(half, 9) == cache_bytes(whole, 9)


def test_a_list_of_compressed_tensors_is_exact():
    groups = {
        "a": {
            "targets": ["Linear"],
            "weights": {"num_bits": 8},
            "input_activations": {"num_bits": 8},
        }
    }
    for names, query in (
        (["model.layers.0.self_attn"], set()),
        (["model.layers.0.self_attn.q_proj"], {0}),
        (["q_proj"], set()),
        (["re:.*self_attn.*"], BOTH),
        (["re:.*self_attn$"], set()),
        (["Linear"], BOTH),
    ):
        found = listed(quant_method="compressed-tensors", config_groups=groups, ignore=names)
        assert wide_layers(found, "query") == query, names


def test_groups_have_their_own_bits_and_what_none_targets_keeps_its_own():
    short = {"num_bits": 4, "type": "int"}
    groups = {
        "a": {"targets": ["re:.*mlp.*"], "weights": short},
        "b": {"targets": ["re:.*q_proj", "re:.*k_proj"], "weights": {"num_bits": 8}},
    }
    found = listed(quant_method="compressed-tensors", config_groups=groups)
    (layer,) = (p for p in summaries(found, Pass(Phase.ENCODE, 1, 4)) if p.name == "layer")
    bits = {p.name: p.weight_bits for p in layer.products if p.weight_bits}
    assert bits == {"query": 8, "key and value": 8, "output": 16, "up": 4, "down": 4}
    groups["c"] = {"targets": ["Linear"], "weights": {"num_bits": 2}}
    found = listed(quant_method="compressed-tensors", config_groups=dict(reversed(groups.items())))
    (layer,) = (p for p in summaries(found, Pass(Phase.ENCODE, 1, 4)) if p.name == "layer")
    bits = {p.name: p.weight_bits for p in layer.products if p.weight_bits}
    assert bits == {"query": 8, "key and value": 8, "output": 2, "up": 4, "down": 4}


@pytest.mark.parametrize("algorithm", ["FP8", "NVFP4"])
def test_modelopt_quantizes_keys_and_values_where_it_says_so(algorithm):
    scheme = {"dynamic": False, "num_bits": 8, "type": "float"}
    given = {"quant_method": "modelopt", "quant_algo": algorithm}
    assert quantized(**given).kv_bits == 16
    assert quantized(**given, kv_cache_scheme=scheme) == replace(quantized(**given), kv_bits=8)


def test_groups_that_differ_in_their_operands_alone_have_their_own():
    groups = {
        "a": {"targets": ["re:.*mlp.*"], "weights": EIGHT, "input_activations": EIGHT},
        "b": {"targets": ["Linear"], "weights": EIGHT},
    }
    found = listed(quant_method="compressed-tensors", config_groups=groups)
    (layer,) = (p for p in summaries(found, Pass(Phase.ENCODE, 1, 4)) if p.name == "layer")
    bits = {p.name: (p.weight_bits, p.bits) for p in layer.products if p.weight_bits}
    assert bits == {
        **dict.fromkeys(("query", "key and value", "output"), (8, 16)),
        **dict.fromkeys(("up", "down"), (8, 8)),
    }


def test_groups_of_another_method_are_not_read():
    groups = {"a": {"targets": ["re:.*mlp.*"], "weights": EIGHT}}
    given = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
    assert listed(**given, config_groups=groups) == listed(**given)


def test_a_list_of_modelopt_has_wildcards():
    found = listed(
        quant_method="modelopt", exclude_modules=["lm_head", "model.layers.?.self_attn*"]
    )
    assert wide_layers(found, "query") == BOTH
    assert wide_layers(found, "up") == set()


def test_a_wildcard_of_one_character_is_a_number_of_one_digit():
    config = {**LLAMA, "num_hidden_layers": 12}
    found = listed(config, quant_method="modelopt", ignore=["model.layers.?.self_attn*"])
    assert wide_layers(found, "query") == set(range(10))


def test_a_pattern_that_is_none_is_refused():
    message = (
        r"^mine\.json: quantization_config\.ignore is 're:\('; legal: names of modules: as a "
        "regular expression it has an error: missing"
    )
    with pytest.raises(BadInput, match=message):
        listed(quant_method="modelopt", ignore=["re:("])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"quant_method": "magic"},
            "mine.json: quantization_config.quant_method is 'magic'; legal: "
            + ", ".join(METHODS)
            + ": bits of others are not known",
        ),
        ({}, "mine.json: quantization_config.quant_method is ''; legal: fp8, "),
        (
            {"quant_method": "gptq", "bits": 16},
            "mine.json: quantization_config.bits is 16; legal: 1 to 8: bits of a weight",
        ),
        (
            {"quant_method": "awq", "bits": float("nan")},
            "mine.json: quantization_config.bits is nan, it must be a positive whole number",
        ),
        (
            {"quant_method": "compressed-tensors"},
            (
                "mine.json: key 'quantization_config.config_groups' is missing; keys found of "
                "quantization_config: quant_method"
            ),
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"a": {"input_activations": {"num_bits": 33}}},
            },
            (
                "mine.json: quantization_config.config_groups.a.input_activations.num_bits is 33, "
                "it must be a positive whole number, at most 16"
            ),
        ),
        (
            {"quant_method": "modelopt", "quant_algo": "W4A8"},
            "mine.json: quantization_config.quant_algo is 'W4A8'; legal: FP8, NVFP4: bits of ",
        ),
    ],
)
def test_a_method_that_is_not_known_is_named(given, message):
    with pytest.raises(BadInput, match="^" + re.escape(message)):
        quantized(**given)


def test_a_configuration_of_bits_is_an_object():
    with pytest.raises(BadInput, match=r"^mine\.json: quantization_config is 8; legal: an object"):
        of(quantization_config=8)
