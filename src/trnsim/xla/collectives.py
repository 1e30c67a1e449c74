"""Collectives of `xla_model` over the process group of the device: with groups, scales and dims.

Each runs at once, and is recorded with its bytes and ranks as every collective of the device
(`trnsim.torch.distributed.process_group`). A world of one rank exchanges nothing.

Source: torch_xla 2.9.0, core/xla_model.py.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor

from trnsim.device.program_line import program_line
from trnsim.torch.device_name import is_neuron
from trnsim.torch.traces import exchanges
from trnsim.torch.traces.exchanges import exchange_tracing
from trnsim.user_warnings import warn
from trnsim.xla import process_groups, ranks
from trnsim.xla.arenas import copy_to_host
from trnsim.xla.collective_arguments import (
    CollectiveMisused,
    require_all_ranks,
    require_dim,
    require_function,
    require_scale,
    require_tensor,
)
from trnsim.xla.cuts.cutting import cuts
from trnsim.xla.cuts.foreign_calls import PERMUTATION, no_recording

Groups = Sequence[Sequence[int]] | None
"""The ranks of each group; None for one group of all ranks."""

_OPERATIONS: Final[dict[str, Any]] = {
    "sum": dist.ReduceOp.SUM,
    "mul": dist.ReduceOp.PRODUCT,
    "and": dist.ReduceOp.BAND,
    "or": dist.ReduceOp.BOR,
    "min": dist.ReduceOp.MIN,
    "max": dist.ReduceOp.MAX,
}
_TRACED_NAMES: Final = {
    **{name: name for name in ("sum", "min", "max")},
    "mul": "product",
    "and": "band",
    "or": "bor",
}
"""Names of reductions in a traced program."""


class CollectiveAlone(UserWarning):
    """Warning of groups in a world of one rank, which has no other."""


_subgroups: Final[dict[tuple[tuple[int, ...], ...], list[Any]]] = {}
"""The default group and this rank's subgroup of it, by the ranks of all groups."""


def subgroup(groups: Groups) -> Any:
    """The process group of this rank among `groups`, made by its ranks at their first use.

    Raises:
        CollectiveMisused: for groups that overlap, leave out this rank, or name others.
    """
    default_group, all_groups = ranks.group(), _all_groups(groups)
    if len(all_groups) == 1:
        return default_group
    group_pair = _subgroups.setdefault(tuple(map(tuple, all_groups)), [])
    if (
        not group_pair or group_pair[0] is not default_group
    ):  # a subgroup ends with the default group
        members = _own_group(all_groups)
        group_pair[:] = [default_group, dist.new_group(members, use_local_synchronization=True)]
        process_groups.keep_mesh(group_pair[1].group_name, all_groups)
    return group_pair[1]


def _own_group(all_groups: list[list[int]]) -> list[int]:
    """The ranks of the group that this rank is in."""
    own_rank = ranks.ordinal()
    return next(group for group in all_groups if own_rank in group)


def _all_groups(groups: Groups) -> list[list[int]]:
    """The ranks of each group; one group of all ranks where a program gives no groups.

    Raises:
        CollectiveMisused: for groups that overlap, leave out a rank, or name others.
    """
    all_groups, world = rank_lists(groups), _world(groups)
    members = [rank for group in all_groups for rank in group]
    if members and sorted(members) != list(range(world)):
        raise CollectiveMisused(
            f"groups {all_groups} of {world} ranks; legal: each rank in one",
            fix=f"give each of ranks 0 to {world - 1} a group",
            line=program_line(),
        )
    return all_groups or [list(range(world))]


def rank_lists(groups: Any) -> list[list[int]]:
    """The ranks of each group; a group without ranks is left out.

    Raises:
        CollectiveMisused: for a value that is not a list of groups of ranks.
    """
    all_groups = () if groups is None else groups
    if not isinstance(all_groups, Sequence) or not all(
        isinstance(group, Sequence) and all(isinstance(rank, int) for rank in group)
        for group in all_groups
    ):
        raise CollectiveMisused(
            f"groups {groups!r}; legal: None, or a list of lists of ranks",
            fix="groups=[[0, 1], [2, 3]]",
            line=program_line(),
        )
    return [list(group) for group in all_groups if group]


def _is_alone(groups: Groups = None) -> bool:
    """True for a world of one rank; a warning for groups that name further ranks."""
    members = rank_lists(groups)
    if _world(groups) > 1:
        return False
    if members not in ([], [[0]]):
        warn(
            f"groups {groups!r} of a world of one rank: nothing is exchanged\n  fix: torchrun "
            "--nproc_per_node, or leave the groups out",
            CollectiveAlone,
        )
    return True


def group_size(groups: Groups) -> int:
    """The number of ranks of each group.

    Raises:
        CollectiveMisused: for groups of different sizes, and a value that is no list of groups.
    """
    members = rank_lists(groups)
    if len({*map(len, members)}) > 1:
        raise CollectiveMisused(
            f"groups {members} of different sizes; legal: groups of one size, as each rank gets "
            "as many parts",
            fix="give each group as many ranks; xm.all_reduce takes groups of different sizes",
            line=program_line(),
        )
    return len(members[0]) if members else _world(groups)


def _world(groups: Groups) -> int:
    """The number of ranks; in a traced program of one process the number that its groups name.

    neuronx-distributed replaces `torch.distributed` by its own stand-in while it traces.
    """
    world = ranks.world_size()
    if not exchange_tracing.is_on:
        return world
    torch_distributed: Any = torch.distributed  # as it is now, in place of `dist`
    if torch_distributed.is_initialized():
        world = max(world, int(torch_distributed.get_world_size()))
    return world if world > 1 else sum(map(len, rank_lists(groups))) or world


def _operation(reduce_type: object) -> Any:
    operation = _OPERATIONS.get(reduce_type) if isinstance(reduce_type, str) else None
    if operation is None:
        raise CollectiveMisused(
            f"a reduction {reduce_type!r}; legal: {', '.join(_OPERATIONS)}",
            fix="take xm.REDUCE_SUM or one of its neighbours",
            line=program_line(),
        )
    return operation


def all_reduce(
    reduce_type: str,
    inputs: Any,
    scale: float = 1.0,
    groups: Groups = None,
    pin_layout: bool = True,
) -> Any:
    """The reduction over the ranks, times `scale`: a new tensor, or the list, changed in place."""
    del pin_layout
    _operation(reduce_type)  # refuses an unknown reduction
    require_scale("all_reduce", scale)
    if not isinstance(inputs, Iterable) or isinstance(inputs, Tensor):
        require_tensor("all_reduce", inputs)
        result = inputs.detach().clone()
        return result if _is_alone(groups) else _reduce(result, reduce_type, scale, groups)
    for tensor in inputs if isinstance(inputs, Sequence) else ():
        require_tensor("all_reduce", tensor)
    if not _is_alone(groups):
        for tensor in inputs:
            _reduce(tensor.detach(), reduce_type, scale, groups)
    return inputs


def _reduce(tensor: Tensor, reduce_type: str, scale: float, groups: Groups) -> Tensor:
    """The tensor, which holds the reduction over its group times `scale` afterwards."""
    if exchange_tracing.is_on:
        result = exchanges.all_reduce(tensor, _TRACED_NAMES[reduce_type], _all_groups(groups))
        return tensor.copy_(result if scale == 1 else result * scale)
    dense_tensor = tensor if tensor.is_contiguous() else tensor.contiguous()
    dist.all_reduce(dense_tensor, _operation(reduce_type), subgroup(groups))
    if dense_tensor is not tensor:
        tensor.copy_(dense_tensor)
    return tensor if scale == 1 else tensor.mul_(scale)


def all_gather(
    value: Any,
    dim: int = 0,
    groups: Groups = None,
    output: Any = None,
    pin_layout: bool = True,
    channel_id: object = None,
    use_global_device_ids: object = None,
) -> Any:
    """The values of the group's ranks, concatenated along `dim`.

    Raises:
        CollectiveMisused: for a list with `pin_layout`, which torch_xla does not have; for outputs
            of another number or shape, and a dimension that the tensor does not have.
    """
    del channel_id, use_global_device_ids
    if isinstance(value, list):
        if pin_layout:
            raise CollectiveMisused(
                "xm.all_gather of a list with pin_layout=True; legal for a list: False",
                fix="xm.all_gather(tensors, pin_layout=False)",
                line=program_line(),
            )
        pairs = zip(value, _outputs("all_gather", value, output), strict=True)
        return [all_gather(part, dim, groups, target, pin_layout) for part, target in pairs]
    require_dim("all_gather", value, dim)
    if _is_alone(groups):
        return _store_result("all_gather", output, value.detach().clone())
    dense_tensor = value.detach().movedim(dim, 0).contiguous()
    if exchange_tracing.is_on:
        gathered_tensor = exchanges.all_gather(dense_tensor, _all_groups(groups))
    else:
        gathered_tensor = dense_tensor.new_empty(
            (dense_tensor.shape[0] * group_size(groups), *dense_tensor.shape[1:])
        )
        dist.all_gather_single(gathered_tensor, dense_tensor, subgroup(groups))
    return _store_result("all_gather", output, gathered_tensor.movedim(0, dim).contiguous())


def _outputs(kind: str, values: list[Any], output: Any) -> list[Any]:
    """The output for each of a list of values; None for each where a program gives none.

    Raises:
        CollectiveMisused: for outputs of another number.
    """
    if output is None:
        return [None] * len(values)
    if not isinstance(output, list) or len(output) != len(values):
        outputs = f"{len(output)} outputs" if isinstance(output, list) else "one output"
        raise CollectiveMisused(
            f"xm.{kind} of a list of {len(values)} with {outputs}; legal: a list of as many "
            f"tensors, {len(values)}",
            fix="give an output for each tensor, or leave them out",
            line=program_line(),
        )
    return output


def _store_result(kind: str, output: Any, result: Tensor) -> Tensor:
    """`result`; `output` with its values if the program gives an output.

    Raises:
        CollectiveMisused: for an `output` that is no tensor, or has another shape.
    """
    if output is None:
        return result
    shape = list(output.shape) if isinstance(output, Tensor) else None
    if shape != list(result.shape):
        actual = f"type {type(output).__name__}" if shape is None else f"shape {shape}"
        raise CollectiveMisused(
            f"xm.{kind} with an output of {actual}; legal: {list(result.shape)}",
            fix="give a tensor of the result's shape, or leave it out",
            line=program_line(),
        )
    filled_output: Tensor = output.copy_(result)
    return filled_output


def reduce_scatter(
    reduce_type: str,
    input: Any,  # noqa: A002  torch_xla's name
    scale: float,
    scatter_dim: int,
    shard_count: int,
    groups: Groups = None,
    output: Any = None,
    pin_layout: bool = True,
    channel_id: object = None,
    use_global_device_ids: object = None,
) -> Any:
    """This rank's shard along `scatter_dim` of the reduction over the group, times `scale`.

    Raises:
        CollectiveMisused: for another `shard_count` than the group has ranks, or a dimension that
            is not divisible by it.
    """
    options = (scale, scatter_dim, shard_count, groups)
    if isinstance(input, list):
        pairs = zip(input, _outputs("reduce_scatter", input, output), strict=True)
        return [reduce_scatter(reduce_type, part, *options, target) for part, target in pairs]
    del pin_layout, channel_id, use_global_device_ids
    operation = _operation(reduce_type)
    require_scale("reduce_scatter", scale)
    _check_shards("reduce_scatter", input, scatter_dim, shard_count, groups)
    dense_tensor = input.detach().movedim(scatter_dim, 0).contiguous()
    if _is_alone(groups):
        shard = dense_tensor.clone()
    elif exchange_tracing.is_on:
        shard = exchanges.reduce_scatter(
            dense_tensor, _TRACED_NAMES[reduce_type], _all_groups(groups)
        )
    else:
        shard = dense_tensor.new_empty(
            (dense_tensor.shape[0] // shard_count, *dense_tensor.shape[1:])
        )
        dist.reduce_scatter_single(shard, dense_tensor, operation, subgroup(groups))
    if scale != 1:
        shard = shard * scale
    return _store_result("reduce_scatter", output, shard.movedim(0, scatter_dim).contiguous())


def _check_shards(kind: str, value: Tensor, dim: int, count: int, groups: Groups) -> None:
    require_dim(kind, value, dim)
    if count != group_size(groups) or value.shape[dim] % count:
        raise CollectiveMisused(
            f"xm.{kind} of {list(value.shape)} along dimension {dim} into {count!r} parts, in a "
            f"group of {group_size(groups)} ranks; legal: as many parts as ranks, which divide it",
            fix="give the number of the group's ranks, and pad the tensor",
            line=program_line(),
        )


def all_to_all(
    value: Tensor,
    split_dimension: int,
    concat_dimension: int,
    split_count: int,
    groups: Groups = None,
    pin_layout: bool = True,
) -> Tensor:
    """This rank's part of each rank's `value`, joined along `concat_dimension`.

    Raises:
        CollectiveMisused: as `reduce_scatter`, and for a `concat_dimension` out of range.
    """
    del pin_layout
    _check_shards("all_to_all", value, split_dimension, split_count, groups)
    require_dim("all_to_all", value, concat_dimension)
    if _is_alone(groups):
        return value.detach().clone()
    parts = torch.stack(value.detach().chunk(split_count, split_dimension))
    if exchange_tracing.is_on:
        received_parts = exchanges.all_to_all(parts, _all_groups(groups))
    else:
        received_parts = torch.empty_like(parts)
        dist.all_to_all_single(received_parts, parts, group=subgroup(groups))
    return torch.cat(received_parts.unbind(0), concat_dimension)


def collective_permute(value: Tensor, pairs: Sequence[Sequence[int]]) -> Tensor:
    """The value of the rank that sends to this rank; zeros if no rank does.

    Raises:
        CollectiveMisused: for pairs of other ranks, or in which a rank sends or receives twice.
    """
    require_tensor("collective_permute", value)
    _require_pairs(pairs)
    own_rank, dense_tensor = ranks.ordinal(), value.detach().contiguous()
    result = torch.zeros_like(dense_tensor)
    waits: list[Any] = []
    with no_recording():
        for source, target in pairs:
            if source == target == own_rank:
                result.copy_(dense_tensor)
            elif source == own_rank:
                waits.append(dist.isend(dense_tensor, target, ranks.group()))
            elif target == own_rank:
                waits.append(dist.irecv(result, source, ranks.group()))
    for work in waits:
        work.wait()
    if is_neuron(result.device):
        constants = tuple(tuple(pair) for pair in pairs)
        cuts.record(PERMUTATION, [dense_tensor], [result], constants)
    return result


def _require_pairs(pairs: Any) -> None:
    world = ranks.world_size()
    pair_list = pairs if isinstance(pairs, list | tuple) else [pairs]
    illegal = [pair for pair in pair_list if not _is_pair(pair)]
    if not illegal:
        senders, receivers = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        if len({*senders}) < len(senders) or len({*receivers}) < len(receivers):
            raise CollectiveMisused(
                f"xm.collective_permute of pairs {[list(pair) for pair in pairs]}, where a rank "
                "sends or receives twice",
                fix="each rank once as a sender and once as a receiver",
                line=program_line(),
            )
        illegal = [pair for pair in pair_list if not {*pair} <= {*range(world)}]
    if illegal:
        raise CollectiveMisused(
            f"xm.collective_permute with {illegal[0]!r} among its pairs; legal: a source and a "
            f"target, from 0 to {world - 1} in this world of {world}",
            fix="[[0, 1], [1, 0]] exchanges the values of two ranks"
            if world > 1
            else "torchrun --nproc_per_node=2 starts two ranks",
            line=program_line(),
        )


def _is_pair(pair: Any) -> bool:
    return (
        isinstance(pair, list | tuple)
        and len(pair) == 2  # noqa: PLR2004  a source and a target
        and all(isinstance(rank, int) for rank in pair)
    )


def collective_broadcast(
    tensors: Sequence[Tensor], root_ordinal: int = 0, groups: Groups = None, pin_layout: bool = True
) -> None:
    """Copy the values of rank `root_ordinal` to the tensors of all ranks of its group.

    Raises:
        CollectiveMisused: for a root outside this rank's group, or a value that is not a tensor.
    """
    del pin_layout
    is_list = (
        isinstance(tensors, Iterable)  # pyright: ignore[reportUnnecessaryIsInstance]  of a user
        and not isinstance(tensors, Tensor)
    )
    received_tensors: list[Any] = list(tensors) if is_list else [tensors]
    for tensor in received_tensors:
        require_tensor("collective_broadcast", tensor)
    is_alone = _is_alone(groups)
    own_group = [0] if is_alone else _own_group(_all_groups(groups))
    if root_ordinal not in own_group:
        raise CollectiveMisused(
            f"xm.collective_broadcast from rank {root_ordinal!r}; legal: a rank of this rank's "
            f"group, {own_group}",
            fix=f"root_ordinal={own_group[0]}",
            line=program_line(),
        )
    if not is_alone:
        for tensor in received_tensors:
            dist.broadcast(tensor.detach(), root_ordinal, subgroup(groups))


def gather_objects(value: object) -> list[Any]:
    """The objects of all ranks, in the order of the ranks."""
    if _is_alone():
        return [pickle.loads(pickle.dumps(value))]  # noqa: S301  it was pickled here
    objects: list[Any] = [None] * ranks.world_size()
    dist.all_gather_object(objects, value, ranks.group())
    return objects


def rendezvous(
    tag: str, payload: bytes = b"", replicas: Sequence[int] | None = None
) -> list[bytes]:
    """The payloads of all ranks in their order, once all have called.

    Raises:
        TypeError: for a payload that is not bytes.
        CollectiveMisused: for `replicas` that are not all ranks; torch_xla refuses them too.
    """
    kind: type = type(payload)
    if not issubclass(kind, bytes):
        raise TypeError(f"`payload` of xm.rendezvous({tag!r}) must be bytes, not {kind}")
    if replicas:
        require_all_ranks(tag, replicas, ranks.world_size())
    return gather_objects(payload)


def mesh_reduce(tag: str, data: Any, reduce_fn: Callable[[list[Any]], Any]) -> Any:
    """`reduce_fn` of the list of all ranks' data, on the host, in the order of the ranks.

    Raises:
        CollectiveMisused: for a `reduce_fn` that is not a function.
    """
    require_function(tag, reduce_fn)
    return reduce_fn(gather_objects(copy_to_host(data)))
