"""Tiny, randomly initialised models of transformers whose inputs are known."""

from dataclasses import dataclass

import torch
import transformers

SIZES = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
IMAGES = {"image_size": 16, "patch_size": 4}
NO_TEXT = {name: size for name, size in SIZES.items() if name != "vocab_size"}


@dataclass(frozen=True)
class Tiny:
    """A model class with a configuration small enough to run in a second."""

    config: str
    model: str
    options: dict
    inputs: str = "tokens"

    def build(self):
        torch.manual_seed(0)
        config = getattr(transformers, self.config)(**self.options)
        return getattr(transformers, self.model)(config).eval()


EXPERTS = {"num_key_value_heads": 2, "num_local_experts": 4}
PICTURE_WORD, PICTURE_WORDS = 63, 4  # in Llama-4, for each image of 16 patches

MODELS = {
    "Llama": Tiny("LlamaConfig", "LlamaForCausalLM", SIZES | {"num_key_value_heads": 2}),
    "Mistral": Tiny("MistralConfig", "MistralForCausalLM", SIZES | {"num_key_value_heads": 2}),
    "Qwen3": Tiny(
        "Qwen3Config", "Qwen3ForCausalLM", SIZES | {"num_key_value_heads": 2, "head_dim": 8}
    ),
    "Gemma": Tiny(
        "GemmaConfig", "GemmaForCausalLM", SIZES | {"num_key_value_heads": 2, "head_dim": 8}
    ),
    "Mixtral": Tiny(
        "MixtralConfig",
        "MixtralForCausalLM",
        SIZES | EXPERTS,
    ),
    "Llama-4": Tiny(
        "Llama4Config",
        "Llama4ForConditionalGeneration",
        {
            "text_config": SIZES
            | EXPERTS
            | {"head_dim": 8, "num_experts_per_tok": 1, "intermediate_size_mlp": 64},
            "vision_config": NO_TEXT
            | IMAGES
            | {"intermediate_size": 128, "vision_output_dim": 32}
            | {"projector_input_dim": 32, "projector_output_dim": 32},
            "image_token_index": PICTURE_WORD,
        },
        "picture",
    ),
    "GPT-2": Tiny(
        "GPT2Config", "GPT2LMHeadModel", {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}
    ),
    "GPT-NeoX": Tiny("GPTNeoXConfig", "GPTNeoXForCausalLM", SIZES),
    "BERT": Tiny("BertConfig", "BertForMaskedLM", SIZES),
    "RoBERTa": Tiny("RobertaConfig", "RobertaForMaskedLM", SIZES),
    "ESM": Tiny(
        "EsmConfig",
        "EsmForMaskedLM",
        SIZES | {"pad_token_id": 1, "position_embedding_type": "rotary"},
    ),
    "T5 encoder": Tiny(
        "T5Config",
        "T5EncoderModel",
        {"vocab_size": 64, "d_model": 32, "d_ff": 64, "num_layers": 2, "num_heads": 4, "d_kv": 8},
    ),
    "Mamba": Tiny(
        "MambaConfig",
        "MambaForCausalLM",
        {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4},
    ),
    "ViT": Tiny("ViTConfig", "ViTForImageClassification", NO_TEXT | IMAGES, "pixels"),
    "CLIP": Tiny(
        "CLIPConfig",
        "CLIPModel",
        {
            "text_config": SIZES | {"max_position_embeddings": 32, "eos_token_id": 2},
            "vision_config": NO_TEXT | IMAGES,
            "projection_dim": 16,
        },
        "both",
    ),
}


def inputs_of(kind):
    own = torch.Generator().manual_seed(1)
    found = {}
    if kind in ("tokens", "both", "picture"):
        found["input_ids"] = torch.randint(3, 60, (2, 12), generator=own)
    if kind == "picture":
        found["input_ids"][:, 2 : 2 + PICTURE_WORDS] = PICTURE_WORD
    if kind in ("pixels", "both", "picture"):
        found["pixel_values"] = torch.randn(2, 3, 16, 16, generator=own)
    return found


def result(output):
    for name in ("logits", "logits_per_image", "last_hidden_state"):
        if getattr(output, name, None) is not None:
            return getattr(output, name)
    raise AttributeError(output)


def gradients(tiny, device, *, is_compiled=False):
    """The output, and the gradient of its mean square by every parameter, on the CPU."""
    model = tiny.build().to(device)
    inputs = {name: value.to(device) for name, value in inputs_of(tiny.inputs).items()}
    called = torch.compile(model, backend=device) if is_compiled else model
    found = result(called(**inputs))
    found.float().pow(2).mean().backward()
    grads = [p.grad.cpu() for p in model.parameters() if p.grad is not None]
    return found.detach().cpu(), grads
