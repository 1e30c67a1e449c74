"""A function of PyTorch traced on example inputs as a stored program with its weights.

Control flow is frozen as it goes for the example, as AWS documents; a branch on a tensor's value is
named in a warning.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import count
from typing import Any, Final

import torch
from torch import Tensor, fx, nn

from trnsim.device.program_line import program_line
from trnsim.errors import BadInput, EmulatorError, SourceLine
from trnsim.torch.compile.refused import dynamic_refusals
from trnsim.torch.device_name import is_neuron
from trnsim.torch.dispatch.launches import host_traces
from trnsim.torch.models.attending import FusedAttention
from trnsim.torch.models.traced import TracedModule, trace_module
from trnsim.torch.traces.branches import FrozenBranches, names_data_dependence, reads_values
from trnsim.torch.traces.encoding import MalformedProgram
from trnsim.torch.traces.example_runs import example_run
from trnsim.torch.traces.exchanges import exchange_tracing
from trnsim.torch.traces.stored import StoredTensor
from trnsim.torch.traces.structure import NestedValue, nesting_of, parameter_names
from trnsim.user_warnings import warn

_PREFIX: Final = "function."
"""The path of the function of a `NamedCall`, and a point."""
_SOURCE: Final = "aws-neuron-sdk, PyTorch NeuronX Tracing API for Inference"


class FrozenBranch(UserWarning):
    """Warning of a branch on a tensor's value, which the trace takes as for the example."""


@dataclass
class TracedFunction:
    """A function traced on example inputs.

    Attributes:
        title: its name, or the name of its class.
        line: the line of the program that traced it.
        module: its graph.
        values: the graph's nodes of `weights`, then the nodes of `inputs`.
        weights: tensors that the function keeps, by name.
        inputs: tensors of the example, by name.
        parameters: names of the function's parameters, as TorchScript has them.
        arguments: the nesting of each argument.
        results: the nesting of the results.
        traced: the graph as it was traced, with its names.
        originals: the tensors that `weights` are copies of.
        result_forms: each tensor of the results, without values.
        written: indices of the weights whose new values are the last results.
    """

    title: str
    line: SourceLine | None
    module: fx.GraphModule
    values: list[fx.Node]
    weights: dict[str, Tensor]
    inputs: dict[str, Tensor]
    parameters: list[str]
    arguments: list[NestedValue]
    results: NestedValue
    traced: TracedModule
    originals: list[Tensor]
    result_forms: list[StoredTensor]
    written: list[int] = field(default_factory=list[int])


class FunctionModule(nn.Module):
    """A function as a module; the module of a bound method is a submodule."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        owner = getattr(function, "__self__", None)
        if isinstance(owner, nn.Module):
            self.owner = owner

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The function's results."""
        return self.function(*args, **kwargs)


def trace_function(
    func: Any, example_inputs: Any, *, are_writes_kept: bool = False
) -> TracedFunction:
    """`func` traced on example inputs: a tensor, a tuple of nested tensors, or these by parameter.

    With `are_writes_kept` the new values of weights that it writes are results too.

    Raises:
        BadInput: for a `func` that is not callable, and for inputs without tensors.
        CompilerRefusal: for a result whose size depends on values.
    """
    args, names = example_arguments(func, example_inputs)
    tensors: list[Tensor] = []
    numbers = count()
    arguments = [nesting_of(argument, numbers, tensors) for argument in args]
    _require_tensors(arguments, names)
    is_by_name = isinstance(example_inputs, Mapping)
    module = NamedCall(func, names) if is_by_name else module_of(func)
    title = title_of(func)
    recorder = _ResultRecorder(are_writes_kept=are_writes_kept)
    hooks = module.register_forward_pre_hook(recorder.begin), module.register_forward_hook(recorder)
    try:
        with example_run(title, args), exchange_tracing.on():
            traced_module, written_nodes = _trace(
                module, args, title, are_writes_kept=are_writes_kept
            )
        if is_by_name:
            traced_module = _without_prefix(traced_module)
    finally:
        for hook in hooks:
            hook.remove()
    _require_results(recorder, title)
    for refusal in dynamic_refusals(traced_module.module):
        raise refusal.error()
    owner = module.function if isinstance(module, NamedCall) else module
    weights = _kept_tensors(owner, traced_module)
    values = [*weights, *_input_nodes(owner, traced_module)]
    (output,) = (node for node in traced_module.module.graph.nodes if node.op == "output")
    result_nodes: Any = output.args[0]
    parameters = parameter_names(names)
    return TracedFunction(
        title,
        program_line(),
        traced_module.module,
        values,
        {
            traced_module.names.get(node.name, node.name): _copy(tensor)
            for node, tensor in weights.items()
        },
        _named_inputs(parameters, arguments, tensors),
        parameters,
        arguments,
        recorder.nesting,
        traced_module,
        list(weights.values()),
        [_stored_result(node.meta["val"], title) for node in result_nodes],
        _written_weights(recorder.replaced_names, written_nodes, list(weights), traced_module),
    )


def _written_weights(
    replaced_names: Sequence[str],
    written_nodes: Sequence[fx.Node],
    weight_nodes: list[fx.Node],
    traced_module: TracedModule,
) -> list[int]:
    """Positions in `weight_nodes` of buffers that the function replaces, then of buffers it writes.

    A buffer that is written and then replaced has the value that replaces it.
    """
    names = [traced_module.names.get(node.name, node.name) for node in weight_nodes]
    positions = [names.index(name.removeprefix(_PREFIX)) for name in replaced_names]
    return [*positions, *(weight_nodes.index(node) for node in written_nodes)]


def _stored_result(tensor: Tensor, title: str) -> StoredTensor:
    """The shape, strides and dtype of a result.

    Raises:
        BadInput: for a layout or dtype that programs do not have: sparse, for example.
    """
    try:
        return StoredTensor.of(tensor)
    except MalformedProgram as error:
        raise BadInput(
            f"{title} takes or returns {error}; legal: dense tensors of PyTorch's numbers",
            fix="x.to_dense()",
            source=_SOURCE,
            line=program_line(),
        ) from error


def _require_tensors(arguments: Sequence[NestedValue], names: Sequence[str]) -> None:
    """Refuse numbers, texts and None among the arguments: they would be no inputs of a program."""
    for name, nesting in zip(names, arguments, strict=True):
        constant = next(nesting.constants(), None)
        if constant is not None:
            raise BadInput(
                f"the example input {name} has {constant.content!r}; legal: tensors, and lists, "
                "tuples and dictionaries of tensors",
                fix="fix the value in the function: lambda x: model(x, flag=True)",
                source=_SOURCE,
                line=program_line(),
            )


class NamedCall(nn.Module):
    """A module or function that is called with arguments by their names."""

    def __init__(self, function: Any, names: Sequence[str]) -> None:
        super().__init__()
        self.function = module_of(function)
        self._names = names

    def forward(self, *args: Any) -> Any:
        """The function's results."""
        return self.function(**dict(zip(self._names, args, strict=True)))


def module_of(func: Any) -> nn.Module:
    """A function as a module; a module itself."""
    return func if isinstance(func, nn.Module) else FunctionModule(func)


class _ResultRecorder:
    """A forward hook that records how a module's results are nested, and returns their tensors.

    Attributes:
        nesting: the nesting of the results.
        count: the number of tensors in the results.
        replaced_names: names of buffers that the module replaced; new buffers are returned too.
    """

    def __init__(self, *, are_writes_kept: bool) -> None:
        self.nesting = NestedValue("tuple")
        self.count = 0
        self.replaced_names: list[str] = []
        self._are_writes_kept = are_writes_kept
        self._buffers_before: dict[str, Tensor] = {}

    def begin(self, module: nn.Module, args: Any) -> None:
        """Note the buffers before a call."""
        del args
        self._buffers_before = dict(module.named_buffers()) if self._are_writes_kept else {}

    def __call__(self, module: nn.Module, args: Any, results: Any) -> list[Tensor]:
        """The tensors of the results, then the new buffers."""
        del args
        tensors: list[Tensor] = []
        self.nesting = nesting_of(results, count(), tensors)
        self.count = len(tensors)
        new_buffers = dict(module.named_buffers()) if self._buffers_before else {}
        self.replaced_names = [
            name
            for name, tensor in self._buffers_before.items()
            if name in new_buffers and new_buffers[name] is not tensor
        ]
        return [*tensors, *(new_buffers[name] for name in self.replaced_names)]


def _require_results(results: _ResultRecorder, title: str) -> None:
    """Refuse a function without a tensor in its results: its program would be empty."""
    if not results.count:
        raise BadInput(
            f"{title} returns {results.nesting.expression()}, without a tensor; legal: a tensor, "
            "and lists, tuples and dictionaries of tensors",
            fix="return the tensors that it computes",
            source=_SOURCE,
            line=program_line(),
        )


def title_of(function: Any) -> str:
    """The name of a function, or of a module's class."""
    if isinstance(function, nn.Module):
        return type(function).__name__
    return str(getattr(function, "__name__", type(function).__name__))


def example_arguments(func: Any, example_inputs: Any) -> tuple[tuple[Any, ...], list[str]]:
    """The arguments of a call, and the names of their parameters.

    Raises:
        BadInput: for a `func` that is not callable, or not with the inputs.
    """
    if not callable(func):
        raise BadInput(
            f"torch_neuronx.trace of a {type(func).__name__}; legal: a torch.nn.Module or a "
            "function",
            fix="pass the model itself",
            source=_SOURCE,
            line=program_line(),
        )
    if isinstance(func, torch.jit.ScriptModule | torch.jit.ScriptFunction):
        raise BadInput(
            f"torch_neuronx.trace of a {type(func).__name__}, which TorchScript compiled already; "
            "legal: a torch.nn.Module or a function",
            fix="pass the module from before torch.jit.script, torch.jit.trace or trace",
            source=_SOURCE,
            line=program_line(),
        )
    call = func.forward if isinstance(func, nn.Module) else func
    if isinstance(example_inputs, Mapping):
        bound = _bind(func, call, (), example_inputs)
        if bound is None or bound.kwargs:
            return tuple(example_inputs.values()), list(example_inputs)
        return bound.args, list(bound.arguments)
    args = tuple(example_inputs) if isinstance(example_inputs, tuple | list) else (example_inputs,)
    bound = _bind(func, call, args, {})
    if bound is None:
        return args, [f"input_{index}" for index in range(len(args))]
    names: list[str] = []
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        is_several = kind is inspect.Parameter.VAR_POSITIONAL
        names += [f"{name}_{index}" for index in range(len(value))] if is_several else [name]
    return args, names


def _bind(
    func: Any, call: Any, args: tuple[Any, ...], keywords: Mapping[str, Any]
) -> inspect.BoundArguments | None:
    """The example inputs as arguments of a call; None for a function of C, without a signature."""
    try:
        signature = inspect.signature(call)
    except ValueError:
        return None
    try:
        return signature.bind(*args, **keywords)
    except TypeError as error:
        inputs = f"the example inputs {', '.join(map(str, keywords))}" if keywords else ""
        raise BadInput(
            f"{inputs or f'{len(args)} example inputs'} for {title_of(func)}{signature}: {error}",
            fix="pass a tuple of the arguments of one call, or a dictionary by their names",
            source=_SOURCE,
            line=program_line(),
        ) from error


def _named_inputs(
    parameters: Sequence[str], arguments: Sequence[NestedValue], tensors: Sequence[Tensor]
) -> dict[str, Tensor]:
    """The tensors of the arguments by the expressions that read them."""
    reads = [
        expression
        for name, nesting in zip(parameters, arguments, strict=True)
        for expression in nesting.reads(name)
    ]
    if not tensors:
        raise BadInput(
            "example_inputs without a tensor; legal: a tensor, or a tuple of tensors",
            fix="torch_neuronx.trace(model, (x,))",
            source=_SOURCE,
            line=program_line(),
        )
    return dict(zip(reads, tensors, strict=True))


def _trace(
    module: nn.Module, args: tuple[Any, ...], title: str, *, are_writes_kept: bool
) -> tuple[TracedModule, list[fx.Node]]:
    """The graph of a module, and its weights whose writes are kept.

    The module branches on values as it does for the example.
    """
    traced_module: TracedModule | None
    try:
        traced_module = _graph(module, args)
        if reads_values(traced_module.module):
            traced_module = None
    except EmulatorError:
        raise
    except Exception as error:  # noqa: BLE001  the model may raise any
        traced_module = (
            None
            if names_data_dependence(error)
            else _graph_outside_compilation(module, args, error)
        )
    if traced_module is None:
        branches = FrozenBranches(title)
        with host_traces.on():  # the fused operator of attention computes nothing on the host
            traced_module = trace_module(module, args, read_mode=branches)
        for branch in branches.texts:
            warn(branch, FrozenBranch)
    return traced_module, _drop_writes(traced_module, are_kept=are_writes_kept)


def _graph(module: nn.Module, args: tuple[Any, ...], *, is_compiling: bool = True) -> TracedModule:
    with FusedAttention(), host_traces.on():
        return trace_module(module, args, is_compiling=is_compiling)


def _graph_outside_compilation(
    module: nn.Module, args: tuple[Any, ...], error: Exception
) -> TracedModule:
    """The graph of a module that raises `error` if `torch.compiler.is_compiling()`.

    On AWS's device that is False, and code for compilation is never reached.

    Raises:
        Exception: `error`, if the module fails outside compilation, too.
    """
    try:
        return _graph(module, args, is_compiling=False)
    except Exception:  # noqa: BLE001  the first error is of the usual setting
        raise error from None


def _without_prefix(traced_module: TracedModule) -> TracedModule:
    """A traced `NamedCall`, with names of weights in its function."""
    names = {node: name.removeprefix(_PREFIX) for node, name in traced_module.names.items()}
    return replace(
        traced_module,
        names=names,
        weights=frozenset(name.removeprefix(_PREFIX) for name in traced_module.weights),
    )


def _drop_writes(traced_module: TracedModule, *, are_kept: bool) -> list[fx.Node]:
    """Remove the writes to inputs that functionalization puts at the graph's end.

    There is one write for each buffer that the module changes. With `are_kept`, the written values
    of weights become outputs of the graph, and the nodes of these weights are returned.
    """
    graph = traced_module.module.graph
    inputs = {node for node in graph.nodes if node.op in ("placeholder", "get_attr")}
    values: dict[fx.Node, Any] = {}
    for node in reversed(list(graph.nodes)):
        is_write = node.target is torch.ops.aten.copy_.default and node.args[0] in inputs
        if is_write and not node.users:
            written_node: Any = node.args[0]
            if (
                are_kept
                and traced_module.names.get(written_node.name, written_node.name)
                in traced_module.weights
            ):
                values.setdefault(written_node, node.args[1])
            graph.erase_node(node)
    if values:
        (output,) = (node for node in graph.nodes if node.op == "output")
        results: Any = output.args[0]
        output.args = ([*results, *values.values()],)
    graph.eliminate_dead_code()
    return list(values)


def _kept_tensors(module: nn.Module, traced_module: TracedModule) -> dict[fx.Node, Tensor]:
    """The graph's weights and constants by their nodes."""
    weights = dict(module.named_parameters()) | dict(module.named_buffers())
    tensors: dict[fx.Node, Tensor] = {}
    for node in traced_module.module.graph.nodes:
        if node.op == "placeholder" and traced_module.names[node.name] in weights:
            tensors[node] = weights[traced_module.names[node.name]]
        elif node.op == "get_attr":
            tensors[node] = _attribute(traced_module.module, str(node.target))
    return tensors


def _input_nodes(module: nn.Module, traced_module: TracedModule) -> list[fx.Node]:
    """The nodes of the arguments' tensors."""
    weights = {name for name, _ in (*module.named_parameters(), *module.named_buffers())}
    placeholders = [node for node in traced_module.module.graph.nodes if node.op == "placeholder"]
    return [node for node in placeholders if traced_module.names[node.name] not in weights]


def _attribute(module: nn.Module, target: str) -> Tensor:
    owner, _, name = target.rpartition(".")
    tensor: Tensor = getattr(module.get_submodule(owner), name)
    return tensor


def _copy(tensor: Tensor) -> Tensor:
    """The values of a tensor, on the host, with its strides.

    The copy is made at the first write if PyTorch sees every write. It does not see writes of an
    array of numpy on the same memory, which is copied at once.
    """
    if is_neuron(tensor.device):
        return tensor.detach().cpu()
    if _is_storage_shared(tensor):
        return _eager_copy(tensor.detach())
    try:
        return tensor.detach()._lazy_clone()  # noqa: SLF001  PyTorch's copy on the first write
    except RuntimeError:  # memory of numpy, of a file or of other processes
        return _eager_copy(tensor.detach())


def _is_storage_shared(tensor: Tensor) -> bool:
    """True if another object, a tensor or a numpy array, holds the storage of `tensor`."""
    storage, torch_c = tensor.untyped_storage(), import_module("torch._C")  # whose stub lacks it
    users: int = torch_c._storage_Use_Count(storage._cdata)  # noqa: SLF001  PyTorch's names
    return users > 2  # noqa: PLR2004  the tensor, and the object of Python here


def _eager_copy(tensor: Tensor) -> Tensor:
    """A copy of a tensor, and of no more of its storage than it spans."""
    if not tensor.numel():
        return torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
        )
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    reach = 1 + sum((length - 1) * step for length, step in steps)
    span = tensor.as_strided((reach,), (1,), tensor.storage_offset()).clone()
    return span.as_strided(tensor.shape, tensor.stride())
