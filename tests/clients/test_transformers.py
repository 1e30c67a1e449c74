"""Released transformers on the device: the CPU's values, tokens and losses."""

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
transformers = pytest.importorskip("transformers", reason="make clients installs transformers")

sys.path.insert(0, str(Path(__file__).parent))
from models import MODELS, gradients, inputs_of

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("name", MODELS)
def test_outputs_and_gradients_are_the_cpus(name):
    (found, grads), (expected, theirs) = (gradients(MODELS[name], d) for d in ("neuron", "cpu"))
    assert torch.allclose(found, expected, atol=1e-4)
    for mine, other in zip(grads, theirs, strict=True):
        assert torch.allclose(mine, other, atol=1e-4)


@pytest.mark.parametrize("name", ["Llama", "GPT-2", "Mixtral"])
def test_generate_gives_the_cpus_tokens(name):
    tokens = {}
    for device in ("neuron", "cpu"):
        model = MODELS[name].build().to(device)
        prompt = inputs_of("tokens")["input_ids"].to(device)
        found = model.generate(prompt, max_new_tokens=10, do_sample=False, pad_token_id=0)
        tokens[device] = found.tolist()
    assert tokens["neuron"] == tokens["cpu"]


def trained(folder, *, use_cpu):
    rows = [{"input_ids": row, "labels": row} for row in torch.randint(3, 60, (16, 8))]
    arguments = transformers.TrainingArguments(
        output_dir=str(folder), max_steps=4, per_device_train_batch_size=4, logging_steps=1,
        report_to=[], use_cpu=use_cpu, save_steps=2, seed=1, data_seed=1,
    )  # fmt: skip
    trainer = transformers.Trainer(MODELS["Llama"].build(), arguments, train_dataset=rows)
    trainer.train()
    return trainer, [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def test_the_trainer_trains_on_the_device_as_on_the_cpu_and_resumes(tmp_path):
    torch.manual_seed(0)
    trainer, losses = trained(tmp_path / "neuron", use_cpu=False)
    torch.manual_seed(0)
    _, expected = trained(tmp_path / "cpu", use_cpu=True)
    assert trainer.args.device.type == "neuron"
    assert losses == pytest.approx(expected, rel=1e-3)
    again = trainer.train(resume_from_checkpoint=str(tmp_path / "neuron" / "checkpoint-2"))
    assert again.global_step == 4


def test_saved_weights_load_and_move_to_the_device(tmp_path):
    model = MODELS["Llama"].build()
    model.to("neuron").save_pretrained(tmp_path)
    loaded = transformers.LlamaForCausalLM.from_pretrained(tmp_path).to("neuron")
    for mine, other in zip(loaded.parameters(), model.parameters(), strict=True):
        assert mine.device.type == "neuron"
        assert torch.equal(mine.cpu(), other.cpu())


def test_safetensors_itself_does_not_know_the_device_yet(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch", reason="make clients installs it")
    safetensors.save_file({"x": torch.ones(3)}, tmp_path / "x.safetensors")
    with pytest.raises(Exception, match="device neuron is invalid"):
        safetensors.load_file(tmp_path / "x.safetensors", device="neuron")
