"""Released transformers on the device: the CPU's losses, tokens and answers."""

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
transformers = pytest.importorskip("transformers", reason="make clients installs transformers")

from known import MODELS, SIZES, inputs_of
from words import tokenizer

pytestmark = pytest.mark.filterwarnings("ignore")

GREEDY = {"do_sample": False}
BEAMS = {"do_sample": False, "num_beams": 3}
SAMPLED = {"do_sample": True, "temperature": 2.0, "top_k": 20, "top_p": 0.9}
STATIC = GREEDY | {"cache_implementation": "static", "disable_compile": True}


def on_both(answer):
    """What `answer(device)` gives on the device and on the CPU."""
    return answer("neuron"), answer("cpu")


@pytest.mark.parametrize("name", ["Llama", "GPT-2", "Mixtral", "Mamba", "Llama-4"])
@pytest.mark.parametrize(
    "how", [GREEDY, BEAMS, SAMPLED, STATIC], ids=["greedy", "beams", "sampled", "static cache"]
)
def test_generate_gives_the_cpus_tokens(name, how):
    if how is STATIC and name == "Mamba":
        pytest.skip("a state-space model keeps no cache of keys")
    if how is BEAMS and name == "Llama-4":
        pytest.skip("transformers 5.23 cannot expand its pictures for beams on the CPU either")

    def tokens(device):
        model = MODELS[name].build().to(device)
        inputs = {key: value.to(device) for key, value in inputs_of(MODELS[name].inputs).items()}
        transformers.set_seed(7)
        found = model.generate(**inputs, max_new_tokens=10, pad_token_id=0, eos_token_id=1, **how)
        assert found.device.type == device
        return found.tolist()

    mine, theirs = on_both(tokens)
    assert mine == theirs
    assert len(mine[0]) > 12


def test_sampling_depends_on_the_seed():
    model, prompt = MODELS["Llama"].build().to("neuron"), inputs_of("tokens")["input_ids"]
    seen = []
    for seed in (1, 1, 2):
        transformers.set_seed(seed)
        found = model.generate(prompt.to("neuron"), max_new_tokens=10, pad_token_id=0, **SAMPLED)
        seen.append(found.tolist())
    assert seen[0] == seen[1] != seen[2]


def test_generation_with_the_compiled_backend_gives_the_eager_tokens():
    model, prompt = MODELS["Llama"].build().to("neuron"), inputs_of("tokens")["input_ids"]
    eager = model.generate(prompt.to("neuron"), max_new_tokens=6, pad_token_id=0, **GREEDY)
    model.generation_config.cache_implementation = "static"
    compiled = model.generate(prompt.to("neuron"), max_new_tokens=6, pad_token_id=0, **GREEDY)
    assert model._default_compile_config().backend == "neuron"
    assert compiled.tolist() == eager.tolist()


def test_the_pipeline_for_text_generation_writes_what_the_cpu_writes():
    def written(device):
        model = MODELS["Llama"].build()
        pipe = transformers.pipeline(
            "text-generation", model=model, tokenizer=tokenizer(), device=device
        )
        assert pipe.device.type == device
        found = pipe(["w1 w2 w3", "w4 w5 w6 w7"], max_new_tokens=6, batch_size=2, **GREEDY)
        return [one[0]["generated_text"] for one in found]

    mine, theirs = on_both(written)
    assert mine == theirs
    assert mine[0].startswith("w1 w2 w3")
    assert len(mine[0]) > len("w1 w2 w3")


def test_the_pipeline_for_text_classification_gives_the_cpus_scores():
    def scores(device):
        torch.manual_seed(0)
        config = transformers.BertConfig(**SIZES, num_labels=3)
        model = transformers.BertForSequenceClassification(config).eval()
        pipe = transformers.pipeline(
            "text-classification", model=model, tokenizer=tokenizer(), device=device, top_k=None
        )
        found = pipe(["w1 w2 w3", "w9 w8"], batch_size=2)
        return {(place, one["label"]): one["score"] for place, o in enumerate(found) for one in o}

    mine, theirs = on_both(scores)
    assert len(mine) == 6
    assert mine == pytest.approx(theirs, abs=1e-6)


def rows():
    own = torch.Generator().manual_seed(5)
    return [{"input_ids": r, "labels": r} for r in torch.randint(3, 60, (16, 8), generator=own)]


def trainer(folder, **options):
    arguments = transformers.TrainingArguments(
        output_dir=str(folder), max_steps=6, per_device_train_batch_size=4, logging_steps=1,
        report_to=[], save_steps=3, seed=1, data_seed=1, learning_rate=1e-2, **options,
    )  # fmt: skip
    model = MODELS["Llama"].build()
    return transformers.Trainer(model, arguments, train_dataset=rows(), eval_dataset=rows()[:8])


def losses(one):
    return [entry["loss"] for entry in one.state.log_history if "loss" in entry]


@pytest.mark.parametrize("options", [{}, {"bf16": True}, {"gradient_accumulation_steps": 2}])
def test_the_trainer_trains_and_evaluates_as_on_the_cpu(tmp_path, options):
    found = {}
    for device in ("cpu", "neuron"):
        one = trainer(tmp_path / device, use_cpu=device == "cpu", **options)
        assert one.args.device.type == device
        one.train()
        found[device] = [*losses(one), one.evaluate()["eval_loss"]]
    assert found["neuron"] == pytest.approx(found["cpu"], rel=2e-2 if "bf16" in options else 1e-4)
    assert found["neuron"][-1] < found["neuron"][0]


def test_the_trainer_trains_compiled_as_it_does_eagerly(tmp_path):
    eager, compiled = (
        trainer(tmp_path),
        trainer(tmp_path, torch_compile=True, torch_compile_backend="neuron"),
    )
    eager.train()
    compiled.train()
    assert losses(compiled) == pytest.approx(losses(eager), rel=1e-4)


def test_training_resumes_from_a_checkpoint_with_the_same_losses(tmp_path):
    whole = trainer(tmp_path)
    whole.train()
    resumed = trainer(tmp_path)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert resumed.state.global_step == 6
    assert losses(resumed)[-3:] == losses(whole)[-3:]
    for mine, other in zip(resumed.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(mine, other)


@pytest.mark.parametrize("where", ["neuron", {"": 0}, {"": "neuron:0"}])
def test_safetensors_load_straight_to_the_device(tmp_path, where):
    model = MODELS["Llama"].build()
    model.save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors").exists()
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, device_map=where)
    for mine, other in zip(loaded.parameters(), model.parameters(), strict=True):
        assert mine.device == torch.device("neuron:0")
        assert torch.equal(mine.cpu(), other)
    prompt = inputs_of("tokens")["input_ids"]
    found = loaded(prompt.to("neuron")).logits.cpu()
    assert torch.allclose(found, model(prompt).logits, atol=1e-5)


def test_weights_saved_from_the_device_are_the_same(tmp_path):
    model = MODELS["Llama"].build()
    kept = [parameter.clone() for parameter in model.parameters()]
    model.to("neuron").save_pretrained(tmp_path)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    for mine, other in zip(loaded.parameters(), kept, strict=True):
        assert torch.equal(mine, other)


def test_safetensors_by_itself_reads_to_the_device(tmp_path):
    import safetensors.torch as safetensors

    file = tmp_path / "x.safetensors"
    safetensors.save_file({"x": torch.arange(6.0, device="neuron").view(2, 3)}, file)
    loaded = safetensors.load_file(file, device="neuron:0")
    assert (loaded["x"].device.type, loaded["x"].tolist()) == ("neuron", [[0, 1, 2], [3, 4, 5]])
    with safetensors.safe_open(file, framework="pt", device="neuron") as opened:
        assert opened.get_slice("x")[:, 1:].tolist() == [[1, 2], [4, 5]]
        assert opened.get_slice("x").get_shape() == [2, 3]
    assert safetensors.load_file(file)["x"].device.type == "cpu"
