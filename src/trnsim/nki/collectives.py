"""`nki.collectives`: a function for each collective, with AWS's names and signatures.

Each builds the instruction of `trnsim.isa.collectives` and issues it to the current core, which
must belong to a world of ranks: `trnsim.run(kernel, ..., ranks=N)`.

Source: nki.collectives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NoReturn, SupportsIndex

from trnsim.errors import BadInput, IllegalInstruction, NotModelled
from trnsim.isa import (
    AllGather,
    AllGatherV,
    AllReduce,
    AllToAll,
    AllToAllV,
    Collective,
    CollectivePermute,
    CollectivePermuteImplicit,
    CollectivePermuteImplicitCurrentProcessingRankId,
    CollectivePermuteImplicitReduce,
    RankId,
    ReduceScatter,
    Setting,
    VirtualRegister,
)
from trnsim.memory import Tile
from trnsim.nki.language_operators import Operator
from trnsim.nki.settling import settle
from trnsim.program import current_core

Tensors = Sequence[Any]


class rg_partition_op(Enum):  # noqa: N801  AWS's name
    """The operation by which `ReplicaGroup.from_partition_op` divides ranks."""

    bitwise_and = "bitwise_and"
    div = "div"
    mod = "mod"


_PARTITIONS: dict[rg_partition_op, Callable[[int, int], int]] = {
    rg_partition_op.bitwise_and: lambda rank, operand: rank & operand,
    rg_partition_op.div: lambda rank, operand: rank // operand,
    rg_partition_op.mod: lambda rank, operand: rank % operand,
}


@dataclass(frozen=True)
class ReplicaGroup:
    """The groups of ranks that take part in a collective."""

    groups: Sequence[Sequence[int]]

    @classmethod
    def from_partition_op(cls, world: int, op: Any, operand: int) -> ReplicaGroup:
        """Groups of the ranks 0 to `world - 1` for which `op(rank, operand)` is equal.

        Raises:
            BadInput: for another operation, or an operation that `operand` does not allow.
        """
        if not isinstance(op, rg_partition_op):
            legal = ", ".join(f"rg_partition_op.{operation.name}" for operation in rg_partition_op)
            raise BadInput(f"from_partition_op({op!r}); legal: {legal}", fix="name the operation")
        if world < 1 or operand < 0 or (operand == 0 and op is not rg_partition_op.bitwise_and):
            raise BadInput(
                f"from_partition_op(world={world}, {op.name}, operand={operand}); legal: one rank "
                "or more, and an operand above 0",
                fix="give the number of ranks, and by what they are divided",
            )
        groups: dict[int, list[int]] = {}
        for rank in range(world):
            groups.setdefault(_PARTITIONS[op](rank, operand), []).append(rank)
        return cls([groups[key] for key in sorted(groups)])


def all_reduce(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    op: Any,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """The reduction of each source over the ranks of a group, on each of its ranks."""
    del name
    _exchange(AllReduce, srcs, dsts, replica_group, priority, op=_operator(op))


def all_gather(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """The concatenated sources of the ranks of a group, on each of its ranks."""
    del name
    _exchange(AllGather, srcs, dsts, replica_group, priority, collective_dim=collective_dim)


def reduce_scatter(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    collective_dim: int,
    op: Any,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """The reduction of each source over the ranks of a group, divided among them."""
    del name
    _exchange(
        ReduceScatter,
        srcs,
        dsts,
        replica_group,
        priority,
        collective_dim=collective_dim,
        op=_operator(op),
    )


def all_to_all(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """The concatenated parts that the ranks of a group have for this rank."""
    del name
    _exchange(AllToAll, srcs, dsts, replica_group, priority, collective_dim=collective_dim)


def all_to_all_v(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    metadata_tensor: Any,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Chunks of the sizes in `metadata_tensor`, from each rank of a group to every rank."""
    del name
    _exchange(
        AllToAllV,
        srcs,
        dsts,
        replica_group,
        priority,
        metadata_tensor=metadata_tensor,
        recv_counts_known=recv_counts_known,
        has_rdispls=has_rdispls,
    )


def all_gather_v(
    srcs: Tensors,
    dsts: Tensors,
    replica_group: ReplicaGroup,
    metadata_tensor: Any,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """A chunk of the size in `metadata_tensor`, from each rank of a group to all."""
    del name
    _exchange(
        AllGatherV,
        srcs,
        dsts,
        replica_group,
        priority,
        metadata_tensor=metadata_tensor,
        recv_counts_known=recv_counts_known,
        has_rdispls=has_rdispls,
    )


def collective_permute(
    srcs: Tensors,
    dsts: Tensors,
    source_target_pairs: Sequence[Sequence[int]],
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """The source of a pair's first rank in the destination of its second, for each pair.

    A rank that no pair names issues nothing.
    """
    del name
    instruction = _instruction(
        CollectivePermute,
        srcs=_tensors(srcs),
        dsts=_tensors(dsts),
        source_target_pairs=_tuples(source_target_pairs),
        priority=priority,
    )
    context = current_core()
    if context.world(instruction.opcode).is_among(_ranks_of_pairs(instruction.source_target_pairs)):
        context.issue(settle(instruction))
    else:
        instruction.verify(context.core)


def collective_permute_implicit(
    srcs_by_channel: Sequence[Tensors],
    dsts_by_channel: Sequence[Tensors],
    replica_group: ReplicaGroup,
    channel_ids: Sequence[int] = (0,),
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """The source of the previous rank in the ring, for each channel."""
    del name
    call = "collective_permute_implicit"
    _issue(
        CollectivePermuteImplicit,
        srcs_by_channel=_tensor_per_channel(call, "srcs_by_channel", srcs_by_channel),
        dsts_by_channel=_tensor_per_channel(call, "dsts_by_channel", dsts_by_channel),
        replica_group=_groups(call, replica_group),
        channel_ids=_tuples(channel_ids),
        priority=priority,
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
) -> None:
    """``op(src0, src1)`` of the previous rank in the ring, for each channel."""
    del name
    call = "collective_permute_implicit_reduce"
    _issue(
        CollectivePermuteImplicitReduce,
        srcs0_by_channel=_tensor_per_channel(call, "srcs0_by_channel", srcs0_by_channel),
        srcs1_by_channel=_tensor_per_channel(call, "srcs1_by_channel", srcs1_by_channel),
        dsts_by_channel=_tensor_per_channel(call, "dsts_by_channel", dsts_by_channel),
        replica_group=_groups(call, replica_group),
        op=_operator(op),
        channel_ids=_tuples(channel_ids),
        priority=priority,
    )


def collective_permute_implicit_current_processing_rank_id(
    iteration_id: int,
    replica_group: ReplicaGroup,
    channel_id: int = 0,
    name: str | None = None,
) -> VirtualRegister:
    """A register with the rank whose data arrives after so many steps of an implicit permute."""
    del name
    register = VirtualRegister()
    instruction = _instruction(
        CollectivePermuteImplicitCurrentProcessingRankId,
        dst=register,
        iteration_id=int(iteration_id),
        replica_group=_groups(
            "collective_permute_implicit_current_processing_rank_id", replica_group
        ),
        channel_id=channel_id,
    )
    current_core().issue(instruction)
    return register


def rank_id(name: str | None = None) -> VirtualRegister:
    """A register with the number of this rank."""
    del name
    context = current_core()
    context.world("rank_id")
    instruction = RankId(VirtualRegister())
    context.issue(instruction)
    return instruction.dst


def _instruction(kind: Any, **operands: Any) -> Any:
    """The instruction `kind` for the world in which the kernel runs."""
    link = current_core().world(kind.opcode)
    tiles = [
        tile
        for value in operands.values()
        if isinstance(value, tuple)
        for tile in value
        if isinstance(tile, Tile)
    ]
    setting = Setting(link.fabric, link.ranks, is_joint=_is_joint(kind, link.fabric.lnc, tiles))
    return kind(**operands, setting=setting)


def _exchange(
    kind: type[Collective], srcs: Tensors, dsts: Tensors, group: Any, priority: Any, **rest: Any
) -> None:
    """Issue a collective of a group, from `srcs` to `dsts`."""
    _issue(
        kind,
        srcs=_tensors(srcs),
        dsts=_tensors(dsts),
        replica_group=_groups(kind.opcode, group),
        priority=priority,
        **rest,
    )


def _issue(kind: type[Collective], **operands: Any) -> None:
    current_core().issue(settle(_instruction(kind, **operands)))


def _is_joint(kind: Any, cores: int, tiles: Sequence[Tile]) -> bool:
    """True if all cores of a rank take part with the same tensors.

    Raises:
        IllegalInstruction: if only some of the tensors are shared.
    """
    if cores == 1:
        return True
    shared = {tile.storage.is_shared for tile in tiles if not tile.memory.is_on_chip}
    if len(shared) > 1:
        raise IllegalInstruction(
            f"{kind.opcode}: some tensors are in shared and some in private HBM; legal: all in one",
            fix="allocate them all with buffer=nl.shared_hbm",
            source="nki.collectives",
        )
    return shared == {True}


def _tensors(tensors: Any) -> Any:
    return tuple(tensors) if isinstance(tensors, list | tuple) else tensors


def _tuples(items: Any) -> Any:
    """Lists and ranges as tuples, also nested; the instruction refuses other values."""
    is_many = isinstance(items, list | tuple | range)
    return tuple(map(_tuples, items)) if is_many else items


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
            shown = f"{len(channel)} tensors" if is_list else type(channel).__name__
            raise IllegalInstruction(
                f"{call}: `{key}` has {shown} for a channel; legal: a list of one tensor",
                fix="write [[tensor]] for one channel, [[a], [b]] for two",
                source=f"nki.collectives.{call}",
            )
    return tuple(channel[0] for channel in lists)


def _groups(call: str, replica_group: Any) -> tuple[tuple[int, ...], ...]:
    """The groups as tuples.

    Raises:
        IllegalInstruction: for any value but a `ReplicaGroup` of lists of ranks.
    """
    groups = getattr(replica_group, "groups", replica_group)
    is_nested = isinstance(groups, list | tuple) and all(
        isinstance(members, list | tuple | range)
        and all(isinstance(rank, SupportsIndex) for rank in members)
        for members in groups
    )
    if not is_nested:
        raise IllegalInstruction(
            f"{call}: replica_group is {replica_group!r}; legal: ReplicaGroup([[0, 1], [2, 3]])",
            fix="give a list of ranks for each group",
            source="nki.collectives.ReplicaGroup",
        )
    return tuple(tuple(int(rank) for rank in members) for members in groups)


def _operator(op: Any) -> Any:
    return op.name if isinstance(op, Operator) else str(getattr(op, "__name__", op))


def _unmodelled(name: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        del args, kwargs
        raise NotModelled(
            f"nki.collectives.{name} is not emulated yet",
            fix="exchange chunks of equal size with all_gather, all_to_all or reduce_scatter",
            source=f"nki.collectives.{name}",
        )

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


UNMODELLED = (
    "all_gather_v_prepare",
    "all_gather_v_trigger",
    "all_to_all_v_prepare",
    "all_to_all_v_trigger",
    "reduce_scatter_v",
)
"""Published collectives that are refused by name."""

globals().update({name: _unmodelled(name) for name in UNMODELLED})

NAMES = (
    "all_gather",
    "all_gather_v",
    "all_gather_v_prepare",
    "all_gather_v_trigger",
    "all_reduce",
    "all_to_all",
    "all_to_all_v",
    "all_to_all_v_prepare",
    "all_to_all_v_trigger",
    "collective_permute",
    "collective_permute_implicit",
    "collective_permute_implicit_current_processing_rank_id",
    "collective_permute_implicit_reduce",
    "rank_id",
    "reduce_scatter",
    "reduce_scatter_v",
)
"""The published collectives of versions 0.6 and 0.7."""
