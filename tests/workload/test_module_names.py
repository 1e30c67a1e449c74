import pytest
from workload_sizes import GROUPED, LATENT, MLP, experts

from trnsim.workload.architecture import Layer
from trnsim.workload.config import FAMILIES
from trnsim.workload.mixer import Mixer
from trnsim.workload.module_names import matrix_names

DENSE = Layer(3, (GROUPED,), MLP, norms=1)
SPARSE = Layer(3, (LATENT,), experts(), norms=1)

MIXED = Layer(3, (Mixer(4, 2, 8, 8, taps=4, chunk=8),), MLP, norms=1)
SPARSE_MIXED = Layer(3, MIXED.attentions, experts(), norms=1)


def names(model_type, layer=DENSE, tower="decoder"):
    return dict(matrix_names(model_type, tower, layer, 2))


# Modules of models that transformers 5.23 builds.
@pytest.mark.parametrize(
    ("model_type", "tower", "matrix", "module"),
    [
        ("llama", "decoder", "attention.query", "model.layers.2.self_attn.q_proj"),
        ("phi3", "decoder", "attention.key and value", "model.layers.2.self_attn.qkv_proj"),
        ("phi3", "decoder", "mlp.up", "model.layers.2.mlp.gate_up_proj"),
        ("gpt2", "decoder", "attention.output", "transformer.h.2.attn.c_proj"),
        ("gpt_neox", "decoder", "mlp.down", "gpt_neox.layers.2.mlp.dense_4h_to_h"),
        ("falcon", "decoder", "attention.query", "transformer.h.2.self_attention.query_key_value"),
        ("opt", "decoder", "mlp.up", "model.decoder.layers.2.fc1"),
        ("t5", "encoder", "attention.value", "encoder.block.2.layer.0.SelfAttention.v"),
        ("t5", "decoder", "cross attention.key", "decoder.block.2.layer.1.EncDecAttention.k"),
        ("bart", "encoder", "attention.output", "model.encoder.layers.2.self_attn.out_proj"),
        ("bert", "encoder", "mlp.up", "bert.encoder.layer.2.intermediate.dense"),
        ("camembert", "encoder", "mlp.up", "roberta.encoder.layer.2.intermediate.dense"),
        ("vit", "images", "mlp.down", "layers.2.mlp.fc2"),
        ("llava", "decoder", "mlp.up", "model.language_model.layers.2.mlp.up_proj"),
        (
            "llava",
            "images",
            "attention.query",
            "model.vision_tower.vision_model.encoder.layers.2.self_attn.q_proj",
        ),
    ],
)
def test_a_matrix_has_the_modules_of_transformers(model_type, tower, matrix, module):
    assert module in names(model_type, tower=tower)[matrix]


@pytest.mark.parametrize(
    ("matrix", "module"),
    [
        ("attention.query latent", "self_attn.q_a_proj"),
        ("attention.query", "self_attn.q_b_proj"),
        ("attention.keys absorbed", "self_attn.kv_b_proj"),
        ("mlp.expert up", "mlp.experts.0.gate_proj"),
        ("mlp.expert down", "block_sparse_moe.experts.0.w2"),
        ("mlp.shared down", "mlp.shared_experts.down_proj"),
    ],
)
def test_latent_attention_and_experts_have_theirs(matrix, module):
    assert f"model.layers.2.{module}" in names("deepseek_v3", SPARSE)[matrix]
    if matrix != "attention.query":
        assert matrix not in names("deepseek_v3")


@pytest.mark.parametrize(
    ("model_type", "matrix", "module"),
    [
        ("bamba", "mixer.gate", "model.layers.2.mamba.in_proj"),
        ("bamba", "mlp.up", "model.layers.2.feed_forward.up_proj"),
        ("falcon_h1", "mixer.mixed", "model.layers.2.mamba.in_proj"),
        ("granitemoehybrid", "mixer.output", "model.layers.2.mamba.out_proj"),
        ("granitemoehybrid", "mlp.down", "model.layers.2.shared_mlp.output_linear"),
        ("qwen3_next", "mixer.mixed", "model.layers.2.linear_attn.in_proj_qkvz"),
        ("qwen3_next", "mixer.step", "model.layers.2.linear_attn.in_proj_ba"),
        ("mamba2", "mixer.step", "backbone.layers.2.mixer.in_proj"),
        ("nemotron_h", "mixer.mixed", "backbone.layers.2.mixer.in_proj"),
        ("nemotron_h", "mlp.up", "model.layers.2.mixer.up_proj"),
    ],
)
def test_mixers_have_theirs(model_type, matrix, module):
    assert module in names(model_type, MIXED)[matrix]
    assert "attention.query" not in names(model_type, MIXED)
    assert "mixer.gate" not in names(model_type)


@pytest.mark.parametrize(
    ("model_type", "matrix", "module"),
    [
        ("granitemoehybrid", "expert up", "block_sparse_moe.input_linear"),
        ("granitemoehybrid", "shared up", "shared_mlp.input_linear"),
        ("nemotron_h", "expert down", "mixer.experts.0.down_proj"),
        ("nemotron_h", "shared down", "mixer.shared_experts.down_proj"),
    ],
)
def test_experts_beside_mixers_have_theirs(model_type, matrix, module):
    assert f"model.layers.2.{module}" in names(model_type, SPARSE_MIXED)[f"mlp.{matrix}"]


def test_every_family_has_names():
    for model_type in FAMILIES:
        assert {"attention.query", "attention.output"} <= names(model_type).keys()
        assert all(len(set(modules)) == len(modules) for modules in names(model_type).values())
