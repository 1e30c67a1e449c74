"""Calls in a program that are not operators of PyTorch: NKI kernels and collectives.

A collective of `torch.distributed`, including broadcasts, scatters and messages, is recorded as
the collective by which torch_xla's process group replaces it. A reduce, a gather and a message
end a step.

Source: torch_xla 2.9.0, distributed/xla_backend.py, ProcessGroupXla.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.distributed as dist
from torch import Tensor

from trnsim.torch.aten.operator_call import tensors_in
from trnsim.xla import process_groups
from trnsim.xla.cuts.call_parts import place_of
from trnsim.xla.cuts.recorder import CutRecorder
from trnsim.xla.cuts.values import EXCHANGE, Operand, RecordedValue, Signature

if TYPE_CHECKING:
    from trnsim.device.kernel_call import KernelCall
    from trnsim.torch.call_recording import RecordedExchange

_KINDS: Final = {
    "all_reduce": ("allreduce", "allreduce_coalesced"),
    "all_gather": (
        *("allgather", "allgather_base", "allgather_coalesced"),
        "allgather_into_tensor_coalesced",
    ),
    "reduce_scatter": (
        *("reduce_scatter", "reduce_scatter_base", "reduce_scatter_tensor_coalesced", "scatter"),
    ),
    "all_to_all": ("alltoall", "alltoall_base"),
    "collective_broadcast": ("broadcast",),
}
_NAMES: Final = {kind: f"{EXCHANGE}{name}" for name, kinds in _KINDS.items() for kind in kinds}
"""Names of torch_xla's collectives, by the names of PyTorch's collectives that become them."""
PERMUTATION: Final = f"{EXCHANGE}collective_permute"
PAIR: Final = "pair"
"""The mark of a permutation that is a message: only its two ranks have it."""


class ProgramRecorder(CutRecorder):
    """The recording of all calls of a program.

    Attributes:
        end_step: ends a step by a cut of the given kind; set by the owner of the recording.
    """

    end_step: Callable[[str], None]

    def record(
        self, name: str, args: Sequence[Any], results: Sequence[Tensor], constants: Any = ()
    ) -> None:
        """Record a call by its name."""
        places = tuple(Operand(number) for number in range(len(args)))
        geometries = tuple(place_of(tensor)[1] for tensor in results)
        self._add(self._signature(name, name, (*places, constants), geometries), args, results)

    def note_kernel(self, call: KernelCall, args: Sequence[Any], results: Sequence[Any]) -> None:
        """Record an NKI kernel, which has run; `results` has the tensors that it wrote to."""
        from trnsim.xla.cuts.kernel_parts import (  # noqa: PLC0415  loads NKI, as a kernel has
            kernel_arguments,
        )

        kernel, keywords = kernel_arguments(call)
        geometries = tuple(place_of(tensor)[1] for tensor in results)
        signature = self._signature(call.name, call.name, kernel, geometries, keywords)
        signature.kernel = call
        self._add(signature, args, results)

    def note_exchange(self, exchange: RecordedExchange) -> None:
        """Record a PyTorch collective, which has run."""
        if len(exchange.ranks) == 1 or _silence.is_on:
            return
        if exchange.kind in _NAMES:
            sent_tensors, received_tensors = sides(exchange)
            constants = (exchange.reduction, groups_of(exchange))
            self.record(_NAMES[exchange.kind], sent_tensors, received_tensors, constants)
        elif exchange.kind in ("reduce", "gather", "send", "recv"):
            self._end_with(exchange)

    def _end_with(self, exchange: RecordedExchange) -> None:
        """Record an exchange that ends a step; tensors that its root receives become data."""
        sent_tensors, received_tensors = sides(exchange)
        groups, reduction = groups_of(exchange), exchange.reduction
        for tensor in sent_tensors:
            if exchange.kind == "gather":
                shape = (tensor.shape[0] if tensor.dim() else 1) * len(exchange.ranks)
                result = tensor.new_empty((shape, *tensor.shape[1:]))
                self.record(f"{EXCHANGE}all_gather", [tensor], [result], (reduction, groups))
            else:
                result = torch.empty_like(tensor)
                is_message = exchange.kind in ("send", "recv")
                name = PERMUTATION if is_message else f"{EXCHANGE}all_reduce"
                self.record(name, [tensor], [result], (PAIR if is_message else reduction, groups))
            self.end_step(exchange.kind)
        for tensor in received_tensors:
            self._write(tensor, RecordedValue(place_of(tensor)[1]))

    def _add(self, signature: Signature, args: Sequence[Any], results: Sequence[Tensor]) -> None:
        """Add a call, which has run."""
        self.repeats.begin_call()
        operands = tuple(self.value_of(tensor) for tensor in args)
        for tensor, value in zip(results, self._results(signature, operands), strict=True):
            self._write(tensor, value)


class _Silence:
    """The switch that keeps collectives of `torch.distributed` from being recorded as calls.

    Attributes:
        is_on: True while they are part of another call.
    """

    is_on = False


_silence: Final = _Silence()


@contextmanager
def no_recording() -> Generator[None]:
    """Context in which collectives of `torch.distributed` are not recorded."""
    was_on, _silence.is_on = _silence.is_on, True
    try:
        yield
    finally:
        _silence.is_on = was_on


def sides(exchange: RecordedExchange) -> tuple[list[Tensor], list[Tensor]]:
    """The tensors that a rank sends in an exchange, and the tensors that it receives.

    In a scatter every rank sends as many tensors as the group has ranks, each like its result.
    """
    sent_tensors: list[Tensor] = []
    received_tensors: list[Tensor] = []
    for name, value in exchange.arguments.items():
        (received_tensors if name.startswith("output") else sent_tensors).extend(tensors_in(value))
    if exchange.kind == "scatter":
        return received_tensors * len(exchange.ranks), received_tensors
    if exchange.kind in ("reduce", "send", "recv"):
        return sent_tensors, sent_tensors if exchange.kind == "recv" or exchange.is_root else []
    return sent_tensors, received_tensors or sent_tensors


def groups_of(exchange: RecordedExchange) -> tuple[tuple[int, ...], ...]:
    """The groups of all ranks, or only this rank's group if no others are known.

    () stands for one group of all ranks.
    """
    if exchange.pair:
        return (exchange.pair,)
    if len(exchange.ranks) == dist.get_world_size():
        return ()
    mesh = process_groups.mesh_of(exchange.group_name) or [[*exchange.ranks]]
    return tuple(tuple(ranks) for ranks in mesh)
