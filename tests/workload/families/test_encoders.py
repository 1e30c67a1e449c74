import pytest
from parameter_formulas import of_layer, of_tower

from trnsim.errors import BadInput
from trnsim.workload.families.encoders import towers
from trnsim.workload.families.keys import ConfigKeys

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "intermediate_size": 48,
    "vocab_size": 100,
    "max_position_embeddings": 20,
}


def tower(model_type="bert", **given):
    (found,) = towers(ConfigKeys({**SMALL, **given}, "mine.json"), model_type)
    return found


def named(kind, model_type="bert", **given):
    return tower(model_type, architectures=[f"Any{kind}"], **given)


def test_words_are_scored_by_the_table():
    found = named("ForMaskedLM")
    assert (found.outputs, found.is_tied) == (100, True)
    assert of_tower(found) - of_tower(named("Model")) == 2 * 32 + 100  # norm and bias
    assert not named("Model").is_tied


@pytest.mark.parametrize(
    ("kind", "model_type", "names"),
    [
        ("Model", "bert", ["dense"]),
        ("Model", "electra", []),
        ("ForSequenceClassification", "bert", ["dense", "classes"]),
        ("ForSequenceClassification", "roberta", ["dense", "classes"]),
        ("ForTokenClassification", "bert", ["classes"]),
        ("ForTokenClassification", "modernbert", ["dense", "classes"]),
        ("ForPreTraining", "bert", ["dense", "pooler", "classes"]),
        ("ForPreTraining", "electra", ["dense", "classes"]),
        ("ForQuestionAnswering", "bert", ["classes"]),
        ("ForMultipleChoice", "bert", ["dense", "classes"]),
        ("ForMultipleChoice", "electra", ["dense", "classes"]),
        ("ForNextSentencePrediction", "bert", ["dense", "classes"]),
        ("ForCausalLM", "roberta", ["dense"]),
        ("LMHeadModel", "bert", ["dense"]),
    ],
)
def test_what_is_behind_the_layers_follows_the_class(kind, model_type, names):
    assert [
        one.name for one in named(kind, model_type, embedding_size=32).output_projections
    ] == names


def test_a_classifier_of_sequences_has_one_row_a_sequence():
    ends = named(
        "ForSequenceClassification", id2label={"0": "a", "1": "b", "2": "c"}
    ).output_projections
    assert [one.is_each_token for one in ends] == [False, False]
    assert ends[-1].outputs == 3
    assert named("ForTokenClassification").output_projections[0].is_each_token


def test_a_right_choice_has_one_score_and_a_next_sentence_two():
    assert named("ForMultipleChoice", num_labels=5).output_projections[-1].outputs == 1
    assert named("ForNextSentencePrediction", num_labels=5).output_projections[-1].outputs == 2
    assert named("LMHeadModel").outputs == named("ForCausalLM").outputs == 100


def test_layers_of_albert_are_one():
    shared, own = tower("albert"), tower("bert", embedding_size=128)
    assert shared.layers[0].is_shared
    assert of_tower(own) - of_tower(shared) == 5 * of_layer(shared.layers[0], 32)
    assert of_tower(shared, is_active=True) == of_tower(own)


def test_windows_of_modernbert_reach_to_both_sides():
    full, short = tower("modernbert", local_attention=8, global_attn_every_n_layers=3).layers
    assert (full.times, full.attentions[0].window) == (2, 0)
    assert (short.times, short.attentions[0].window) == (4, 9)
    assert not short.attentions[0].is_causal


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        (["sliding_attention"], "is 'a list of 1'; legal: a list of 6: one for each"),
        (["full_attention"] * 5 + ["none"], "is 'none'; legal: full_attention, sliding"),
    ],
)
def test_kinds_of_modernberts_layers_are_known_and_as_many_as_they(kinds, said):
    with pytest.raises(BadInput, match=f"layer_types {said}"):
        tower("modernbert", layer_types=kinds)


def test_a_decoder_of_bert_is_causal():
    assert tower(is_decoder=True).layers[0].attentions[0].is_causal
    assert not tower().layers[0].attentions[0].is_causal


@pytest.mark.parametrize(("model_type", "name"), [("bert", "gelu"), ("albert", "gelu_new")])
def test_an_activation_left_out_is_that_of_the_family(model_type, name):
    assert tower(model_type).layers[0].mlp.activation == name
    assert tower(model_type, hidden_act="relu").layers[0].mlp.activation == "relu"
