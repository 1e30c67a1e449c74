"""Formulas of models beside transformers: their parameters, for every family that has a formula."""

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
transformers = pytest.importorskip("transformers", reason="make clients installs transformers")

from trnsim.workload.config import FAMILIES, from_config
from trnsim.workload.families import (
    decoders,
    encoders,
    images,
    images_and_texts,
    texts_to_texts,
)
from trnsim.workload.families.dialects import DEFAULTS
from trnsim.workload.resident import parameters

# Defaults that transformers itself cannot build, or that leave parts out, put right.
GIVEN = {
    "deepseek_v2": {"num_experts_per_tok": 6, "first_k_dense_replace": 1},
    "dots1": {"n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 2},
    "glm4_moe": {"head_dim": 128},
    "granitemoeshared": {"shared_intermediate_size": 512},
    "hunyuan_v1_dense": {"head_dim": 128},
    # Squares of tokens that fill a tile, which has 7 x 7.
    "idefics3": {"scale_factor": 7},
    "smolvlm": {"scale_factor": 7},
    "llava_next": {"vision_config": {"image_size": 336}},
    "mistral3": {"tie_word_embeddings": False},  # as its weights are
    "nemotron": {"head_dim": 128, "num_key_value_heads": 8},
    # Tokens of an image as wide as those of the text.
    "qwen2_vl": {"vision_config": {"hidden_size": 8192}},
    "qwen2_5_vl": {"vision_config": {"out_hidden_size": 8192}},
    "qwen3_5": {"vision_config": {"out_hidden_size": 4096}},
    "qwen3_5_moe": {"vision_config": {"out_hidden_size": 2048}},
    "hunyuan_v1_moe": {"head_dim": 128},
    "qwen3_vl": {"vision_config": {"out_hidden_size": 4096}},
    "qwen3_vl_moe": {"vision_config": {"out_hidden_size": 2048}},
    "ministral": {"head_dim": 128},
}
NOT_BUILT = {
    "kimi_k2": "its code is with its weights; its file names DeepSeek-V3's class",
    "internlm2": "its code is with its weights",
    "internvl_chat": "its code is with its weights; its parts are those of internvl",
    "dbrx": "its attention asks for a rope_theta that its configuration does not have",
}
# Halves of larger models, which no automatic class has.
CLASSES = {
    "idefics2_vision": transformers.models.idefics2.modeling_idefics2.Idefics2VisionTransformer,
    "llama4_vision_model": transformers.Llama4VisionModel,
    "qwen2_5_vl_text": transformers.models.qwen2_5_vl.modeling_qwen2_5_vl.Qwen2_5_VLTextModel,
    "qwen2_vl_text": transformers.models.qwen2_vl.modeling_qwen2_vl.Qwen2VLTextModel,
    "qwen3_vl_moe_text": transformers.Qwen3VLMoeTextModel,
    "qwen3_vl_text": transformers.Qwen3VLTextModel,
    "siglip_text_model": transformers.SiglipTextModel,
}
DECODERS = sorted({*decoders.NAMES} - {*NOT_BUILT})
IMAGES = sorted({*images.NAMES} - {*NOT_BUILT})
IMAGES_AND_TEXTS = sorted({*images_and_texts.NAMES} - {*NOT_BUILT})
CLASSIFIERS = ("SequenceClassification", "TokenClassification", "QuestionAnswering")
AUTO = {
    "MultipleChoice": transformers.AutoModelForMultipleChoice,
    "NextSentencePrediction": transformers.AutoModelForNextSentencePrediction,
    "CausalLM": transformers.AutoModelForCausalLM,
    "MaskedLM": transformers.AutoModelForMaskedLM,
    "Seq2SeqLM": transformers.AutoModelForSeq2SeqLM,
    "SpeechSeq2Seq": transformers.AutoModelForSpeechSeq2Seq,
    "SequenceClassification": transformers.AutoModelForSequenceClassification,
    "TokenClassification": transformers.AutoModelForTokenClassification,
    "QuestionAnswering": transformers.AutoModelForQuestionAnswering,
    "PreTraining": transformers.AutoModelForPreTraining,
    "ImageTextToText": transformers.AutoModelForImageTextToText,
    "ImageClassification": transformers.AutoModelForImageClassification,
    "": transformers.AutoModel,
}


def counts(model_type, head, left_out=(), **given):
    """Parameters by the formula, and of the model that transformers builds."""
    config = transformers.CONFIG_MAPPING[model_type](**{**GIVEN.get(model_type, {}), **given})
    kind = CLASSES.get(model_type) or AUTO[head]._model_mapping[type(config)]
    kind = kind[0] if isinstance(kind, tuple | list) else kind
    with torch.device("meta"):
        built = kind._from_config(config, dtype=torch.bfloat16)
    values = {**config.to_dict(), "architectures": [kind.__name__]}
    # What a file says is plain: nested configurations are dictionaries, as in JSON.
    values = {key: value for key, value in values.items() if key not in left_out}
    found = parameters(from_config(values, f"{model_type}.json"))
    return found, sum(one.numel() for one in built.parameters())


def equal(model_type, head, left_out=(), **given):
    found, expected = counts(model_type, head, left_out, **given)
    assert found == expected


def test_every_family_is_counted_or_its_reason_known():
    of_texts = {*texts_to_texts.NAMES, *IMAGES_AND_TEXTS}
    assert {*DECODERS, *encoders.NAMES, *of_texts, *IMAGES, *NOT_BUILT} == set(FAMILIES)


@pytest.mark.parametrize("model_type", DECODERS)
def test_decoders(model_type):
    equal(model_type, "CausalLM")


@pytest.mark.parametrize("model_type", DECODERS)
def test_decoders_without_scores(model_type):
    small = {"n_layer": 2} if model_type in ("gpt2", "gptj", "codegen", "bloom") else {}
    equal(model_type, "", **small)


@pytest.mark.parametrize("head", CLASSIFIERS)
@pytest.mark.parametrize("model_type", [*DECODERS, *texts_to_texts.NAMES, "gemma3"])
def test_classifiers(model_type, head):
    if transformers.CONFIG_MAPPING[model_type] not in AUTO[head]._model_mapping:
        pytest.skip(f"transformers has no {head} of {model_type}")
    equal(model_type, head)


@pytest.mark.parametrize("model_type", sorted(DEFAULTS.keys() - NOT_BUILT.keys()))
def test_keys_left_out_of_a_file(model_type):
    equal(model_type, "CausalLM", left_out=DEFAULTS[model_type])


@pytest.mark.parametrize("model_type", sorted(DEFAULTS.keys() - NOT_BUILT.keys()))
def test_defaults_are_those_of_transformers(model_type):
    """Those that no parameter shows too; a window that is switched off is None there."""
    config = transformers.AutoConfig.for_model(model_type)
    defaults = {
        key: value
        for key, value in DEFAULTS[model_type].items()
        if hasattr(config, key) and not (key == "sliding_window" and not config.sliding_window)
    }
    assert {key: getattr(config, key) for key in defaults} == defaults


@pytest.mark.parametrize("head", ["MaskedLM", "SequenceClassification", "TokenClassification", ""])
@pytest.mark.parametrize("model_type", encoders.NAMES)
def test_encoders(model_type, head):
    equal(model_type, head)


@pytest.mark.parametrize("head", ["PreTraining", "QuestionAnswering", "MultipleChoice", "CausalLM"])
@pytest.mark.parametrize("model_type", ["bert", "electra"])
def test_other_ends_of_encoders(model_type, head):
    equal(model_type, head)


@pytest.mark.parametrize("head", ["Seq2SeqLM", ""])
@pytest.mark.parametrize("model_type", texts_to_texts.NAMES)
def test_encoders_with_decoders(model_type, head):
    is_sound = model_type == "whisper" and head
    equal(model_type, "SpeechSeq2Seq" if is_sound else head)


@pytest.mark.parametrize("model_type", IMAGES)
def test_images(model_type):
    equal(model_type, "")


@pytest.mark.parametrize("model_type", IMAGES_AND_TEXTS)
def test_images_and_texts(model_type):
    equal(model_type, "ImageTextToText")


@pytest.mark.parametrize(
    ("model_type", "vision"),
    [
        ("idefics2", {"image_size": 64, "patch_size": 16, "hidden_size": 96}),
        ("mllama", {"num_global_layers": 2, "image_size": 56, "max_num_tiles": 4}),
        (
            "mllama",
            {"max_num_tiles": 2, "supported_aspect_ratios": [[1, 1], [1, 2]], "patch_size": 7},
        ),
        ("paligemma", {"image_size": 448, "vision_use_head": False}),
        ("llava_next", {"image_size": 336, "patch_size": 14}),
        ("idefics3", {"image_size": 64, "patch_size": 16}),
        ("smolvlm", {"image_size": 96, "patch_size": 16, "hidden_size": 128}),
        ("internvl", {"attention_bias": True, "patch_size": [16, 16], "use_mean_pooling": False}),
        ("internvl", {"norm_type": "rms_norm", "use_qk_norm": True, "use_mask_token": True}),
        ("internvl", {"use_absolute_position_embeddings": False, "image_size": 56}),
        ("qwen2_vl", {"mlp_ratio": 3, "spatial_merge_size": 3, "temporal_patch_size": 1}),
        ("qwen2_vl", {"embed_dim": 640, "patch_size": 7, "in_channels": 1}),
        ("qwen2_5_vl", {"fullatt_block_indexes": [0], "hidden_size": 640, "depth": 2}),
        ("qwen3_vl", {"deepstack_visual_indexes": [1], "num_position_embeddings": 16}),
        ("qwen3_vl_moe", {"deepstack_visual_indexes": [], "spatial_merge_size": 1}),
    ],
)
def test_choices_of_images_and_texts(model_type, vision):
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4}
    texts = {"num_hidden_layers": 2, "hidden_size": 256, **heads}
    texts |= {"cross_attention_layers": [1]} if model_type == "mllama" else {}
    given = {"projection_dim": 256} if model_type == "paligemma" else {}
    given |= {"scale_factor": 2} if model_type in ("idefics3", "smolvlm") else {}
    if model_type.startswith("qwen"):
        vision = {**vision, "hidden_size" if model_type == "qwen2_vl" else "out_hidden_size": 256}
    equal(model_type, "ImageTextToText", vision_config=vision, text_config=texts, **given)


@pytest.mark.parametrize(
    ("model_type", "given"),
    [
        ("internvl", {"tie_word_embeddings": False, "downsample_ratio": 0.25}),
        ("llava", {"vision_feature_layer": [-2, -5], "multimodal_projector_bias": False}),
        ("llava_next", {"vision_feature_layer": [-2, -5, -8], "multimodal_projector_bias": False}),
        ("llava_next", {"tie_word_embeddings": True}),
        ("smolvlm", {"tie_word_embeddings": True}),
    ],
)
def test_choices_of_projections(model_type, given):
    equal(model_type, "ImageTextToText", **given)


def test_texts_of_another_kind_have_its_sizes():
    given = {"vision_config": {}, "text_config": {"model_type": "gemma2"}, "projection_dim": 2304}
    equal("paligemma", "ImageTextToText", **given)
    for kind in ("gemma", "gemma2", "mistral", "qwen2"):
        text = {"model_type": kind}
        equal("llava", "ImageTextToText", vision_config={}, text_config=text)
    given = {"vision_config": {}, "text_config": {"model_type": "llama"}}
    equal("internvl", "ImageTextToText", **given)


@pytest.mark.parametrize("kind", ["gemma", "gemma2", "llama", "mistral", "qwen2"])
def test_sizes_of_texts_left_out_of_a_file(kind):
    texts = transformers.CONFIG_MAPPING[kind]()
    built = {"model_type": "llava", "vision_config": {}}
    left_out, full = ({"model_type": kind}, texts.to_dict())
    model = from_config({**built, "text_config": left_out}, "mine.json")
    assert parameters(model) == parameters(from_config({**built, "text_config": full}, "mine.json"))
    assert model.max_positions == texts.max_position_embeddings


def tiles(model_type, size, tile, **given):
    config = transformers.CONFIG_MAPPING[model_type]().to_dict()
    vision = {**config["vision_config"], "image_size": tile, "patch_size": 14}
    values = {**config, "vision_config": vision, "image_size": size, **given}
    return from_config(values, "mine.json").towers[0]


def test_tiles_are_those_of_the_processors():
    models = transformers.models
    idefics = models.idefics3.image_processing_pil_idefics3.Idefics3ImageProcessorPil()
    sizes = {"size": {"longest_edge": 1456}, "max_image_size": {"longest_edge": 364}}
    number, _, _ = idefics.get_number_of_image_patches(900, 900, sizes)
    assert tiles("idefics3", 1456, 364).tiles == number
    intern = models.got_ocr2.image_processing_pil_got_ocr2.GotOcr2ImageProcessorPil()
    sizes = {"crop_to_patches": True, "patch_size": {"height": 448, "width": 448}}
    for size in (448, 896, 1344):
        number = intern.get_number_of_image_patches(size, size, sizes)
        assert tiles("internvl", size, 448).tiles == number


def test_tokens_are_those_of_llava_next():
    processor = transformers.LlavaNextProcessor

    class Counter:
        _get_unpadded_features = processor._get_unpadded_features
        patch_size, num_additional_image_tokens = 14, 1
        image_processor = transformers.LlavaNextImageProcessorPil()

    number = processor._get_number_of_features(Counter(), 672, 672, 336, 336) - 1
    assert tiles("llava_next", 672, 336).prompt_tokens == number


@pytest.mark.parametrize("model_type", ["vit", "deit", "dinov2", "dinov2_with_registers"])
def test_classes_of_images(model_type):
    equal(model_type, "ImageClassification", num_labels=7)


@pytest.mark.parametrize(
    ("model_type", "given"),
    [
        ("llama", {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 4}),
        ("qwen3", {"attention_bias": True, "head_dim": 64}),
        ("qwen3_moe", {"decoder_sparse_step": 2, "mlp_only_layers": [3]}),
        ("qwen2_moe", {"decoder_sparse_step": 3, "num_experts": 8}),
        ("deepseek_v3", {"q_lora_rank": None, "num_hidden_layers": 5, "attention_bias": True}),
        ("deepseek_v3", {"n_shared_experts": 3, "num_hidden_layers": 5, "n_routed_experts": 16}),
        ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 71, "num_hidden_layers": 2}),
        ("falcon", {"multi_query": False, "parallel_attn": False, "num_hidden_layers": 2}),
        ("falcon", {"bias": True, "num_hidden_layers": 2}),
        ("gpt_bigcode", {"multi_query": False}),
        ("gpt2", {"n_inner": 100, "tie_word_embeddings": False}),
        ("gpt_neox", {"use_parallel_residual": False, "attention_bias": False}),
        ("opt", {"word_embed_proj_dim": 512, "do_layer_norm_before": False}),
        ("opt", {"enable_bias": False}),
        ("stablelm", {"use_qkv_bias": True, "qk_layernorm": True, "use_parallel_residual": True}),
        ("cohere", {"use_qk_norm": True, "num_hidden_layers": 2}),
        ("phi", {"qk_layernorm": True}),
        ("phimoe", {"lm_head_bias": True, "attention_bias": True, "num_hidden_layers": 2}),
        ("llama4_text", {"interleave_moe_layer_step": 2, "num_hidden_layers": 4}),
        ("gpt_oss", {"num_local_experts": 32, "num_hidden_layers": 24}),
        ("starcoder2", {"use_bias": False}),
        ("granitemoe", {"num_local_experts": 4, "num_hidden_layers": 2}),
        ("helium", {"attention_bias": True, "num_hidden_layers": 2}),
        ("ernie4_5_moe", {"use_bias": True, "num_hidden_layers": 3}),
        ("deepseek_v2", {"mlp_bias": True, "num_hidden_layers": 2}),
        ("opt", {"layer_norm_elementwise_affine": False}),
    ],
)
def test_choices_of_decoders(model_type, given):
    equal(model_type, "CausalLM", **given)


@pytest.mark.parametrize(
    ("model_type", "given"),
    [
        ("albert", {"embedding_size": 64}),
        ("electra", {"embedding_size": 256}),
        ("bert", {"type_vocab_size": 5}),
        ("modernbert", {"global_attn_every_n_layers": 2, "attention_bias": True}),
    ],
)
def test_choices_of_encoders(model_type, given):
    equal(model_type, "MaskedLM", **given)


@pytest.mark.parametrize("is_gated", [False, True])
def test_choices_of_t5(is_gated):
    kind = "gated-gelu" if is_gated else "relu"
    equal("t5", "Seq2SeqLM", feed_forward_proj=kind, num_decoder_layers=3, d_kv=32)
    equal("t5", "Seq2SeqLM", feed_forward_proj=kind, tie_word_embeddings=False)


@pytest.mark.parametrize(
    ("model_type", "given"),
    [
        ("vit", {"qkv_bias": False, "image_size": 100, "patch_size": 7}),
        ("dinov2", {"use_swiglu_ffn": True}),
        ("siglip_vision_model", {"vision_use_head": False}),
        ("dinov2_with_registers", {"num_register_tokens": 9}),
        ("llama4_vision_model", {"num_hidden_layers": 2, "image_size": 112, "patch_size": 7}),
    ],
)
def test_choices_of_images(model_type, given):
    equal(model_type, "", **given)
