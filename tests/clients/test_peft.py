"""LoRA by released peft on the device: the CPU's losses, and the same model once merged."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
peft = pytest.importorskip("peft", reason="make clients installs peft")

from known import MODELS, inputs_of

pytestmark = pytest.mark.filterwarnings("ignore")


def adapted():
    base = MODELS["Llama"].build()
    torch.manual_seed(1)
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"])
    return peft.get_peft_model(base, config)


def trained(device):
    model, words = adapted().to(device), inputs_of("tokens")["input_ids"].to(device)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    losses = []
    for _ in range(4):
        loss = model(input_ids=words, labels=words).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return model, losses


def test_an_adapter_trains_as_on_the_cpu_and_the_base_stays():
    before = {name: value.clone() for name, value in adapted().base_model.named_parameters()}
    (model, losses), (other, expected) = trained("neuron"), trained("cpu")
    assert losses == pytest.approx(expected, rel=1e-4)
    assert losses[-1] < losses[0]
    theirs = dict(other.base_model.named_parameters())
    for name, value in model.base_model.named_parameters():
        assert value.device.type == "neuron"
        assert torch.allclose(value.cpu(), theirs[name], atol=1e-3)
        if "lora" not in name:
            assert torch.equal(value.cpu(), before[name])


def test_a_merged_adapter_computes_the_same(tmp_path):
    model, _ = trained("neuron")
    model.eval()
    words = inputs_of("tokens")["input_ids"].to("neuron")
    adapted_logits = model(words).logits
    model.save_pretrained(tmp_path)
    merged = copy.deepcopy(model).merge_and_unload()
    assert not any("lora" in name for name, _ in merged.named_parameters())
    assert torch.allclose(merged(words).logits.cpu(), adapted_logits.cpu(), atol=1e-5)
    loaded = peft.PeftModel.from_pretrained(MODELS["Llama"].build().to("neuron"), tmp_path)
    assert torch.allclose(loaded(words).logits.cpu(), adapted_logits.cpu(), atol=1e-5)
