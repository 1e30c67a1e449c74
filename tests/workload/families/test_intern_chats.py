import re

import pytest
from published_models import COUNTS

from trnsim.errors import BadInput
from trnsim.workload.config import from_config
from trnsim.workload.resident import parameters

CHAT = COUNTS["internvl2-8b"][0]
PLAIN_MATRICES = COUNTS["internvl3-1b"][0]
"""The keys of transformers, whose model of them is counted in tests/clients."""


def read(config, **given):
    return from_config({**config, **given}, "mine.json")


def nested(name, **given):
    return {name: {**CHAT[name], **given}}


def chat_of_plain():
    """The configuration of the same sizes as `PLAIN_MATRICES`, in OpenGVLab's keys."""
    texts = {**PLAIN_MATRICES["text_config"], "architectures": ["Qwen2ForCausalLM"]}
    seeing = {**PLAIN_MATRICES["vision_config"], "model_type": "intern_vit_6b"}
    names = {"attention_bias": "qkv_bias", "use_qk_norm": "qk_normalization"}
    seeing |= {new: seeing.pop(old) for old, new in names.items() if old in seeing}
    seeing |= {"qk_normalization": False, "norm_type": "layer_norm", "image_size": 448}
    sizes = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24}
    seeing |= {**sizes, "num_attention_heads": 16, "patch_size": 14}
    return {**CHAT, "llm_config": texts, "vision_config": seeing}


def test_it_is_transformers_internvl_under_other_keys():
    assert (
        read(chat_of_plain()).towers[0] == read(PLAIN_MATRICES, tie_word_embeddings=None).towers[0]
    )
    assert read(chat_of_plain()).towers[1].layers == read(PLAIN_MATRICES).towers[1].layers


@pytest.mark.parametrize(
    ("given", "tiles"),
    [
        ({}, 10),
        ({"use_thumbnail": False}, 9),
        ({"max_dynamic_patch": 6}, 5),
        ({"max_dynamic_patch": None}, 5),
        ({"max_dynamic_patch": 3}, 1),
        ({"dynamic_image_size": False}, 1),
    ],
)
def test_the_file_states_the_most_tiles_of_an_image(given, tiles):
    images, _ = read(CHAT, **given).towers
    assert (images.tiles, images.prompt_tokens) == (tiles, tiles * 256 + 2)


def test_sizes_left_out_are_those_of_the_largest_encoder():
    """InternViT-6B of 448 pixels has 5,536.07 million parameters (arXiv:2404.16821, table 1)."""
    short = {"model_type": "intern_vit_6b", "image_size": 448, "num_hidden_layers": 45}
    images, _ = read(CHAT, vision_config=short).towers
    (layer,) = images.layers
    hidden = 3200
    matrices = 4 * hidden**2 + 2 * hidden * 12800
    vectors = hidden + 12800 + hidden + 2 * hidden + 2 * hidden + 2 * hidden
    attention = layer.attentions[0]
    counted = attention.biases + attention.norms + layer.mlp.biases + layer.norms
    assert counted + layer.other_parameters == vectors
    tables = (32**2 + 2) * hidden + (3 * 14**2 + 1) * hidden
    assert 45 * (matrices + vectors) + tables == pytest.approx(5.536e9, rel=2e-3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"force_image_size": 224}, "force_image_size is 224; legal: 448, the image_size of"),
        (nested("vision_config", model_type="clip"), "vision_config.model_type is 'clip'; legal: "),
        (nested("llm_config", model_type="grok"), "llm_config.model_type is 'grok'; legal: "),
        (nested("llm_config", hidden_size=-1), "llm_config.hidden_size is -1, it must be"),
        ({"use_thumbnail": "yes"}, "use_thumbnail is 'yes'; legal: true, false"),
    ],
)
def test_what_is_not_known_is_named(given, message):
    with pytest.raises(BadInput, match="^" + re.escape(f"mine.json: {message}")):
        read(CHAT, **given)


def test_internlm2_is_llama_with_one_key_for_all_biases():
    texts = {**CHAT["llm_config"], "architectures": ["LlamaForCausalLM"]}
    llama = read({**texts, "model_type": "llama"})
    assert read(texts).towers == llama.towers
    biased = read(texts, bias=None)
    assert parameters(biased) - parameters(llama) == 32 * (4096 + 2 * 1024 + 4096)
