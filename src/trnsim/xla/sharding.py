"""A share of parameters: gathered for a forward pass, gradients reduced to the share.

The parameters of a unit are one vector, padded so that every rank has an equal share of it. They
are views of the gathered vector; so PyTorch adds up the gradients of all uses, before they are
reduced over the ranks and scattered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional

from trnsim.xla.collectives import Groups, all_gather, reduce_scatter


@dataclass(frozen=True, slots=True)
class Sharding:
    """The ranks over which units are shared, and the dtypes of their exchanges.

    Attributes:
        rank: the number of this rank among the ranks that share.
        groups: the ranks of each group; None for one group of all ranks.
        compute_dtype: dtype of gathered parameters.
        is_float32_reduced: True if gradients are reduced in float32.
        multiple: divisor of the length of every share, in elements.
    """

    rank: int
    world_size: int
    groups: Groups
    compute_dtype: torch.dtype
    is_float32_reduced: bool
    multiple: int


@dataclass(frozen=True, slots=True)
class SharedParameter:
    """A parameter of a unit: every module and name that has it.

    Attributes:
        name: its name in the wrapper.
        size: its shape.
        places: the modules that have it, each with its name there.
    """

    name: str
    size: torch.Size
    places: tuple[tuple[nn.Module, str], ...]


@dataclass(eq=False)
class SharedUnit:
    """Parameters that are gathered together.

    Attributes:
        members: the parameters, in the order of the vector.
        shard: this rank's share of the vector, or of the rows.
        sharding: the ranks that have the shares.
        by_rows: True if the only member is split by rows; False if the vector of all is split.
        may_reduce: function without arguments; while it returns False, gradients add up locally.
        after_reduction: function without arguments that each reduction calls at its end.
    """

    members: tuple[SharedParameter, ...]
    shard: nn.Parameter
    sharding: Sharding
    by_rows: bool
    may_reduce: Callable[[], bool]
    after_reduction: Callable[[], None]
    _backward_vector: Tensor | None = None
    _local_gradient: Tensor | None = field(default=None, repr=False)

    def gather(self) -> Tensor:
        """All ranks' shares, one after the other, without a graph."""
        own_share = self.shard.detach().to(self.sharding.compute_dtype)
        full_vector: Tensor = all_gather(own_share, groups=self.sharding.groups)
        return full_vector

    def full_vector(self) -> Tensor:
        """The gathered vector, whose gradient comes back to the share."""
        full_vector: Tensor = _Gather.apply(self.shard, self)  # type: ignore[no-untyped-call]
        return full_vector

    def views(self, full_vector: Tensor) -> list[Tensor]:
        """Each member as a view of the gathered vector."""
        if self.by_rows:
            size = self.members[0].size
            return [full_vector[: size[0] if size else 1].view(size)]
        views, start = [], 0
        for member in self.members:
            views.append(full_vector[start : start + member.size.numel()].view(member.size))
            start += member.size.numel()
        return views

    def backward_vector(self) -> Tensor:
        """The gathered vector in the backward pass, once for all uses."""
        if self._backward_vector is None:
            self._backward_vector = self.gather()
        return self._backward_vector

    def reduce(self, gradient: Tensor) -> Tensor | None:
        """This rank's share of the mean gradient; None while gradients add up."""
        self._backward_vector = None
        if self._local_gradient is not None:
            gradient = gradient + self._local_gradient
        if not self.may_reduce():
            self._local_gradient = gradient.detach()
            return None
        self._local_gradient = None
        sharding = self.sharding
        sent_gradient = gradient.float() if sharding.is_float32_reduced else gradient
        share: Tensor = reduce_scatter(
            "sum", sent_gradient, 1.0 / sharding.world_size, 0, sharding.world_size, sharding.groups
        )
        self.after_reduction()
        return share.to(self.shard.dtype)


class _Gather(torch.autograd.Function):
    """Forward gathers a unit, backward reduces and scatters."""

    @staticmethod
    def forward(ctx: Any, shard: Tensor, unit: SharedUnit) -> Tensor:
        """The gathered vector."""
        del shard
        ctx.unit = unit
        return unit.gather()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """The share's gradient."""
        return ctx.unit.reduce(gradients[0]), None


def share_of(parameters: Sequence[Tensor], sharding: Sharding, *, by_rows: bool) -> Tensor:
    """This rank's share of some parameters, in float32."""
    if by_rows:
        padded_vector = padded_rows(parameters[0].detach(), sharding.world_size)
    else:
        vector = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
        padded_vector = padded_rows(vector, sharding.world_size * sharding.multiple)
    return padded_vector.chunk(sharding.world_size)[sharding.rank].clone()


def padded_rows(tensor: Tensor, divisor: int) -> Tensor:
    """A tensor padded so that `divisor` divides its first dimension; a scalar is one row."""
    rows = tensor.reshape(1) if tensor.dim() == 0 else tensor
    missing_rows = -rows.shape[0] % divisor
    return (
        functional.pad(rows, [0, 0] * (rows.dim() - 1) + [0, missing_rows])
        if missing_rows
        else rows
    )


SEPARATOR: Final = "_FSDP_SHARD_SEPARATOR_"
"""The text in place of a dot in the name of a share."""


def shard_name(name: str) -> str:
    """The name under which a wrapper has the share of a parameter."""
    return f"_fsdp_shard.{name}".replace(".", SEPARATOR)
