"""Replica groups: the ranks that take part in a collective."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, SupportsIndex

from trnsim.absence import refuse_attribute
from trnsim.behaviours.collectives import PARTITION_OP
from trnsim.enumerations import Enumeration
from trnsim.errors import BadInput, IllegalInstruction
from trnsim.nki.arguments import documented_class
from trnsim.nki.dialect import require


class rg_partition_op(Enumeration, public="ncc.rg_partition_op"):  # noqa: N801  AWS's name
    """The operation by which `ReplicaGroup.from_partition_op` divides ranks."""

    bitwise_and = "bitwise_and"
    div = "div"
    mod = "mod"


_PARTITION_FUNCTIONS: dict[rg_partition_op, Callable[[int, int], int]] = {
    rg_partition_op.bitwise_and: lambda rank, operand: rank & operand,
    rg_partition_op.div: lambda rank, operand: rank // operand,
    rg_partition_op.mod: lambda rank, operand: rank % operand,
}


@documented_class("ncc.ReplicaGroup")
@dataclass(frozen=True)
class ReplicaGroup:
    """The groups of ranks that take part in a collective."""

    groups: Sequence[Sequence[int]]

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse a name that groups lack."""
        refuse_attribute(lambda: "ncc.ReplicaGroup", name, ["groups", "from_partition_op"])

    def __repr__(self) -> str:
        return f"ReplicaGroup({self.groups!r})"

    @classmethod
    def from_partition_op(cls, world_size: int, op: Any, operand: int) -> ReplicaGroup:
        """The groups of the ranks 0 to `world_size - 1` for which ``op(rank, operand)`` is equal.

        `rg_partition_op.div` of 8 ranks by 4 gives [0 to 3] and [4 to 7], `mod` [0, 4], [1, 5] and
        so on, `bitwise_and` with 0 a single group.

        Source: nki.collectives.ReplicaGroup.

        Raises:
            BadInput: for another operation, or an operation that `operand` does not allow.
            IllegalInstruction: in versions of NKI before 0.7.
        """
        require(PARTITION_OP, "ReplicaGroup.from_partition_op")
        if not isinstance(op, rg_partition_op):
            legal = ", ".join(f"rg_partition_op.{operation.name}" for operation in rg_partition_op)
            raise BadInput(f"from_partition_op({op!r}); legal: {legal}", fix="name the operation")
        min_operand = 0 if op is rg_partition_op.bitwise_and else 1
        if not (_is_at_least(world_size, 1) and _is_at_least(operand, min_operand)):
            raise BadInput(
                f"from_partition_op(world_size={world_size!r}, {op.name}, operand={operand!r}); "
                f"legal: one rank or more, and an operand of {min_operand} or more",
                fix="give the number of ranks, and by what they are divided",
                source="nki.collectives.ReplicaGroup",
            )
        groups: dict[int, list[int]] = {}
        for rank in range(world_size):
            groups.setdefault(_PARTITION_FUNCTIONS[op](rank, operand), []).append(rank)
        return cls([groups[key] for key in sorted(groups)])


def _is_at_least(value: Any, minimum: int) -> bool:
    return isinstance(value, SupportsIndex) and int(value) >= minimum


def groups_of(call: str, replica_group: Any) -> tuple[tuple[int, ...], ...]:
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
