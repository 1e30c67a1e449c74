"""The values of a compiled graph: the host runs the FX graph on the memory of its tensors.

The graph's operators bypass the device's kernels, so that only the host's arithmetic costs time. A
result that is an argument is returned as that argument, a view of one as a view of it, and any
other result as a new tensor on the device.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, fx
from torch._ops import OpOverload

from trnsim.torch import pytorch
from trnsim.torch.api.memory import hold, place
from trnsim.torch.api.rng import drawing_from
from trnsim.torch.compile.host_graph import callable_of
from trnsim.torch.device_name import is_neuron
from trnsim.torch.dispatch import attention, flash, special_kernels
from trnsim.torch.dispatch.alias import host_alias, neuron_alias
from trnsim.torch.dispatch.contracts import read_contract
from trnsim.torch.dispatch.fallback_policy import UNSUPPORTED_DTYPES, count_or_refuse_dtype
from trnsim.torch.pytorch import negative_view

_HOST_FUNCTIONS: Final = (
    attention.HOST_FUNCTIONS | special_kernels.HOST_FUNCTIONS | flash.HOST_FUNCTIONS
)
_CPU: Final = torch.device("cpu")
_NO_CONTEXT: Final = nullcontext()
_ON_HOST: Final = -1
"""PyTorch's device index of a CPU tensor."""


@dataclass(frozen=True, slots=True)
class ResultOrigin:
    """The origin of a result of the graph.

    Attributes:
        argument: the index of the argument that it is, or is a view of; -1 for a new tensor.
        is_argument: true if it is the argument itself.
        is_on_device: true if it is on the device.
        is_plain: true if it is a new strided tensor of a supported real dtype, not lazily negated,
            which is placed on the device without further checks.
    """

    argument: int
    is_argument: bool
    is_on_device: bool
    is_plain: bool


def host_function(
    module: fx.GraphModule, writable_results: int | None = None
) -> Callable[..., Any]:
    """The graph as a function of neuron tensors, computed by the host on their memory.

    If the CPU lacks an operator of the graph, the function runs `module` itself on the device;
    likewise if the CPU refuses, at run time, a graph that writes to no argument.

    Args:
        module: a traced graph on the device.
        writable_results: the program may write to this many of the first results; None: to all.
    """
    if not all(pytorch.runs_on(_contract_of(node).name, "CPU") for node in _operators(module)):
        return module.forward
    origins, is_single = result_origins(module)
    plain_indices = [index for index, origin in enumerate(origins) if origin.is_plain]
    checked_results = [
        (index, origin) for index, origin in enumerate(origins) if not origin.is_plain
    ]
    written_indices = written_arguments(module)
    is_seeded = any(_contract_of(node).is_seeded for node in _operators(module))
    unsupported_dtypes = _unsupported_dtypes(module)
    run = callable_of(host_module(module), writable_results)

    def run_on_host(*args: Any) -> Any:
        for dtype in unsupported_dtypes:
            count_or_refuse_dtype(dtype)
        core = 0
        aliases: list[Any] = []
        for argument in args:
            device_index = argument.get_device() if isinstance(argument, Tensor) else _ON_HOST
            aliases.append(argument if device_index == _ON_HOST else host_alias(argument))
            core = core if device_index == _ON_HOST else device_index
        try:
            # Modes that intercept operators (selective checkpointing keeps their results) are off,
            # as in any compiled graph: they would keep the host's tensors.
            with pytorch.without_modes(), drawing_from(core) if is_seeded else _NO_CONTEXT:
                output = run(*aliases)
        except RuntimeError:
            if written_indices:
                raise
            return module.forward(*args)  # the device accepts more, with better errors
        for index in written_indices:
            torch.autograd.graph.increment_version(args[index])
        results = [output] if is_single else list(output)
        for index in plain_indices:
            hold(results[index], core)
            results[index] = neuron_alias(results[index], core)
        for index, origin in checked_results:
            results[index] = to_device(origin, results[index], args, core)
        return results[0] if is_single else results

    return run_on_host


def cpu_function(module: fx.GraphModule) -> Callable[..., Any]:
    """The graph as a function of tensors of the host."""
    forward: Callable[..., Any] = host_module(module).forward
    return forward


def _unsupported_dtypes(module: fx.GraphModule) -> list[torch.dtype]:
    """Dtypes of the graph's own tensors that the chip lacks: `count_or_refuse_dtype`."""
    values = (node.meta.get("val") for node in _operators(module))
    dtypes = {value.dtype for value in values if isinstance(value, Tensor) and not value.is_cpu}
    return sorted(dtypes & UNSUPPORTED_DTYPES, key=str)


def to_device(origin: ResultOrigin, host_result: Any, args: tuple[Any, ...], core: int) -> Any:
    """A result that the host computed, as the caller gets it: an argument, a view, or a new tensor.

    A result that is no tensor of the device is returned as it is.
    """
    if origin.is_argument:
        return args[origin.argument]
    if not origin.is_on_device or not isinstance(host_result, Tensor):
        return host_result
    if origin.argument >= 0 and host_result.numel():
        return view_of(args[origin.argument], host_result, host_result.storage_offset())
    return place(host_result, core)


def view_of(tensor: Tensor, template: Tensor, offset: Any) -> Tensor:
    """A view of a tensor's memory from `offset` on, with dtype, shape and strides of `template`.

    `offset` counts elements of that dtype from the tensor's first. The view is conjugated and
    negated as `template` is.
    """
    base = _view_as_dtype(_with_bits(tensor, conjugated=False, negated=False), template.dtype)
    view = base.as_strided(template.shape, template.stride(), base.storage_offset() + offset)
    return _with_bits(view, conjugated=template.is_conj(), negated=template.is_neg())


def _with_bits(tensor: Tensor, *, conjugated: bool, negated: bool) -> Tensor:
    """The memory of `tensor` as a view with these bits of lazy conjugation and lazy negation."""
    if tensor.is_conj() != conjugated:
        tensor = tensor.conj()
    return negative_view(tensor) if tensor.is_neg() != negated else tensor


def _view_as_dtype(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """The memory of `tensor`, from its first element on, viewed as another dtype."""
    if tensor.dtype is dtype:
        return tensor
    if dtype.is_complex:
        return torch.view_as_complex(tensor.as_strided((1, 2), (2, 1)))
    if tensor.is_complex():
        return torch.view_as_real(tensor.as_strided((1,), (1,)))
    return tensor.as_strided((max(1, dtype.itemsize // tensor.itemsize),), (1,)).view(dtype)


def host_module(module: fx.GraphModule) -> fx.GraphModule:
    """A copy of the graph for the CPU: its devices, operators and weights are the host's.

    The graphs within it, the functions of `torch.cond` and of loops, are copied likewise.
    """
    host_copy = fx.GraphModule(module, copy.deepcopy(module.graph))
    inner_names = [
        name for name, part in host_copy.named_children() if isinstance(part, fx.GraphModule)
    ]
    for node in host_copy.graph.nodes:
        if isinstance(node.target, OpOverload):
            node.target = _HOST_FUNCTIONS.get(_contract_of(node).name, node.target)
        if "device" in node.kwargs:
            node.kwargs = {**node.kwargs, "device": _CPU}
        node.args = tuple(_CPU if isinstance(a, torch.device) else a for a in node.args)
    with pytorch.without_fakes():
        for name, tensor in [*module.named_buffers(), *module.named_parameters()]:
            if is_neuron(tensor.device) and name.partition(".")[0] not in inner_names:
                owner, _, attribute = name.rpartition(".")
                setattr(host_copy.get_submodule(owner), attribute, host_alias(tensor.detach()))
    for name in inner_names:
        setattr(host_copy, name, host_module(getattr(module, name)))
    host_copy.recompile()
    return host_copy


def result_origins(module: fx.GraphModule) -> tuple[list[ResultOrigin], bool]:
    """The origin of each result of a graph, and true if it returns no sequence but one result."""
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    output_value: Any = output.args[0]
    is_single = not isinstance(output_value, tuple | list)
    arguments = {
        node: index
        for index, node in enumerate(n for n in module.graph.nodes if n.op == "placeholder")
    }
    origins: list[ResultOrigin] = []
    for node in (output_value,) if is_single else output_value:
        source = _source(node)
        value = node.meta.get("val") if isinstance(node, fx.Node) else None
        is_on_device = isinstance(value, Tensor) and is_neuron(value.device)
        is_plain = is_on_device and source not in arguments and _is_plain(value)
        origins.append(
            ResultOrigin(arguments.get(source, -1), node in arguments, is_on_device, is_plain)
        )
    return origins, is_single


def _is_plain(value: Any) -> bool:
    if not isinstance(value, Tensor) or value.layout is not torch.strided:
        return False
    return value.dtype not in UNSUPPORTED_DTYPES and not value.is_complex() and not value.is_neg()


def _source(node: Any) -> Any:
    """The tensor of which `node` is a view, or `node` itself."""
    while isinstance(node, fx.Node) and node.op == "call_function":
        if not isinstance(node.target, OpOverload) or not _contract_of(node).is_view:
            break
        node = node.args[0]
    return node


def written_arguments(module: fx.GraphModule) -> list[int]:
    """Indices of the arguments that the graph writes to."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    written_nodes: list[Any] = [
        node.args[slot[0]]
        for node in _operators(module)
        for slot in _contract_of(node).returned_arguments  # each of which its schema writes
        if slot is not None and slot[0] < len(node.args)
    ]
    return [index for index, node in enumerate(placeholders) if node in written_nodes]


def _operators(module: fx.GraphModule) -> list[fx.Node]:
    """The nodes that call operators, in the graph and in those within it."""
    graphs = [part.graph for part in module.modules() if isinstance(part, fx.GraphModule)]
    return [n for graph in graphs for n in graph.nodes if isinstance(n.target, OpOverload)]


def _contract_of(node: fx.Node) -> Any:
    target: Any = node.target
    return read_contract(target)
