"""Exchanges of values between cores, each with an operand of its own.

The reference takes the operands of all members of a group, in the group's order, as one array with
the members as first dimension, and returns their results likewise.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trnsim.graph.operation import Example, Kind, Operation
from trnsim.graph.ops.layout import are_dims
from trnsim.graph.ops.reductions import BODIES
from trnsim.graph.types import Array, TensorType


class Collective(Operation, kind=Kind.COLLECTIVE, abstract=True):
    """An exchange within groups of cores.

    Attributes:
        replica_groups: the members of each group; all groups are of one size.
    """

    operands = ("operand",)
    replica_groups: tuple[tuple[int, ...], ...] = ()

    @property
    def size(self) -> int:
        """The number of members of a group."""
        return len(self.replica_groups[0])

    def check(self, tensors: tuple[TensorType, ...]) -> None:
        """Check that no core is in two groups, and that all groups are of one size."""
        super().check(tensors)
        members = [member for group in self.replica_groups for member in group]
        sizes = {len(group) for group in self.replica_groups}
        if len(set(members)) != len(members) or len(sizes) != 1 or 0 in sizes:
            self.refuse(f"in groups {self.replica_groups}; legal: groups of one size, apart")

    def share_length(self, tensor: TensorType, dim: int) -> int:
        """The length of a member's share of a dimension."""
        if not are_dims([dim], len(tensor.shape)) or tensor.shape[dim] % self.size:
            self.refuse(f"of {tensor} along {dim} in groups of {self.size}; legal: whole shares")
        return tensor.shape[dim] // self.size


_EXAMPLE_GROUPS: Final = ((0, 1, 2, 3),)
_EXAMPLE_OPERANDS: Final = (TensorType((8, 6), "float32"),)


class AllReduce(Collective):
    """The sum, product, maximum or minimum of all members' operands, given to each member."""

    op: str = "add"

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """The operand's type."""
        _check_body(self, self.op)
        return (tensors[0],)

    def reference(self, operand: Array) -> Array:
        """The same result for all members."""
        total = BODIES[self.op].reduce(operand, 0)
        return np.broadcast_to(total, operand.shape)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """An example of each body."""
        return tuple(
            Example(cls(_EXAMPLE_GROUPS, op), _EXAMPLE_OPERANDS, ("small",)) for op in BODIES
        )


class AllGather(Collective):
    """All members' operands, concatenated along `dim`, given to each member."""

    dim: int = 0

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """The operand's type with `dim` times as long as there are members."""
        if not are_dims([self.dim], len(tensors[0].shape)):
            self.refuse(f"of {tensors[0]} along {self.dim}; legal: one of its dimensions")
        shape = tuple(
            n * (self.size if d == self.dim else 1) for d, n in enumerate(tensors[0].shape)
        )
        return (TensorType(shape, tensors[0].dtype),)

    def reference(self, operand: Array) -> Array:
        """The same result for all members."""
        gathered = np.concatenate(list(operand), self.dim)
        return np.broadcast_to(gathered, (len(operand), *gathered.shape))

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Along each dimension."""
        return tuple(
            Example(cls(_EXAMPLE_GROUPS, dim), _EXAMPLE_OPERANDS, ("small",)) for dim in (0, 1)
        )


class ReduceScatter(Collective):
    """The result of `AllReduce`, divided along `dim` into one share for each member."""

    op: str = "add"
    dim: int = 0

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """The type of a share."""
        _check_body(self, self.op)
        share = self.share_length(tensors[0], self.dim)
        shape = tuple(share if d == self.dim else n for d, n in enumerate(tensors[0].shape))
        return (TensorType(shape, tensors[0].dtype),)

    def reference(self, operand: Array) -> Array:
        """A share for each member."""
        return np.stack(np.split(BODIES[self.op].reduce(operand, 0), len(operand), self.dim))

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Along the first dimension."""
        return (Example(cls(_EXAMPLE_GROUPS), _EXAMPLE_OPERANDS, ("small",)),)


class AllToAll(Collective):
    """Each member's part i along `split_dim` goes to member i, which concatenates what it receives.

    The parts are concatenated along `concat_dim`, in the group's order.
    """

    split_dim: int = 0
    concat_dim: int = 0

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """The operand's type with `split_dim` shorter and `concat_dim` longer."""
        if not are_dims([self.concat_dim], len(tensors[0].shape)):
            self.refuse(f"of {tensors[0]} along {self.concat_dim}; legal: one of its dimensions")
        shape = list(tensors[0].shape)
        shape[self.split_dim] = self.share_length(tensors[0], self.split_dim)
        shape[self.concat_dim] *= self.size
        return (TensorType(tuple(shape), tensors[0].dtype),)

    def reference(self, operand: Array) -> Array:
        """Member i's part j to member j."""
        parts = [np.split(tensor, len(operand), self.split_dim) for tensor in operand]
        return np.stack(
            [np.concatenate(blocks, self.concat_dim) for blocks in zip(*parts, strict=True)]
        )

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """The same dimension, and another."""
        return tuple(
            Example(cls(_EXAMPLE_GROUPS, 0, dim), _EXAMPLE_OPERANDS, ("small",)) for dim in (0, 1)
        )


def _check_body(operation: Operation, op: str) -> None:
    if op not in BODIES:
        operation.refuse(f"by {op}; legal: {', '.join(BODIES)}")


class CollectivePermute(Operation, kind=Kind.COLLECTIVE):
    """The operand of the core that sends to this one; zeros if none does.

    Attributes:
        source_target_pairs: senders and receivers; each core sends and receives at most once.
    """

    operands = ("operand",)
    source_target_pairs: tuple[tuple[int, int], ...] = ()

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """The operand's type."""
        for side in zip(*self.source_target_pairs, strict=True):
            if len(set(side)) < len(side):
                self.refuse(f"by {self.source_target_pairs}; legal: each core once on either side")
        return (tensors[0],)

    def reference(self, operand: Array) -> Array:
        """Each target's array is that of its source."""
        results = np.zeros_like(operand)
        for source, target in self.source_target_pairs:
            results[target] = operand[source]
        return results

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """An open chain."""
        return (Example(cls(((0, 1), (1, 2), (2, 3))), _EXAMPLE_OPERANDS, ("small",)),)
