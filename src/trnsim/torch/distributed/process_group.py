"""`init_process_group("neuron")`: processes of one machine, each with its own logical NeuronCore.

gloo exchanges values through the host's memory. The kind, bytes and group of each collective are
recorded for the model of NeuronLink.

Source: aws-neuron-sdk frameworks/torch/pytorch-native-overview.rst, Distributed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.distributed as dist
from torch import Tensor, nn

from trnsim.device.call_log import note_collective, recordings
from trnsim.device.collective_log import CollectiveCall
from trnsim.device.faults import pending_faults, strike_fault
from trnsim.device.program_line import program_line
from trnsim.errors import EmulatorError
from trnsim.torch import pytorch
from trnsim.torch.api import storage
from trnsim.torch.aten.operator_call import tensors_in
from trnsim.torch.call_recording import RecordedExchange, buffers_of, call_core, watchers
from trnsim.torch.device_errors import CollectiveBroken, CollectiveRefused, MixedDevices, PeerLost
from trnsim.torch.device_name import DEVICE_TYPE, is_neuron
from trnsim.torch.dispatch.alias import host_alias
from trnsim.torch.distributed import agreeing, pairs
from trnsim.torch.distributed.transport import (
    REDUCING_METHODS,
    GlooReduction,
    as_bits,
    is_interruption,
    reduction_name,
    refusal_error,
    with_premul_sum,
)
from trnsim.torch.narrowing import bytes_on_device
from trnsim.torch.pytorch import Kernel, Library

if TYPE_CHECKING:
    from torch._ops import OpOverload

_C10D_PREFIX: Final = "c10d::"
# Calls on the device have finished when they return, except these: a process must not wait for its
# peer, which may not have reached its call.
_MESSAGES: Final = frozenset({"send", "recv", "recv_any_source"})
_OTHER_SIDE: Final = {"send": "dst", "recv": "src"}
"""The argument that names the other process of a message."""
_FLATTENED_COLLECTIVES: Final = frozenset({"allgather_base", "reduce_scatter_base"})
_ANSWER_WAIT_S: Final = 2.0
"""Time in which the ranks of a broken collective must sign that they are alive."""
_SHARE_ARGUMENTS: Final = {"gather": 1, "scatter": 0}
"""For a collective whose full tensors only the root has: index of the argument with a share."""


def register(library: Library) -> None:
    """Register the backend, and a kernel for each collective that PyTorch has for devices."""
    if not dist.is_available():
        return
    backend: Any = dist.Backend
    backend.register_backend(DEVICE_TYPE, _process_group, devices=["cpu", DEVICE_TYPE])
    config: Any = dist.distributed_c10d.BackendConfig
    config.__init__ = _with_host_backend(config.__init__)
    pairs.register(_failure)
    for name in REDUCING_METHODS:
        setattr(dist.ProcessGroup, name, with_premul_sum(getattr(dist.ProcessGroup, name)))
    parallel: Any = nn.parallel.DistributedDataParallel
    parallel.__init__ = _without_device_ids(parallel.__init__)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="(?s).*Overriding a previously registered kernel")
        for name in pytorch.operators():
            if name.startswith(_C10D_PREFIX) and pytorch.has_kernel(name, "PrivateUse1"):
                operator = pytorch.overload(name)
                if operator is not None:
                    method_name = name.removeprefix(_C10D_PREFIX)
                    library.impl(
                        method_name,
                        _collective_kernel(operator),
                        "PrivateUse1",
                        allow_override=True,
                    )


def _with_host_backend(init: Callable[..., None]) -> Callable[..., None]:
    """A group's `__init__` that adds a backend for CPU tensors, which carries the values.

    Without a named backend, PyTorch gives a group only the accelerator's.
    """

    @wraps(init)
    def init_group(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        backends = self.device_backend_map
        if DEVICE_TYPE in backends:
            backends.setdefault("cpu", dist.Backend.GLOO)

    return init_group


def _without_device_ids(init: Callable[..., None]) -> Callable[..., None]:
    """DistributedDataParallel's `__init__` without `device_ids` if its module is on neuron.

    accelerate and others pass the rank on this machine as an index of its devices. Here each
    process has its own core, neuron:0, and the module is on it already.
    """

    @wraps(init)
    def init_module(
        self: Any, module: nn.Module, device_ids: Any = None, output_device: Any = None,
        *args: Any, **kwargs: Any,
    ) -> None:  # fmt: skip
        if any(is_neuron(parameter.device) for parameter in module.parameters()):
            device_ids = output_device = None
        init(self, module, device_ids, output_device, *args, **kwargs)
        if self.find_unused_parameters or self.static_graph:
            storage.pin_from_now_on()  # DDP moves its map of used parameters from pinned memory

    return init_module


def _process_group(store: Any, rank: int, size: int, timeout: Any) -> Any:
    """The process group that exchanges values through the host."""
    if not dist.is_initialized():
        agreeing.begin(store, rank, size)
    return pytorch.gloo(store, rank, size, timeout)


def _collective_kernel(operator: OpOverload[..., Any]) -> Kernel:
    """The kernel of a collective: the host's, on CPU tensors over the neuron tensors' memory."""
    schema = operator._schema  # noqa: SLF001  PyTorch's way to ask
    kind = schema.name.removeprefix(_C10D_PREFIX).strip("_")
    names = [argument.name for argument in schema.arguments]
    has_tensors = len(schema.returns) > 1

    def kernel(*args: Any) -> Any:
        if pending_faults:
            strike_fault(call_core(args))
        arguments = dict(zip(names, args, strict=False))
        group = arguments["process_group"]
        if kind not in (*_MESSAGES, "barrier"):  # those have agreed already
            agreeing.agree(kind, arguments, group)
        if recordings:
            note_collective(
                _collective_call(kind, args, arguments),
                buffers_of(list(arguments.values())),
                is_async=kind in _MESSAGES or bool(arguments.get("async_op", True)),
            )
        host_arguments = {
            name: _map_tensors(value, partial(_host_tensor, kind))
            for name, value in arguments.items()
        }
        if kind in _FLATTENED_COLLECTIVES:  # gloo splits along the first dimension
            host_arguments = {
                name: _map_tensors(value, lambda host: host.view(-1))
                for name, value in host_arguments.items()
            }
        try:
            gloo_arguments, put_back = _gloo_arguments(kind, host_arguments)
            work = operator(**gloo_arguments)
            if kind not in _MESSAGES:
                (work[-1] if has_tensors else work).wait()
        except CollectiveRefused:
            raise
        except RuntimeError as error:
            raise _failure(kind, group, error) from error
        put_back()
        for watcher in watchers:
            watcher.note_exchange(_recorded_exchange(kind, arguments))
        return (args[0], work[-1]) if has_tensors else work

    return kernel


def _gloo_arguments(
    kind: str, host_arguments: dict[str, Any]
) -> tuple[dict[str, Any], Callable[[], None]]:
    """The arguments in gloo's dtypes, and a function to call after the exchange."""
    if "reduce_op" not in host_arguments:
        return {
            name: _map_tensors(value, as_bits) for name, value in host_arguments.items()
        }, lambda: None
    group: Any = torch.distributed.ProcessGroup.unbox(host_arguments["process_group"])
    dtype = next(iter(tensors_in(list(host_arguments.values())))).dtype
    reduction = GlooReduction(kind, host_arguments["reduce_op"], dtype)
    is_root = host_arguments.get("root_rank", group.rank()) == group.rank()
    gloo_arguments = {
        name: _map_tensors(
            value, partial(reduction.gloo_tensor, is_written=is_root and "input" not in name)
        )
        for name, value in host_arguments.items()
    }
    gloo_arguments["reduce_op"] = reduction.gloo_operation(host_arguments["reduce_op"])
    return gloo_arguments, partial(reduction.put_back, group.size())


def _failure(kind: str, group: Any, error: RuntimeError) -> EmulatorError:
    """The error for a collective that was refused, or that some process did not join.

    The host's transport reports no ranks. All processes that are alive fail at the same time and
    sign in a store that all share; the processes that have not signed are missing.
    """
    if not is_interruption(error):
        return refusal_error(kind, None, error)
    ranks = _ranks(group)
    silent_ranks = pytorch.silent_ranks(ranks, _ANSWER_WAIT_S)
    reason = str(error).splitlines()[0]
    if not silent_ranks:
        return CollectiveBroken(
            f"{kind} of ranks {list(ranks)} broke off, though every rank answers ({reason})",
            fix="let all ranks call the same collective with tensors of the same size and dtype",
            line=program_line(),
        )
    names = ", ".join(map(str, silent_ranks))
    return PeerLost(
        f"{kind} of ranks {list(ranks)} failed: rank {names} did not answer ({reason})",
        fix="look for the first error in the output of that process; this one is what followed",
        line=program_line(),
    )


def _ranks(group: Any) -> tuple[int, ...]:
    group_object: Any = torch.distributed.ProcessGroup.unbox(group)
    return tuple(dist.get_process_group_ranks(group_object))


def _map_tensors(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """`value` with `change` applied to every tensor in nested lists."""
    if isinstance(value, list | tuple):
        return [_map_tensors(part, change) for part in value]
    return change(value) if isinstance(value, Tensor) else value


def _host_tensor(kind: str, tensor: Tensor) -> Tensor:
    """The CPU tensor over the memory of a neuron tensor."""
    if not is_neuron(tensor.device):
        raise MixedDevices(
            f"{kind} of a tensor on {tensor.device} beside tensors on neuron",
            fix="move it: tensor.to('neuron')",
            line=program_line(),
        )
    return host_alias(tensor)


def _collective_call(kind: str, args: Any, arguments: dict[str, Any]) -> CollectiveCall:
    ranks = _ranks(arguments["process_group"])
    argument_bytes = [
        sum(bytes_on_device(t.numel() * t.element_size(), t.dtype) for t in tensors_in(value))
        for value in args
    ]
    if kind in _SHARE_ARGUMENTS:  # only the root has the full tensors, every process a share
        return CollectiveCall(kind, argument_bytes[_SHARE_ARGUMENTS[kind]] * len(ranks), ranks)
    if kind in _OTHER_SIDE:
        return CollectiveCall("send", max(argument_bytes), _pair(kind, arguments))
    return CollectiveCall(kind, max(argument_bytes, default=0), ranks)


def _pair(kind: str, arguments: dict[str, Any]) -> tuple[int, ...]:
    """Sender and receiver of a message, which both sides describe alike; () for a collective."""
    if kind not in _OTHER_SIDE:
        return ()
    group: Any = torch.distributed.ProcessGroup.unbox(arguments["process_group"])
    own_rank, peer = group.rank(), int(arguments[_OTHER_SIDE[kind]])
    ranks = _ranks(arguments["process_group"])
    pair = (own_rank, peer) if kind == "send" else (peer, own_rank)
    return tuple(ranks[member] for member in pair)


def _recorded_exchange(kind: str, arguments: dict[str, Any]) -> RecordedExchange:
    """A collective, or a message, for the watchers of calls."""
    group: Any = torch.distributed.ProcessGroup.unbox(arguments["process_group"])
    is_root = arguments.get("root_rank") == group.rank()
    reduction = reduction_name.get() if "reduce_op" in arguments else ""
    ranks = _ranks(arguments["process_group"])
    return RecordedExchange(
        kind, arguments, reduction, ranks, group.group_name, _pair(kind, arguments), is_root
    )
