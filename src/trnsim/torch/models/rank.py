"""One rank's share of a model whose layers are split over ranks (tensor parallelism).

A rank has its share of heads, of the MLP's width and of the vocabulary, and all of the hidden
state. The exchanges between ranks follow transformers' own plan for the architecture, by module.

Source: Shoeybi et al., Megatron-LM (arXiv:1909.08053), section 3.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch import Tensor, nn

from trnsim.errors import BadInput

GROUP: Final = "tp"
"""The name of the group of ranks, for the importer."""

_WIDTH_SETTINGS: Final = (
    "intermediate_size",
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
)
"""Settings of a configuration that are widths of layers, split over ranks."""
_SUMMED_STYLES: Final = frozenset({"rowwise", "moe_tp_experts", "embedding_rowwise"})
"""Styles of a plan for modules whose outputs are summed over ranks."""
_GATHERED_STYLE: Final = "colwise_gather_output"
"""The style of a plan for a module whose outputs are gathered from all ranks."""
_KNOWN_STYLES: Final = _SUMMED_STYLES | {
    *(_GATHERED_STYLE, "colwise", "packed_colwise", "grouped_gemm"),
    *("keep_full_weight", "replicated_with_grad_allreduce"),
}


def rank_config(config: Any, ranks: int, *, is_padded: bool) -> Any:
    """The configuration of one rank's model.

    Each rank has at least one head of keys and values: further ranks hold copies.

    Raises:
        BadInput: for heads that the ranks do not divide, unless `is_padded`.
    """
    settings = copy.deepcopy(config)
    if ranks == 1:
        return settings
    heads = int(config.num_attention_heads)
    if heads % ranks and not is_padded:
        legal = ", ".join(str(n) for n in range(1, heads + 1) if heads % n == 0)
        raise BadInput(
            f"tp of {ranks} does not divide the {heads} attention heads of {config.model_type}; "
            f"legal: {legal}",
            fix="choose one of these",
        )
    kv_heads = int(getattr(config, "num_key_value_heads", None) or heads)
    settings.head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    settings.num_attention_heads = _rank_share(heads, ranks)
    settings.num_key_value_heads = _rank_share(kv_heads, ranks)
    if settings.num_attention_heads % settings.num_key_value_heads:
        settings.num_key_value_heads = settings.num_attention_heads
    for name in (*_WIDTH_SETTINGS, "vocab_size"):
        if getattr(config, name, None):
            setattr(settings, name, _rank_share(int(getattr(config, name)), ranks))
    return settings


def _rank_share(number: int, ranks: int) -> int:
    """A rank's part of a number of heads, features or tokens, rounded up: the rest is padding."""
    return -(-number // ranks)


def register_exchanges(
    model: Any, whole_model: nn.Module, ranks: int, *, is_trained: bool = False
) -> None:
    """Register the exchanges of a rank's model by its architecture's plan.

    Scores are gathered; a loss is computed on a rank's share of them.

    Args:
        model: the rank's model.
        whole_model: the same model on one rank.
        ranks: number of ranks.
        is_trained: whether the model computes a loss and its gradient.

    Raises:
        BadInput: for an architecture without a plan, or whose sizes do not follow from it.
    """
    plan: dict[str, str] = dict(getattr(model, "tp_plan", None) or {})
    model_type = getattr(model.config, "model_type", type(model).__name__)
    unknown_styles = sorted({style for style in plan.values() if style not in _KNOWN_STYLES})
    if not plan or unknown_styles:
        why = f"splits by {', '.join(unknown_styles)}" if unknown_styles else "has no plan"
        raise BadInput(
            f"tp of {ranks} for {model_type}, which {why} in transformers; legal: architectures "
            "that split by rows and columns, such as llama, mistral, qwen3, mixtral",
            fix="ask for tp 1, or export the rank's own model: trnsim compile model.pt2",
        )
    for name, style, module in _planned_modules(model, plan):
        _check_share(name, style, module, whole_model.get_submodule(name), ranks, model_type)
        if style == "embedding_rowwise":
            module.register_forward_pre_hook(_clamp_tokens)
        if style in _SUMMED_STYLES:
            module.register_forward_hook(_sum_output)
        elif style == _GATHERED_STYLE and not is_trained:
            module.register_forward_hook(_GatherHook(ranks))

    if is_trained:
        model.loss_function = vocab_parallel_cross_entropy
        _add_up_gradients(model, plan)


def _planned_modules(
    model: nn.Module, plan: dict[str, str]
) -> Iterator[tuple[str, str, nn.Module]]:
    """(name, style, module) of each module that a plan names, with `*` for a layer's number."""
    for name, module in model.named_modules():
        style = plan.get(re.sub(r"\.\d+(?=\.|$)", ".*", name))
        if style is not None:
            yield name, style, module


def _check_share(
    name: str, style: str, module: nn.Module, whole_module: nn.Module, ranks: int, model_type: str
) -> None:
    """Check that a linear layer has a share of the features that its style splits."""
    if not isinstance(module, nn.Linear) or not isinstance(whole_module, nn.Linear):
        return
    side = "in_features" if style == "rowwise" else "out_features"
    if style in ("rowwise", "colwise", _GATHERED_STYLE):
        rank_length, whole_length = getattr(module, side), getattr(whole_module, side)
        if rank_length * ranks < whole_length or rank_length == whole_length:
            raise BadInput(
                f"tp of {ranks} for {model_type}: {name} keeps {side} {rank_length} of "
                f"{whole_length}, so its size does not follow from heads and intermediate_size",
                fix="ask for tp 1, or export the rank's own model: trnsim compile model.pt2",
            )


def _add_up_gradients(model: nn.Module, plan: dict[str, str]) -> None:
    """Add up gradients of inputs of layers that are split by columns.

    Layers with the same input, such as queries, keys and values, have one parent and one exchange.
    """
    modules = list(_planned_modules(model, plan))
    parents = {
        n.rpartition(".")[0] for n, style, _ in modules if style in ("colwise", "packed_colwise")
    }
    gathered_layers = {name for name, style, _ in modules if style == _GATHERED_STYLE}
    for name in parents | gathered_layers:
        model.get_submodule(name).register_forward_pre_hook(_copy_hidden_state, with_kwargs=True)


def _copy_hidden_state(module: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """A module's hidden state as a copy that every rank has."""
    del module
    copy_of: Any = _SharedTensor.apply
    if args:
        return (copy_of(args[0]), *args[1:]), options
    return args, options | {"hidden_states": copy_of(options["hidden_states"])}


class _SharedTensor(torch.autograd.Function):
    """The identity on a tensor that all ranks have; its gradient is summed over ranks."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        """The tensor itself."""
        del ctx
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:
        """An all-reduce."""
        del ctx
        return all_reduce(grad_outputs[0])


def _clamp_tokens(module: Any, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Token numbers clamped to the rank's rows: a token of another rank looks up its last row.

    Zeroing the rows of other ranks' tokens is left out, as its time is negligible.
    """
    return (args[0].clamp(max=module.num_embeddings - 1), *args[1:])


def _sum_output(module: nn.Module, args: Any, output: Any) -> Any:
    if isinstance(output, tuple):
        return (_sum_output(module, args, output[0]), *output[1:])
    add_up: Any = _RankSum.apply  # untyped in PyTorch
    return add_up(output) if torch.is_grad_enabled() else all_reduce(output)


class _RankSum(torch.autograd.Function):
    """The sum over ranks; each rank receives the gradient unchanged."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        """An all-reduce."""
        del ctx
        return all_reduce(tensor)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:
        """The gradient itself."""
        del ctx
        return grad_outputs[0]


def vocab_parallel_cross_entropy(logits: Tensor, labels: Tensor, **options: Any) -> Tensor:
    """The mean over tokens of ``log(sum(exp(logits))) - logits[next label]``, a scalar.

    `logits` [B, L, V] are of the rank's share of the vocabulary, `labels` [B, L]. Maxima, sums and
    the labels' logits are all-reduced.
    """
    del options
    scores, next_tokens = logits[:, :-1].float(), labels[:, 1:]
    maxima = all_reduce(scores.detach().amax(-1), "max")
    scores = scores - maxima[..., None]
    add_up: Any = _RankSum.apply
    total = add_up(scores.exp().sum(-1))
    last_token = scores.shape[-1] - 1
    label_scores = scores.gather(-1, next_tokens.clamp(max=last_token)[..., None])[..., 0]
    label_scores = add_up(label_scores * (next_tokens <= last_token))
    loss: Tensor = (total.log() - label_scores).mean()
    return loss


class _GatherHook:
    """A hook that gathers all ranks' shares of the scores, in the order of ranks."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks

    def __call__(self, module: nn.Module, args: Any, output: Tensor) -> Tensor:
        del module, args
        functional: Any = torch.ops._c10d_functional  # noqa: SLF001  PyTorch's name
        parts = functional.all_gather_into_tensor(output, self.ranks, GROUP)
        scores: Tensor = functional.wait_tensor(parts)
        return scores


def all_reduce(tensor: Tensor, op: str = "sum") -> Tensor:
    """The sum or the maximum over the group of ranks."""
    functional: Any = torch.ops._c10d_functional  # noqa: SLF001  PyTorch's name
    result: Tensor = functional.wait_tensor(functional.all_reduce(tensor, op, GROUP))
    return result
