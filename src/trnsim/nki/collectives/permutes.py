"""Permutes between ranks, and registers with the number of a rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from trnsim.behaviours.names import BY_FORM
from trnsim.errors import IllegalInstruction
from trnsim.isa import (
    CollectivePermute,
    CollectivePermuteImplicit,
    CollectivePermuteImplicitCurrentProcessingRankId,
    CollectivePermuteImplicitReduce,
    RankId,
    VirtualRegister,
)
from trnsim.nki.collectives.issuing import (
    Options,
    Tensors,
    as_tensors,
    as_tuples,
    check_name,
    check_options,
    instruction_of,
    issue,
    issue_of_version,
)
from trnsim.nki.collectives.replica_group import ReplicaGroup, groups_of
from trnsim.nki.dialect import follows, require
from trnsim.nki.instruction import NkiInstruction
from trnsim.nki.language_operators import operator_name
from trnsim.program import current_core


def collective_permute(
    srcs: Tensors,
    dsts: Tensors,
    source_target_pairs: Sequence[Sequence[int]],
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction | None:
    """For each pair (source rank, target rank), the source's `srcs` copied to the target's `dsts`.

    On a rank that is in no pair nothing is issued, and the result is None.
    """
    check_options("collective_permute", Options(priority, name))
    instruction = instruction_of(
        CollectivePermute,
        srcs=as_tensors(srcs),
        dsts=as_tensors(dsts),
        source_target_pairs=as_tuples(source_target_pairs),
        priority=priority,
    )
    context = current_core()
    if context.world(instruction.opcode).is_among(_ranks_of_pairs(instruction.source_target_pairs)):
        return issue_of_version(instruction, name)
    instruction.verify(context.core)
    return None


def collective_permute_implicit(
    srcs_by_channel: Sequence[Tensors],
    dsts_by_channel: Sequence[Tensors],
    replica_group: ReplicaGroup,
    channel_ids: Sequence[int] = (0,),
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction | None:
    """For each channel, a copy of the source tensor of the ring's previous rank to this rank."""
    call = "collective_permute_implicit"
    return issue(
        CollectivePermuteImplicit,
        Options(priority, name),
        srcs_by_channel=_tensor_per_channel(call, "srcs_by_channel", srcs_by_channel),
        dsts_by_channel=_tensor_per_channel(call, "dsts_by_channel", dsts_by_channel),
        replica_group=groups_of(call, replica_group),
        channel_ids=as_tuples(channel_ids),
    )


def collective_permute_implicit_reduce(
    srcs0_by_channel: Sequence[Tensors],
    srcs1_by_channel: Sequence[Tensors],
    dsts_by_channel: Sequence[Tensors],
    replica_group: ReplicaGroup,
    op: Any,
    channel_ids: Sequence[int] = (0,),
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction | None:
    """``op(src0, src1)`` of the previous rank in the ring, for each channel."""
    call = "collective_permute_implicit_reduce"
    return issue(
        CollectivePermuteImplicitReduce,
        Options(priority, name),
        srcs0_by_channel=_tensor_per_channel(call, "srcs0_by_channel", srcs0_by_channel),
        srcs1_by_channel=_tensor_per_channel(call, "srcs1_by_channel", srcs1_by_channel),
        dsts_by_channel=_tensor_per_channel(call, "dsts_by_channel", dsts_by_channel),
        replica_group=groups_of(call, replica_group),
        op=operator_name(f"{call}: `op`", op),
        channel_ids=as_tuples(channel_ids),
    )


def _with_num_channels(function: Callable[..., VirtualRegister]) -> Callable[..., VirtualRegister]:
    """`function`, which in NKI 0.2 takes `num_channels` too: by name, or as the fourth operand.

    `num_channels` has no effect: the number of channels follows from the operands of the permute.

    Source: the stub of nki.collectives of v2.28.
    """
    form = f"ncc.{function.__name__}(num_channels=)"
    row, position = BY_FORM[form], len(("iteration_id", "replica_group", "channel_id"))

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> VirtualRegister:
        if "num_channels" in kwargs:
            require(row, form)
            del kwargs["num_channels"]
        elif len(args) > position and follows(row):
            args = args[:position]
        return function(*args, **kwargs)

    return call


@_with_num_channels
def collective_permute_implicit_current_processing_rank_id(
    iteration_id: int,
    replica_group: ReplicaGroup,
    channel_id: int = 0,
    name: str | None = None,
) -> VirtualRegister:
    """A register with the rank whose data arrives after `iteration_id` implicit permutes."""
    check_name("collective_permute_implicit_current_processing_rank_id", name)
    register = VirtualRegister()
    instruction = instruction_of(
        CollectivePermuteImplicitCurrentProcessingRankId,
        dst=register,
        iteration_id=int(iteration_id)
        if isinstance(iteration_id, VirtualRegister)
        else iteration_id,
        replica_group=groups_of(
            "collective_permute_implicit_current_processing_rank_id", replica_group
        ),
        channel_id=channel_id,
    )
    current_core().issue(instruction)
    return register


def rank_id(name: str | None = None) -> VirtualRegister:
    """A register with the number of this rank."""
    check_name("rank_id", name)
    context = current_core()
    context.world("rank_id")
    instruction = RankId(dst=VirtualRegister())
    context.issue(instruction)
    return instruction.dst


def _ranks_of_pairs(pairs: Any) -> list[Any]:
    """The ranks that pairs name, if they are pairs."""
    named_pairs = pairs if isinstance(pairs, tuple) else ()
    return [rank for pair in named_pairs if isinstance(pair, tuple) for rank in pair]


def _tensor_per_channel(call: str, key: str, channels: Any) -> tuple[Any, ...]:
    """The tensor of each channel.

    Raises:
        IllegalInstruction: unless `channels` is a list of lists of a single tensor.
    """
    lists = list(channels) if isinstance(channels, list | tuple) else [channels]
    for channel in lists:
        if not isinstance(channel, list | tuple) or len(channel) != 1:
            is_list = isinstance(channel, list | tuple)
            contents = f"{len(channel)} tensors" if is_list else type(channel).__name__
            raise IllegalInstruction(
                f"{call}: `{key}` has {contents} for a channel; legal: a list of one tensor",
                fix="write [[tensor]] for one channel, [[a], [b]] for two",
                source=f"nki.collectives.{call}",
            )
    return tuple(channel[0] for channel in lists)
