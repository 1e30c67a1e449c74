"""Models of diffusers as graphs: a step of a denoiser, or a decoder of latents into an image."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

import torch
from torch import Tensor, nn

from trnsim.errors import BadInput, NotModelled
from trnsim.torch.models.model_graph import DTYPES, MODEL_ERRORS, ModelGraph, module_graph

CLASS_KEY: Final = "_class_name"
"""The key that names a class of diffusers, in place of ``model_type``."""
_PIXELS_PER_LATENT: Final = 8
"""Pixels of an image for each element of its latents, along height and along width."""
_TEXT_TOKENS: Final = 77
"""Tokens of a text, as CLIP has them."""
_TIME_IDS: Final = 6
"""Numbers of the sizes and corners of an image, which are inputs of SDXL."""
_ID_WIDTH: Final = 256
"""Elements of the embedding of one of the `_TIME_IDS`."""


def diffusion_graph(
    values: Mapping[str, Any], batch: int, image: int, tokens: int, *, dtype: str = "bfloat16"
) -> ModelGraph:
    """The graph of a model of diffusers on images of `image`² pixels and texts of `tokens` tokens.

    An `image` of 0 stands for the model's default size, and 0 `tokens` for 77.

    Raises:
        BadInput: if diffusers is not installed, the configuration is none of diffusers, or the
            model does not take images of this size.
        NotModelled: for a class whose inputs are not known.
    """
    module = build_diffusion_model(values, dtype)
    try:
        return module_graph(*_module_and_inputs(module, values, batch, image, tokens, dtype))
    except MODEL_ERRORS as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInput(
            f"{values[CLASS_KEY]} has no graph on images of {image or 'its own number of'} pixels "
            f"a side: {why}",
            fix="ask for another image size, or export the model: trnsim compile model.pt2",
        ) from error


def _module_and_inputs(
    module: Any, values: Mapping[str, Any], batch: int, image: int, tokens: int, dtype: str
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The part of a model that a step runs, and its inputs without values.

    Raises:
        NotModelled: for a class whose inputs are not known.
    """
    config: Any = module.config
    sides = _latent_sides(config, image)

    def empty(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=DTYPES[dtype], device="meta")

    if hasattr(module, "decoder"):
        return _Decoder(module), (empty(batch, config.latent_channels, *sides),)
    parameters = inspect.signature(module.forward).parameters
    is_denoiser = {"timestep", "encoder_hidden_states"} <= set(parameters)
    unknown_inputs = sorted(set(parameters) & {"pooled_projections", "img_ids", "image_rotary_emb"})
    if not is_denoiser or unknown_inputs or not hasattr(config, "in_channels"):
        raise NotModelled(
            f"{values[CLASS_KEY]} takes {', '.join(parameters)}; known are denoisers of latents, "
            "a time and the states of a text, and autoencoders",
            fix="export the model with inputs of your own: trnsim compile model.pt2",
        )
    width = getattr(config, "caption_channels", None) or config.cross_attention_dim
    latents = empty(batch, config.in_channels, *sides)
    return _Denoiser(module), (latents, empty(batch), empty(batch, tokens or _TEXT_TOKENS, width))


def build_diffusion_model(values: Mapping[str, Any], dtype: str = "bfloat16") -> Any:
    """A model of diffusers without weights.

    Raises:
        BadInput: if diffusers is not installed, or does not have the configuration.
    """
    try:
        package = import_module("diffusers")
    except ImportError as error:
        raise BadInput(
            f"{values[CLASS_KEY]} needs diffusers, which builds the model: {error}",
            fix="pip install diffusers 'trnsim[torch,models]'",
        ) from error
    model_class = getattr(package, str(values[CLASS_KEY]), None)
    if not (isinstance(model_class, type) and issubclass(model_class, nn.Module)):
        raise BadInput(
            f"{CLASS_KEY} is {values[CLASS_KEY]!r}, which diffusers {package.__version__} does not "
            "have; it has, for example, UNet2DConditionModel, PixArtTransformer2DModel, "
            "AutoencoderKL",
            fix="give the config.json of a model, not of a pipeline or a scheduler",
        )
    from_config: Callable[..., Any] = getattr(model_class, "from_config")  # noqa: B009  diffusers adds it
    try:
        with torch.device("meta"):
            return from_config(dict(values)).to(DTYPES[dtype]).eval()
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInput(f"the configuration is none of {values[CLASS_KEY]}: {why}") from error


def _latent_sides(config: Any, image: int) -> tuple[int, int]:
    """Height and width of the latents for an image of `image` pixels a side.

    For an `image` of 0 they follow from the configuration, which may have one size or two.
    """
    if image:
        return image // _PIXELS_PER_LATENT, image // _PIXELS_PER_LATENT
    sample_size = getattr(config, "sample_size", None) or 64
    height, width = (
        sample_size if isinstance(sample_size, list | tuple) else (sample_size, sample_size)
    )
    is_in_pixels = hasattr(config, "latent_channels")
    scale = _PIXELS_PER_LATENT if is_in_pixels else 1
    return int(height) // scale, int(width) // scale


class _Decoder(nn.Module):
    """The decoder of an autoencoder."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.input_layer, self.model = model.post_quant_conv or nn.Identity(), model.decoder

    def forward(self, latents: Tensor) -> Any:
        """The image of latents [B, C, H, W]."""
        return self.model(self.input_layer(latents))


class _Denoiser(nn.Module):
    """One step of a denoiser, with the conditions that SDXL and PixArt add."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, latents: Tensor, step: Tensor, text_states: Tensor) -> Any:
        """The prediction for latents [B, C, H, W], times [B] and states of texts [B, tokens, E]."""
        config: Any = self.model.config
        options: dict[str, Any] = {}
        if getattr(config, "addition_embed_type", None) == "text_time":
            embedding_inputs = config.projection_class_embeddings_input_dim
            id_count = _TIME_IDS - (
                embedding_inputs % _ID_WIDTH != 0 or embedding_inputs < _TIME_IDS * _ID_WIDTH
            )
            pooled_width = embedding_inputs - config.addition_time_embed_dim * id_count
            options["added_cond_kwargs"] = {
                "text_embeds": text_states.new_zeros(text_states.shape[0], pooled_width),
                "time_ids": text_states.new_zeros(text_states.shape[0], id_count),
            }
        if "caption_channels" in config:
            options["added_cond_kwargs"] = {"resolution": None, "aspect_ratio": None}
        return self.model(
            latents, timestep=step, encoder_hidden_states=text_states, return_dict=False, **options
        )[0]
