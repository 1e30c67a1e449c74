"""Kinds of models, by which published times of models are compared."""

from __future__ import annotations

from enum import StrEnum


class ModelKind(StrEnum):
    """A kind of model."""

    DENSE = "dense"
    EXPERTS = "mixture of experts"
    LATENT = "MLA"
    RECURRENT = "state space or linear attention"
    ENCODER = "encoder"
    ENCODER_DECODER = "encoder-decoder"
    VISION = "vision"
    PAIR = "image and text pairs"
    NETWORK = "CNN or Perceiver"
    DIFFUSION = "diffusion"
