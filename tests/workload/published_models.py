"""Configurations of published models, as their repositories state them, and their parameters.

Counts are those of the published weights, by the class that the configuration names (the plain
model where none is); a tied table counts once.
"""


def llama(hidden, layers, heads, intermediate, words, kv_heads=None, **more):
    """A configuration in Llama's keys."""
    return {
        "model_type": "llama",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads or heads,
        "intermediate_size": intermediate,
        "vocab_size": words,
        "max_position_embeddings": 4096,
        **more,
    }


def bert(hidden=768, layers=12, heads=12, intermediate=3072, words=30522, **more):
    """A configuration in BERT's keys."""
    return {
        "model_type": "bert",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": intermediate,
        "vocab_size": words,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        **more,
    }


def gpt2(model_type="gpt2", hidden=768, layers=12, heads=12, words=50257, places=1024):
    """A configuration in GPT-2's keys."""
    return {
        "model_type": model_type,
        "n_embd": hidden,
        "n_layer": layers,
        "n_head": heads,
        "vocab_size": words,
        "n_positions": places,
    }


def t5(hidden, layers, heads, intermediate, words=32128, **more):
    """A configuration in T5's keys."""
    return {
        "model_type": "t5",
        "d_model": hidden,
        "d_kv": 64,
        "d_ff": intermediate,
        "num_layers": layers,
        "num_heads": heads,
        "vocab_size": words,
        **more,
    }


def sides(hidden, layers, heads, words, **more):
    """A configuration in BART's keys."""
    both = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (
            ("layers", layers),
            ("attention_heads", heads),
            ("ffn_dim", 4 * hidden),
        )
    }
    return {"d_model": hidden, "vocab_size": words, **both, **more}


DEEPSEEK_V3 = llama(
    7168,
    61,
    128,
    18432,
    129280,
    model_type="deepseek_v3",
    moe_intermediate_size=2048,
    n_routed_experts=256,
    n_shared_experts=1,
    num_experts_per_tok=8,
    first_k_dense_replace=3,
    moe_layer_freq=1,
    kv_lora_rank=512,
    q_lora_rank=1536,
    qk_rope_head_dim=64,
    qk_nope_head_dim=128,
    v_head_dim=128,
    max_position_embeddings=163840,
)
DEEPSEEK_V2_LITE = llama(
    2048,
    27,
    16,
    10944,
    102400,
    model_type="deepseek_v2",
    moe_intermediate_size=1408,
    n_routed_experts=64,
    n_shared_experts=2,
    num_experts_per_tok=6,
    first_k_dense_replace=1,
    moe_layer_freq=1,
    kv_lora_rank=512,
    q_lora_rank=None,
    qk_rope_head_dim=64,
    qk_nope_head_dim=128,
    v_head_dim=128,
)
CLIP_TEXT = {"hidden_size": 512, "num_attention_heads": 8, "intermediate_size": 2048}
CLIP_B = {
    "model_type": "clip",
    "projection_dim": 512,
    "text_config": {**CLIP_TEXT, "num_hidden_layers": 12, "vocab_size": 49408},
    "vision_config": {"hidden_size": 768, "num_hidden_layers": 12, "patch_size": 32},
}
CLIP_L = {
    "model_type": "clip",
    "projection_dim": 768,
    "text_config": {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072},
    "vision_config": {
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
        "patch_size": 14,
    },
}
FALCON_7B = {
    "model_type": "falcon",
    "hidden_size": 4544,
    "num_hidden_layers": 32,
    "num_attention_heads": 71,
    "vocab_size": 65024,
    "multi_query": True,
    "parallel_attn": True,
    "bias": False,
}
FALCON_40B = {
    **FALCON_7B,
    "hidden_size": 8192,
    "num_hidden_layers": 60,
    "num_attention_heads": 128,
    "num_kv_heads": 8,
    "new_decoder_architecture": True,
}
GPT_OSS = llama(
    2880,
    36,
    64,
    2880,
    201088,
    8,
    model_type="gpt_oss",
    head_dim=64,
    num_local_experts=128,
    num_experts_per_tok=4,
    attention_bias=True,
    sliding_window=128,
)
VIT = {"model_type": "vit", "hidden_size": 768, "image_size": 224, "patch_size": 16}

COUNTS = {
    "Llama-2-7b": (llama(4096, 32, 32, 11008, 32000), 6_738_415_616),
    "Llama-2-70b": (llama(8192, 80, 64, 28672, 32000, 8), 68_976_648_192),
    "Llama-3.2-1B": (
        llama(2048, 16, 32, 8192, 128256, 8, head_dim=64, tie_word_embeddings=True),
        1_235_814_400,
    ),
    "Mistral-7B-v0.1": (
        llama(4096, 32, 32, 14336, 32000, 8, model_type="mistral", sliding_window=4096),
        7_241_732_096,
    ),
    "Qwen2-7B": (llama(3584, 28, 28, 18944, 152064, 4, model_type="qwen2"), 7_615_616_512),
    "Qwen3-8B": (
        llama(4096, 36, 32, 12288, 151936, 8, model_type="qwen3", head_dim=128),
        8_190_735_360,
    ),
    "Phi-3-mini": (llama(3072, 32, 32, 8192, 32064, model_type="phi3"), 3_821_079_552),
    "phi-2": (llama(2560, 32, 32, 10240, 51200, model_type="phi"), 2_779_683_840),
    "gemma-2b": (
        llama(2048, 18, 8, 16384, 256000, 1, model_type="gemma", head_dim=256),
        2_506_172_416,
    ),
    "gemma-2-9b": (
        llama(3584, 42, 16, 14336, 256000, 8, model_type="gemma2", head_dim=256),
        9_241_705_984,
    ),
    "gemma-3-1b": (
        llama(1152, 26, 4, 6912, 262144, 1, model_type="gemma3_text", head_dim=256),
        999_885_952,
    ),
    "OLMo-2-7B": (llama(4096, 32, 32, 11008, 100352, model_type="olmo2"), 7_298_617_344),
    "starcoder2-3b": (
        llama(3072, 30, 24, 12288, 49152, 2, model_type="starcoder2"),
        3_030_371_328,
    ),
    "gpt-neox-20b": (llama(6144, 44, 64, 24576, 50432, model_type="gpt_neox"), 20_554_567_680),
    "gpt2": (gpt2(), 124_439_808),
    "gpt2-xl": (gpt2(hidden=1600, layers=48, heads=25), 1_557_611_200),
    "gpt-j-6b": (gpt2("gptj", 4096, 28, 16, 50400, 2048), 6_050_882_784),
    "opt-125m": (
        {
            **llama(768, 12, 12, 0, 50272, model_type="opt", ffn_dim=3072),
            "max_position_embeddings": 2048,
        },
        125_239_296,
    ),
    "opt-350m": (
        {
            **llama(1024, 24, 16, 0, 50272, model_type="opt", ffn_dim=4096),
            "max_position_embeddings": 2048,
            "word_embed_proj_dim": 512,
            "do_layer_norm_before": False,
        },
        331_196_416,
    ),
    "bloom-560m": (
        {
            "model_type": "bloom",
            "n_embed": 1024,
            "n_layer": 24,
            "num_attention_heads": 16,
            "vocab_size": 250880,
        },
        559_214_592,
    ),
    "mpt-7b": (
        {
            "model_type": "mpt",
            "d_model": 4096,
            "n_layers": 32,
            "n_heads": 32,
            "vocab_size": 50432,
            "max_seq_len": 2048,
        },
        6_649_286_656,
    ),
    "falcon-7b": (FALCON_7B, 6_921_720_704),
    "falcon-40b": (FALCON_40B, 41_303_293_952),
    "Mixtral-8x7B": (
        llama(
            4096,
            32,
            32,
            14336,
            32000,
            8,
            model_type="mixtral",
            num_local_experts=8,
            num_experts_per_tok=2,
        ),
        46_702_792_704,
    ),
    "Qwen3-30B-A3B": (
        llama(
            2048,
            48,
            32,
            6144,
            151936,
            4,
            model_type="qwen3_moe",
            head_dim=128,
            moe_intermediate_size=768,
            num_experts=128,
            num_experts_per_tok=8,
        ),
        30_532_122_624,
    ),
    "Qwen1.5-MoE-A2.7B": (
        llama(
            2048,
            24,
            16,
            5632,
            151936,
            model_type="qwen2_moe",
            moe_intermediate_size=1408,
            shared_expert_intermediate_size=5632,
            num_experts=60,
            num_experts_per_tok=4,
        ),
        14_315_784_192,
    ),
    "DeepSeek-V3": (DEEPSEEK_V3, 671_026_404_352),
    "DeepSeek-V2-Lite": (DEEPSEEK_V2_LITE, 15_706_484_224),
    "gpt-oss-120b": (GPT_OSS, 116_829_156_672),
    "gpt-oss-20b": (
        {**GPT_OSS, "num_hidden_layers": 24, "num_local_experts": 32},
        20_914_757_184,
    ),
    "dbrx-base": (
        {
            "model_type": "dbrx",
            "d_model": 6144,
            "n_layers": 40,
            "n_heads": 48,
            "vocab_size": 100352,
            "max_seq_len": 32768,
            "attn_config": {"kv_n_heads": 8},
            "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
        },
        131_596_523_520,
    ),
    "bert-base-uncased": (bert(), 109_482_240),
    "bert-large-uncased": (bert(1024, 24, 16, 4096), 335_141_888),
    "roberta-base": (
        bert(words=50265, model_type="roberta", max_position_embeddings=514, type_vocab_size=1),
        124_645_632,
    ),
    "xlm-roberta-base": (
        bert(
            words=250002, model_type="xlm-roberta", max_position_embeddings=514, type_vocab_size=1
        ),
        278_043_648,
    ),
    "distilbert-base": (
        {
            "model_type": "distilbert",
            "dim": 768,
            "n_layers": 6,
            "n_heads": 12,
            "hidden_dim": 3072,
            "vocab_size": 30522,
            "max_position_embeddings": 512,
        },
        66_362_880,
    ),
    "albert-base-v2": (
        bert(words=30000, model_type="albert", embedding_size=128),
        11_683_584,
    ),
    "electra-base-discriminator": (
        bert(model_type="electra", embedding_size=768),
        108_891_648,
    ),
    "t5-small": (t5(512, 6, 8, 2048), 60_506_624),
    "t5-base": (t5(768, 12, 12, 3072), 222_903_552),
    "flan-t5-xxl": (
        t5(4096, 24, 64, 10240, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
        11_135_332_352,
    ),
    "bart-large": (
        sides(1024, 12, 16, 50265, model_type="bart", max_position_embeddings=1024),
        406_291_456,
    ),
    "whisper-tiny": (
        sides(
            384,
            4,
            6,
            51865,
            model_type="whisper",
            max_source_positions=1500,
            max_target_positions=448,
        ),
        37_760_640,
    ),
    "whisper-large-v3": (
        sides(
            1280,
            32,
            20,
            51866,
            model_type="whisper",
            num_mel_bins=128,
            max_source_positions=1500,
            max_target_positions=448,
        ),
        1_543_490_560,
    ),
    "vit-base-patch16-224": (VIT, 86_389_248),
    "dinov2-base": (
        {**VIT, "model_type": "dinov2", "image_size": 518, "patch_size": 14},
        86_580_480,
    ),
    "clip-vit-base-patch32": (CLIP_B, 151_277_313),
    "clip-vit-large-patch14": (CLIP_L, 427_616_513),
    "llava-1.5-7b": (
        {
            "model_type": "llava",
            "text_config": {
                "model_type": "llama",
                "max_position_embeddings": 4096,
                "vocab_size": 32064,
            },
            "vision_config": {
                "hidden_size": 1024,
                "image_size": 336,
                "intermediate_size": 4096,
                "num_attention_heads": 16,
                "num_hidden_layers": 24,
                "patch_size": 14,
            },
        },
        7_063_427_072,
    ),
    "mistral-small-3.1-24b": (
        {
            "model_type": "mistral3",
            "spatial_merge_size": 2,
            "text_config": {
                "model_type": "mistral",
                "head_dim": 128,
                "hidden_size": 5120,
                "intermediate_size": 32768,
                "num_attention_heads": 32,
                "num_hidden_layers": 40,
                "num_key_value_heads": 8,
                "sliding_window": None,
                "max_position_embeddings": 131072,
                "vocab_size": 131072,
            },
            "vision_config": {
                "model_type": "pixtral",
                "hidden_size": 1024,
                "image_size": 1540,
                "intermediate_size": 4096,
                "num_attention_heads": 16,
                "num_hidden_layers": 24,
                "patch_size": 14,
            },
        },
        24_011_361_280,
    ),
    "llama-4-scout-17b-16e": (
        {
            "model_type": "llama4",
            "text_config": {"model_type": "llama4_text"},
            "vision_config": {
                "model_type": "llama4_vision_model",
                "hidden_size": 1408,
                "image_size": 336,
                "vision_output_dim": 4096,
            },
        },
        108_641_793_536,
    ),
    "gemma-3-4b-it": (
        {
            "model_type": "gemma3",
            "mm_tokens_per_image": 256,
            "text_config": {
                "model_type": "gemma3_text",
                "hidden_size": 2560,
                "intermediate_size": 10240,
                "num_hidden_layers": 34,
                "sliding_window": 1024,
            },
            "vision_config": {
                "model_type": "siglip_vision_model",
                "hidden_size": 1152,
                "image_size": 896,
                "intermediate_size": 4304,
                "num_attention_heads": 16,
                "num_hidden_layers": 27,
                "patch_size": 14,
                "vision_use_head": False,
            },
        },
        4_300_079_472,
    ),
    "idefics3-8b-llama3": (
        {
            "model_type": "idefics3",
            "scale_factor": 2,
            "text_config": {
                "model_type": "llama",
                "hidden_size": 4096,
                "intermediate_size": 14336,
                "num_attention_heads": 32,
                "num_hidden_layers": 32,
                "num_key_value_heads": 8,
                "max_position_embeddings": 131072,
                "vocab_size": 128259,
            },
            "vision_config": {
                "model_type": "idefics3",
                "hidden_size": 1152,
                "intermediate_size": 4304,
                "image_size": 364,
                "num_attention_heads": 16,
                "num_hidden_layers": 27,
                "patch_size": 14,
                "size": {"longest_edge": 1820},
            },
        },
        8_462_086_384,
    ),
    "internvl2-8b": (
        {
            "model_type": "internvl_chat",
            "architectures": ["InternVLChatModel"],
            "auto_map": {"AutoModel": "modeling_internvl_chat.InternVLChatModel"},
            "downsample_ratio": 0.5,
            "dynamic_image_size": True,
            "force_image_size": 448,
            "max_dynamic_patch": 12,
            "use_thumbnail": True,
            "llm_config": {
                "architectures": ["InternLM2ForCausalLM"],
                "model_type": "internlm2",
                "bias": False,
                "hidden_size": 4096,
                "intermediate_size": 14336,
                "max_position_embeddings": 32768,
                "num_attention_heads": 32,
                "num_hidden_layers": 32,
                "num_key_value_heads": 8,
                "rms_norm_eps": 1e-05,
                "tie_word_embeddings": False,
                "vocab_size": 92553,
            },
            "vision_config": {
                "architectures": ["InternVisionModel"],
                "model_type": "intern_vit_6b",
                "hidden_size": 1024,
                "image_size": 448,
                "intermediate_size": 4096,
                "norm_type": "layer_norm",
                "num_attention_heads": 16,
                "num_hidden_layers": 24,
                "patch_size": 14,
                "qk_normalization": False,
                "qkv_bias": True,
            },
        },
        8_075_365_376,  # 8.1B on its model card, whose tensors are those of these sizes
    ),
    "internvl3-1b": (
        {
            "model_type": "internvl",
            "downsample_ratio": 0.5,
            "text_config": {
                "model_type": "qwen2",
                "hidden_size": 896,
                "intermediate_size": 4864,
                "num_attention_heads": 14,
                "num_hidden_layers": 24,
                "num_key_value_heads": 2,
                "max_position_embeddings": 32768,
                "vocab_size": 151674,
            },
            "vision_config": {
                "model_type": "internvl_vision",
                "attention_bias": True,
                "image_size": [448, 448],
                "patch_size": [14, 14],
            },
            "tie_word_embeddings": False,
        },
        938_193_024,
    ),
    "llava-v1.6-mistral-7b": (
        {
            "model_type": "llava_next",
            "image_grid_pinpoints": [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]],
            "text_config": {
                "model_type": "mistral",
                "intermediate_size": 14336,
                "max_position_embeddings": 32768,
                "num_key_value_heads": 8,
                "sliding_window": None,
                "vocab_size": 32064,
            },
            "vision_config": {
                "hidden_size": 1024,
                "image_size": 336,
                "intermediate_size": 4096,
                "model_type": "clip_vision_model",
                "num_attention_heads": 16,
                "num_hidden_layers": 24,
                "patch_size": 14,
                "projection_dim": 768,
                "vocab_size": 32000,
            },
            "tie_word_embeddings": False,
        },
        7_566_747_648,
    ),
    "smolvlm-256m-instruct": (
        {
            "model_type": "idefics3",
            "scale_factor": 4,
            "tie_word_embeddings": False,
            "text_config": {
                "model_type": "llama",
                "hidden_size": 576,
                "intermediate_size": 1536,
                "num_attention_heads": 9,
                "num_hidden_layers": 30,
                "num_key_value_heads": 3,
                "max_position_embeddings": 8192,
                "vocab_size": 49280,
            },
            "vision_config": {
                "model_type": "idefics3",
                "hidden_size": 768,
                "intermediate_size": 3072,
                "image_size": 512,
                "num_attention_heads": 12,
                "num_hidden_layers": 12,
                "patch_size": 16,
            },
        },
        256_484_928,
    ),
    "llama-3.2-11b-vision-instruct": (
        {
            "model_type": "mllama",
            "text_config": {"model_type": "mllama_text_model"},
            "vision_config": {"model_type": "mllama_vision_model", "image_size": 560},
        },
        10_670_220_835,
    ),
    "paligemma-3b-pt-224": (
        {
            "model_type": "paligemma",
            "projection_dim": 2048,
            "text_config": {
                "model_type": "gemma",
                "hidden_size": 2048,
                "intermediate_size": 16384,
                "num_attention_heads": 8,
                "num_hidden_layers": 18,
                "num_key_value_heads": 1,
                "vocab_size": 257216,
            },
            "vision_config": {
                "model_type": "siglip_vision_model",
                "hidden_size": 1152,
                "intermediate_size": 4304,
                "num_attention_heads": 16,
                "num_hidden_layers": 27,
                "patch_size": 14,
                "vision_use_head": False,
            },
        },
        2_923_466_480,
    ),
    "qwen2-vl-2b-instruct": (
        {
            "model_type": "qwen2_vl",
            "hidden_size": 1536,
            "intermediate_size": 8960,
            "num_attention_heads": 12,
            "num_hidden_layers": 28,
            "num_key_value_heads": 2,
            "tie_word_embeddings": True,
            "vision_config": {"depth": 32, "embed_dim": 1280, "hidden_size": 1536},
            "vocab_size": 151936,
        },
        2_208_985_600,
    ),
    "qwen2.5-vl-7b-instruct": (
        {
            "model_type": "qwen2_5_vl",
            "hidden_size": 3584,
            "intermediate_size": 18944,
            "num_attention_heads": 28,
            "num_hidden_layers": 28,
            "num_key_value_heads": 4,
            "vision_config": {"hidden_size": 1280, "out_hidden_size": 3584},
            "vocab_size": 152064,
        },
        8_292_166_656,
    ),
    "qwen3-vl-8b-instruct": (
        {
            "model_type": "qwen3_vl",
            "text_config": {
                "model_type": "qwen3_vl_text",
                "head_dim": 128,
                "hidden_size": 4096,
                "intermediate_size": 12288,
                "num_attention_heads": 32,
                "num_hidden_layers": 36,
                "num_key_value_heads": 8,
                "vocab_size": 151936,
            },
            "vision_config": {"model_type": "qwen3_vl", "out_hidden_size": 4096},
        },
        8_767_123_696,
    ),
    "siglip-base-patch16-224": (
        {"model_type": "siglip", "text_config": {}, "vision_config": {}},
        203_155_970,
    ),
}
