"""Inference of a small pipeline of diffusers, whose models are built and read."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
pytest.importorskip("diffusers", reason="make clients installs diffusers")

sys.path.append(str(Path(__file__).parents[1] / "system" / "infer"))

from infer_models import RESNET, UNET, VAE, pipeline, write

from trnsim.estimate.question import Question
from trnsim.estimate.rank import CALL
from trnsim.place.machine import machine
from trnsim.system.infer.estimate import estimate
from trnsim.system.infer.parts import InputSizes, inference
from trnsim.workload.captured import summaries_of

FIXED = "fixed"
"""Name of the part of an estimate that halves of layers take."""


@pytest.mark.parametrize("on", ["inf2.xlarge", "g4dn.xlarge", "trn2"])
def test_a_pipeline_has_the_time_of_its_parts(tmp_path, on):
    asked = InputSizes(1, image=256, steps=5)
    whole = estimate(pipeline(tmp_path), on, asked)
    unet = estimate(write(tmp_path, UNET, "unet.json"), on, asked)
    vae = estimate(write(tmp_path, VAE, "vae.json"), on, InputSizes(1, image=256))
    assert [part.name for part in whole.parts] == ["text encoder", "denoiser", "decoder"]
    assert whole.parts[1].time_s == pytest.approx(unet.latency_s.p50)
    assert whole.parts[2].time_s == pytest.approx(vae.latency_s.p50)
    assert whole.latency_s.p50 == pytest.approx(sum(part.time_s for part in whole.parts))


def beside_calls_s(found):
    """Seconds of what networks compute: a call of a small one takes most of its time."""
    return found.latency_s.p50 - found.estimate.parts_s[CALL]


def beside_fixed_s(found):
    """Seconds of what a denoiser computes: fixed times of its attentions grow with none of it."""
    return found.latency_s.p50 - found.estimate.parts_s[FIXED]


def test_a_larger_image_and_more_steps_take_longer(tmp_path):
    path = write(tmp_path, UNET)
    base, large, long = (
        estimate(path, "inf2.xlarge", asked)
        for asked in (
            InputSizes(image=256, steps=5),
            InputSizes(image=512, steps=5),
            InputSizes(image=256, steps=9),
        )
    )
    assert beside_fixed_s(large) > 3 * beside_fixed_s(base)
    assert large.estimate.parts_s[FIXED] == base.estimate.parts_s[FIXED] > 0
    assert CALL not in base.estimate.parts_s
    assert long.latency_s.p50 == pytest.approx(base.latency_s.p50 * 9 / 5)


def test_twice_as_many_images_take_twice_as_long_beside_a_call(tmp_path):
    path = write(tmp_path, RESNET)
    small, large = (estimate(path, "inf2.xlarge", InputSizes(one, image=224)) for one in (8, 16))
    assert beside_calls_s(large) == pytest.approx(2 * beside_calls_s(small), rel=1e-3)
    assert small.item == "image"


def elementwise(summaries):
    return {one.name for summary in summaries for one in summary.elementwise}


def test_batch_norms_are_folded_into_convolutions(tmp_path):
    (part,) = inference(write(tmp_path, RESNET), InputSizes(image=224)).parts
    question = Question(part.model, part.model_pass, machine("inf2.xlarge"))
    computed = {"relu", "add", "mean", "max_pool2d_with_indices"}
    by_products = {"cast", "addmm", "native_batch_norm"}
    assert elementwise(summaries_of(part.model, part.model_pass)) == computed | by_products
    assert elementwise(question.summaries) == computed
