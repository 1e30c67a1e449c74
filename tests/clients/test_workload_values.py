"""Graphs that are built of configurations have the values of transformers' models."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
pytest.importorskip("transformers", reason="make clients installs transformers")

from value_names import DECODERS, ENCODERS
from values import BATCH, TOKENS, WORDS, Weights, built, evaluated, graph_of


def close(found, expected):
    """Within what float32 keeps of sums in another order."""
    expected = expected.detach().numpy().reshape(found.shape)
    np.testing.assert_allclose(found, expected, atol=2e-4 * np.abs(expected).max(), rtol=1e-3)


def inputs(words, first=0):
    tokens = words.shape[1]
    places = torch.arange(first, first + tokens).expand(BATCH, tokens)
    return {"words": words, "places": places}


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_has_the_values_of_the_model(name):
    values, names = DECODERS[name]
    model = built(values)
    weights = Weights(model, names)
    words = torch.randint(0, WORDS, (BATCH, TOKENS + 1))
    with torch.no_grad():
        expected = model(input_ids=words, use_cache=False).logits
    made, _ = graph_of(values, "encode", TOKENS + 1)
    assert all(made.names.values())
    close(evaluated(made, weights, inputs(words))[0], expected)
    prompt, _ = graph_of(values, "prefill", TOKENS)
    scores, *cache = evaluated(prompt, weights, inputs(words[:, :-1]))
    close(scores, expected[:, -2])
    step, _ = graph_of(values, "decode", 1, TOKENS)
    close(evaluated(step, weights, inputs(words[:, -1:], TOKENS), cache)[0], expected[:, -1])


def test_the_delta_rule_has_the_values_of_the_model_over_several_chunks():
    values, names = DECODERS["qwen3_next"]
    model, tokens = built({**values, "max_position_embeddings": 256}), 131
    words = torch.randint(0, WORDS, (BATCH, tokens + 1))
    with torch.no_grad():
        expected = model(input_ids=words, use_cache=False).logits
    weights = Weights(model, names)
    prompt, _ = graph_of(values, "prefill", tokens)
    scores, *cache = evaluated(prompt, weights, inputs(words[:, :-1]))
    close(scores, expected[:, -2])
    step, _ = graph_of(values, "decode", 1, tokens)
    close(evaluated(step, weights, inputs(words[:, -1:], tokens), cache)[0], expected[:, -1])


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_has_the_values_of_the_model(name):
    values, names = ENCODERS[name]
    if values["architectures"][0].endswith("QuestionAnswering"):
        values = {**values, "id2label": None, "num_labels": 2}
    model = built(values)
    words = torch.randint(3, WORDS, (BATCH, TOKENS))
    mask = torch.tensor([[1] * TOKENS, [1] * 5 + [0] * (TOKENS - 5)])
    words = words.where(mask > 0, values.get("pad_token_id", 0))
    kinds = torch.randint(0, 2, words.shape) if values["model_type"] != "distilbert" else None
    is_roberta = "roberta" in values["model_type"]
    if is_roberta:
        kinds = torch.zeros_like(words)
    named = {} if kinds is None else {"token_type_ids": kinds}
    with torch.no_grad():
        found = model(input_ids=words, attention_mask=mask, **named)
    given = inputs(words) | {"mask": mask} | ({} if kinds is None else {"kinds": kinds})
    made, _ = graph_of(values, "encode", TOKENS)
    (result,) = evaluated(made, Weights(model, names), given)
    if values["architectures"][0].endswith("QuestionAnswering"):
        expected = torch.stack((found.start_logits, found.end_logits), -1)
    else:
        expected = found.logits if "logits" in found else found.pooler_output
    expected = expected.reshape(-1, result.shape[-1])
    if expected.shape[0] == BATCH * TOKENS:  # what padding gives is nobody's
        seen = mask.reshape(-1) > 0
        expected, result = expected[seen], result[seen.numpy()]
    close(result, expected)


TRAINED = ("llama", "qwen3", "gemma", "gpt2", "phi", "stablelm", "olmo2", "cohere", "mistral")


@pytest.mark.parametrize("name", [*TRAINED, "bert of words", "bert of classes", "albert of words"])
def test_a_step_has_the_gradients_of_the_model(name):
    values, names = {**DECODERS, **ENCODERS}[name]
    model, is_decoder = built(values), name in DECODERS
    words = torch.randint(3, WORDS, (BATCH, TOKENS))
    each = "Classification" not in values["architectures"][0]
    labels = torch.randint(0, WORDS, words.shape) if each else torch.randint(0, 5, (BATCH,))
    given = inputs(words) | {"mask": torch.ones_like(words), "kinds": torch.zeros_like(words)}
    loss = model(input_ids=words, labels=labels).loss
    loss.backward()
    own = torch.cat((labels[:, 1:], torch.full((BATCH, 1), -100)), 1) if is_decoder else labels
    made, _ = graph_of(values, "train", TOKENS)
    weights = Weights(model, names)
    found, *slopes = evaluated(made, weights, given | {"labels": own})
    close(found, loss)
    trained = [v for v in made.graph.inputs if v.number in made.weights]
    trained = [v for v in trained if "frequencies" not in made.names[v.number]]
    assert len(slopes) == len(trained)
    weights.known = {
        name: weight.grad.numpy()
        for name, weight in model.named_parameters(remove_duplicate=False)
        if weight.grad is not None
    }
    for value, slope in zip(trained, slopes, strict=True):
        wanted = weights(made.names[value.number], value.shape)
        np.testing.assert_allclose(
            slope, wanted, atol=5e-4 * max(np.abs(wanted).max(), 1e-2), rtol=2e-3
        )
