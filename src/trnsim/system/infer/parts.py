"""The parts of an inference: models, the pass through each, and the number of runs.

A text encoder, an image encoder or a pair of both is one part. Diffusion encodes the text once,
runs a number of denoiser steps, and decodes once: the configurations of its parts are in folders
beside diffusers' ``model_index.json``. For the ``config.json`` of a denoiser only its steps are
estimated.

Classifier-free guidance (arXiv:2207.12598) predicts each step twice: with the text and without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from trnsim.errors import BadInput, NotModelled
from trnsim.workload.architecture import Architecture
from trnsim.workload.captured import Workload, workload_of
from trnsim.workload.config import read_values
from trnsim.workload.matrix_bits import without_own_bits
from trnsim.workload.model_names import hub_id, model_name
from trnsim.workload.operators import Pass, Phase

INDEX: Final = "model_index.json"
SEQUENCE: Final = 128
"""Default tokens of a text, or the model's limit if that is lower."""
TEXT_TOKENS: Final = 77
"""Default tokens of a text of diffusion, if the model has no limit: CLIP's."""
STEPS: Final = 50
"""Default steps of a denoiser: those of diffusers' StableDiffusionPipeline."""
GUIDED_PREDICTIONS: Final = 2
"""Predictions of a step with classifier-free guidance: with the text, and without it."""
_CLASS_KEY: Final = "_class_name"
_TEXT_ENCODER_PREFIX: Final = "text_encoder"
_DENOISERS: Final = ("unet", "transformer")
_DECODER_NAMES: Final = ("vae", "movq", "vqvae")
_SKIPPED_PREFIXES: Final = ("scheduler", "tokenizer", "feature_extractor", "image_processor")
_PIXELS_OF_LATENT: Final = 8
_GENERATING_CLASSES: Final = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")
_IMAGE_KEYS: Final = ("image_size", "num_channels", "patch_size", "vision_config")
_TEXT_KEYS: Final = ("vocab_size", "text_config")


@dataclass(frozen=True)
class InputSizes:
    """Sizes of the input of an inference.

    Attributes:
        batch: items that go through a copy of the model at once: texts, images, or pairs.
        sequence: tokens of a text; None for the default of the model.
        image: pixels of an image along a side; None for the size of the model.
        steps: steps of a denoiser; None for `STEPS`.
        is_guided: whether a denoiser step has classifier-free guidance.
    """

    batch: int = 1
    sequence: int | None = None
    image: int | None = None
    steps: int | None = None
    is_guided: bool = True

    def __post_init__(self) -> None:
        for name in ("batch", "sequence", "image", "steps"):
            value = getattr(self, name)
            if value is None and name != "batch":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise BadInput(
                    f"--{name} is {value}; legal: a positive whole number",
                    fix=f"for example --{name} 1",
                )


@dataclass(frozen=True)
class InferencePart:
    """A model of an inference.

    Attributes:
        name: "model", "text encoder", "denoiser", "decoder".
        model: the architecture, or a captured model.
        times: number of runs in one inference.
        guided: predictions of each item in a run, which may be on different ranks: 2 for a denoiser
            with classifier-free guidance, otherwise 1.
    """

    name: str
    model: Workload
    model_pass: Pass
    times: int = 1
    guided: int = 1


@dataclass(frozen=True)
class Inference:
    """All parts of an inference.

    Attributes:
        parts: the parts in the order in which they run.
        item: the unit of throughput: "sequence", "image" or "pair".
        left_out: other models of the pipeline, whose time is not counted.
    """

    name: str
    parts: tuple[InferencePart, ...]
    item: str
    left_out: tuple[str, ...] = ()


def inference(path: str | Path, sizes: InputSizes, dtype: str = "bf16") -> Inference:
    """The inference of the model at `path`: a file, or the folder of a pipeline.

    Raises:
        BadInput: the file cannot be read, or the model has no such input.
        NotModelled: the architecture of the model or of a part is unknown.
    """
    file = Path(path)
    if file.is_dir():
        index = file / INDEX
        file = index if index.exists() else file / "config.json"
    values = read_values(file)
    if str(values.get(_CLASS_KEY, "")).endswith("Pipeline"):
        return _pipeline_inference(file, values, sizes, dtype)
    if _CLASS_KEY in values:
        return _diffusers_inference(file, values, sizes, dtype)
    return _transformers_inference(file, values, sizes, dtype)


def _transformers_inference(
    file: Path, values: Mapping[str, Any], sizes: InputSizes, dtype: str
) -> Inference:
    """The inference of a model of the transformers library: one part, one pass."""
    model = _read_workload(values, file, dtype)
    _refuse_generating(model)
    _refuse_steps(model.name, sizes)
    has_image, has_text = _inputs(model)
    _refuse("--image", sizes.image, model.name, "reads no images", is_read=has_image)
    _refuse("--sequence", sizes.sequence, model.name, "reads no text", is_read=has_text)
    if sizes.image and isinstance(model, Architecture):
        model = _read_workload(_with_image_size(values, sizes.image), file, dtype)
    tokens = _tokens(model, sizes) if has_text else 1
    image = 0 if isinstance(model, Architecture) else sizes.image or 0
    model_pass = Pass(Phase.ENCODE, sizes.batch, tokens, image=image)
    item = "pair" if has_image and has_text else "image" if has_image else "sequence"
    return Inference(_name(file), (InferencePart("model", model, model_pass),), item)


def _diffusers_inference(
    file: Path, values: Mapping[str, Any], sizes: InputSizes, dtype: str
) -> Inference:
    """The inference of a diffusers model alone: a denoiser's steps, or one run of a decoder."""
    model = _read_workload(values, file, dtype)
    if "latent_channels" in values:
        _refuse_steps(model.name, sizes)
        _refuse("--sequence", sizes.sequence, model.name, "reads no text", is_read=False)
        return Inference(_name(file), (_decoder(model, sizes),), "image", ("denoiser",))
    tokens = sizes.sequence or TEXT_TOKENS
    return Inference(
        _name(file), (_denoiser(model, sizes, tokens),), "image", (_TEXT_ENCODER_PREFIX, "vae")
    )


def _pipeline_inference(
    file: Path, values: Mapping[str, Any], sizes: InputSizes, dtype: str
) -> Inference:
    """The parts of a pipeline of diffusers, each in a folder of its own."""
    names = [name for name, kind in values.items() if _is_part(kind)]
    denoisers = [name for name in names if name in _DENOISERS]
    if not denoisers:
        name_list = ", ".join(names) or "none"
        raise NotModelled(
            f"{file}: a pipeline without a denoiser ({' or '.join(_DENOISERS)}); parts: {name_list}"
        )

    def part(name: str) -> Workload:
        config = file.parent / name / "config.json"
        return _read_workload(read_values(config), config, dtype)

    encoders = [part(name) for name in names if name.startswith(_TEXT_ENCODER_PREFIX)]
    usual_tokens = sizes.sequence or TEXT_TOKENS  # of a text that another program encodes
    tokens = max((_text_tokens(encoder, sizes) for encoder in encoders), default=usual_tokens)
    if sizes.sequence and tokens < sizes.sequence:
        encoders[0].check_length(sizes.sequence)
    rows = sizes.batch * (GUIDED_PREDICTIONS if sizes.is_guided else 1)
    parts = [
        InferencePart(
            "text encoder", encoder, Pass(Phase.ENCODE, rows, _text_tokens(encoder, sizes))
        )
        for encoder in encoders
    ]
    parts += [_denoiser(part(name), sizes, tokens) for name in denoisers]
    parts += [_decoder(part(name), sizes) for name in names if name in _DECODER_NAMES]
    counted_names = (*_DENOISERS, *_DECODER_NAMES)
    left_out = tuple(
        name
        for name in names
        if not name.startswith((_TEXT_ENCODER_PREFIX, *_SKIPPED_PREFIXES))
        and name not in counted_names
    )
    return Inference(_name(file), tuple(parts), "image", left_out)


def _name(file: Path) -> str:
    """The model's name on the hub, the file's name, or its folder's if the file name is common."""
    if hub_id(file):
        return model_name(file)
    is_common = file.name in (INDEX, "config.json")
    return file.resolve().parent.name if is_common else file.stem


def _is_part(kind: object) -> bool:
    return isinstance(kind, list) and len(kind) == 2 and all(isinstance(word, str) for word in kind)  # noqa: PLR2004  a library and a class


def _denoiser(model: Workload, sizes: InputSizes, tokens: int) -> InferencePart:
    model_pass = Pass(Phase.ENCODE, sizes.batch, 1, source=tokens, image=_latent_image(sizes))
    passes = GUIDED_PREDICTIONS if sizes.is_guided else 1
    return InferencePart("denoiser", model, model_pass, sizes.steps or STEPS, passes)


def _decoder(model: Workload, sizes: InputSizes) -> InferencePart:
    return InferencePart(
        "decoder", model, Pass(Phase.ENCODE, sizes.batch, 1, image=_latent_image(sizes))
    )


def _latent_image(sizes: InputSizes) -> int:
    """Pixels of an image's side, a multiple of eight for the latent; 0 for the model's own."""
    if sizes.image and sizes.image % _PIXELS_OF_LATENT:
        nearest_size = max(round(sizes.image / _PIXELS_OF_LATENT), 1) * _PIXELS_OF_LATENT
        raise BadInput(
            f"--image is {sizes.image}; legal for diffusion: multiples of {_PIXELS_OF_LATENT}",
            fix=f"for example --image {nearest_size}",
        )
    return sizes.image or 0


_BYTE_BITS: Final = 8
_DTYPES: Final = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8": "bfloat16"}


def _read_workload(values: Mapping[str, Any], file: Path, dtype: str) -> Workload:
    """A model with its weights in `dtype`."""
    if dtype not in _DTYPES:
        raise BadInput(f"--dtype is {dtype!r}; legal: {', '.join(_DTYPES)}")
    workload_of(values, str(file))  # refuse the file as it is, before its dtype is replaced
    settings = {key: value for key, value in values.items() if key not in ("dtype", "torch_dtype")}
    if _CLASS_KEY not in values or dtype == "fp32":  # diffusers warns of keys that it does not know
        settings["torch_dtype"] = _DTYPES[dtype]
    model = workload_of(settings, str(file))
    if dtype != "fp8":
        return model
    if not isinstance(model, Architecture):
        raise NotModelled(f"--dtype fp8 for {model.name}, whose graph is captured; legal: bf16")
    return replace(
        without_own_bits(model),
        weight_bits=min(model.weight_bits, _BYTE_BITS),
        mlp_bits=min(model.mlp_bits, _BYTE_BITS),
        product_bits=min(model.product_bits, _BYTE_BITS),
    )


def _with_image_size(values: Mapping[str, Any], image: int) -> dict[str, Any]:
    """The configuration for images of `image` pixels a side; the rest follows from it."""
    vision_config = values.get("vision_config")
    if isinstance(vision_config, Mapping):
        return {**values, "vision_config": {**vision_config, "image_size": image}}
    return {**values, "image_size": image}


def _inputs(model: Workload) -> tuple[bool, bool]:
    """Whether the model reads images, and whether it reads text."""
    if isinstance(model, Architecture):
        images = [bool(tower.tokens) for tower in model.towers]
        return any(images), not all(images)
    has_image = any(key in model.values for key in _IMAGE_KEYS)
    return has_image, not has_image or any(key in model.values for key in _TEXT_KEYS)


def _tokens(model: Workload, sizes: InputSizes) -> int:
    """Tokens of a text: as requested, or the default within the model's limit."""
    if sizes.sequence is None:
        return min(SEQUENCE, model.max_positions or SEQUENCE)
    model.check_length(sizes.sequence)
    return sizes.sequence


def _text_tokens(model: Workload, sizes: InputSizes) -> int:
    """Tokens of a text of diffusion: as requested, cut to the limit of its encoder.

    By default it is padded to that limit.
    """
    if sizes.sequence is None:
        return model.max_positions or TEXT_TOKENS
    return min(sizes.sequence, model.length_limit or sizes.sequence)


def _refuse_generating(model: Workload) -> None:
    if isinstance(model, Architecture):
        is_generating = model.is_generating
    else:
        classes = model.values.get("architectures")
        names = map(str, classes if isinstance(classes, list) else ())
        is_generating = any(name.endswith(_GENERATING_CLASSES) for name in names)
    if is_generating:
        raise BadInput(
            f"{model.name} ({model.model_type}) makes one token after another, which one pass does "
            "not answer",
            fix="trnsim plan serve",
        )


def _refuse_steps(name: str, sizes: InputSizes) -> None:
    if sizes.steps is not None:
        raise BadInput(
            f"--steps {sizes.steps}: {name} has no denoiser, which alone takes steps",
            fix=f"leave --steps out, or give a pipeline's {INDEX}",
        )


def _refuse(option: str, value: int | None, name: str, why: str, *, is_read: bool) -> None:
    if value is not None and not is_read:
        raise BadInput(f"{option} {value}: {name} {why}", fix=f"leave {option} out")
