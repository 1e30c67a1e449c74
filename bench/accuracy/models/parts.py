"""Modules that are no whole model of transformers, with their inputs: what AWS's scripts trace.

Source: aws-neuron-sdk archive/src/benchmark/pytorch, one script a row.
"""

import torch
import vision
from torch import nn

DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}


def part(name, facts, dtype, sizes):
    """A module on the meta device, and its arguments."""
    kind = DTYPES[dtype]

    def given(*shape):
        return torch.empty(shape, dtype=kind, device="meta")

    with torch.device("meta"):
        module, args = _made(name, facts, given, sizes)
    return module.to(kind).eval(), args


def _made(name, facts, given, sizes):
    batch = sizes["batch"]
    if "diffusers" not in facts:
        return vision.network(facts), (given(batch, 3, 224, 224),)
    model = _diffusers(facts)
    latents = given(batch, facts["config"]["in_channels"], sizes["height"], sizes["width"])
    if name == "SD VAE":
        decodes = sizes["way"] == "decode"
        shape = (4, sizes["height"], sizes["width"]) if decodes else (3, 8 * sizes["height"], 8 * sizes["width"])
        return (Decoder(model) if decodes else model.encoder), (given(batch, *shape),)
    words = given(batch, sizes["tokens"], facts["config"].get("caption_channels") or facts["config"]["cross_attention_dim"])
    return Denoiser(model, is_xl="XL" in name, ids=5 if "refiner" in name else 6), (latents, given(batch), words)


def _diffusers(facts):
    import diffusers

    return getattr(diffusers, facts["diffusers"])(**facts["config"])


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
        return self.model(latents, timestep=step, encoder_hidden_states=words, return_dict=False, **options)[0]
