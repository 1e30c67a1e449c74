import json
import re
import subprocess
import sys

import pytest

from trnsim.device import configured
from trnsim.device.model_report import report_model
from trnsim.errors import BadInput, OutOfMemory
from trnsim.place.machine import machine
from trnsim.workload.config import read_values
from trnsim.workload.model_names import shipped
from trnsim.workload.operators import Pass, Phase
from trnsim.workload.shape import ModelShape

LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 128, "vocab_size": 500, "max_position_embeddings": 128,
}  # fmt: skip


def written(folder, **given):
    path = folder / "config.json"
    path.write_text(json.dumps({**LLAMA, **given}))
    return path


@pytest.mark.slow
def test_a_configuration_is_compiled_as_it_is_planned(tmp_path):
    shape = ModelShape("decode", batch=3, past=63, ranks=2)
    subject = configured.model_of_config(written(tmp_path), shape)
    assert subject.title == (
        "llama (config.json), decode, batch 3, 63 keys in the cache, one of 2 ranks"
    )
    assert subject.items == ("tokens", 3)
    found = report_model(subject, "trn2")
    assert [one.kind for one, _ in found.exchanges] == [
        "all_gather",
        *["all_reduce"] * 4,
        "all_gather",
    ]
    assert found.planned is not None
    assert "  missing     nothing: every operator has a time" in found.text().splitlines()


WIDE = {"hidden_size": 8192, "intermediate_size": 1 << 20, "num_hidden_layers": 1}
"""Three matrices of 16 GiB in bfloat16, of which a logical core of Trn2 (24 GiB) holds one."""


@pytest.mark.parametrize(
    ("given", "shape", "fix"),
    [
        (
            {},
            ModelShape("prefill"),
            r"--tp 4, of which a rank needs 12\.\d GiB, or ask for a smaller",
        ),
        ({}, ModelShape("prefill", ranks=2), r"--tp 4, of which a rank needs 12\.\d GiB, or ask"),
        ({"num_attention_heads": 2}, ModelShape("prefill"), "ask for .* divides its heads makes"),
    ],
)
def test_a_model_that_does_not_fit_is_told_the_ranks_that_do(given, shape, fix, tmp_path):
    subject = configured.model_of_config(written(tmp_path, **WIDE, **given), shape)
    with pytest.raises(OutOfMemory, match="a logical NeuronCore of trn2 has 24 GiB") as caught:
        report_model(subject, "trn2")
    assert re.match(fix, caught.value.fix)
    assert "weights" not in caught.value.fix


def test_a_quantized_checkpoint_that_does_not_fit_is_told_the_type_of_a_programs_weights(tmp_path):
    path = written(tmp_path, **WIDE, quantization_config={"quant_method": "fp8"})
    with pytest.raises(OutOfMemory) as caught:
        report_model(configured.model_of_config(path, ModelShape("prefill")), "trn2")
    assert "; a program's weights are bfloat16 (--dtype), and this checkpoint's are fp8: " in (
        caught.value.fix
    )


def test_no_framework_is_imported(tmp_path):
    program = (
        "import sys; from pathlib import Path; from trnsim.device import configured; "
        "from trnsim.workload.shape import ModelShape; "
        f"path = Path({str(written(tmp_path))!r}); "
        "assert configured.model_of_config(path, ModelShape('train')); "
        "assert not {'torch', 'transformers', 'jax'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_weights_and_activations_are_of_the_type_asked_for(dtype, tmp_path):
    path = written(tmp_path, torch_dtype="bfloat16", quantization_config={"quant_method": "fp8"})
    made = configured.model_of_config(path, ModelShape("prefill", sequence=8), dtype).model_graph
    tables = ("frequencies",)
    kinds = {v.dtype for v in made.graph.inputs if made.names[v.number] not in tables}
    assert kinds == {dtype, "int32"}
    with pytest.raises(BadInput, match=r"^dtype 'float64'; legal: float32, bfloat16, float16"):
        configured.model_of_config(path, ModelShape("prefill"), "float64")


@pytest.mark.parametrize(
    "given",
    [
        {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
        {"hidden_act": "mish"},
        {"model_type": "mamba"},
        {"hidden_size": None},
        {"layer_types": ["full_attention", "linear_attention"]},
        {"model_type": "own", "auto_map": {"AutoModel": "own.Model"}},
        {"model_type": "vit", "architectures": ["ViTForMaskedImageModeling"]},
    ],
)
def test_what_is_not_known_is_left_to_a_framework(given, tmp_path):
    assert configured.model_of_config(written(tmp_path, **given), ModelShape("prefill")) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"hidden_size": -64}, "hidden_size is -64, it must be a positive whole number"),
        ({"num_hidden_layers": "2"}, "num_hidden_layers is '2', it must be a positive"),
        ({"num_key_value_heads": 3}, "num_key_value_heads is 3; legal: "),
        ({"layer_types": ["full_attention"]}, "layer_types is 'a list of 1'; legal: a list of 2"),
    ],
)
def test_an_illegal_value_is_refused_and_left_to_no_framework(given, message, tmp_path):
    with pytest.raises(BadInput, match=message):
        configured.model_of_config(written(tmp_path, **given), ModelShape("prefill"))


def test_heads_that_ranks_do_not_divide_and_places_that_are_not_there_are_refused(tmp_path):
    with pytest.raises(BadInput, match=r"^tp of 3 does not divide the 4 attention heads of llama;"):
        configured.model_of_config(written(tmp_path), ModelShape("prefill", ranks=3))
    assert configured.model_of_config(written(tmp_path), ModelShape("prefill", sequence=129))
    gpt = written(tmp_path, model_type="gpt2", n_embd=64, n_layer=1, n_head=4, n_positions=128)
    with pytest.raises(
        BadInput, match=r"^a sequence of 129 tokens exceeds max_position_embeddings of"
    ):
        configured.model_of_config(gpt, ModelShape("decode", past=128))


def test_ranks_have_to_divide_the_groups_of_mixers_too(tmp_path):
    sizes = {"num_heads": 6, "head_dim": 8, "state_size": 4, "n_groups": 3, "hidden_size": 24}
    mamba = written(tmp_path, model_type="mamba2", **sizes)
    message = (
        r"^tp of 2 does not divide the 6 heads in 3 groups of mixers of mamba2; legal: 1, 3, 6\n"
    )
    with pytest.raises(BadInput, match=message):
        configured.model_of_config(mamba, ModelShape("prefill", ranks=2))
    assert configured.model_of_config(mamba, ModelShape("prefill", ranks=3))


@pytest.mark.parametrize("shape", [ModelShape("decode", past=20), ModelShape("prefill")])
def test_a_model_that_makes_no_tokens_has_no_phase_of_them(shape, tmp_path):
    bert = written(tmp_path, model_type="bert", architectures=["BertModel"])
    with pytest.raises(
        BadInput, match=rf"^phase '{shape.phase}'; legal for .* \(bert\): encode, tr"
    ):
        configured.model_of_config(bert, shape)


@pytest.mark.parametrize(
    ("named", "past", "phase"),
    [
        (["LlamaForCausalLM"], 0, "prefill"),
        (["GPT2LMHeadModel"], 9, "decode"),
        (["BertModel"], 0, "encode"),
        ([], 0, "encode"),
        ("LlamaForCausalLM", 0, "prefill"),
        (5, 0, "encode"),
        ({"name": "BertModel"}, 0, "encode"),
    ],
)
def test_decoders_generate_and_others_encode(named, past, phase):
    assert configured.phase_of({"architectures": named}, past) == phase


@pytest.mark.parametrize(
    ("dtype", "is_cast", "bits", "name"),
    [
        ("bfloat16", False, 16, "bf16"),
        ("float16", False, 16, "fp16"),
        ("float32", False, 32, "fp32"),
        ("float32", True, 16, "bf16"),
    ],
)
@pytest.mark.parametrize("given", [{}, {"quantization_config": {"quant_method": "mxfp4"}}])
def test_a_configuration_is_asked_of_plans_in_the_dtype_of_its_products(
    dtype, is_cast, bits, name, given, tmp_path
):
    path = written(tmp_path, torch_dtype="float64", **given)
    shape = ModelShape("decode", batch=3, past=63, ranks=2)
    found = configured.question_of(path, shape, dtype)(machine("trn1"), is_cast)
    assert (found.dtype, found.model.weight_bits, found.model.mlp_bits) == (name, bits, 0)
    assert found.model_pass == Pass(Phase.DECODE, 3, 1, 63)
    assert found.split.tensor == 2


def test_a_configuration_that_plans_cannot_read_says_what_is_missing(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({key: one for key, one in LLAMA.items() if key != "hidden_size"}))
    with pytest.raises(BadInput, match="'hidden_size' is missing"):
        configured.question_of(path, ModelShape("prefill"), "bfloat16")


def test_what_is_not_known_is_said(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "llama"}')
    assert "hidden_size" in configured.unknown_part(path)


def test_heads_that_ranks_do_not_divide_are_made_up(tmp_path):
    path = written(tmp_path)
    with pytest.raises(BadInput, match="tp of 3 does not divide the 4 attention heads"):
        configured.model_of_config(path, ModelShape("prefill", sequence=8, ranks=3))
    shape = ModelShape("prefill", sequence=8, ranks=3, is_padded=True)
    made = configured.model_of_config(path, shape).model_graph
    shapes = {made.names[v.number]: v.type.shape for v in made.graph.inputs}
    assert shapes["layers.0.attention.output"] == (32, 64)  # two heads of 16: six of four
    assert shapes["layers.1.mlp.down"] == (43, 64)


FRAMEWORK_BUILDS = {"gemma-3-4b", "gemma-3-12b", "gemma-3-27b"}
FRAMEWORK_BUILDS |= {"vit-base", "vit-large", "t5-base", "t5-large", "flan-t5-xxl"}


@pytest.mark.slow_but_every(3)
@pytest.mark.slow_cases("qwen3-235b-a22b", "mixtral-8x22b", "deepseek-v3", "llama-3.1-405b")
@pytest.mark.parametrize("model", shipped(), ids=lambda model: model.name)
def test_a_model_is_compiled_without_a_framework_or_named_here(model):
    shape = ModelShape(configured.phase_of(read_values(model.file), 0))
    assert (configured.model_of_config(model.file, shape) is None) == (
        model.name in FRAMEWORK_BUILDS
    )
