"""Sends and receives: the two processes agree on each message, as groups do on a collective.

A process publishes its arguments when the call begins. It compares them with its peer's at once if
the peer has called, and again when the program waits, so an asynchronous call returns at once. A
receive from any rank has no agreement.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from functools import partial, wraps
from typing import Any, Final

import torch.distributed as dist
from torch import Tensor

from trnsim.device.agreement import CallArguments, CallFailure
from trnsim.device.faults import pending_faults, strike_fault
from trnsim.device.program_line import program_line
from trnsim.torch.aten.spec import tensor_text
from trnsim.torch.device_name import is_neuron
from trnsim.torch.distributed import agreeing

Failure = Callable[[str, Any, RuntimeError], Exception]
"""From the kind of a call, its group and the transport's error, the error to raise."""
_NO_TIMEOUT: Final = timedelta(0)


def register(failure: Failure) -> None:
    """Make groups that carry neuron tensors agree on their messages from now on."""
    group: Any = dist.ProcessGroup
    for name in ("send", "recv"):
        setattr(group, name, _agreeing_method(name, getattr(group, name), failure))
    group.recv_anysource = _from_any(group.recv_anysource)
    group.barrier = _barrier(group.barrier, failure)


class AgreedWork:
    """A message or barrier in progress: gloo's work, whose `wait` also waits for the agreement."""

    def __init__(self, work: Any, agree: Callable[[float], None], failure: Any) -> None:
        self._work = work
        self._agree = agree
        self._failure = failure

    def wait(self, timeout: timedelta = _NO_TIMEOUT) -> bool:
        """Wait until the peer has passed matching arguments, then for the transport."""
        self._agree(timeout.total_seconds() or math.inf)
        try:
            return bool(self._work.wait(timeout) if timeout else self._work.wait())
        except RuntimeError as error:
            raise self._failure(error) from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)


def _agreeing_method(kind: str, method: Callable[..., Any], failure: Failure) -> Callable[..., Any]:
    """A method of process groups, for tensors, a rank of the group, and a tag."""

    @wraps(method)
    def call(group: Any, tensors: list[Tensor], rank: int, tag: int) -> Any:
        ranks = dist.get_process_group_ranks(group)
        if not _carries_neuron_tensors(group) or group.rank() == rank:
            return method(group, tensors, rank, tag)
        own_rank, peer = ranks[group.rank()], ranks[rank]
        sender, receiver = (own_rank, peer) if kind == "send" else (peer, own_rank)
        agreement = agreeing.agreement()
        own_arguments = _passed_tensors(kind, tensors, peer, tag)
        pending_call = agreement.begin(f"{group.group_name}/{tag}", sender, receiver, own_arguments)
        _raise(agreement.mismatch(pending_call))
        work = method(group, tensors, rank, tag)
        return AgreedWork(
            work,
            lambda wait_s: _raise(agreement.wait_for_peer(pending_call, wait_s)),
            partial(failure, kind, group.boxed()),
        )

    return call


def _from_any(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method that receives from any rank."""

    @wraps(method)
    def call(group: Any, tensors: list[Tensor], tag: int) -> Any:
        if _carries_neuron_tensors(group):
            agreeing.agreement().receives_from_any()
        return method(group, tensors, tag)

    return call


def _barrier(method: Callable[..., Any], failure: Failure) -> Callable[..., Any]:
    """A barrier, which PyTorch passes to the host's transport without calling the device."""

    @wraps(method)
    def call(group: Any, *args: Any, **kwargs: Any) -> Any:
        if not _carries_neuron_tensors(group):
            return method(group, *args, **kwargs)
        if pending_faults:
            strike_fault(0)
        agreeing.agree("barrier", {}, group.boxed())
        work = method(group, *args, **kwargs)
        # Nothing to agree on later: the ranks have agreed when the barrier begins.
        return AgreedWork(work, lambda _: None, partial(failure, "barrier", group.boxed()))

    return call


def _carries_neuron_tensors(group: Any) -> bool:
    """True if the group may carry neuron tensors; it then agrees on CPU tensors too."""
    devices = group._device_types  # noqa: SLF001  PyTorch has no other way to ask
    return any(is_neuron(device) for device in devices)


def _passed_tensors(kind: str, tensors: list[Tensor], peer: int, tag: int) -> CallArguments:
    tag_text = f" (tag {tag})" if tag else ""
    return CallArguments(
        f"{kind} {'to' if kind == 'send' else 'from'} rank {peer}{tag_text}",
        ", ".join(map(tensor_text, tensors)),
        line=str(program_line() or ""),
        elements=sum(tensor.numel() for tensor in tensors),
    )


def _raise(failure: CallFailure | None) -> None:
    if failure is not None:
        raise agreeing.error_of(failure)
