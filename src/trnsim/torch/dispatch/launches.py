"""`@nki.jit` kernels on neuron tensors: launched at once, or as an operator of a traced graph.

A kernel is compiled for the shapes of its arguments, so a graph has an operator for each pair of
kernel and shapes. A run without values determines the written arguments and the results of the
kernel (`device.kernel_call`).

Source: aws-neuron-sdk frameworks/torch/pytorch-native-overview.rst, Neuron Kernel Interface.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from trnsim.device.call_log import note
from trnsim.device.device_core import target
from trnsim.device.faults import pending_faults, strike_fault
from trnsim.device.hbm_use import load
from trnsim.device.kernel_call import KernelCall, Outline
from trnsim.device.kernel_degree import check_degree
from trnsim.device.numerics import mode
from trnsim.device.program_line import is_program, program_line
from trnsim.errors import NotModelled
from trnsim.nki.kernel import Kernel
from trnsim.torch import pytorch
from trnsim.torch.api.memory import place, require_room_in_hbm
from trnsim.torch.call_recording import watchers
from trnsim.torch.device_errors import MixedDevices
from trnsim.torch.device_name import DEVICE_TYPE, device_names
from trnsim.torch.dispatch.alias import host_alias
from trnsim.torch.dispatch.nki_calls import call_of_kernel, meta_results
from trnsim.torch.scope_tracker import scope_tracker

NAMESPACE: Final = "trnsim_nki"
"""The library of operators that are calls of kernels."""
_operators_by_call: Final[dict[KernelCall, OpOverload[..., Any]]] = {}
_calls_by_operator: Final[dict[str, KernelCall]] = {}
"""Full name of an operator -> its kernel call."""


class _HostTraces:
    """The traces of functions for the chip on tensors of the host.

    Attributes:
        is_tracing: True during such a trace.
    """

    is_tracing = False

    @contextmanager
    def on(self) -> Generator[None]:
        """Context in which kernels on tensors of the host are operators of a trace."""
        was_tracing, self.is_tracing = self.is_tracing, True
        try:
            yield
        finally:
            self.is_tracing = was_tracing


host_traces: Final = _HostTraces()


class NoGradient(NotModelled, RuntimeError):
    """Error of a backward pass through a kernel without a gradient."""


def launch(kernel: Kernel, args: Any, kwargs: Any) -> Any:
    """`kernel(*args, **kwargs)`; NotImplemented if no argument is a neuron tensor.

    PyTorch's compiler traces this function. So it only chooses how the call is made, and reads the
    devices of tensors itself: a call of another function of trnsim would end the graph.
    """
    tensors = _tensors((args, kwargs))
    if all(tensor.device.type not in device_names for tensor in tensors):
        is_traced = host_traces.is_tracing and bool(tensors)
        return _as_operator(kernel.of_degree(), args, kwargs) if is_traced else NotImplemented
    if torch.compiler.is_dynamo_compiling():
        return call_in_graph(kernel.number, args, kwargs)
    kernel = kernel.of_degree()
    if pytorch.is_traced(tensors):
        return _as_operator(kernel, args, kwargs)
    if any(map(pytorch.is_transformed, tensors)):
        raise NotModelled(
            f"the kernel {kernel.title} in torch.vmap or a gradient of torch.func: a kernel is "
            "compiled for the tensors that it is given",
            fix="call it once for each: torch.stack([f(x) for x in xs]); for a gradient, in the "
            "forward of a torch.autograd.Function, and call backward()",
            source="pytorch-native-overview.rst, Neuron Kernel Interface (NKI) Integration",
            line=program_line(),
        )
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        leaves, tree = pytree.tree_flatten((args, kwargs))
        structure: list[Any] = []
        apply: Any = _WithoutGradient.apply
        results = iter(apply(kernel, tree, structure, *leaves) or ())
        return pytree.tree_map_only(Tensor, lambda _: next(results), structure[0])
    return _run(*call_of_kernel(kernel, args, kwargs))[0]


def call_in_graph(number: int, args: Any, kwargs: Any) -> Any:
    """The call as a node of a graph of PyTorch's compiler."""
    return _as_operator(Kernel.by_number[number].of_degree(), args, kwargs)


def operator_of(call: KernelCall) -> OpOverload[..., Any]:
    """The operator of PyTorch that is a call of a kernel; equal calls share it."""
    if call not in _operators_by_call:
        _operators_by_call[call] = _new_operator(call)
    return _operators_by_call[call]


def kernel_call(name: str) -> KernelCall | None:
    """The kernel call of an operator in a traced graph; None for an operator of another kind."""
    return _calls_by_operator.get(name)


def _run(call: KernelCall, tensors: Sequence[Tensor]) -> tuple[Any, list[Tensor]]:
    """The kernel's results on the device, and the tensors that it wrote to."""
    core = _common_core(call, tensors)
    if pending_faults:
        strike_fault(core)
    with pytorch.profiler_scope(call.name):
        results, outline = _compute_results(call, tensors, core)
        if not watchers:
            note(call, core, scope_tracker.scope)
    load(core, call, outline)
    written_tensors = [tensors[position] for position in outline.written]
    for watcher in watchers:
        argument_ids = {id(tensor) for tensor in tensors}
        new_tensors = [tensor for tensor in _tensors(results) if id(tensor) not in argument_ids]
        watcher.note_kernel(call, tensors, [*new_tensors, *written_tensors])
    for tensor in written_tensors:
        torch.autograd.graph.increment_version(tensor)
    return results, written_tensors


def _compute_results(call: KernelCall, tensors: Sequence[Tensor], core: int) -> tuple[Any, Outline]:
    """The kernel's results on the device, without values in the mode `shapes`, and its outline."""
    if mode.kind == "shapes":
        outline = call.measure(target().name)
        meta_tensors = meta_results(outline)
        return pytree.tree_map_only(
            Tensor, lambda like: _empty_tensor(like, core), meta_tensors
        ), outline
    hosts = [host_alias(tensor.detach()) for tensor in tensors]
    results, outline = call.run(hosts, target().name)
    meta_results(outline)  # refuses dtypes that PyTorch lacks, with values as without
    tensor_by_address = {
        host.data_ptr(): tensor for host, tensor in zip(hosts, tensors, strict=True)
    }

    def on_device(host: Tensor) -> Tensor:
        argument = tensor_by_address.get(host.data_ptr())
        return place(host, core) if argument is None else argument

    return pytree.tree_map_only(Tensor, on_device, results), outline


def _empty_tensor(template: Tensor, core: int) -> Tensor:
    """A device tensor of the shape and dtype of `template`; the host does not touch its memory."""
    require_room_in_hbm(template.nbytes, core)
    return place(torch.empty(template.shape, dtype=template.dtype, device="cpu"), core)


def _common_core(call: KernelCall, tensors: Sequence[Tensor]) -> int:
    devices = list(dict.fromkeys(tensor.device for tensor in tensors))
    if len(devices) > 1:
        raise MixedDevices(
            f"the kernel {call.operation} was called with tensors on "
            f"{' and '.join(map(str, devices))}",
            fix=f"move all to one device: x.to({str(max(devices, key=str))!r})",
            line=program_line(),
        )
    return devices[0].index


class _WithoutGradient(torch.autograd.Function):
    """A launch on tensors that require gradients; a backward pass through it is an error."""

    @staticmethod
    def forward(ctx: Any, kernel: Kernel, tree: Any, structure: list[Any], *leaves: Any) -> Any:
        """The flattened results and the written tensors; `structure` receives the nesting."""
        call, tensors = call_of_kernel(kernel, *pytree.tree_unflatten(list(leaves), tree))
        ctx.title = call.operation
        ctx.line = program_line()
        results, written_tensors = _run(call, tensors)
        structure.append(results)
        ctx.mark_dirty(*written_tensors)
        return (*_tensors(results), *written_tensors)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> NoReturn:
        """No gradient.

        Raises:
            NoGradient: always.
        """
        raise NoGradient(
            f"the kernel {ctx.title} has no gradient, and a tensor that wants one went through it",
            fix="wrap it: @nki_op(...), then register_autograd(backward); or call it in the "
            "forward of a torch.autograd.Function",
            source="pytorch-native-overview.rst, Neuron Kernel Interface (NKI) Integration",
            line=ctx.line,
        )


def _as_operator(kernel: Kernel, args: Any, kwargs: Any) -> Any:
    """The call as a PyTorch operator, which is a single node in a trace."""
    check_degree(kernel, _traced_line())
    call, tensors = call_of_kernel(kernel, args, kwargs)
    outline = call.outline(target().name)
    results = iter(_tensors(operator_of(call)(*tensors)))
    return pytree.tree_map_only(Tensor, lambda _: next(results), meta_results(outline))


def _traced_line() -> tuple[str, int] | None:
    """File and line that PyTorch's compiler traces now; None outside it."""
    from torch._guards import TracingContext  # noqa: PLC0415  takes a second

    stack: Any = TracingContext.extract_stack() if TracingContext.try_get() is not None else ()
    frames = [frame for frame in stack if is_program(frame.filename)]
    return (frames[-1].filename, frames[-1].lineno) if frames else None


def _tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def _new_operator(call: KernelCall) -> OpOverload[..., Any]:
    """A new operator for a kernel and shapes; its schema declares written arguments and results."""
    outline = call.outline(target().name)
    meta_tensors = _tensors(meta_results(outline))
    name = f"{NAMESPACE}::{call.operation}_{len(_operators_by_call)}"
    names = [f"t{position}" for position in range(len(call.specs))]
    parameters = [
        f"Tensor(a{i}!) {n}" if i in outline.written else f"Tensor {n}" for i, n in enumerate(names)
    ]
    result_types = {0: "()", 1: "Tensor"}.get(
        len(meta_tensors), f"({', '.join(['Tensor'] * len(meta_tensors))})"
    )

    def compute_results(*tensors: Tensor) -> Any:
        # A compiled graph is computed on the CPU tensors that share the device's memory.
        on_host = tensors[0].is_cpu
        results = call.run(tensors, target().name)[0] if on_host else _run(call, tensors)[0]
        return _schema_results(_tensors(results))

    def empty_results(*tensors: Tensor) -> Any:
        device = tensors[0].device
        return _schema_results(
            [torch.empty(o.shape, dtype=o.dtype, device=device) for o in meta_tensors]
        )

    definition = pytorch.custom_operator(
        name,
        compute_results,
        [names[position] for position in outline.written],
        f"({', '.join(parameters)}) -> {result_types}",
        (DEVICE_TYPE, "cpu"),
    )
    definition.register_fake(empty_results)
    _calls_by_operator[name] = call
    operator: OpOverload[..., Any] = definition._opoverload  # noqa: SLF001  PyTorch's name
    return operator


def _schema_results(tensors: list[Tensor]) -> Any:
    """Results in the form that a schema prescribes."""
    return tuple(tensors) if len(tensors) > 1 else tensors[0] if tensors else None
