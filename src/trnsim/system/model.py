"""A decoder-only transformer, read from a Hugging Face ``config.json``.

Parameters, FLOPs and bytes follow from the shape alone; weights are never opened. Encoders,
encoder-decoders and models with shared or latent attention are refused, not approximated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trnsim import files
from trnsim.errors import BadInput, NotModelled

if TYPE_CHECKING:
    from collections.abc import Mapping

BF16_BYTES: Final = 2

_GPT2_NAMES: Final[Mapping[str, str]] = {
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "intermediate_size": "n_inner",
    "max_position_embeddings": "n_positions",
}
_FAMILIES: Final = ("llama", "mistral", "mixtral", "qwen2", "qwen3", "gpt2")
_FIX: Final = "give the path of a Hugging Face config.json, e.g. examples/llama-3.1-8b.json"
_UNREAD: Final = ("num_experts", "n_routed_experts", "kv_lora_rank", "is_encoder_decoder")


@dataclass(frozen=True)
class ModelShape:
    """The sizes that determine parameters, FLOPs and bytes.

    Attributes:
        head_dim: elements per attention head.
        mlp_matrices: 3 for a gated MLP (gate, up, down), 2 for a plain one.
        experts: experts per layer, 1 for a dense model.
        experts_per_token: experts that process each token.
        is_tied: whether the output projection reuses the embedding.
        positions: learned position embeddings (gpt2), else 0.
        biases_per_layer: elements of all bias vectors and extra norms of a layer.
    """

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    mlp_matrices: int = 3
    experts: int = 1
    experts_per_token: int = 1
    is_tied: bool = False
    positions: int = 0
    biases_per_layer: int = 0
    final_norm: int = 0

    @property
    def attention_width(self) -> int:
        """``heads * head_dim``."""
        return self.heads * self.head_dim

    @property
    def expert_parameters(self) -> int:
        """Parameters of one expert (of the MLP, in a dense model) in one layer."""
        return self.mlp_matrices * self.hidden * self.intermediate

    @property
    def layer_parameters(self) -> int:
        """Parameters of one layer without its experts: attention, router, norms, biases."""
        projections = 2 * self.hidden * (self.attention_width + self.kv_heads * self.head_dim)
        router = self.hidden * self.experts if self.experts > 1 else 0
        return projections + router + 2 * self.hidden + self.biases_per_layer

    @property
    def embedding_parameters(self) -> int:
        """Parameters only looked up; an embedding that is also the output does not count."""
        lookup = 0 if self.is_tied else self.vocabulary * self.hidden
        return lookup + self.positions * self.hidden

    def _total(self, experts: int) -> int:
        layer = self.layer_parameters + experts * self.expert_parameters
        output = self.vocabulary * self.hidden
        return self.layers * layer + output + self.embedding_parameters + self.final_norm

    @property
    def parameters(self) -> int:
        """All parameters."""
        return self._total(self.experts)

    @property
    def active_parameters(self) -> int:
        """Parameters that one token uses: `experts_per_token` experts instead of all."""
        return self._total(self.experts_per_token)

    @property
    def matmul_parameters(self) -> int:
        """Active parameters that take part in a matrix product: all but looked-up embeddings."""
        return self.active_parameters - self.embedding_parameters

    def training_flop_per_token(self, sequence: int) -> float:
        """``6 N + 6 L D S``: forward and backward, causal attention over S tokens.

        N: `matmul_parameters`, L: layers, D: `attention_width`.
        """
        return 6.0 * self.matmul_parameters + 6.0 * self.layers * self.attention_width * sequence

    def decode_flop_per_token(self, context: int) -> float:
        """``2 N + 4 L D C``: one token that attends to C earlier ones."""
        return 2.0 * self.matmul_parameters + 4.0 * self.layers * self.attention_width * context

    @property
    def kv_bytes_per_token(self) -> int:
        """``2 L kv_heads head_dim 2``: keys and values of one token in bfloat16, bytes."""
        return 2 * self.layers * self.kv_heads * self.head_dim * BF16_BYTES

    @property
    def weight_bytes(self) -> int:
        """All parameters in bfloat16, bytes."""
        return self.parameters * BF16_BYTES

    def weight_bytes_read(self, batch: int) -> float:
        """Weights that one decode step of `batch` tokens reads, bytes.

        Dense layers are read once. With E experts and k per token, uniformly routed, the expected
        number of experts touched in a layer is ``E (1 - (1 - k/E)^batch)``.
        """
        missed = (1.0 - self.experts_per_token / self.experts) ** batch
        touched = self.experts * (1.0 - missed)
        layer = self.layer_parameters + touched * self.expert_parameters
        return BF16_BYTES * (self.layers * layer + self.vocabulary * self.hidden)


def read(path: str | Path) -> ModelShape:
    """The model that the ``config.json`` at `path` describes.

    Raises:
        BadInput: the file is missing, is not JSON, lacks a key or holds a value that cannot be.
        NotModelled: an architecture other than the decoders listed in `_FAMILIES`.
    """
    config = files.read_json(path, fix=_FIX)
    if not isinstance(config, dict):
        raise BadInput(
            f"{path}: a config.json holds an object, not a {type(config).__name__}", fix=_FIX
        )
    return from_config(config, str(path))


def from_config(config: Mapping[str, Any], file: str) -> ModelShape:
    """The model that `config` describes; `file` names it in errors.

    Raises:
        BadInput: a key is missing, or holds a value that cannot be.
        NotModelled: an architecture other than a plain decoder.
    """
    family = str(config.get("model_type", "llama"))
    unread = [key for key in _UNREAD if config.get(key)]
    if family not in _FAMILIES or unread:
        given = f"model_type {family!r}" if family not in _FAMILIES else f"key {unread[0]!r}"
        raise NotModelled(
            f"{file}: {given} is not modelled; legal: {', '.join(_FAMILIES)}",
            fix="only decoders whose sizes these names state can be counted",
        )
    keys = _Keys(config, file, family)
    hidden = keys.whole("hidden_size")
    heads = keys.whole("num_attention_heads")
    experts = keys.whole("num_local_experts", default=1)
    if experts > 1:
        keys.whole("num_experts_per_tok")
    head_dim = keys.whole("head_dim", default=hidden // heads)
    shape = ModelShape(
        name=Path(file).stem,
        hidden=hidden,
        layers=keys.whole("num_hidden_layers"),
        heads=heads,
        kv_heads=keys.whole("num_key_value_heads", default=heads),
        head_dim=head_dim,
        intermediate=keys.whole("intermediate_size", default=4 * hidden if keys.is_gpt2 else None),
        vocabulary=keys.whole("vocab_size"),
        experts=experts,
        experts_per_token=keys.whole("num_experts_per_tok", default=1) if experts > 1 else 1,
        is_tied=bool(config.get("tie_word_embeddings", keys.is_gpt2)),
        final_norm=hidden,
    )
    return _with_family(shape, family, keys)


def _with_family(shape: ModelShape, family: str, keys: _Keys) -> ModelShape:
    """The shape with a family's extras: Qwen2's biases, Qwen3's head norms, all of GPT-2's."""
    queries, keys_values = shape.attention_width, 2 * shape.kv_heads * shape.head_dim
    if family == "qwen2":
        return replace(shape, biases_per_layer=queries + keys_values)
    if family == "qwen3":
        return replace(shape, biases_per_layer=2 * shape.head_dim)
    if family == "gpt2":
        attention, mlp = queries + keys_values + shape.hidden, shape.intermediate + shape.hidden
        return replace(
            shape,
            mlp_matrices=2,
            positions=keys.whole("max_position_embeddings"),
            biases_per_layer=attention + mlp + 2 * shape.hidden,
            final_norm=2 * shape.hidden,
        )
    return shape


class _Keys:
    """A config; its errors name a missing or impossible key, and say what to add."""

    def __init__(self, config: Mapping[str, Any], file: str, family: str) -> None:
        self.config = config
        self.file = file
        self.is_gpt2 = family == "gpt2"

    def whole(self, key: str, default: int | None = None) -> int:
        """The positive whole number under `key`."""
        name = _GPT2_NAMES.get(key, key) if self.is_gpt2 else key
        value = self.config.get(name)
        if value is None:
            if default is not None:
                return default
            found = ", ".join(sorted(self.config)) or "none"
            raise BadInput(
                f"{self.file}: key {name!r} is missing; keys found: {found}",
                fix=f'add "{name}": <whole number> to {self.file}',
            )
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BadInput(
                f"{self.file}: {name} is {value!r}, it must be a positive whole number",
                fix=f'write "{name}": <whole number> in {self.file}',
            )
        return value


LLAMA_3_1_8B: Final = ModelShape(
    name="llama-3.1-8b",
    hidden=4096,
    layers=32,
    heads=32,
    kv_heads=8,
    head_dim=128,
    intermediate=14336,
    vocabulary=128256,
    final_norm=4096,
)
"""The public shape of Llama-3.1-8B, for use without a file."""
