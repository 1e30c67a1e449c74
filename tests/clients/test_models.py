"""Known models of released transformers on the device: the CPU's outputs and gradients."""

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
pytest.importorskip("transformers", reason="make clients installs transformers")

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


@pytest.mark.parametrize("kind", ["llama", "vit", "whisper", "qwen2_vl"])
def test_rules_build_an_architecture_that_nobody_described(kind):
    _, built = tiny.build(kind)
    expected = outputs_and_gradients(built, "cpu")
    assert difference(outputs_and_gradients(built, "neuron"), expected) < 1e-3


def test_what_the_rules_cannot_build_says_why():
    with pytest.raises(tiny.CannotBuild, match="no model class of its own"):
        tiny.build("owlv2_text_model")
