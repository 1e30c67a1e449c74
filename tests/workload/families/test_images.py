import pytest

from trnsim.errors import BadInput
from trnsim.workload.families.images import towers
from trnsim.workload.families.keys import ConfigKeys

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "image_size": 18,
    "patch_size": 5,
}


def tower(model_type="vit", **given):
    (found,) = towers(ConfigKeys({**SMALL, **given}, "mine.json"), model_type)
    return found


@pytest.mark.parametrize(
    ("model_type", "tokens"),
    [
        ("vit", 10),
        ("deit", 11),
        ("dinov2", 10),
        ("dinov2_with_registers", 14),
        ("siglip_vision_model", 9),
        ("clip_vision_model", 10),
    ],
)
def test_tokens_are_whole_patches_and_a_few_more(model_type, tokens):
    found = tower(model_type)
    assert found.tokens == tokens
    assert found.input_projections[0].inputs == 3 * 5 * 5


def test_an_encoder_may_have_no_registers():
    assert tower("dinov2_with_registers", num_register_tokens=0).tokens == 3 * 3 + 1


def test_an_image_smaller_than_a_patch_is_refused():
    with pytest.raises(BadInput, match=r"patch_size is 19; legal: 1 to 18: an image has whole pa"):
        tower(patch_size=19)


def test_classes_take_the_place_of_the_pooler():
    named = {"architectures": ["AnyForImageClassification"], "num_labels": 7}
    assert [(one.name, one.inputs) for one in tower(**named).output_projections] == [
        ("classes", 32)
    ]
    assert [(one.name, one.inputs) for one in tower("dinov2", **named).output_projections] == [
        ("classes", 64)
    ]
    assert [one.name for one in tower().output_projections] == ["pooler"]


def test_a_teacher_token_has_classes_of_its_own():
    named = {"architectures": ["DeiTForImageClassificationWithTeacher"], "num_labels": 7}
    ends = tower("deit", **named).output_projections
    assert [matrix.name for matrix in ends] == ["classes", "classes of the teacher token"]


@pytest.mark.parametrize(
    ("model_type", "head"),
    [("vit", "MaskedImageModeling"), ("clip", "ForImageClassification")],
)
def test_a_head_of_unknown_sizes_is_refused(model_type, head):
    with pytest.raises(BadInput, match=f"architectures is 'Any.*{head}'; legal: classes that "):
        towers(ConfigKeys({**SMALL, "architectures": [f"Any{head}"]}, "mine.json"), model_type)


def test_a_gated_mlp_keeps_about_the_elements():
    assert tower("dinov2", use_swiglu_ffn=True).layers[0].mlp.intermediate == 88
    assert tower("dinov2").layers[0].mlp.intermediate == 128


def test_a_probe_ends_siglip_unless_it_is_left_out():
    whole = tower("siglip_vision_model")
    without = tower("siglip_vision_model", vision_use_head=False)
    assert len(whole.output_projections) == 5
    assert without.output_projections == ()


def test_a_pair_has_images_and_texts():
    for model_type, is_causal in (("clip", True), ("siglip", False)):
        config = {"vision_config": {}, "text_config": {}}
        images, texts = towers(ConfigKeys(config, "mine.json"), model_type)
        assert (images.name, texts.name) == ("images", "texts")
        assert texts.layers[0].attentions[0].is_causal is is_causal


@pytest.mark.parametrize(
    ("model_type", "tokens"), [("dinov2", 16 * 16 + 1), ("dinov2_with_registers", 14 * 14 + 5)]
)
def test_patches_left_out_are_those_of_the_family(model_type, tokens):
    (found,) = towers(ConfigKeys({"image_size": 224}, "mine.json"), model_type)
    assert found.tokens == tokens
