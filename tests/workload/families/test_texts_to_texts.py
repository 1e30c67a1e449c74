import pytest
from parameter_formulas import of_table, of_tower
from published_models import sides, t5

from trnsim.errors import BadInput
from trnsim.workload.families.keys import ConfigKeys
from trnsim.workload.families.texts_to_texts import towers

T5 = t5(32, 3, 4, 48, words=100, num_decoder_layers=2)
WHISPER = sides(32, 3, 4, 100, max_source_positions=15, max_target_positions=9, num_mel_bins=8)


def of(config, model_type="t5"):
    return towers(ConfigKeys(config, "mine.json"), model_type)


def test_a_decoder_reads_the_encoder():
    encoder, decoder = of(T5)
    assert (encoder.depth, decoder.depth) == (3, 2)
    own, cross = decoder.layers[0].attentions
    assert (own.is_causal, own.is_cross) == (True, False)
    assert (cross.is_causal, cross.is_cross) == (False, True)
    assert own.head_dim == 64
    assert not any(attention.is_cross for attention in encoder.layers[0].attentions)


def test_the_table_counts_once():
    encoder, decoder = of(T5)
    assert of_table(encoder) == 100 * 32 + 32 * 4
    assert of_table(decoder) == 32 * 4
    untied = of({**T5, "tie_word_embeddings": False})[1]
    assert of_tower(untied) - of_tower(decoder) == 100 * 32


def test_distances_are_scored_once_a_stack_or_once_a_layer():
    assert [tower.layers[0].other_parameters for tower in of(T5)] == [0, 0]
    assert [tower.layers[0].other_parameters for tower in of(T5, "umt5")] == [128, 128]


def test_an_encoder_may_be_alone():
    assert [one.name for one in of({**T5, "architectures": ["T5EncoderModel"]})] == ["encoder"]


def test_sound_is_heard_by_two_convolutions():
    encoder, decoder = of(WHISPER, "whisper")
    first, second = encoder.input_projections
    assert (first.inputs, first.rows) == (24, 2)
    assert (second.inputs, second.rows) == (96, 1)
    assert (encoder.tokens, encoder.table_rows) == (15, 0)
    assert (decoder.positions, decoder.is_table_shared) == (9, False)
    assert decoder.layers[0].attentions[0].biases == 3 * 32


def test_places_are_learned_or_not():
    config = sides(32, 3, 4, 100, max_position_embeddings=20)
    assert [one.positions for one in of(config, "bart")] == [22, 22]
    assert [one.positions for one in of(config, "pegasus")] == [20, 20]
    assert [one.positions for one in of(config, "m2m_100")] == [0, 0]


@pytest.mark.parametrize(
    ("head", "names"),
    [
        ("SequenceClassification", ["dense", "classes"]),
        ("QuestionAnswering", ["classes"]),
        ("ConditionalGeneration", []),
    ],
)
def test_classifiers_have_classes_in_place_of_words(head, names):
    bart = sides(32, 3, 4, 100, max_position_embeddings=9)
    for config, model_type in ((T5, "t5"), (bart, "bart")):
        decoder = of({**config, "architectures": [f"AnyFor{head}"]}, model_type)[-1]
        assert [matrix.name for matrix in decoder.output_projections] == names
        assert bool(decoder.outputs) == (not names)


def test_classes_of_words_are_those_of_the_encoder_alone():
    (encoder,) = of({**T5, "architectures": ["T5ForTokenClassification"], "num_labels": 3})
    assert [(matrix.name, matrix.outputs) for matrix in encoder.output_projections] == [
        ("classes", 3)
    ]


def test_a_head_of_unknown_sizes_is_refused():
    for head in ("ForCausalLM", "ForAudioClassification"):
        with pytest.raises(BadInput, match=f"architectures is 'Any{head}'; legal: classes that "):
            of({**WHISPER, "architectures": [f"Any{head}"]}, "whisper")


def test_more_layers_than_any_model_has_are_refused():
    with pytest.raises(BadInput, match=r"num_layers is 1000000000, .* at most 10,000"):
        of({**T5, "num_layers": 10**9})


@pytest.mark.parametrize(("model_type", "matrices"), [("t5", 2), ("mt5", 3), ("umt5", 3)])
def test_an_mlp_left_out_is_gated_in_the_multilingual_families(model_type, matrices):
    config = {key: value for key, value in T5.items() if key != "feed_forward_proj"}
    assert [tower.layers[0].mlp.matrices for tower in of(config, model_type)] == [matrices] * 2
    plain = of({**config, "feed_forward_proj": "relu"}, model_type)
    assert plain[0].layers[0].mlp.matrices == 2
