"""Collectives that reduce: all_reduce and reduce_scatter.

Values are added in float32, in the order of the fabric's algorithm (`fabric.reduction`), and are
rounded to the dtype as often as that algorithm writes them to memory. Integers are added in float32
too: the collective engine "has no native integer reduction datapath". Their sums are exact up to
2**24.

Source: compiler/error-codes/EVRF061.rst, Why this happens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.dtypes import Array, Dtype, round_to, to_float32
from trnsim.fabric.exchange import groups_like
from trnsim.fabric.reduction import Order, reduction_order
from trnsim.isa.collectives.collective import Collective, MemberArrays
from trnsim.isa.collectives.dimensions import check_dimension, check_elements
from trnsim.isa.language.declaration import reads_many, writes_many
from trnsim.isa.language.instruction import HBM, SBUF, Dims, Instruction
from trnsim.isa.language.modes import Engine
from trnsim.isa.language.operator_tables import ALU
from trnsim.memory import Tile

_OPERATORS = ("add", "minimum", "maximum")


class Reduction(Collective, engines=()):
    """Common base of all_reduce and reduce_scatter."""

    def reduce_source(self, group: tuple[int, ...], offers: MemberArrays, tensor: int) -> Array:
        """The reduction of source number `tensor` of all members, as stored."""
        dtype = self.sources()[tensor].dtype
        fabric = self.setting.fabric
        similar_groups = groups_like(fabric, self.groups(), group)
        order = reduction_order(fabric, self.kind, self.nbytes(), similar_groups, group)
        arrays = {rank: sources[tensor] for rank, sources in zip(group, offers, strict=True)}
        values = {rank: to_float32(array) for rank, array in arrays.items()}
        return round_to(reduce_in_order(order, values, ALU[self._operator()].apply, dtype), dtype)

    def parts_of_totals(self, totals: Sequence[Array], count: int) -> MemberArrays:
        """By member, for each of `totals` (the reduction of a source), what the member receives.

        Args:
            totals: the reduction of each source.
            count: number of members.
        """
        raise NotImplementedError

    def received_arrays(self, group: tuple[int, ...], offers: MemberArrays) -> MemberArrays:
        """The reductions of all tensors, divided among the members by `parts_of_totals`."""
        totals = [
            self.reduce_source(group, offers, tensor) for tensor in range(len(self.sources()))
        ]
        return self.parts_of_totals(totals, len(group))

    def received_flags(self, group: tuple[int, ...], flags: MemberArrays) -> MemberArrays:
        """The elements that are written in the sources of all members."""
        totals = [np.logical_and.reduce(member_flags) for member_flags in zip(*flags, strict=True)]
        return self.parts_of_totals(totals, len(group))

    def details(self) -> str:
        """The operator, on which all members must agree."""
        return f"op={self._operator()}"

    def _operator(self) -> str:
        return str(getattr(self, "op", ""))


class AllReduce(
    Reduction,
    engines=(Engine.collective,),
    source="nki.collectives.all_reduce",
    is_in_nki_isa=False,
):
    """``dst = reduce(op, src of each rank of the group)`` on every rank of the group."""

    kind = "all_reduce"
    srcs: tuple[Tile, ...] = reads_many(HBM, SBUF)
    dsts: tuple[Tile, ...] = writes_many(HBM, SBUF)
    replica_group: tuple[tuple[int, ...], ...]
    op: str

    def check(self, core: NeuronCore, n: Dims) -> None:
        """`op` is add, minimum or maximum; src and dst have equal numbers of elements."""
        super().check(core, n)
        check_operator(self, self.op, self.srcs)
        check_elements(self, 1, 1)

    def parts_of_totals(self, totals: Sequence[Array], count: int) -> MemberArrays:
        """All reductions, the same for every member."""
        return [totals] * count


class ReduceScatter(
    Reduction,
    engines=(Engine.collective,),
    source="nki.collectives.reduce_scatter",
    is_in_nki_isa=False,
):
    """``dst = part r of reduce(op, src of each rank of the group)`` on the group's r-th rank."""

    kind = "reduce_scatter"
    srcs: tuple[Tile, ...] = reads_many(HBM, SBUF)
    dsts: tuple[Tile, ...] = writes_many(HBM, SBUF)
    replica_group: tuple[tuple[int, ...], ...]
    collective_dim: int
    op: str

    def check(self, core: NeuronCore, n: Dims) -> None:
        """`op` is add, minimum or maximum; `collective_dim` is 0.

        - src has N times the elements of dst, for a group of N ranks.
        """
        super().check(core, n)
        check_operator(self, self.op, self.srcs)
        check_dimension(self, self.collective_dim, (0,))
        for group in self.replica_group:
            check_elements(self, 1, len(group))

    def parts_of_totals(self, totals: Sequence[Array], count: int) -> MemberArrays:
        """Part r of each reduction for member r."""
        parts = [np.split(total.reshape(-1), count) for total in totals]
        return [[parts_of_total[member] for parts_of_total in parts] for member in range(count)]


def reduce_in_order(order: Order, values: Mapping[int, Array], apply: Any, dtype: Dtype) -> Array:
    """The values of ranks reduced in an order; each intermediate result is rounded to the dtype.

    Args:
        order: a rank, or a tuple of orders whose results are reduced from left to right.
        values: rank -> its float32 values.
        apply: the binary operator.
        dtype: dtype of intermediate results.
    """
    if isinstance(order, int):
        return values[order]
    parts = [reduce_in_order(part, values, apply, dtype) for part in order]
    return to_float32(round_to(reduce(apply, parts), dtype))


def check_operator(instruction: Instruction, op: str, sources: Sequence[Tile]) -> None:
    """Refuse operators besides add, minimum and maximum, and packed dtypes."""
    if op not in _OPERATORS:
        instruction.refuse(
            f"op is {op}; legal: nl.add, nl.minimum or nl.maximum",
            "reduce by one of them, or gather the values and compute on each rank",
        )
    packed_tile = next((tile for tile in sources if tile.dtype.is_packed), None)
    if packed_tile is not None:
        instruction.refuse(
            f"a source is {packed_tile}, whose elements have no values of their own; "
            "legal: numbers",
            "dequantize it first",
        )
