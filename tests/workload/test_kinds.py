from pathlib import Path

import pytest

from trnsim.workload.captured import CapturedModel
from trnsim.workload.config import from_config, read
from trnsim.workload.kinds import ModelKind

CONFIGS = Path(__file__).resolve().parents[2] / "bench" / "system" / "configs"
T5 = {
    "model_type": "t5", "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6,
    "num_heads": 8, "vocab_size": 32128,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("bert-large-uncased", ModelKind.ENCODER),
        ("google--vit-base-patch16-224", ModelKind.VISION),
        ("openai--clip-vit-base-patch32", ModelKind.PAIR),
        ("Mixtral-8x7B", ModelKind.EXPERTS),
        ("GPT-22B", ModelKind.DENSE),
        ("Llama-3-8B", ModelKind.DENSE),
    ],
)
def test_a_model_has_the_kind_of_its_layers(name, kind):
    assert read(CONFIGS / f"{name}.json").kind is kind


def test_two_towers_are_an_encoder_decoder():
    assert from_config(T5, "t5.json").kind is ModelKind.ENCODER_DECODER


def test_latent_attention_comes_before_experts():
    deepseek = {
        "model_type": "deepseek_v3", "hidden_size": 1024, "intermediate_size": 2048,
        "moe_intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8,
        "num_key_value_heads": 8, "n_routed_experts": 8, "num_experts_per_tok": 2,
        "n_shared_experts": 1, "first_k_dense_replace": 1, "kv_lora_rank": 128,
        "q_lora_rank": 256, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64,
        "vocab_size": 1000, "n_group": 1, "topk_group": 1, "max_position_embeddings": 4096,
    }  # fmt: skip
    assert from_config(deepseek, "deepseek.json").kind is ModelKind.LATENT


def test_a_graph_is_a_network_or_a_denoiser():
    denoiser = CapturedModel("UNet", "UNet2DConditionModel", '{"_class_name": "UNet"}', "unet.json")
    assert CapturedModel("resnet", "resnet", "{}", "resnet.json").kind is ModelKind.NETWORK
    assert denoiser.kind is ModelKind.DIFFUSION
