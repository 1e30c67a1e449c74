"""A kernel on the device for every operator with a CPU kernel in PyTorch.

A kernel calls the host's kernel on CPU aliases of its tensors, and places new results on the
device. A result that the schema declares to be an argument (`add_`) is returned as that argument.
Operators of other packages that have only a CPU kernel reach the same code through the fallback.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache, partial
from threading import RLock
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from trnsim.device.program_line import program_line
from trnsim.torch import pytorch
from trnsim.torch.api.core_index import core_index
from trnsim.torch.api.memory import place, placement_listeners
from trnsim.torch.api.rng import drawing_from, generator_to_draw_from
from trnsim.torch.call_recording import lazy_recorded_kernel
from trnsim.torch.device_errors import MixedDevices, OperatorNotModelled
from trnsim.torch.device_name import is_neuron
from trnsim.torch.dispatch.alias import host_alias, host_aliases
from trnsim.torch.dispatch.contracts import Contract, Slot, is_view, read_contract
from trnsim.torch.dispatch.convolutions import traceable_convolution
from trnsim.torch.dispatch.scalars import accepting_numbers
from trnsim.torch.dispatch.shape_kernels import shape_kernel
from trnsim.torch.pytorch import Kernel, Library

if TYPE_CHECKING:
    from torch._ops import OpOverload

Arguments = tuple[Any, ...]
Keywords = dict[str, Any]

_CPU: Final = torch.device("cpu")
_TENSOR_CONTAINERS: Final = (Tensor, list, tuple)
"""Types of arguments that may have tensors of the device."""
_NO_CORE: Final = -1
"""The core of a call in which no tensor of the device has been seen."""
# Arguments that every device also accepts on the CPU: lengths, and the indices of x[i].
_HOST_ARGUMENTS: Final = frozenset(
    {"indices", "lengths", "batch_sizes", "input_lengths", "target_lengths"}
)
# Operators that the CPU composes of others, step by step in Python; here each is a kernel. The
# values are the same.
_COMPOSITES: Final = frozenset(
    {
        "aten::_grouped_mm",
        "aten::clone",
        "aten::convolution",
        "aten::convolution_backward",
        "aten::embedding",
        "aten::embedding_dense_backward",
        "aten::masked_scatter_backward",
    }
)
host_operands: Final[set[str]] = set()
"""Operators that take tensors of the host beside those of the device; `torch_xla` fills it."""
_EMBEDDINGS: Final = frozenset({"aten::embedding", "aten::embedding_dense_backward"})
"""Operators whose indices `torch_xla` does not take from the host."""
_FOREACH_PREFIX: Final = "aten::_foreach_"
# `_foreach_copy_` stays composed: it copies between devices.
_COMPOSED_FOREACH: Final = ("aten::_foreach_copy", "aten::_foreach_clone")
_pending_library: Final[list[Library]] = []
"""The library in which to register the kernels at the first use of the device; [] afterwards."""
_registration_lock: Final = RLock()


def register_when_used(library: Library) -> None:
    """Register the kernels before the first tensor is on the device: most programs have none."""
    _pending_library.append(library)
    placement_listeners.append(_register_now)


def _register_now(host: Tensor | None = None) -> None:
    """Register the kernels that wait; a thread that needs them too waits until all are there."""
    del host
    with _registration_lock:
        if _pending_library:
            register(_pending_library[0])
            placement_listeners.remove(_register_now)
            _pending_library.clear()


def register(library: Library) -> int:
    """Register a kernel for each operator that has none on the device, and return their number.

    A kernel is made when it is first called: a program uses few of 1,200.
    """
    kernel_count = 0
    for name in pytorch.operators():
        if _has_schema_kernel(name) and not is_view(name):
            kernel = lazy_recorded_kernel(name, partial(_named_kernels, name))
            if name == "aten::convolution":
                kernel = traceable_convolution(kernel)
            library.impl(name.removeprefix("aten::"), kernel, "PrivateUse1")
            kernel_count += 1
    return kernel_count


def _named_kernels(name: str) -> tuple[Kernel, Kernel]:
    """The kernel of the operator with a full name, and its kernel without values.

    Raises:
        OperatorNotModelled: if Python cannot call it.
    """
    operator = pytorch.overload(name)
    if operator is None:
        raise OperatorNotModelled(
            f"{name} is not modelled on the neuron device: Python cannot call it",
            fix="compute this part on the CPU",
            line=program_line(),
        )
    return _kernels_of(operator)


def _kernels_of(operator: OpOverload[..., Any]) -> tuple[Kernel, Kernel]:
    """The kernel of an operator, and its kernel without values."""
    contract = read_contract(operator)
    kernel = _kernel_of(operator, contract)
    return kernel, shape_kernel(operator, contract, kernel)


def _has_schema_kernel(name: str) -> bool:
    """True if an operator's kernel is generated from its schema."""
    if not name.startswith("aten::"):
        return False
    if name.startswith(_FOREACH_PREFIX):
        has_kernel = not name.startswith(_COMPOSED_FOREACH) and not name.endswith("out")
    else:
        has_kernel = pytorch.has_kernel(name, "CPU") or name in _COMPOSITES
    return has_kernel and not pytorch.has_kernel(name, "PrivateUse1")


def fallback(operator: OpOverload[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The kernel of any operator without a registered kernel.

    Raises:
        OperatorNotModelled: if the CPU has no kernel for it either, or if it makes a view.
    """
    if _pending_library:
        _register_now()
        return operator(*args, **kwargs)
    return _fallback_kernel(operator)(*args, **kwargs)


def refuse_sparse(operator: OpOverload[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The kernel of every operator on sparse tensors of the device.

    Raises:
        OperatorNotModelled: always.
    """
    layouts = {leaf.layout for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
    layouts |= {leaf for leaf in tree_leaves(kwargs) if isinstance(leaf, torch.layout)}
    names = sorted(str(layout) for layout in layouts - {torch.strided} or {torch.sparse_coo})
    raise OperatorNotModelled(
        f"{read_contract(operator).name} of a neuron tensor of layout {', '.join(names)}; a "
        "NeuronCore has dense tensors alone",
        fix="use dense tensors, or compute this part on the CPU",
        line=program_line(),
    )


def refuse_nested(operator: OpOverload[..., Any], *_: Any, **__: Any) -> Any:
    """The kernel of every operator on nested tensors of the device, except jagged ones.

    Raises:
        OperatorNotModelled: always.
    """
    raise OperatorNotModelled(
        f"{read_contract(operator).name} of a nested neuron tensor of layout torch.strided; "
        "PyTorch has its kernels for the CPU and CUDA alone",
        fix="make it with layout=torch.jagged, whose values are one dense tensor",
        line=program_line(),
    )


@cache
def _fallback_kernel(operator: OpOverload[..., Any]) -> Kernel:
    contract = read_contract(operator)
    if contract.is_view or not pytorch.runs_on(contract.name, "CPU"):
        reason = "makes a view" if contract.is_view else "has no kernel for the CPU either"
        raise OperatorNotModelled(
            f"{contract.name} is not modelled on the neuron device: it {reason}",
            fix="compute this part on the CPU",
            line=program_line(),
        )
    return lazy_recorded_kernel(contract.name, partial(_kernels_of, operator))


def _kernel_of(operator: OpOverload[..., Any], contract: Contract) -> Kernel:
    """The kernel for an operator's schema; the two most common kinds have shorter kernels."""
    if contract.outs:
        return _out_kernel(operator, contract)
    if contract.is_seeded or contract.generator or contract.takes_device:
        return _general_kernel(operator, contract)
    if contract.returned_arguments == (None,):
        return _new_result_kernel(operator, contract)
    if contract.returned_arguments == ((0, *contract.arguments[:1]),):
        return _in_place_kernel(operator, contract)
    return _general_kernel(operator, contract)


def _new_result_kernel(operator: OpOverload[..., Any], contract: Contract) -> Kernel:
    """A kernel with one new result, as most operators have."""
    call = accepting_numbers(operator, contract)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        core, host_args, host_kwargs = to_host(contract, args, kwargs)
        result = call(*host_args, **host_kwargs)
        return place(result, core) if isinstance(result, Tensor) else _place_results(result, core)

    return kernel


def _in_place_kernel(operator: OpOverload[..., Any], contract: Contract) -> Kernel:
    """A kernel whose first argument is the result, such as `add_`."""
    call = accepting_numbers(operator, contract)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        _, host_args, host_kwargs = to_host(contract, args, kwargs)
        call(*host_args, **host_kwargs)
        return args[0]

    return kernel


def _general_kernel(operator: OpOverload[..., Any], contract: Contract) -> Kernel:
    """A kernel for any schema: new results, arguments as results, random numbers, a device."""
    call = accepting_numbers(operator, contract)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        core, host_args, host_kwargs = to_host(contract, args, kwargs)
        if contract.takes_device:
            core = core_index(host_kwargs.get("device"))
            host_kwargs["device"] = _CPU
            host_kwargs.pop("pin_memory", None)
        result = _call(call, contract, core, host_args, host_kwargs)
        if not contract.returned_arguments:
            return None
        if len(contract.returned_arguments) == 1:
            slot = contract.returned_arguments[0]
            return (
                _place_results(result, core) if slot is None else _slot_argument(slot, args, kwargs)
            )
        return tuple(
            _place_results(part, core) if slot is None else _slot_argument(slot, args, kwargs)
            for slot, part in zip(contract.returned_arguments, result, strict=True)
        )

    return kernel


def _out_kernel(operator: OpOverload[..., Any], contract: Contract) -> Kernel:
    """A kernel that writes to the tensors of `out=`, and resizes them where needed."""
    call = accepting_numbers(operator, contract)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        core, host_args, host_kwargs = to_host(contract, args, kwargs)
        # The host cannot resize memory that it does not own, so it writes to new tensors. Only
        # operators that draw random numbers take their shape from `out`.
        for name in contract.outs:
            size = kwargs[name].shape if contract.generator else (0,)
            host_kwargs[name] = torch.empty(size, dtype=kwargs[name].dtype, device=_CPU)
        _call(call, contract, core, host_args, host_kwargs)
        for name in contract.outs:
            write_out(kwargs[name], host_kwargs[name])
        outs = tuple(kwargs[name] for name in contract.outs)
        return outs if len(contract.returned_arguments) > 1 else outs[0]

    return kernel


def write_out(out: Tensor, result: Tensor) -> None:
    """Copy a host result to a tensor of the device, by the rules of PyTorch's `out=`."""
    if out.shape != result.shape:
        if out.numel():
            warnings.warn(
                f"out= had the shape {tuple(out.shape)} and was resized to {tuple(result.shape)}; "
                "give it an empty tensor, or one of the right shape",
                stacklevel=3,
            )
        out.resize_(result.shape)
        last_offset = sum(
            (n - 1) * step for n, step in zip(result.shape, result.stride(), strict=True)
        )
        if out.stride() != result.stride() and last_offset + 1 == out.numel():
            out.as_strided_(result.shape, result.stride())
    host_alias(out).copy_(result)


def _call(
    call: Callable[..., Any], contract: Contract, core: int, args: list[Any], kwargs: Keywords
) -> Any:
    """Call the host's kernel, which draws random numbers from this core's generator."""
    if contract.generator is None:
        if not contract.is_seeded:
            return call(*args, **kwargs)
        with drawing_from(max(core, 0)):
            return call(*args, **kwargs)
    position, name = contract.generator
    if position < len(args):
        args[position] = args[position] or generator_to_draw_from(max(core, 0))
    else:
        kwargs[name] = kwargs.get(name) or generator_to_draw_from(max(core, 0))
    return call(*args, **kwargs)


def _slot_argument(slot: Slot, args: Arguments, kwargs: Keywords) -> Any:
    position, name = slot
    return args[position] if position < len(args) else kwargs[name]


def _place_results(result: Any, core: int) -> Any:
    """A result with every new tensor placed on the device."""
    if isinstance(result, Tensor):
        return place(result, core)
    if isinstance(result, list):
        return [_place_results(part, core) for part in result]
    if isinstance(result, tuple):
        return tuple(_place_results(part, core) for part in result)
    return result


def to_host(
    contract: Contract, args: Arguments, kwargs: Keywords
) -> tuple[int, list[Any], Keywords]:
    """The core of the tensors (0 without any), and the arguments with CPU aliases.

    Raises:
        MixedDevices: if the tensors are not on one core.
    """
    core = _NO_CORE
    host_args: list[Any] = []
    for position, argument in enumerate(args):
        if isinstance(argument, Tensor):
            index = argument.get_device()
            if index < 0:
                _check_host(contract, contract.arguments[position], argument, args, kwargs)
            else:
                if index != core:
                    core = _common_core(contract, contract.arguments[position], core, index)
                argument = host_alias(argument)  # noqa: PLW2901  the alias takes its place
        elif isinstance(argument, list | tuple):
            core, argument = _list_to_host(  # noqa: PLW2901  likewise
                contract, contract.arguments[position], core, argument, args, kwargs
            )
        host_args.append(argument)
    host_kwargs: Keywords = {}
    for name, argument in kwargs.items():
        if isinstance(argument, _TENSOR_CONTAINERS):
            core, (argument,) = _list_to_host(  # noqa: PLW2901  as above
                contract, name, core, [argument], args, kwargs
            )
        host_kwargs[name] = argument
    return max(core, 0), host_args, host_kwargs


def _list_to_host(
    contract: Contract,
    name: str,
    core: int,
    values: list[Any] | Arguments,
    args: Arguments,
    kwargs: Keywords,
) -> tuple[int, list[Any]]:
    """The core of the tensors so far, and `values` (tensors, numbers, lists) with CPU aliases."""
    if core == _NO_CORE and values and isinstance(values[0], Tensor):
        core = values[0].get_device()
    host_values: list[Any] | None = host_aliases(values, core) if core >= 0 else None
    if host_values is not None:
        return core, host_values
    host_values = []
    for value in values:
        host_value = value
        if isinstance(value, Tensor):
            index = value.get_device()
            if index < 0:
                _check_host(contract, name, value, args, kwargs)
            else:
                if index != core:
                    core = _common_core(contract, name, core, index)
                host_value = host_alias(value)
        elif isinstance(value, list | tuple):
            core, host_value = _list_to_host(contract, name, core, value, args, kwargs)
        host_values.append(host_value)
    return core, host_values


def _common_core(contract: Contract, name: str, core: int, index: int) -> int:
    """`index`, if the tensors so far are on that core, or if there were none.

    Raises:
        MixedDevices: if they are on another core.
    """
    if core == _NO_CORE:
        return index
    raise _mixed_devices_error(contract, name, f"neuron:{core}", f"neuron:{index}")


def _check_host(
    contract: Contract, name: str, tensor: Tensor, args: Arguments, kwargs: Keywords
) -> None:
    """Refuse a CPU tensor beside neuron tensors, unless every device accepts it."""
    if tensor.is_cpu and contract.name in host_operands:
        return
    is_index = name in _HOST_ARGUMENTS and not (host_operands and contract.name in _EMBEDDINGS)
    is_written = any(slot is not None and slot[1] == name for slot in contract.returned_arguments)
    if tensor.is_cpu and not is_written and (tensor.dim() == 0 or is_index):
        return
    devices = [leaf.device for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    neuron_device = next(device for device in devices if is_neuron(device))
    raise _mixed_devices_error(contract, name, str(neuron_device), str(tensor.device))


def _mixed_devices_error(
    contract: Contract, name: str, device: str, other_device: str
) -> MixedDevices:
    return MixedDevices(
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{device} and {other_device} (argument {name!r} of {contract.name})",
        fix=f"move it: {name}.to({device!r})",
        line=program_line(),
    )
