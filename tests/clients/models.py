"""Tiny, randomly initialised models of transformers on the device; as a program, docs/models.md."""

import warnings
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers

from trnsim.torch.device_time import step_time
from trnsim.torch.recording import recording

SIZES = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
IMAGES = {"image_size": 16, "patch_size": 4}
NO_TEXT = {name: size for name, size in SIZES.items() if name != "vocab_size"}
PAGE = Path(__file__).parents[2] / "docs" / "models.md"


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
        SIZES | {"num_key_value_heads": 2, "num_local_experts": 4},
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
    if kind in ("tokens", "both"):
        found["input_ids"] = torch.randint(3, 60, (2, 12), generator=own)
    if kind in ("pixels", "both"):
        found["pixel_values"] = torch.randn(2, 3, 16, 16, generator=own)
    return found


def result(output):
    for name in ("logits", "logits_per_image", "last_hidden_state"):
        if getattr(output, name, None) is not None:
            return getattr(output, name)
    raise AttributeError(output)


def gradients(tiny, device):
    """The output, and the gradient of its mean square by every parameter, on the CPU."""
    model = tiny.build().to(device)
    inputs = {name: value.to(device) for name, value in inputs_of(tiny.inputs).items()}
    found = result(model(**inputs))
    found.float().pow(2).mean().backward()
    grads = [p.grad.cpu() for p in model.parameters() if p.grad is not None]
    return found.detach().cpu(), grads


def row(name, tiny):
    """What became of a model, as a row of the page."""
    try:
        expected, _ = gradients(tiny, "cpu")
        with recording() as calls:
            found, grads = gradients(tiny, "neuron")
    except (RuntimeError, NotImplementedError) as error:
        return f"| {name} | `{tiny.model}` | no: {str(error).splitlines()[0]} | | |"
    time = step_time(calls, "trn2")
    missing = sorted({why.split(" ")[0] for why in time.missing})
    apart = (found - expected).abs().max().item()
    assert grads
    return (
        f"| {name} | `{tiny.model}` | {apart:.0e} | {time.device_time_s * 1e6:.0f} | "
        f"{', '.join(f'`{one}`' for one in missing) or 'none'} |"
    )


def page():
    rows = [row(name, tiny) for name, tiny in MODELS.items()]
    return "\n".join(
        [
            "# Models",
            "",
            (
                f"Tiny, randomly initialised models of transformers {transformers.__version__}, "
                "forward and backward on the device (`make clients` writes this page)."
            ),
            (
                "The difference is the largest of any output from the CPU's. The time is what the "
                "device needs, operator by operator, without launches, on trn2; operators"
            ),
            "without a lowering are computed by the host and their time is missing from it.",
            "",
            (
                "| model | class | difference from the CPU | forward and backward, us | "
                "operators without a time |"
            ),
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.name}")
