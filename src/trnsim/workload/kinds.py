"""Kinds of models, by which published times of models are compared."""

from __future__ import annotations

from enum import StrEnum

from trnsim.workload.architecture import Architecture, LatentAttention
from trnsim.workload.captured import CapturedModel, Workload


class ModelKind(StrEnum):
    """A kind of model."""

    DENSE = "dense"
    EXPERTS = "mixture of experts"
    LATENT = "MLA"
    ENCODER = "encoder"
    ENCODER_DECODER = "encoder-decoder"
    VISION = "vision"
    PAIR = "image and text pairs"
    NETWORK = "CNN or Perceiver"
    DIFFUSION = "diffusion"


def kind_of(model: Workload) -> ModelKind:
    """The kind of a model: the first of several that it could have, so MLA before experts."""
    if isinstance(model, CapturedModel):
        return ModelKind.DIFFUSION if model.is_of_diffusers else ModelKind.NETWORK
    applicability = {
        ModelKind.PAIR: model.is_pair,
        ModelKind.VISION: model.is_of_images,
        ModelKind.LATENT: _has_latents(model),
        ModelKind.EXPERTS: model.experts is not None,
        ModelKind.ENCODER_DECODER: len(model.towers) > 1,
        ModelKind.DENSE: model.is_generating,
    }
    return next((kind for kind, applies in applicability.items() if applies), ModelKind.ENCODER)


def _has_latents(model: Architecture) -> bool:
    return any(
        isinstance(attention, LatentAttention)
        for tower in model.towers
        for layer in tower.layers
        for attention in layer.attentions
    )
