"""Modules that are no whole model of transformers, with their inputs: what AWS's scripts trace.

Source: aws-neuron-sdk archive/src/benchmark/pytorch, one script a row.
"""

import torch
import vision
from torch import nn

from trnsim.torch.models import ModelShape, phases
from trnsim.torch.models.config import config_of
from trnsim.torch.models.model_graph import build_model

DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}


def part(name, facts, dtype, sizes):
    """A module on the meta device, and its arguments."""
    kind = DTYPES[dtype]

    def given(*shape):
        return torch.empty(shape, dtype=kind, device="meta")

    with torch.device("meta"):
        module, args = _maker(name, facts)(name, facts, given, sizes)
    return module.to(kind).eval(), args


def _maker(name, facts):
    if "config" not in facts:
        return network
    if name == "SD VAE":
        return autoencoder
    if "diffusers" in facts:
        return denoiser
    return {"clip": pairs, "perceiver": multimodal}[facts["config"]["model_type"]]


def network(_, facts, given, sizes):
    """A convolutional network."""
    return vision.network(facts), (given(sizes["batch"], 3, 224, 224),)


def autoencoder(_, facts, given, sizes):
    """Either half of the autoencoder of latents."""
    model, (high, wide) = _diffusers(facts), (sizes["height"], sizes["width"])
    if sizes["way"] == "decode":
        return Decoder(model), (given(sizes["batch"], 4, high, wide),)
    return model.encoder, (given(sizes["batch"], 3, 8 * high, 8 * wide),)


def denoiser(name, facts, given, sizes):
    """A step's prediction."""
    config, batch = facts["config"], sizes["batch"]
    latents = given(batch, config["in_channels"], sizes["height"], sizes["width"])
    wide = config.get("caption_channels") or config["cross_attention_dim"]
    module = Denoiser(_diffusers(facts), is_xl="XL" in name, ids=5 if "refiner" in name else 6)
    return module, (latents, given(batch), given(batch, sizes["tokens"], wide))


def _diffusers(facts):
    import diffusers  # noqa: PLC0415  takes seconds, and few parts need it

    return getattr(diffusers, facts["diffusers"])(**facts["config"])


def _transformers(facts):
    config = config_of(facts["config"])
    return build_model(config, ModelShape("encode"), "float32")


def pairs(_, facts, given, sizes):
    """CLIP: images beside texts, as many as there are of each."""
    words = torch.empty(sizes["texts"], sizes["sequence"], dtype=torch.int64, device="meta")
    named = {"input_ids": words, "pixel_values": given(sizes["batch"], 3, 224, 224)}
    return phases.EncodePass(_transformers(facts)), (named,)


def multimodal(_, facts, given, sizes):
    """Perceiver's encoder of a video, or the decoder of one of its 128 pieces.

    Queries of a piece: 6,272 points of the image, 15 of the sound, and the label.
    """
    model, batch = _transformers(facts).perceiver, sizes["batch"]
    hidden = given(batch, 784, 512)
    if sizes["way"] == "encode":
        return Encoder(model.encoder), (hidden, given(batch, 52097, 704))
    return model.decoder.decoder, (given(batch, 6272 + 15 + 1, 1026), hidden)


class Encoder(nn.Module):
    """Inputs into latents."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, latents, inputs):
        """The last state."""
        return self.model(latents, inputs=inputs).last_hidden_state


class Decoder(nn.Module):
    """Latents to an image."""

    def __init__(self, model):
        super().__init__()
        self.first, self.model = model.post_quant_conv, model.decoder

    def forward(self, latents):
        """The image."""
        return self.model(self.first(latents))


class Denoiser(nn.Module):
    """One step's prediction, with the conditions that SDXL adds."""

    def __init__(self, model, *, is_xl, ids):
        super().__init__()
        self.model, self.is_xl, self.ids = model, is_xl, ids

    def forward(self, latents, step, words):
        """Of latents, a step for each, and the text's states."""
        options = {}
        if self.is_xl:
            added = self.model.config.projection_class_embeddings_input_dim
            pooled = added - 256 * self.ids
            options["added_cond_kwargs"] = {
                "text_embeds": words.new_zeros(words.shape[0], pooled),
                "time_ids": words.new_zeros(words.shape[0], self.ids),
            }
        if "caption_channels" in self.model.config:
            options["added_cond_kwargs"] = {"resolution": None, "aspect_ratio": None}
        return self.model(
            latents, timestep=step, encoder_hidden_states=words, return_dict=False, **options
        )[0]
