import re

import pytest
from infer_models import BERT, CLIP, GPT2, INDEX, RESNET, TEXT, UNET, VAE, VIT, pipeline, write

from trnsim.errors import BadInput, NotModelled
from trnsim.system.infer.parts import InputSizes, inference
from trnsim.workload.captured import CapturedModel
from trnsim.workload.operators import Pass, Phase


def only(path, asked=None):
    (found,) = inference(path, asked or InputSizes()).parts
    return found


def test_an_encoder_is_one_pass_of_its_usual_length(tmp_path):
    path = write(tmp_path, BERT)
    assert only(path).model_pass == Pass(Phase.ENCODE, 1, 128)
    assert only(path, InputSizes(8, sequence=384)).model_pass == Pass(Phase.ENCODE, 8, 384)
    short = write(tmp_path, BERT | {"max_position_embeddings": 64}, "short.json")
    assert only(short).model_pass.tokens == 64


@pytest.mark.parametrize(
    ("config", "item"), [(BERT, "sequence"), (VIT, "image"), (CLIP, "pair"), (RESNET, "image")]
)
def test_items_are_what_a_model_reads(tmp_path, config, item):
    assert inference(write(tmp_path, config), InputSizes()).item == item


@pytest.mark.parametrize("config", [VIT, CLIP])
def test_a_larger_image_has_more_patches(tmp_path, config):
    path = write(tmp_path, config)
    usual, large = only(path), only(path, InputSizes(image=448))
    before, after = (one.model.towers[0].tokens for one in (usual, large))
    assert after - 1 == 4 * (before - 1)


def test_a_captured_model_is_told_the_image(tmp_path):
    found = only(write(tmp_path, RESNET), InputSizes(4, image=288))
    assert isinstance(found.model, CapturedModel)
    assert found.model_pass == Pass(Phase.ENCODE, 4, 1, image=288)


def test_a_pipeline_encodes_once_steps_often_and_decodes_once(tmp_path):
    found = inference(pipeline(tmp_path / "mine"), InputSizes(2, image=768, steps=30))
    text, denoiser, decoder = found.parts
    assert (found.name, found.item) == ("mine", "image")
    assert (text.name, text.times, text.model_pass) == (
        "text encoder",
        1,
        Pass(Phase.ENCODE, 4, 77),
    )
    assert (denoiser.name, denoiser.times, denoiser.guided) == ("denoiser", 30, 2)
    assert denoiser.model_pass == Pass(Phase.ENCODE, 2, 1, source=77, image=768)
    assert (decoder.name, decoder.times) == ("decoder", 1)
    assert decoder.model_pass == Pass(Phase.ENCODE, 2, 1, image=768)
    assert found.left_out == ("safety_checker",)
    by_file = inference(tmp_path / "mine" / "model_index.json", InputSizes(2, image=768, steps=30))
    assert by_file == found


def test_without_guidance_each_step_predicts_once(tmp_path):
    text, denoiser, _ = inference(pipeline(tmp_path), InputSizes(is_guided=False)).parts
    assert (text.model_pass.batch, denoiser.guided, denoiser.times) == (1, 1, 50)


def test_a_text_encoder_without_places_takes_as_long_a_text_as_asked(tmp_path):
    t5 = {
        "model_type": "t5",
        "architectures": ["T5EncoderModel"],
        "vocab_size": 100,
        "d_model": 64,
        "d_kv": 16,
        "d_ff": 128,
        "num_layers": 2,
        "num_heads": 4,
    }
    text, denoiser, _ = inference(pipeline(tmp_path, text=t5), InputSizes(sequence=120)).parts
    assert text.model_pass.tokens == denoiser.model_pass.source == 120


def test_a_denoiser_alone_is_its_steps(tmp_path):
    found = inference(write(tmp_path, UNET), InputSizes(steps=4))
    (denoiser,) = found.parts
    assert (denoiser.times, denoiser.model_pass.source) == (4, 77)
    assert found.left_out == ("text_encoder", "vae")
    (decoder,) = inference(write(tmp_path, VAE), InputSizes()).parts
    assert (decoder.name, decoder.times) == ("decoder", 1)


def test_weights_are_held_in_the_dtype_whatever_the_file_says(tmp_path):
    path = write(tmp_path, BERT | {"torch_dtype": "float32"})
    for dtype, bits in (("bf16", 16), ("fp16", 16), ("fp32", 32), ("fp8", 8)):
        assert inference(path, InputSizes(), dtype).parts[0].model.weight_bits == bits


@pytest.mark.parametrize("name", ["batch", "sequence", "image", "steps"])
@pytest.mark.parametrize("value", [0, -1, 1.5, float("nan"), True])
def test_no_size_but_a_positive_whole_number(name, value):
    with pytest.raises(BadInput, match=rf"--{name} is .*; legal: a positive whole number"):
        InputSizes(**{name: value})


@pytest.mark.parametrize(
    ("config", "asked", "reason"),
    [
        (
            BERT,
            InputSizes(sequence=513),
            "513 tokens exceeds max_position_embeddings of mine; legal",
        ),
        (BERT, InputSizes(image=224), "--image 224: mine reads no images"),
        (BERT, InputSizes(steps=2), "--steps 2: mine has no denoiser"),
        (VIT, InputSizes(sequence=128), "--sequence 128: mine reads no text"),
        (VIT, InputSizes(image=8), "patch_size is 16; legal: 1 to 8"),
        (CLIP, InputSizes(sequence=78), "78 tokens exceeds text_config.max_position_embeddings"),
        (GPT2, InputSizes(), r"mine \(gpt2\) makes one token after another"),
        (UNET, InputSizes(image=511), "--image is 511; legal for diffusion: multiples of 8"),
        (VAE, InputSizes(steps=2), "--steps 2: mine has no denoiser"),
        (VAE, InputSizes(sequence=2), "--sequence 2: mine reads no text"),
        (RESNET, InputSizes(sequence=2), "--sequence 2: mine reads no text"),
    ],
)
def test_inputs_that_a_model_does_not_have_are_refused(tmp_path, config, asked, reason):
    with pytest.raises(BadInput, match=reason):
        inference(write(tmp_path, config), asked)


def test_whoever_makes_tokens_is_sent_to_serve(tmp_path):
    other = {"model_type": "mamba", "architectures": ["MambaForCausalLM"], "vocab_size": 9}
    for config in (GPT2, other):
        with pytest.raises(BadInput, match="one token after another") as caught:
            inference(write(tmp_path, config), InputSizes())
        assert "trnsim plan serve" in str(caught.value)


def test_a_text_beyond_every_encoder_of_a_pipeline_is_refused(tmp_path):
    with pytest.raises(BadInput, match="78 tokens exceeds max_position_embeddings"):
        inference(pipeline(tmp_path), InputSizes(sequence=78))


def test_a_pipeline_without_a_text_encoder_reads_texts_as_its_denoiser_alone(tmp_path):
    index = {key: value for key, value in INDEX.items() if key != "text_encoder"}
    for sequence, tokens in ((None, 77), (50, 50), (100, 100)):
        denoiser, _ = inference(pipeline(tmp_path, index), InputSizes(sequence=sequence)).parts
        assert denoiser.model_pass.source == tokens


def test_a_pipeline_without_a_denoiser_is_not_modelled(tmp_path):
    index = {key: value for key, value in INDEX.items() if key != "unet"}
    with pytest.raises(NotModelled, match=re.escape("without a denoiser (unet or transformer)")):
        inference(pipeline(tmp_path, index), InputSizes())


def test_a_part_that_is_not_there_is_named(tmp_path):
    (pipeline(tmp_path) / "unet" / "config.json").unlink()
    with pytest.raises(BadInput, match=r"unet/config\.json"):
        inference(tmp_path, InputSizes())


def test_no_other_dtype(tmp_path):
    with pytest.raises(BadInput, match="--dtype is 'int4'; legal: fp32, fp16, bf16, fp8"):
        inference(write(tmp_path, TEXT), InputSizes(), "int4")
    with pytest.raises(NotModelled, match="--dtype fp8 for mine, whose graph is captured"):
        inference(write(tmp_path, RESNET), InputSizes(), "fp8")
