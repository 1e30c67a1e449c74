"""Scalars of the device: integers of a fixed width, and instructions on them.

The instructions load a scalar, compute with it and store it.

A scalar is a register that is set once. Arithmetic on it is an instruction of the Sync Engine that
makes a new scalar, and wraps on overflow (two's complement). An instruction that uses a scalar
waits for the instruction that made it. In a run without values a scalar loaded from memory is
unknown.

Source: nki.isa.NkiScalar, scalar_load, scalar_store; deep-dives/nki-scalar.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import field
from typing import Final

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.dtypes import INT32, INT64, Dtype
from trnsim.errors import NotModelled
from trnsim.isa.control.register import RegisterInstruction, VirtualRegister
from trnsim.isa.language.declaration import HIDDEN_REGISTER, reads, reads_register, writes
from trnsim.isa.language.instruction import HBM, SBUF, Dims
from trnsim.isa.language.machine import Machine
from trnsim.isa.language.modes import Engine
from trnsim.memory import Tile

SCALAR_DTYPES: Final = (INT32, INT64)
SCALAR_SOURCE: Final = "nki.isa.NkiScalar"
ARITHMETIC: Final = {"add": "+", "subtract": "-", "multiply": "*"}
COMPARISONS: Final = {
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "equal": "==",
    "not_equal": "!=",
}
"""Operator of scalars -> Python's sign for it, of arithmetic and of comparisons."""
_SIGNS = ARITHMETIC | COMPARISONS
_FUNCTIONS: Final[dict[str, Callable[[int, int], int]]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
}


class Scalar:
    """An integer of 32 or 64 bits on the device, set once.

    Attributes:
        dtype: its format, which fixes the width of all that is derived from it.
        is_comparison: true for the result of a comparison, which no instruction accepts.
        origins: the instructions that its value comes from (see `memory.index.Register`).
    """

    def __init__(self, dtype: Dtype, *, is_comparison: bool = False) -> None:
        self.dtype = dtype
        self.is_comparison = is_comparison
        self.origins: tuple[tuple[int, int], ...] = ()
        self._state: int | None = None

    def __deepcopy__(self, memo: object) -> Scalar:
        """The scalar itself: a copied object that refers to it must refer to the same one."""
        return self

    def __repr__(self) -> str:
        return f"a scalar of {self.dtype}"

    @property
    def value(self) -> int:
        """The integer, for instructions; a kernel's Python never sees it.

        Raises:
            NotModelled: if a run without values loaded it from memory.
        """
        if self._state is None:
            raise NotModelled(
                "a scalar was loaded from memory in a shape-only run, which has no values",
                fix="run with numerics=True: the kernel's control flow depends on data",
            )
        return self._state

    @property
    def is_known(self) -> bool:
        """True unless it comes from memory in a run without values."""
        return self._state is not None

    @property
    def signature(self) -> tuple[object, ...]:
        """A key of all that a rule or a cost may depend on."""
        return Scalar, self.dtype.name, self.is_comparison

    def put(self, value: int) -> None:
        """Set it to `value`, wrapped to its width."""
        self._state = wrapped(value, self.dtype)


def wrapped(value: int, dtype: Dtype) -> int:
    """`value` modulo 2**bits, in the range of a signed integer format: two's complement."""
    half = 1 << (8 * dtype.itemsize - 1)
    return (value + half) % (2 * half) - half


class ScalarInstruction(RegisterInstruction, engines=()):
    """Common base of the instructions of scalars: their checks; their price is a register's."""

    def _check_scalar(self, name: str, scalar: object, fix: str) -> None:
        if isinstance(scalar, Scalar) and not scalar.is_comparison:
            return
        kind = type(scalar).__name__
        if isinstance(scalar, Scalar):
            kind = "the result of a comparison, which nothing can use"
            fix = "choose on the device: compare tiles with nisa.tensor_scalar, and multiply"
        self.refuse(f"`{name}` is {kind}; legal: an NkiScalar", fix)

    def _check_memory(self, name: str, tile: Tile) -> None:
        """Refuse all but one element of int32 or int64."""
        self._check_single(name, tile)
        if tile.dtype not in SCALAR_DTYPES:
            same_width = next(
                (d for d in SCALAR_DTYPES if d.itemsize == tile.dtype.itemsize), INT32
            )
            self.refuse(
                f"`{name}` is {tile}; legal dtypes: int32 or int64",
                f"view it as the signed format of its width, tensor.view(nl.{same_width}), or "
                "convert it in memory with nisa.tensor_copy",
            )


class ScalarLoad(ScalarInstruction, engines=(Engine.sync,)):
    """The element of `src` [1, 1] in HBM or SBUF as a new scalar of the same dtype.

    Note:
        AWS publishes no cost of scalars; one step of a sequencer is assumed, as for registers.
    """

    src: Tile = reads("", SBUF, HBM)
    dst: Scalar = field(kw_only=True, metadata=HIDDEN_REGISTER)

    takes_int64 = True

    def check(self, core: NeuronCore, n: Dims) -> None:
        """`src` is one element of int32 or int64."""
        del core, n
        self._check_memory("src", self.src)

    def execute(self, machine: Machine) -> None:
        """The element as it is stored; unknown in a run without values."""
        del machine
        if self.src.storage.data is not None:
            self.dst.put(int(self.src.bits().reshape(-1)[0]))


class ScalarStore(ScalarInstruction, engines=(Engine.sync,)):
    """``dst = value`` for a tensor [1, 1] in HBM or SBUF and a scalar of its dtype.

    Note:
        AWS publishes no cost of scalars; one step of a sequencer is assumed, as for registers.
    """

    dst: Tile = writes("", SBUF, HBM)
    value: Scalar = reads_register()

    takes_int64 = True

    def check(self, core: NeuronCore, n: Dims) -> None:
        """`dst` is one element of the dtype of the scalar `value`; a number is refused."""
        del core, n
        if isinstance(self.value, VirtualRegister):
            fix = "store a register with nisa.register_store(dst, register)"
        else:
            fix = "write a constant with nisa.memset(dst, value)"
        self._check_scalar("value", self.value, fix)
        self._check_memory("dst", self.dst)
        if self.dst.dtype != self.value.dtype:
            self.refuse(
                f"a scalar of {self.value.dtype} into {self.dst}; legal: a tensor of "
                f"{self.value.dtype}",
                "store it at its own width, and convert in memory",
            )

    def execute(self, machine: Machine) -> None:
        """The integer, bit for bit."""
        del machine
        self.dst.put(np.asarray([self.value.value], self.dst.dtype.dtype))


class ScalarArithmetic(
    ScalarInstruction,
    engines=(Engine.sync,),
    source=SCALAR_SOURCE,
    is_in_nki_isa=False,
):
    """``x + y``, ``x - y`` or ``x * y`` as a new scalar: what Python's operators record.

    One of the operands may be a number. The result wraps on overflow. A comparison of int32 scalars
    is an instruction as well, but nothing can use its result.

    Note:
        AWS publishes no cost of scalars; one step of a sequencer is assumed, as for registers.
    """

    op: str
    x: Scalar | int = reads_register()
    y: Scalar | int = reads_register()
    dst: Scalar = field(kw_only=True, metadata=HIDDEN_REGISTER)

    def check(self, core: NeuronCore, n: Dims) -> None:
        """Scalars of one dtype, and numbers within its range; at 64 bits no comparisons."""
        del core, n
        dtype, sign = self.dst.dtype, _SIGNS[self.op]
        for operand in (self.x, self.y):
            if isinstance(operand, Scalar):
                self._check_operand(sign, operand, dtype)
            elif wrapped(operand, dtype) != operand:
                self.refuse(
                    f"a scalar of {dtype} {sign} {operand}; legal: numbers of "
                    f"{8 * dtype.itemsize} bits, {np.iinfo(dtype.dtype).min} to "
                    f"{np.iinfo(dtype.dtype).max}",
                    "load the scalar from an nl.int64 tensor where it needs more range"
                    if dtype is INT32
                    else "keep the constant within 64 bits",
                )
        if self.op in COMPARISONS and dtype is INT64:
            self.refuse(
                f"`{sign}` of int64 scalars; legal at 64 bits: + - *",
                "compare tiles: nisa.tensor_tensor with an operator such as nl.less",
            )

    def execute(self, machine: Machine) -> None:
        """The exact result, wrapped; unknown where an operand is."""
        del machine
        operands = (self.x, self.y)
        if all(value.is_known for value in operands if isinstance(value, Scalar)):
            x, y = (value.value if isinstance(value, Scalar) else value for value in operands)
            self.dst.put(_FUNCTIONS[self.op](x, y))

    def _check_operand(self, sign: str, operand: Scalar, dtype: Dtype) -> None:
        self._check_scalar(sign, operand, "")
        if operand.dtype != dtype:
            self.refuse(
                f"{dtype} {sign} {operand.dtype} of two scalars; legal: scalars of one dtype",
                "load both from tensors of one dtype: a scalar never changes its width",
            )
