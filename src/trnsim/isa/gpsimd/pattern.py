"""Affine patterns on the GpSimd Engine: iota, affine_select.

A pattern is up to four pairs [step, num], the last of which varies fastest; missing leading pairs
have length 1. Its arithmetic is int32, which wraps around.
"""

from __future__ import annotations

import operator
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trnsim.arch import NeuronCore
from trnsim.dtypes import Array, round_to
from trnsim.errors import NotModelled
from trnsim.isa.control.register import VirtualRegister, integer_of
from trnsim.isa.control.scalar import Scalar
from trnsim.isa.language.declaration import reads, reads_register, writes
from trnsim.isa.language.instruction import SBUF, Cost, Dims, Instruction
from trnsim.isa.language.lanes import lane_cost
from trnsim.isa.language.machine import Machine
from trnsim.isa.language.modes import Engine
from trnsim.memory import Tile

Pattern = tuple[tuple[int, int], ...]
Integer = int | VirtualRegister

_MAX_DIMENSIONS: Final = 4
_INT32: Final = np.iinfo(np.int32)
_COMPARISONS: Final = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater_equal": np.greater_equal,
    "greater": np.greater,
    "less_equal": np.less_equal,
    "less": np.less,
}


def int32(value: Integer) -> np.int32:
    """A number, or the current value of a register, as int32."""
    return np.int64(integer_of(value)).astype(np.int32)


def check_int32(instruction: Instruction, *fields: str) -> None:
    """Refuse a field that is neither a register nor a whole number in the range of int32."""
    for field in fields:
        value: object = getattr(instruction, field)
        if isinstance(value, int) and _INT32.min <= value <= _INT32.max:
            continue
        if isinstance(value, Scalar):
            raise NotModelled(
                f"{instruction.opcode}: `{field}` is a scalar; emulated: numbers and registers, as "
                f"nothing public says that `{field}` may be a scalar",
                fix="put it into a register: nisa.scalar_store(tile, scalar), then "
                "nisa.register_load(register, tile)",
                source="nki.isa.NkiScalar",
            )
        if not isinstance(value, VirtualRegister):
            instruction.refuse(
                f"`{field}` is {value!r}; legal: a whole number of {_INT32.min} to {_INT32.max}, "
                "or a register",
                "pass an int32",
            )


def _as_pattern(pattern: Any) -> Any:
    """The pattern as tuples of plain integers; unchanged if it is not a pattern."""
    try:
        return tuple((operator.index(step), operator.index(num)) for step, num in pattern)
    except (TypeError, ValueError):
        return pattern


def _is_pattern(pattern: object) -> bool:
    """True for one to four pairs of an int32 step and a positive length."""
    if not isinstance(pattern, tuple) or not 1 <= len(pattern) <= _MAX_DIMENSIONS:
        return False
    return all(
        isinstance(pair, tuple)
        and [type(x) for x in pair] == [int, int]
        and _INT32.min <= pair[0] <= _INT32.max
        and pair[1] >= 1
        for pair in pattern
    )


class PatternInstruction(Instruction, engines=()):
    """Common base of iota and affine_select: a pattern over `dst`, and the price."""

    dst: Tile = writes("P F", SBUF)
    pattern: Pattern

    def __post_init__(self) -> None:
        self.pattern = _as_pattern(self.pattern)

    def check(self, core: NeuronCore, n: Dims) -> None:
        """A pattern of one to four pairs [step, num], with the elements of a partition of dst.

        - Steps are whole numbers of 32 bits.
        - `offset` and `channel_multiplier` are whole numbers of 32 bits, or registers.
        """
        del core
        pattern = self.pattern
        if not _is_pattern(pattern):
            self.refuse(
                f"pattern {pattern}; legal: 1 to {_MAX_DIMENSIONS} pairs [step, num] of whole "
                "numbers, step of 32 bits, num >= 1",
                "describe the free axis as [[step, num], ...], the fastest dimension last",
            )
        elements = prod(num for _, num in pattern)
        if elements != n.F:
            self.refuse(
                f"pattern {pattern} has {elements} elements; legal: {n.F}, as many as a partition "
                f"of dst, which is {self.dst}",
                "make the product of the pattern's lengths the free size of dst",
            )
        check_int32(self, "offset", "channel_multiplier")

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """150 + F GpSimd Engine cycles."""
        return lane_cost(core, Engine.gpsimd, core.gpsimd_overhead_cycles + n.F)

    def values(self, offset: Integer, channel_multiplier: Integer) -> npt.NDArray[np.int32]:
        """``offset + partition * channel_multiplier + sum(index * step)``, [P, F]."""
        along_free = np.zeros(1, np.int32)
        for step, num in self.pattern:
            steps = np.arange(num, dtype=np.int32) * int32(step)
            along_free = np.add.outer(along_free, steps).reshape(-1)
        channels = np.arange(self.dst.partitions, dtype=np.int32) * int32(channel_multiplier)
        values: npt.NDArray[np.int32] = np.add.outer(channels + int32(offset), along_free)
        return values


class Iota(PatternInstruction, engines=(Engine.gpsimd,)):
    """``dst[p, w, z, y, x] = offset + p * channel_multiplier + w * step_w + ... + x * step_x``.

    dst is [P, F] with F the product of the pattern's lengths. `offset` and `channel_multiplier` are
    numbers or registers. The int32 values are cast once to the dtype of `dst`.

    Note:
        Values beyond 32 bits wrap around; AWS says only that they have 32 bits.
    """

    offset: Integer = reads_register(default=0)
    channel_multiplier: Integer = reads_register(default=0)

    def execute(self, machine: Machine) -> None:
        """Int32 arithmetic, one cast on write."""
        del machine
        self.dst.store(self.values(self.offset, self.channel_multiplier))


class AffineSelect(PatternInstruction, engines=(Engine.gpsimd,)):
    """``dst = on_true_tile where cmp_op(value, 0) else on_false_value``, value as in iota.

    dst and on_true_tile are [P, F]. Where their dtypes agree, elements are copied bit for bit, else
    through float32. `on_false_value` is rounded once to the dtype of dst.
    """

    channel_multiplier: Integer = reads_register()
    result_depends_on = "same element"

    on_true_tile: Tile = reads("P F", SBUF)
    on_false_value: float | Tile
    cmp_op: str = "equal"
    offset: Integer = reads_register(default=0)

    def check(self, core: NeuronCore, n: Dims) -> None:
        """As iota: one to four pairs [step, num], with the elements of a partition of dst.

        - `cmp_op` is a comparison; `on_false_value` is a number.
        - Steps are whole numbers of 32 bits.
        - `offset` and `channel_multiplier` are whole numbers of 32 bits, or registers.
        """
        super().check(core, n)
        if self.cmp_op not in _COMPARISONS:
            self.refuse(
                f"cmp_op {self.cmp_op}; legal: {', '.join(_COMPARISONS)}", "use a comparison of nl"
            )
        if isinstance(self.on_false_value, Tile):
            self.refuse(
                f"on_false_value is {self.on_false_value}; legal: a number",
                "pass a number; to choose between two tiles use nisa.select_reduce",
            )

    def execute(self, machine: Machine) -> None:
        """The predicate is an integer comparison; the data is only copied."""
        del machine
        source, dtype = self.on_true_tile, self.dst.dtype
        mask = self._predicate()
        on_true = source.bits() if source.dtype == dtype else round_to(source.load(), dtype)
        on_false = round_to(np.asarray([self.on_false_value], np.float64), dtype)
        self.dst.put(np.where(mask, on_true.reshape(self.dst.shape), on_false))

    def elements_written_after(self, tile: Tile, flags: Array) -> list[tuple[Tile, Array]] | None:
        """The elements of dst whose inputs are written, or for which the predicate is false."""
        return super().elements_written_after(tile, flags | ~self._predicate().reshape(flags.shape))

    def _predicate(self) -> Array:
        """One boolean per element of dst: whether the predicate holds."""
        values = self.values(self.offset, self.channel_multiplier)
        return np.asarray(_COMPARISONS[self.cmp_op](values, 0)).reshape(self.dst.shape)
