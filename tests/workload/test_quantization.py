import re

import pytest

from trnsim.errors import BadInput
from trnsim.workload.families.keys import ConfigKeys
from trnsim.workload.quantization import METHODS, bits_of

LAYERS = 2


def of(**given):
    return bits_of(ConfigKeys(given, "mine.json"), LAYERS)


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


@pytest.mark.parametrize(
    ("given", "weight", "product"),
    [
        ({"quant_method": "fp8"}, 8, 8),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 8 + 32 / 16384, 8),
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


@pytest.mark.parametrize(
    ("names", "weight", "mlp"),
    [
        (["lm_head"], 8, 8),
        (["model.layers.*.self_attn", "lm_head"], 16, 8),
        (["re:.*mlp$"], 8, 16),
        (["model.layers.0.self_attn.q_proj"], 8, 8),
        (["model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj"], 16, 8),
        (["model.layers.0.mlp.up_proj", "model.layers.1.mlp.up_proj"], 8, 16),
        (["re:.*mlp.gate$"], 8, 8),  # the router
        (["vision_model.attention"], 8, 8),
    ],
)
@pytest.mark.parametrize("key", ["modules_to_not_convert", "ignore"])
def test_what_all_layers_leave_as_it_was_keeps_its_bits(key, names, weight, mlp):
    found = quantized(quant_method="fp8", **{key: names})
    assert (found.weight_bits, found.mlp_bits) == (weight, mlp)


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
