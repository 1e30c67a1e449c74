"""The check that the ranks of a group call a collective with matching arguments.

Shapes and dtypes must be the same in all ranks, except in all-to-alls, whose numbers of elements
must match pairwise. The reduction is not compared, as it is invisible to Python.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import torch.distributed as dist
from torch import Tensor

from trnsim.device.agreement import Agreement, CallArguments, CallFailure
from trnsim.device.program_line import program_line
from trnsim.device.program_sequence import program_sequence
from trnsim.device.steps import tell_that_a_peer_is_lost
from trnsim.torch import pytorch
from trnsim.torch.aten.operator_call import tensors_in
from trnsim.torch.aten.spec import tensor_text
from trnsim.torch.device_errors import CollectiveBroken, PeerLost

_UNEVEN: Final = frozenset({"alltoall", "alltoall_base"})
"""Collectives in which ranks may send different numbers of elements to each other."""
_ONE_SIDED: Final = {"gather": "input_tensors", "scatter": "output_tensors"}
"""The argument that every rank passes; only the root passes the list of tensors."""


class _DefaultAgreement:
    """The agreement of the default group.

    Attributes:
        agreement: the agreement; None before there is a default group.
        store: the group's store; None until `agreement()` is called after `begin`.
        number: the number of default groups so far.
    """

    def __init__(self) -> None:
        self.agreement: Agreement | None = None
        self.store: Any = None
        self.number = 0


_current: Final = _DefaultAgreement()


def begin(store: Any, rank: int, size: int) -> Agreement:
    """Join the agreement of a default group that is being created."""
    _current.number += 1
    prefix = f"trnsim/{_current.number}"
    _current.agreement = Agreement(pytorch.own_store(store), rank, size, prefix)
    _current.store = None
    return _current.agreement


def agreement() -> Agreement:
    """The agreement of the default group, created here if the group's backend is not neuron."""
    store = pytorch.default_store()
    default_agreement = _current.agreement
    if default_agreement is None or _current.store not in (None, store):
        default_agreement = begin(store, dist.get_rank(), dist.get_world_size())
    _current.store = store
    return default_agreement


def agree(kind: str, arguments: dict[str, Any], group: Any) -> None:
    """Wait until all ranks of `group` have called, with arguments that match.

    Raises:
        CollectiveBroken: ranks passed different arguments, or wait for each other.
        PeerLost: a rank has ended.
    """
    process_group: Any = dist.ProcessGroup.unbox(group)
    ranks = dist.get_process_group_ranks(process_group)
    if len(ranks) == 1 or not dist.is_initialized():
        return
    own_arguments = replace(
        passed_arguments(kind, arguments), programs=program_sequence.published(ranks)
    )
    failure = agreement().meet(str(process_group.group_name), ranks, own_arguments)
    if failure is not None:
        raise error_of(failure)


def error_of(failure: CallFailure) -> CollectiveBroken | PeerLost:
    """The error of a collective or a message that cannot begin."""
    kind = PeerLost if failure.ended_ranks else CollectiveBroken
    if failure.ended_ranks:
        tell_that_a_peer_is_lost()
    return kind(failure.reason, fix=failure.fix, line=program_line())


def passed_arguments(kind: str, arguments: dict[str, Any]) -> CallArguments:
    """Kind, tensors, root and source line of a collective, for comparison with other ranks."""
    line = str(program_line() or "")
    if kind == "barrier":
        return CallArguments(kind, line=line)
    if kind in _UNEVEN:
        sends, receives = _splits(arguments)
        first_tensor = next(iter(tensors_in(list(arguments.values()))))
        return CallArguments(
            kind,
            str(first_tensor.dtype).removeprefix("torch."),
            send_counts=sends,
            receive_counts=receives,
            line=line,
        )
    values = [value for name, value in arguments.items() if name == _ONE_SIDED.get(kind, name)]
    tensors = ", ".join(map(tensor_text, tensors_in(values)))
    return CallArguments(kind, tensors, int(arguments.get("root_rank", -1)), line=line)


def _splits(arguments: dict[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The numbers of elements sent to and received from each rank."""
    if "input" not in arguments:
        sides = arguments["input_tensors"], arguments["output_tensors"]
        sends, receives = (tuple(tensor.numel() for tensor in side) for side in sides)
        return sends, receives
    process_group: Any = dist.ProcessGroup.unbox(arguments["process_group"])
    size = process_group.size()
    return (
        _elements_by_rank(arguments["input"], arguments["input_split_sizes"], size),
        _elements_by_rank(arguments["output"], arguments["output_split_sizes"], size),
    )


def _elements_by_rank(tensor: Tensor, rows: list[int], size: int) -> tuple[int, ...]:
    if not rows:
        return (tensor.numel() // size,) * size
    per_row = tensor[0].numel() if len(tensor) else 0
    return tuple(per_row * count for count in rows)
