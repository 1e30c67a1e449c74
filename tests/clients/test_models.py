"""Known models of released transformers on the device: the CPU's outputs and gradients."""

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
pytest.importorskip("transformers", reason="make clients installs transformers")

import sizes
import tiny
from known import MODELS, gradients, inputs_of
from models import difference, outputs_and_gradients

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", MODELS)
def test_outputs_and_gradients_are_the_cpus(name, is_compiled):
    torch._dynamo.reset()
    found, grads = gradients(MODELS[name], "neuron", is_compiled=is_compiled)
    expected, theirs = gradients(MODELS[name], "cpu")
    assert torch.allclose(found, expected, atol=1e-4)
    assert any(gradient.abs().max() > 0 for gradient in theirs)
    for mine, other in zip(grads, theirs, strict=True):
        assert torch.allclose(mine, other, atol=1e-4)


def test_llama_4_sees_the_picture():
    plain, other = MODELS["Llama-4"].build().to("neuron"), torch.randn(2, 3, 16, 16)
    inputs = {name: value.to("neuron") for name, value in inputs_of("picture").items()}
    seen = plain(**inputs).logits
    assert not torch.equal(seen, plain(**(inputs | {"pixel_values": other.to("neuron")})).logits)


# By the rules in place; remade from fewer arguments; with every width divided; with what is unset.
@pytest.mark.parametrize(
    "kind", ["llama", "vit", "whisper", "qwen2_vl", "depth_anything", "univnet", "deepseek_v2"]
)
def test_rules_build_an_architecture_that_nobody_described(kind):
    _, built = tiny.build(kind)
    expected = outputs_and_gradients(built, "cpu")
    assert difference(outputs_and_gradients(built, "neuron"), expected) < 1e-3


def test_a_remade_configuration_derives_anew_what_its_class_derives():
    made = sizes.tiny_config("deepseek_v3", sizes.Rung(sizes.SIZES, is_remade=True))
    assert made.qk_head_dim == made.qk_nope_head_dim + made.qk_rope_head_dim


def test_a_divided_configuration_keeps_its_ratios():
    whole = sizes.CONFIG_MAPPING["swin"]()
    made = sizes.tiny_config("swin", sizes.Rung(sizes.SIZES, is_remade=True, divisor=8))
    assert (made.embed_dim, made.hidden_size) == (whole.embed_dim // 8, whole.hidden_size // 8)
    assert made.num_heads == whole.num_heads


def test_a_backbone_gives_as_many_outputs_from_fewer_layers():
    whole = sizes.CONFIG_MAPPING["depth_anything"]().backbone_config
    rung = sizes.Rung(sizes.SIZES, is_remade=True)
    made = sizes.tiny_config("depth_anything", rung).backbone_config
    assert made.num_hidden_layers < whole.num_hidden_layers
    assert len(made.out_indices) == len(whole.out_indices)


def test_what_only_generates_says_so():
    with pytest.raises(tiny.CannotBuild, match="no forward pass of its own"):
        tiny.build("bark")


def test_what_the_rules_cannot_build_says_why():
    with pytest.raises(tiny.CannotBuild, match="no model class of its own"):
        tiny.build("owlv2_text_model")
