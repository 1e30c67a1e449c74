"""`init_process_group("neuron")`: processes of one machine, each with its own logical NeuronCore.

Values are exchanged by gloo through the host's memory. What a collective would move over NeuronLink
is written down for the fabric model: its kind, its bytes and its group.

Source: aws-neuron-sdk frameworks/torch/pytorch-native-overview.rst, Distributed.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.distributed as dist
from torch import Tensor, nn

from trnsim.torch import pytorch, recording
from trnsim.torch.alias import host_alias
from trnsim.torch.faults import MixedDevices, PeerLost, program_line
from trnsim.torch.importer.calls import tensors_in
from trnsim.torch.pytorch import DEVICE_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch._ops import OpOverload

    from trnsim.torch.pytorch import Kernel, Library

_NAMESPACE: Final = "c10d::"
# Every call on the device has finished when it returns; but of these one side must not wait for the
# other, which may not have come there yet.
_PAIRED: Final = frozenset({"send", "recv", "recv_any_source"})
_OF_THE_WHOLE: Final = frozenset({"allgather_base", "reduce_scatter_base"})
_ANSWER_S: Final = 2.0
_SHARES: Final = {"gather": 1, "scatter": 0}
"""Which argument is a process's own share, where the root alone has the whole."""


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective of this process.

    Attributes:
        kind: PyTorch's name without underscores ("allreduce").
        nbytes: bytes of the whole message: of the largest side that a process gives or takes.
        ranks: the processes of the group.
    """

    kind: str
    nbytes: int
    ranks: tuple[int, ...]


def register(library: Library) -> None:
    """Register the backend, and a kernel for each collective that PyTorch has for devices."""
    if not dist.is_available():
        return
    backend: Any = dist.Backend
    backend.register_backend(DEVICE_TYPE, _process_group, devices=["cpu", DEVICE_TYPE])
    config: Any = dist.distributed_c10d.BackendConfig
    config.__init__ = _with_the_host(config.__init__)
    parallel: Any = nn.parallel.DistributedDataParallel
    parallel.__init__ = _on_own_device(parallel.__init__)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="(?s).*Overriding a previously registered kernel")
        for name in pytorch.operators():
            if name.startswith(_NAMESPACE) and pytorch.has_kernel(name, "PrivateUse1"):
                operator = pytorch.overload(name)
                if operator is not None:
                    short = name.removeprefix(_NAMESPACE)
                    library.impl(short, _kernel(operator), "PrivateUse1", allow_override=True)


def _with_the_host(init: Callable[..., None]) -> Callable[..., None]:
    """A group of neuron tensors has a backend for CPU tensors too, which carries the values.

    PyTorch gives a group without a named backend that of the accelerator alone.
    """

    @wraps(init)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        backends = self.device_backend_map
        if DEVICE_TYPE in backends:
            backends.setdefault("cpu", dist.Backend.GLOO)

    return made


def _on_own_device(init: Callable[..., None]) -> Callable[..., None]:
    """DistributedDataParallel without `device_ids` where its module is on neuron.

    accelerate and others give the rank on this machine, which counts the machine's devices. Here
    each process has its own core, neuron:0, and the module lies on it already.
    """

    @wraps(init)
    def made(
        self: Any, module: nn.Module, device_ids: Any = None, output_device: Any = None,
        *args: Any, **kwargs: Any,
    ) -> None:  # fmt: skip
        if any(parameter.device.type == DEVICE_TYPE for parameter in module.parameters()):
            device_ids = output_device = None
        init(self, module, device_ids, output_device, *args, **kwargs)

    return made


def _process_group(store: Any, rank: int, size: int, timeout: Any) -> Any:
    """The group that exchanges values through the host."""
    return pytorch.gloo(store, rank, size, timeout)


def _kernel(operator: OpOverload[..., Any]) -> Kernel:
    """The collective on the CPU tensors that share the memory of its neuron tensors."""
    schema = operator._schema  # noqa: SLF001  PyTorch's way to ask
    kind = schema.name.removeprefix(_NAMESPACE).strip("_")
    position = next(
        place for place, argument in enumerate(schema.arguments) if argument.name == "process_group"
    )
    gives_tensors = len(schema.returns) > 1

    def kernel(*args: Any, **kwargs: Any) -> Any:
        group = args[position] if position < len(args) else kwargs["process_group"]
        for one in recording.recordings:
            one.collectives.append(_described(kind, args, group))
        named = {name: _on_host(value, kind) for name, value in kwargs.items()}
        hosts = [_on_host(value, kind) for value in args]
        if kind in _OF_THE_WHOLE:  # gloo cuts the whole along its first dimension
            hosts = [host.view(-1) if isinstance(host, Tensor) else host for host in hosts]
        try:
            found = operator(*hosts, **named)
            if kind not in _PAIRED:
                (found[-1] if gives_tensors else found).wait()
        except RuntimeError as error:
            raise _lost(kind, group, error) from error
        return (args[0], found[-1]) if gives_tensors else found

    return kernel


def _lost(kind: str, group: Any, error: RuntimeError) -> PeerLost:
    """The error for a collective that some process did not take part in.

    The host's transport knows no ranks. Whoever is alive fails at the same time and signs in the
    store that all processes share, so that who has not signed is who is missing.
    """
    ranks = _ranks(group)
    silent = pytorch.silent_ranks(ranks, _ANSWER_S)
    who = f"rank {', '.join(map(str, silent))} did not answer" if silent else "a rank stopped"
    return PeerLost(
        f"{kind} of ranks {list(ranks)} failed: {who} ({str(error).splitlines()[0]})",
        fix="look for the first error in the output of that process; this one is what followed",
        line=program_line(),
    )


def _ranks(group: Any) -> tuple[int, ...]:
    unboxed: Any = torch.distributed.ProcessGroup.unbox(group)
    return tuple(dist.get_process_group_ranks(unboxed))


def _on_host(value: Any, kind: str) -> Any:
    """Neuron tensors in nested lists as the CPU tensors over the same memory."""
    if isinstance(value, list | tuple):
        return [_on_host(part, kind) for part in value]
    if not isinstance(value, Tensor):
        return value
    if value.device.type != DEVICE_TYPE:
        raise MixedDevices(
            f"{kind} of a tensor on {value.device} beside tensors on neuron",
            fix="move it: tensor.to('neuron')",
            line=program_line(),
        )
    return host_alias(value)


def _described(kind: str, args: Any, group: Any) -> Collective:
    ranks = _ranks(group)
    sides = [sum(t.numel() * t.element_size() for t in tensors_in(value)) for value in args]
    if kind in _SHARES:  # the whole is at the root alone, a share at every process
        return Collective(kind, sides[_SHARES[kind]] * len(ranks), ranks)
    return Collective(kind, max(sides, default=0), ranks)
