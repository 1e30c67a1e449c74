"""A model's graph in one phase, at one shape, of one rank."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Self

import torch
from torch import nn

from trnsim.compiler.ncc.calls import FrameworkCall
from trnsim.errors import BadInput
from trnsim.graph import Graph
from trnsim.torch.compile.fx_import import ImportedGraph, import_graph
from trnsim.torch.models import attending, phases, rank
from trnsim.torch.models.config import transformers
from trnsim.torch.models.int8_weights import use_int8_weights
from trnsim.torch.models.traced import trace_module
from trnsim.workload.shape import ModelShape

DTYPES: Final = {
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float16": torch.float16,
}
"""Element types of weights and activations."""
_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True)
class ModelGraph:
    """A graph with the names and roles of its inputs.

    Attributes:
        graph: the graph.
        weights: numbers of its inputs that are weights or tables, the same at every step.
        names: names of its inputs, by number.
        operators: operators of the framework's program, in order.
        missing: operators without a lowering, each with the reason.
        calls: the same operators with their arguments, and the lines that call them.
        origins: the call that a value of the graph came from, by the value's number.
    """

    graph: Graph
    weights: frozenset[int]
    names: dict[int, str]
    operators: tuple[str, ...]
    missing: tuple[str, ...]
    calls: tuple[FrameworkCall, ...] = field(default=(), repr=False)
    origins: dict[int, FrameworkCall] = field(default_factory=dict[int, FrameworkCall], repr=False)

    @classmethod
    def of(
        cls, imported: ImportedGraph, weights: Collection[str], names: Mapping[str, str] = _NO_NAMES
    ) -> Self:
        """An imported graph.

        Args:
            imported: the import.
            weights: names of the inputs that are weights.
            names: name of an input in the import -> its name in the result.
        """
        input_names = {number: names.get(name, name) for number, name in imported.names.items()}
        weight_numbers = frozenset(
            number for number, name in input_names.items() if name in weights
        )
        return cls(
            imported.graph,
            weight_numbers,
            input_names,
            imported.operators,
            imported.missing,
            imported.calls,
            imported.origins,
        )


def model_graph(
    config: Any, shape: ModelShape, *, dtype: str = "bfloat16", weights: str = ""
) -> ModelGraph:
    """The graph of a model of transformers, whose linear weights are 8-bit if `weights` is int8.

    Raises:
        BadInput: for an architecture, a shape or a dtype that has no graph.
    """
    if dtype not in DTYPES:
        raise BadInput(f"dtype {dtype!r}; legal: {', '.join(DTYPES)}", fix="choose one of these")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = _rank_model(config, shape, dtype)
            if weights == "int8":
                use_int8_weights(model)
            return _phase_graph(model, shape, DTYPES[dtype])
        except MODEL_ERRORS as error:
            why = (str(error).splitlines() or [type(error).__name__])[0]
            raise BadInput(
                f"{config.model_type} has no graph in phase {shape.phase} of batch {shape.batch}, "
                f"sequence {shape.sequence}, past {shape.past}: {why}",
                fix="ask for a shape that the model has, or export it: trnsim compile model.pt2",
            ) from error


MODEL_ERRORS: Final = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, NotImplementedError),
    *(RuntimeError, TypeError, ValueError),
)
"""Errors that the code of a model may raise at a size that it does not support."""


def _rank_model(config: Any, shape: ModelShape, dtype: str) -> Any:
    """A rank's model, which leaves `config` as it is."""
    model = build_model(
        rank.rank_config(config, shape.ranks, is_padded=shape.is_padded), shape, dtype
    )
    if shape.ranks > 1:
        whole_model = build_model(rank.rank_config(config, 1, is_padded=False), shape, dtype)
        rank.register_exchanges(model, whole_model, shape.ranks, is_trained=shape.phase == "train")
    return model


def build_model(config: Any, shape: ModelShape, dtype: str) -> Any:
    """A model on the meta device with fused attention and no cache, as it sets in `config`."""
    attending.register()
    model_class = _model_class(config, shape)
    config.use_cache = False
    config._attn_implementation = _attention_name(config, model_class)  # noqa: SLF001  transformers' name
    with torch.device("meta"):
        return model_class._from_config(config, dtype=DTYPES[dtype]).eval()  # noqa: SLF001  likewise


def _attention_name(config: Any, model_class: Any) -> str:
    """The name of a model's attention function: the fused operator, if its class permits one."""
    if not model_class._supports_sdpa:  # noqa: SLF001  transformers' name
        return "eager"
    is_full = not getattr(config, "sliding_window", None)
    is_causal = model_class.__name__.endswith("ForCausalLM")
    return attending.UNMASKED_NAME if is_causal and is_full else attending.MASKED_NAME


def _model_class(config: Any, shape: ModelShape) -> Any:
    """The class that a configuration names; without a name the base class or the decoder class."""
    package = transformers()
    class_names = getattr(config, "architectures", None)
    is_decoder = shape.phase in ("prefill", "decode")
    if class_names and not is_decoder and hasattr(package, class_names[0]):
        return getattr(package, class_names[0])
    factory = package.AutoModel if shape.phase == "encode" else package.AutoModelForCausalLM
    try:
        return factory._model_mapping[type(config)]  # noqa: SLF001  transformers' name
    except KeyError as error:
        raise BadInput(
            f"{config.model_type} has no model of phase {shape.phase}: {factory.__name__} lacks it",
            fix="ask for phase encode, or name the class in the configuration's architectures",
        ) from error


def _phase_graph(model: Any, shape: ModelShape, dtype: torch.dtype) -> ModelGraph:
    if shape.phase == "train":  # the loss, and its gradient by every parameter
        inputs = phases.named_inputs(model, shape, dtype)
        inputs |= phases.label_inputs(model, inputs, shape)
        return module_graph(phases.TrainingStep(model), (inputs,), shape.ranks, is_trained=True)
    if shape.phase == "encode":
        arguments = (phases.named_inputs(model, shape, dtype),)
        return module_graph(phases.EncodePass(model), arguments, shape.ranks)
    generate_arguments = phases.generate_inputs(model.config, shape, dtype)
    return module_graph(phases.GeneratePass(model), generate_arguments, shape.ranks)


def module_graph(
    module: nn.Module, args: tuple[Any, ...], ranks: int = 1, *, is_trained: bool = False
) -> ModelGraph:
    """The graph of a module of PyTorch on arguments.

    Args:
        module: the module.
        args: its arguments, on the meta device or any other.
        ranks: number of tensor ranks in the group that its collectives name.
        is_trained: whether it returns a loss, whose gradient by every parameter is an output too.
    """
    with attending.FusedAttention():
        traced_module = trace_module(module, args, is_trained=is_trained)
    groups = {rank.GROUP: (tuple(range(ranks)),)}
    return ModelGraph.of(
        import_graph(traced_module.module, groups), traced_module.weights, traced_module.names
    )
