"""Models of transformers as graphs: the values of tiny ones, and what a rank's graph contains."""

import json
import re
from collections import Counter

import numpy as np
import pytest
from typer.testing import CliRunner

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
transformers = pytest.importorskip("transformers", reason="make clients installs transformers")

from trnsim.cli import app
from trnsim.errors import BadInput
from trnsim.system.infer.estimate import estimate as infer
from trnsim.system.infer.parts import InputSizes
from trnsim.torch.models import ModelShape, attending, model_graph
from trnsim.torch.models.config import config_of
from trnsim.torch.models.model_graph import build_model

LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 40,
    "hidden_size": 24,
    "intermediate_size": 36,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 4,
}
SMALL = {
    "hidden_size": 24,
    "intermediate_size": 36,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "vocab_size": 40,
}
BERT = {"model_type": "bert", "architectures": ["BertModel"], **SMALL}
VIT = {
    "model_type": "vit",
    "architectures": ["ViTForImageClassification"],
    "image_size": 18,
    "patch_size": 5,
    **SMALL,
}


def built(values, kind):
    """The model on the CPU, with weights."""
    torch.manual_seed(0)
    config = config_of(values)
    return getattr(transformers, kind)._from_config(config, dtype=torch.float32).eval()


def outputs(made, model, given):
    """What a graph gives with a model's weights, by numpy alone."""
    weights = {f"model.{n}": t for n, t in (*model.named_parameters(), *model.named_buffers())}
    known = {**weights, **{str(place): tensor for place, tensor in enumerate(given)}}
    arrays = []
    for value in made.graph.inputs:
        array = known[made.names[value.number]].detach().numpy()
        arrays.append(array.astype(value.dtype).reshape(value.shape))
    return made.graph.reference(arrays)


def close(found, expected):
    np.testing.assert_allclose(found, expected.detach().numpy(), atol=2e-5, rtol=2e-4)


def test_an_encoder_has_the_values_of_the_model():
    model = built(BERT, "BertModel")
    made = model_graph(config_of(BERT), ModelShape("encode", 2, 7), dtype="float32")
    words, kinds = torch.randint(0, 40, (2, 7)), torch.randint(0, 2, (2, 7))
    mask = torch.tensor([[1] * 7, [1] * 4 + [0] * 3])
    found = outputs(made, model, [words, mask, kinds])
    expected = model(input_ids=words, attention_mask=mask, token_type_ids=kinds)
    close(found[0], expected.last_hidden_state)
    close(found[1], expected.pooler_output)


def test_an_image_of_patches_has_the_values_of_the_model():
    model = built(VIT, "ViTForImageClassification")
    made = model_graph(config_of(VIT), ModelShape("encode", 2), dtype="float32")
    pixels = torch.randn(2, 3, 18, 18)  # the last three rows and columns are in no patch
    close(outputs(made, model, [pixels])[0], model(pixel_values=pixels).logits)


def test_a_prompt_gives_the_scores_of_its_last_token_and_its_keys_and_values():
    model = built(LLAMA, "LlamaForCausalLM")
    made = model_graph(config_of(LLAMA), ModelShape("prefill", 2, 9), dtype="float32")
    words, places = torch.randint(0, 40, (2, 9)), torch.arange(9).repeat(2, 1)
    scores, *cache = outputs(made, model, [words, places])
    expected = model(input_ids=words, position_ids=places, use_cache=True)
    close(scores, expected.logits[:, -1:])
    for place, layer in enumerate(expected.past_key_values.layers):
        close(cache[2 * place], layer.keys)
        close(cache[2 * place + 1], layer.values.transpose(1, 2))  # as they lie in memory


@pytest.mark.parametrize("shared", [1, 2, 6])
def test_the_next_token_sees_the_cache_and_itself(shared):
    values = {**LLAMA, "num_key_value_heads": shared}
    model = built(values, "LlamaForCausalLM")
    made = model_graph(config_of(values), ModelShape("decode", 2, past=5), dtype="float32")
    words, places = torch.randint(0, 40, (2, 6)), torch.arange(6).repeat(2, 1)
    whole = model(input_ids=words, position_ids=places, use_cache=True)
    keys = [layer.keys[:, :, :5] for layer in whole.past_key_values.layers]
    values = [layer.values[:, :, :5] for layer in whole.past_key_values.layers]
    given = [words[:, 5:], places[:, 5:], *keys, *values]
    scores, key, *_ = outputs(made, model, given)
    close(scores, whole.logits[:, -1:])
    close(key, whole.past_key_values.layers[0].keys[:, :, 5:])


def test_a_step_has_the_loss_and_the_gradients_of_the_model():
    model = built(LLAMA, "LlamaForCausalLM")
    made = model_graph(config_of(LLAMA), ModelShape("train", 2, 6), dtype="float32")
    words, labels = torch.randint(0, 40, (2, 6)), torch.randint(0, 40, (2, 6))
    loss, *slopes = outputs(made, model, [words, labels])
    expected = model(input_ids=words, labels=labels).loss
    expected.backward()
    close(loss, expected)
    parameters = list(model.parameters())
    assert len(slopes) == len(parameters)
    for slope, parameter in zip(slopes, parameters, strict=True):
        close(slope, parameter.grad)


def test_no_mask_is_made_where_every_query_sees_what_came_before():
    for phase in ("prefill", "train"):
        made = model_graph(config_of(LLAMA), ModelShape(phase, 1, 16))
        attentions = [node for node in made.graph.nodes if node.name == "attention"]
        assert [len(node.values) for node in attentions] == [3, 3]
        assert all(node.operation.is_causal for node in attentions)


def test_a_sliding_window_keeps_its_mask_and_no_more_keys_than_it_sees():
    values = {**LLAMA, "model_type": "mistral", "architectures": ["MistralForCausalLM"]}
    config = config_of({**values, "sliding_window": 4})
    prompt = model_graph(config, ModelShape("prefill", 1, 9))
    attentions = [node for node in prompt.graph.nodes if node.name == "attention"]
    assert [len(node.values) for node in attentions] == [4, 4]
    step = model_graph(config, ModelShape("decode", 1, past=9))
    assert {v.shape[2] for v in step.graph.inputs if len(v.shape) == 4} == {3}


def exchanges(made):
    return [(node.name, node.result.shape) for node in made.graph.nodes if "all_" in node.name]


@pytest.mark.parametrize("ranks", [2, 3, 6])
def test_a_rank_has_its_share_and_adds_up_after_each_half_layer(ranks):
    made = model_graph(config_of(LLAMA), ModelShape("decode", 3, past=7, ranks=ranks))
    share = -(-40 // ranks)
    added = ("all_reduce", (3, 1, 24))
    assert exchanges(made) == [added] * 5 + [("all_gather", (3 * ranks, 1, share))]
    shapes = {made.names[v.number]: v.shape for v in made.graph.inputs}
    layer = "model.model.layers.0"
    assert shapes[f"{layer}.self_attn.q_proj.weight"] == (24 // ranks, 24)
    assert shapes[f"{layer}.self_attn.k_proj.weight"] == (4 * max(1, 2 // ranks), 24)
    assert shapes[f"{layer}.mlp.down_proj.weight"] == (24, 36 // ranks)
    groups = {node.operation.replica_groups for node in made.graph.nodes if "all_" in node.name}
    assert groups == {(tuple(range(ranks)),)}


def test_a_step_of_ranks_adds_up_gradients_of_what_they_share():
    made = model_graph(config_of(LLAMA), ModelShape("train", 1, 8, ranks=2))
    # Forward: the embedding, two a layer, three of the loss. Backward: two a layer, and the scores.
    assert Counter(name for name, _ in exchanges(made)) == {"all_reduce": 1 + 4 + 3 + 4 + 1}


def test_heads_that_ranks_do_not_divide_are_refused_or_made_up():
    with pytest.raises(
        BadInput, match=r"tp of 4 does not divide the 6 attention heads of llama; legal: 1, 2, 3, 6"
    ) as error:
        model_graph(config_of(LLAMA), ModelShape("decode", past=7, ranks=4))
    assert error.value.fix == "choose one of these"
    made = model_graph(config_of(LLAMA), ModelShape("decode", past=7, ranks=4, is_padded=True))
    shapes = {made.names[v.number]: v.shape for v in made.graph.inputs}
    assert shapes["model.model.layers.0.self_attn.q_proj.weight"] == (8, 24)


def test_an_architecture_without_a_plan_is_not_split():
    with pytest.raises(
        BadInput, match=r"tp of 2 for bert, which has no plan in transformers; legal: architectures"
    ):
        model_graph(config_of(BERT), ModelShape("encode", ranks=2))


def test_sizes_that_do_not_follow_are_not_split():
    values = {"model_type": "gpt_neox", "architectures": ["GPTNeoXForCausalLM"], **SMALL}
    with pytest.raises(BadInput, match=r"tp of 2 for gpt_neox: .* keeps out_features"):
        model_graph(config_of(values), ModelShape("decode", past=7, ranks=2))


def test_weights_of_whole_numbers_have_a_scale_for_each_row():
    made = model_graph(config_of(LLAMA), ModelShape("decode", past=7), weights="int8")
    shapes = {made.names[v.number]: v for v in made.graph.inputs}
    weight = shapes["model.model.layers.0.mlp.up_proj.weight"]
    assert (weight.dtype, weight.shape) == ("int8", (36, 24))
    assert shapes["model.model.layers.0.mlp.up_proj.scale"].shape == (36,)
    assert shapes["model.lm_head.weight"].dtype == "bfloat16"


def test_weights_are_what_is_the_same_at_every_step():
    made = model_graph(config_of(LLAMA), ModelShape("decode", 2, past=5))
    given = [v.shape for v in made.graph.inputs if v.number not in made.weights]
    assert given == [(2, 1), (2, 1), *[(2, 2, 5, 4)] * 4]


def test_a_phase_that_a_model_lacks_is_refused():
    with pytest.raises(
        BadInput, match="vit has no model of phase decode: AutoModelForCausalLM lacks it"
    ):
        model_graph(config_of(VIT), ModelShape("decode", past=3))


def test_a_model_of_inputs_that_are_not_known_is_refused():
    values = {"model_type": "wav2vec2", "architectures": ["Wav2Vec2Model"]}
    with pytest.raises(
        BadInput, match=r"Wav2Vec2Model takes input_values, .*; known here: input_ids, "
    ):
        model_graph(config_of(values), ModelShape("encode"))


def test_an_unknown_architecture_is_named():
    with pytest.raises(
        BadInput,
        match=r"it is of architecture 'lamma', which transformers .* does not have; it has \d{3}",
    ) as error:
        config_of({"model_type": "lamma"}, "it")
    assert "trnsim compile model.pt2" in error.value.fix
    assert "lamma" not in transformers.CONFIG_MAPPING


def test_values_that_a_configuration_refuses_are_named():
    with pytest.raises(BadInput, match="it is no configuration of llama: "):
        config_of({**LLAMA, "num_hidden_layers": "many"}, "it")


def run(path, *options):
    return CliRunner().invoke(app, ["compile", str(path), "--on", "trn2", *options])


def unwrapped(output):
    """The lines of an answer, each with those that go on below it."""
    return re.sub(r"\n {10,}", " ", output).splitlines()


def test_the_command_answers_in_a_dozen_lines(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    done = run(path, "--batch", "2", "--past", "31", "--tp", "2", "--report", tmp_path / "out")
    assert done.exit_code == 0, done.output
    lines = unwrapped(done.output.split("\n\n")[0])
    assert lines[0] == (
        "llama (config.json), decode, batch 2, 31 keys in the cache, one of 2 ranks on trn2 (LNC=2)"
    )
    assert [line.split()[0] for line in lines[1:12]] == [
        *("time", "parts", "from", "minimum", "use", "program", "modules"),
        *("operations", "exchanges", "memory", "missing"),
    ]
    (note,) = lines[12:]
    assert note.startswith("  note        not split, so that both cores compute all of: ")
    assert "few constants of decode" in lines[3]
    assert "layers.0.attention" in lines[7]
    assert "2 all-gather, 4 all-reduce over 2 ranks" in lines[9]
    written = (tmp_path / "out" / "config-trn2.txt").read_text()
    assert unwrapped(written)[: len(lines)] == lines


def test_the_command_and_a_plan_say_the_same_in_any_dtype(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**BERT, "max_position_embeddings": 16}))
    times = {}
    for words in ((), ("--dtype", "float32"), ("--dtype", "float32", "--flags", "--auto-cast=all")):
        done = CliRunner().invoke(
            app, ["compile", str(path), "--on", "trn1", "--sequence", "8", "--json", *words]
        )
        times[words] = json.loads(done.stdout)["estimate"]["p50_s"]
    asked = InputSizes(1, 8)
    plain, single = (infer(path, "trn1", asked, cores=1, dtype=one) for one in ("bf16", "fp32"))
    assert list(times.values()) == pytest.approx(
        [plain.estimate.time_s, single.estimate.time_s, plain.estimate.time_s]
    )


def test_what_plans_lack_of_a_model_is_said_beside_its_programs_time(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(BERT))
    lines = unwrapped(run(path, "--sequence", "8").output)
    assert lines[3].startswith("  from        instructions of its program")
    assert "plans cannot be asked" in lines[3]
    assert "key 'max_position_embeddings' is missing" in lines[3]


def test_the_command_finds_the_phase(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    assert ", prefill, batch 1, 8 tokens" in run(path, "--sequence", "8").output
    path.write_text(json.dumps(BERT))
    assert ", encode, batch 1, 8 tokens" in run(path, "--sequence", "8").output


def test_a_length_beyond_a_models_positions_is_refused():
    config = config_of({**BERT, "max_position_embeddings": 16})
    assert model_graph(config, ModelShape("encode", sequence=16)).graph.nodes
    with pytest.raises(
        BadInput, match="bert has no graph in phase encode of batch 1, sequence 17, past 0: "
    ):
        model_graph(config, ModelShape("encode", sequence=17))


def test_the_given_configuration_stays_as_it_was():
    config = config_of(LLAMA)
    before = config.to_dict()
    model_graph(config, ModelShape("decode", past=7, ranks=2))
    assert config.to_dict() == before


def test_flags_reach_a_configuration(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(BERT))
    options = ("--sequence", "8", "--dtype", "float32", "--flags")
    plain = run(path, *options, "--no-cache").output
    cast = run(path, *options, "--auto-cast=all --no-cache").output
    assert "--no-cache has no effect" in plain
    assert "--no-cache has no effect" in cast
    # A weight of float32 is cast where it is read, so the program has more instructions.
    instructions = r"program +(\d+) instructions"
    assert int(re.search(instructions, cast)[1]) > int(re.search(instructions, plain)[1])


def test_modules_of_a_model_know_their_path():
    made = model_graph(config_of(BERT), ModelShape("encode", sequence=8))
    paths = {node.origin.module for node in made.graph.nodes if node.origin is not None}
    assert {"model.embeddings", "model.encoder.layer.0.attention.output.dense"} <= paths
    assert "" not in paths


def test_a_model_that_is_built_alone_has_attention_of_one_operation():
    """Without a graph before it, which would have made that attention known to transformers."""
    registered = transformers.AttentionInterface._global_mapping
    for name in (attending.MASKED_NAME, attending.UNMASKED_NAME):
        registered.pop(name, None)
    model = build_model(config_of(VIT), ModelShape("encode"), "float32")
    assert model.config._attn_implementation == attending.MASKED_NAME
    assert attending.MASKED_NAME in registered
