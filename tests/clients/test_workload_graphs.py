"""Formulas of models beside their captured graphs, at the widths of published models."""

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
pytest.importorskip("transformers", reason="make clients installs transformers")

sys.path.append(str(Path(__file__).parents[1] / "workload"))

from published_models import COUNTS

from trnsim.errors import BadInput, NotModelled
from trnsim.torch.models import ModelShape, model_graph
from trnsim.torch.models.config import config_of
from trnsim.workload.captured import CapturedModel, summaries_of, workload_of
from trnsim.workload.config import from_config
from trnsim.workload.operators import Pass, Phase, Split
from trnsim.workload.passes import summaries
from trnsim.workload.summary import captured_summaries

WITHIN = 0.01
BATCH, TOKENS = 2, 64
ENCODERS = {
    "bert-base-uncased": "BertForMaskedLM",
    "roberta-base": "RobertaModel",
    "xlm-roberta-base": "XLMRobertaForSequenceClassification",
    "distilbert-base": "DistilBertModel",
    "albert-base-v2": "AlbertModel",
    "electra-base-discriminator": "ElectraForPreTraining",
    "t5-base": "T5EncoderModel",
    "vit-base-patch16-224": "ViTForImageClassification",
    "dinov2-base": "Dinov2Model",
    "clip-vit-base-patch32": "CLIPModel",
    "clip-vit-large-patch14": "CLIPModel",
}
DECODERS = {
    "Llama-2-7b": "LlamaForCausalLM",
    "Llama-3.2-1B": "LlamaForCausalLM",
    "Mistral-7B-v0.1": "MistralForCausalLM",
    "Qwen2-7B": "Qwen2ForCausalLM",
    "Qwen3-8B": "Qwen3ForCausalLM",
    "phi-2": "PhiForCausalLM",
    "Phi-3-mini": "Phi3ForCausalLM",
    "gemma-2b": "GemmaForCausalLM",
    "gemma-2-9b": "Gemma2ForCausalLM",
    "OLMo-2-7B": "Olmo2ForCausalLM",
    "starcoder2-3b": "Starcoder2ForCausalLM",
    "gpt2": "GPT2LMHeadModel",
    "opt-125m": "OPTForCausalLM",
}


def totals(found):
    """FLOPs of products, and bytes of weights, of what all products give, of keys and values."""
    return {
        "flop": sum(one.times * one.flop for one in found),
        "given": sum(one.times * given_bytes(product) for one in found for product in one.products),
        "weights": sum(one.times * one.weight_bytes for one in found),
        "read": sum(one.times * one.cache.read_bytes for one in found),
        "written": sum(one.times * one.cache.written_bytes for one in found),
    }


def given_bytes(product):
    """Bytes of the results, scores among them: these do not depend on which products are joined."""
    return product.m * product.n * product.times * product.bits / 8


def compare(name, kind, phase, *, past=0, ranks=1, left_out=(), **given):
    """The formula's totals within a hundredth of the graph's, but for those that are left out."""
    values = {**COUNTS[name][0], "architectures": [kind], **given}
    shape = ModelShape(phase, BATCH, TOKENS, past, ranks)
    graph = model_graph(config_of(dict(values), name), shape)
    is_generating = phase in ("prefill", "decode")
    captured = totals(captured_summaries(graph.graph, graph.weights, is_generating=is_generating))
    tokens = 1 if phase == "decode" else TOKENS
    one = Pass(Phase(phase), BATCH, tokens, past)
    formula = totals(summaries(from_config(values, name), one, Split(tensor=ranks)))
    assert captured["flop"] > 0
    for one in left_out:
        del captured[one], formula[one]
    assert formula == pytest.approx(captured, rel=WITHIN)


@pytest.mark.parametrize(("name", "kind"), ENCODERS.items())
def test_encoders(name, kind):
    compare(name, kind, "encode")


@pytest.mark.parametrize(("phase", "past"), [("prefill", 0), ("decode", 63)])
@pytest.mark.parametrize(("name", "kind"), DECODERS.items())
def test_decoders(name, kind, phase, past):
    layers = "n_layer" if "n_layer" in COUNTS[name][0] else "num_hidden_layers"
    compare(name, kind, phase, past=past, **{layers: 4})


def test_a_window_bounds_what_a_step_reads():
    short = {"sliding_window": 16, "num_hidden_layers": 2}
    compare("Mistral-7B-v0.1", "MistralForCausalLM", "decode", past=63, **short)


@pytest.mark.parametrize("name", ["Mixtral-8x7B", "Qwen3-30B-A3B", "gpt-oss-20b"])
def test_experts(name):
    kinds = {"Mi": "MixtralForCausalLM", "Qw": "Qwen3MoeForCausalLM", "gp": "GptOssForCausalLM"}
    compare(name, kinds[name[:2]], "prefill", num_hidden_layers=2)


def test_latent_attention_and_experts():
    """A prompt; transformers puts its keys into an empty input, which the graph seems to read."""
    given = {"num_hidden_layers": 4, "left_out": ("read",)}  # three dense layers, one of experts
    compare("DeepSeek-V3", "DeepseekV3ForCausalLM", "prefill", **given)


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize(("phase", "past"), [("prefill", 0), ("decode", 63)])
def test_ranks_share_layers(ranks, phase, past):
    compare("Llama-3.2-1B", "LlamaForCausalLM", phase, past=past, ranks=ranks, num_hidden_layers=2)


def test_a_training_pass_is_three_forward_ones():
    values = {**COUNTS["Llama-3.2-1B"][0], "architectures": ["LlamaForCausalLM"]}
    values["num_hidden_layers"] = 2
    step = model_graph(config_of(dict(values), "llama"), ModelShape("train", 1, TOKENS))
    whole = totals(captured_summaries(step.graph, step.weights))["flop"]
    forward = totals(summaries(from_config(values, "llama"), Pass(Phase.TRAIN, 1, TOKENS)))["flop"]
    assert whole == pytest.approx(3 * forward, rel=WITHIN)


def captured(values, one, split=None):
    """A captured model, and its blocks."""
    found = workload_of(values, "mine.json")
    assert isinstance(found, CapturedModel)
    return found, summaries_of(found, one, split or Split())


MAMBA = {
    "model_type": "mamba",
    "architectures": ["MambaForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "vocab_size": 100,
}


def test_a_model_without_a_formula_is_read_from_its_graph():
    found, made = captured(MAMBA, Pass(Phase.ENCODE, 2, 32))
    assert sum(block.times for block in made if block.name == "layer") == 3
    assert sum(block.times * block.resident_bytes for block in made) == pytest.approx(
        2 * found.parameters, rel=WITHIN
    )
    double = captured(MAMBA, Pass(Phase.ENCODE, 4, 32))[1]
    assert totals(double)["flop"] == 2 * totals(made)["flop"]
    assert totals(double)["weights"] == totals(made)["weights"]


def test_a_network_of_convolutions_has_its_published_sizes():
    values = {"model_type": "resnet", "architectures": ["ResNetForImageClassification"]}
    values["id2label"] = {str(place): str(place) for place in range(1000)}
    found, made = captured(values, Pass(Phase.ENCODE, 1, 1, image=224))
    assert found.parameters == 25_557_032  # torchvision's ResNet-50
    assert totals(made)["flop"] / 2 == pytest.approx(4.09e9, rel=WITHIN)  # 4.09 GFLOPs of MACs
    larger = captured(values, Pass(Phase.ENCODE, 1, 1, image=448))[1]
    assert totals(larger)["flop"] == pytest.approx(4 * totals(made)["flop"], rel=WITHIN)


UNET = {
    "_class_name": "UNet2DConditionModel",
    "sample_size": 64,
    "in_channels": 4,
    "out_channels": 4,
    "block_out_channels": [320, 640, 1280, 1280],
    "cross_attention_dim": 768,
    "attention_head_dim": 8,
}


def test_a_denoiser_has_its_published_sizes():
    pytest.importorskip("diffusers", reason="make clients installs diffusers")
    found, made = captured(UNET, Pass(Phase.ENCODE, 1, 1))
    assert found.parameters == 859_520_964  # Stable Diffusion 1.5's
    smaller = captured(UNET, Pass(Phase.ENCODE, 1, 1, image=256))[1]
    assert totals(made)["flop"] > 4 * totals(smaller)["flop"]
    assert totals(made)["weights"] == totals(smaller)["weights"]


SMALL_UNET = {
    "_class_name": "UNet2DConditionModel",
    "block_out_channels": [32, 64],
    "layers_per_block": 1,
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D", "UpBlock2D"],
    "cross_attention_dim": 64,
    "norm_num_groups": 8,
}


def test_a_size_of_each_side_is_that_of_the_latents():
    pytest.importorskip("diffusers", reason="make clients installs diffusers")
    oblong = captured({**SMALL_UNET, "sample_size": [8, 32]}, Pass(Phase.ENCODE, 1, 1))[1]
    square = captured({**SMALL_UNET, "sample_size": 16}, Pass(Phase.ENCODE, 1, 1))[1]
    assert totals(oblong)["flop"] == totals(square)["flop"]


def test_an_image_that_is_too_small_is_refused():
    pytest.importorskip("diffusers", reason="make clients installs diffusers")
    with pytest.raises(
        BadInput, match=r"^UNet2DConditionModel has no graph on images of 4 pixels a side: Calcul"
    ):
        captured({**SMALL_UNET, "sample_size": 16}, Pass(Phase.ENCODE, 1, 1, image=4))


def test_an_autoencoder_makes_an_image():
    pytest.importorskip("diffusers", reason="make clients installs diffusers")
    values = {"_class_name": "AutoencoderKL", "block_out_channels": [32, 64], "sample_size": 64}
    one = {
        "down_block_types": ["DownEncoderBlock2D"] * 2,
        "up_block_types": ["UpDecoderBlock2D"] * 2,
    }
    made = captured({**values, **one}, Pass(Phase.ENCODE, 1, 1))[1]
    assert totals(made)["flop"] > 0


def test_what_diffusers_lacks_is_named():
    pytest.importorskip("diffusers", reason="make clients installs diffusers")
    with pytest.raises(
        BadInput, match=r"^_class_name is 'Nothing', which diffusers .* does not ha"
    ):
        captured({"_class_name": "Nothing"}, Pass(Phase.ENCODE, 1, 1))
    with pytest.raises(BadInput, match=r"^_class_name is 'DDIMScheduler', which diffusers"):
        captured({"_class_name": "DDIMScheduler"}, Pass(Phase.ENCODE, 1, 1))
    small = {"num_layers": 1, "num_single_layers": 1, "attention_head_dim": 8}
    small |= {"num_attention_heads": 2, "axes_dims_rope": [2, 2, 4]}
    with pytest.raises(NotModelled, match=r"^FluxTransformer2DModel takes hidden_states, "):
        captured({"_class_name": "FluxTransformer2DModel", **small}, Pass(Phase.ENCODE, 1, 1))


def test_an_architecture_that_transformers_lacks_is_named():
    with pytest.raises(BadInput, match="is of architecture 'lamma', which transformers"):
        captured({"model_type": "lamma"}, Pass(Phase.ENCODE, 1, 8))
