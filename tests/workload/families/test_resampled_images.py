import re

import pytest

from trnsim.errors import BadInput
from trnsim.workload.config import from_config
from trnsim.workload.operators import Pass, Phase
from trnsim.workload.passes import summaries
from trnsim.workload.resident import parameters

# https://huggingface.co/HuggingFaceM4/idefics2-8b, config.json.
IDEFICS2 = {
    "model_type": "idefics2",
    "architectures": ["Idefics2ForConditionalGeneration"],
    "perceiver_config": {"model_type": "idefics2"},
    "text_config": {
        "model_type": "mistral",
        "max_position_embeddings": 32768,
        "num_key_value_heads": 8,
        "vocab_size": 32003,
    },
    "tie_word_embeddings": False,
    "vision_config": {
        "hidden_size": 1152,
        "image_size": 980,
        "intermediate_size": 4304,
        "model_type": "idefics2",
        "num_attention_heads": 16,
        "num_hidden_layers": 27,
        "patch_size": 14,
    },
}
TOKENS = 70**2


def read(**perceiver):
    changed = {**IDEFICS2["perceiver_config"], **perceiver}
    return from_config({**IDEFICS2, "perceiver_config": changed}, "mine.json")


def test_idefics2_8b_has_its_published_parameters():
    assert parameters(read()) == pytest.approx(8.40e9, rel=1e-3)


def test_latent_vectors_are_an_images_tokens():
    images, resampler, _ = read(resampler_n_latents=32).towers
    assert (images.tokens, images.prompt_tokens, resampler.tokens) == (TOKENS, 34, 32)


def test_latent_vectors_attend_to_the_images_tokens_and_themselves():
    blocks = summaries(read(), Pass(Phase.PREFILL, 2, 128))
    layers = [block for block in blocks if block.name == "layer"]
    products = {product.name: product for product in layers[1].products}
    assert layers[1].times == 3
    assert products["query"].m == 2 * 64
    assert products["key and value"].m == 2 * (TOKENS + 64)
    assert products["key and value"].n == 2 * 4 * 96
    scores = products["scores"]
    assert scores.useful_flop == pytest.approx(2 * 2 * 16 * 96 * 64 * (TOKENS + 64))
    assert products["up"].n == 2 * 4 * 4096
    assert not layers[1].cache.written_bytes


def test_a_step_reads_no_image():
    assert len(summaries(read(), Pass(Phase.DECODE, 1, 1, 99))) == 3


@pytest.mark.parametrize(
    ("key", "given", "legal"),
    [
        ("num_key_value_heads", 3, "1, 2, 4, 8, 16: 16 heads share them"),
        ("num_key_value_heads", 32, "1, 2, 4, 8, 16: 16 heads share them"),
    ],
)
def test_heads_share_keys_equally(key, given, legal):
    message = f"mine.json: perceiver_config.{key} is {given}; legal: {legal}"
    with pytest.raises(BadInput, match="^" + re.escape(message)):
        read(**{key: given})
