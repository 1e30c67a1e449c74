"""The computation of a model in each phase, as modules from tensors to tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any, Final

import torch
from torch import Tensor, nn

from trnsim.errors import BadInput
from trnsim.torch.models.config import transformers
from trnsim.workload.shape import ModelShape

_INDEX_DTYPE: Final = torch.int64


class EncodePass(nn.Module):
    """A module that takes inputs by name, and returns all outputs that are tensors."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: dict[str, Tensor]) -> list[Tensor]:
        """The outputs in the model's order."""
        outputs = self.model(**inputs, return_dict=True)
        return [output for output in outputs.values() if isinstance(output, Tensor)]


class TrainingStep(nn.Module):
    """A module that takes inputs and labels by name, and returns the model's own loss."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        """The loss for inputs and labels by name."""
        options: dict[str, Any] = dict(inputs)
        if "return_loss" in inspect.signature(self.model.forward).parameters:
            options["return_loss"] = True
        loss: Tensor = self.model(**options, return_dict=True).loss
        return loss


class GeneratePass(nn.Module):
    """A module that takes new tokens and a cache, and returns scores and new keys and values.

    The cache has the keys and values of earlier tokens. Scores are of each sequence's last token.
    The new tokens' keys and values are separate outputs: the cache is not copied.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, tokens: Tensor, positions: Tensor, keys: list[Tensor], values: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """Scores, keys and values for tokens [B, L] at positions [B, L].

        `keys` and `values` are the cache, [B, KV heads, past, E] by layer.
        """
        layers = _cache_layers(self.model.config)
        for layer, key, value in zip(layers, keys, values, strict=False):
            layer.hold(key, value)
        output = self.model(
            input_ids=tokens,
            position_ids=positions,
            past_key_values=transformers().cache_utils.Cache(layers=layers),
            use_cache=True,
            logits_to_keep=1,
            return_dict=True,
        )
        return output.logits, [tensor for layer in layers for tensor in layer.new_tensors]


def _cache_layers(config: Any) -> list[Any]:
    """The layers of a cache, whose attribute `new_tensors` has the new tokens' keys and values."""

    class Layer(transformers().cache_utils.DynamicLayer):  # type: ignore[misc]
        def hold(self, key: Tensor, value: Tensor) -> None:
            self.keys, self.values = key, value
            self.dtype, self.device = key.dtype, key.device
            self.is_initialized = True

        def update(self, key: Tensor, value: Tensor, *args: Any, **options: Any) -> Any:
            self.new_tensors = (key, value)
            if self.is_initialized:
                return super().update(key, value, *args, **options)
            self.hold(key, value)
            return key, value

    return [Layer() for _ in range(config.num_hidden_layers)]


def generate_inputs(config: Any, shape: ModelShape, dtype: torch.dtype) -> tuple[Any, ...]:
    """The arguments of `GeneratePass`.

    A layer with a sliding window caches no more keys than the window has.
    """
    batch, tokens = shape.batch, shape.tokens
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    token_ids = torch.empty(batch, tokens, dtype=_INDEX_DTYPE, device="meta")
    cache: list[list[Tensor]] = [
        [
            torch.empty(
                batch,
                heads,
                _cache_length(config, layer, shape.past),
                width,
                dtype=dtype,
                device="meta",
            )
            for layer in range(config.num_hidden_layers if shape.past else 0)
        ]
        for _ in ("keys", "values")
    ]
    return (token_ids, torch.empty_like(token_ids), *cache)


def _cache_length(config: Any, layer: int, past: int) -> int:
    """The number of keys in a layer's cache."""
    window = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None)
    is_local = window and (kinds is None or kinds[layer] == "sliding_attention")
    return min(past, int(window) - 1) if window and is_local else past


def named_inputs(model: Any, shape: ModelShape, dtype: torch.dtype) -> dict[str, Tensor]:
    """The inputs that an encoder takes, by name.

    Raises:
        BadInput: for an encoder that takes neither tokens nor images under a known name.
    """
    accepted = inspect.signature(model.forward).parameters
    inputs = {
        name: make(model.config, shape, dtype)
        for name, make in _INPUTS.items()
        if name in accepted and _gets_input(model, name, accepted)
    }
    if not set(inputs) & {"input_ids", "pixel_values", "inputs"}:
        raise BadInput(
            f"{type(model).__name__} takes {', '.join(accepted)}; known here: {', '.join(_INPUTS)}",
            fix="export the model with inputs of your own: trnsim compile model.pt2",
        )
    return inputs


def label_inputs(model: Any, inputs: dict[str, Tensor], shape: ModelShape) -> dict[str, Tensor]:
    """The labels that a model's own loss takes."""
    parameters = inspect.signature(model.forward).parameters
    has_token_labels = "input_ids" in inputs and "Classification" not in type(model).__name__
    label_shape = (shape.batch, shape.sequence) if has_token_labels else (shape.batch,)
    shapes = {"labels": label_shape, "next_sentence_label": (shape.batch,)}
    return {
        name: torch.empty(lengths, dtype=_INDEX_DTYPE, device="meta")
        for name, lengths in shapes.items()
        if name in parameters
    }


def _gets_input(model: Any, name: str, parameters: Collection[str]) -> bool:
    """True if an input that a model accepts is passed to it; decoders need no padding mask."""
    if name == "pixel_values":
        return bool(_image_config(model.config))
    if name == "attention_mask" and type(model).__name__.endswith("ForCausalLM"):
        return False
    return "input_ids" in parameters


def _image_config(config: Any) -> Any:
    """The part of a configuration that has the size of an image; None without images."""
    part = getattr(config, "vision_config", None) or config
    return part if getattr(part, "image_size", None) else None


def _token_input(config: Any, shape: ModelShape, dtype: torch.dtype) -> Tensor:
    del config, dtype
    return torch.empty(shape.batch, shape.sequence, dtype=_INDEX_DTYPE, device="meta")


def _pixel_input(config: Any, shape: ModelShape, dtype: torch.dtype) -> Tensor:
    part = _image_config(config)
    size = part.image_size
    height, width = size if isinstance(size, list | tuple) else (size, size)
    channels = getattr(part, "num_channels", 3)
    return torch.empty(shape.batch, channels, height, width, dtype=dtype, device="meta")


_INPUTS: Final[dict[str, Callable[[Any, ModelShape, torch.dtype], Tensor]]] = {
    "input_ids": _token_input,
    "attention_mask": _token_input,
    "token_type_ids": _token_input,
    "pixel_values": _pixel_input,
}
"""Name of an input -> the function that makes it, a tensor without values."""
