"""The values of a compiled graph: the host runs the FX graph on the memory of its tensors.

The graph's operators bypass the device's kernels, so that only the host's arithmetic costs time.
Results return to the device: an input as that input, a view of an input as a view of it, any other
result as a new tensor.
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
from trnsim.torch.dispatch import attention, factories, flash
from trnsim.torch.dispatch.alias import host_alias, neuron_alias
from trnsim.torch.dispatch.contracts import read_contract
from trnsim.torch.dispatch.fallback_policy import LACKING, admit
from trnsim.torch.pytorch import DEVICE_TYPE

_HOST_FORMS: Final = attention.HOST_FORMS | factories.HOST_FORMS | flash.HOST_FORMS
_CPU: Final = torch.device("cpu")
_NOTHING: Final = nullcontext()
_ON_HOST: Final = -1
"""PyTorch's device index of a CPU tensor."""


@dataclass(frozen=True, slots=True)
class Result:
    """The origin of a result of the graph.

    Attributes:
        argument: the index of the argument that it is, or is a view of; -1 for a new tensor.
        is_argument: true if it is the argument itself.
        is_on_device: true if it is on the device.
        is_plain: true if it can be placed there without further checks.
    """

    argument: int
    is_argument: bool
    is_on_device: bool
    is_plain: bool


def on_host(module: fx.GraphModule, writable: int | None = None) -> Callable[..., Any]:
    """`module` as a function of neuron tensors, computed by the host on their memory.

    If the CPU lacks an operator of the graph, `module` itself runs on the device; likewise if the
    CPU refuses, at run time, a graph that writes to no argument. The program may write to
    the first `writable` results; None stands for all.
    """
    if not all(pytorch.runs_on(_contract_of(node).name, "CPU") for node in _operators(module)):
        return module.forward
    results, is_single = results_of(module)
    plain = [position for position, result in enumerate(results) if result.is_plain]
    others = [(position, r) for position, r in enumerate(results) if not r.is_plain]
    written = written_arguments(module)
    is_seeded = any(_contract_of(node).is_seeded for node in _operators(module))
    unsupported = _unsupported_dtypes(module)
    run = callable_of(_host_module(module), writable)

    def computed(*args: Any) -> Any:
        for dtype in unsupported:
            admit(dtype)
        core = 0
        aliases: list[Any] = []
        for argument in args:
            index = argument.get_device() if isinstance(argument, Tensor) else _ON_HOST
            aliases.append(argument if index == _ON_HOST else host_alias(argument))
            core = core if index == _ON_HOST else index
        try:
            # Modes that intercept operators (selective checkpointing keeps their results) are off,
            # as in any compiled graph: they would keep the host's tensors.
            with pytorch.without_modes(), drawing_from(core) if is_seeded else _NOTHING:
                output = run(*aliases)
        except RuntimeError:
            if written:
                raise
            return module.forward(*args)  # the device accepts more, with better errors
        for position in written:
            torch.autograd.graph.increment_version(args[position])
        returned = [output] if is_single else list(output)
        for position in plain:
            hold(returned[position], core)
            returned[position] = neuron_alias(returned[position], core)
        for position, result in others:
            returned[position] = on_device(result, returned[position], args, core)
        return returned[0] if is_single else returned

    return computed


def _unsupported_dtypes(module: fx.GraphModule) -> list[torch.dtype]:
    """Dtypes of the graph's own tensors that the chip lacks; the policy decides on them."""
    values = (node.meta.get("val") for node in _operators(module))
    dtypes = {value.dtype for value in values if isinstance(value, Tensor) and not value.is_cpu}
    return sorted(dtypes & LACKING, key=str)


def on_device(result: Result, part: Any, args: tuple[Any, ...], core: int) -> Any:
    """A result that the host computed: the argument that it is or is a view of, or a new tensor."""
    if result.is_argument:
        return args[result.argument]
    if not result.is_on_device or not isinstance(part, Tensor):
        return part
    if result.argument >= 0 and part.numel():
        return view_of(args[result.argument], part, part.storage_offset())
    return place(part, core)


def view_of(tensor: Tensor, part: Tensor, offset: Any) -> Tensor:
    """A view of a tensor's memory from `offset` elements on, with shape and strides of `part`."""
    base = _reinterpreted(tensor, part.dtype)
    return base.as_strided(part.shape, part.stride(), base.storage_offset() + offset)


def _reinterpreted(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """The memory of `tensor`, from its first element on, viewed as another dtype."""
    if tensor.dtype is dtype:
        return tensor
    if dtype.is_complex:
        return torch.view_as_complex(tensor.as_strided((1, 2), (2, 1)))
    if tensor.is_complex():
        return torch.view_as_real(tensor.as_strided((1,), (1,)))
    return tensor.as_strided((max(1, dtype.itemsize // tensor.itemsize),), (1,)).view(dtype)


def _host_module(module: fx.GraphModule) -> fx.GraphModule:
    """The graph with the CPU in place of the device."""
    moved = fx.GraphModule(module, copy.deepcopy(module.graph))
    for node in moved.graph.nodes:
        if isinstance(node.target, OpOverload):
            node.target = _HOST_FORMS.get(_contract_of(node).name, node.target)
        if "device" in node.kwargs:
            node.kwargs = {**node.kwargs, "device": _CPU}
        node.args = tuple(_CPU if isinstance(a, torch.device) else a for a in node.args)
    with pytorch.without_fakes():
        for name, tensor in [*module.named_buffers(), *module.named_parameters()]:
            if tensor.device.type == DEVICE_TYPE:
                owner, _, attribute = name.rpartition(".")
                setattr(moved.get_submodule(owner), attribute, host_alias(tensor.detach()))
    return moved


def results_of(module: fx.GraphModule) -> tuple[list[Result], bool]:
    """The origins of a graph's results, and true if it returns a tensor instead of a sequence."""
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    returned: Any = output.args[0]
    is_single = not isinstance(returned, tuple | list)
    places = {
        node: place
        for place, node in enumerate(n for n in module.graph.nodes if n.op == "placeholder")
    }
    origins: list[Result] = []
    for node in (returned,) if is_single else returned:
        source = _source(node)
        value = node.meta.get("val") if isinstance(node, fx.Node) else None
        is_on_device = isinstance(value, Tensor) and value.device.type == DEVICE_TYPE
        is_plain = is_on_device and source not in places and _is_plain(value)
        origins.append(Result(places.get(source, -1), node in places, is_on_device, is_plain))
    return origins, is_single


def _is_plain(value: Any) -> bool:
    if not isinstance(value, Tensor) or value.layout is not torch.strided:
        return False
    return value.dtype not in LACKING and not value.is_complex() and not value.is_neg()


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
    written: list[Any] = [
        node.args[slot[0]]
        for node in _operators(module)
        for slot in _contract_of(node).returned
        if slot is not None and slot[0] < len(node.args)
    ]
    return [place for place, node in enumerate(placeholders) if node in written]


def _operators(module: fx.GraphModule) -> list[fx.Node]:
    return [n for n in module.graph.nodes if isinstance(n.target, OpOverload)]


def _contract_of(node: fx.Node) -> Any:
    target: Any = node.target
    return read_contract(target)
