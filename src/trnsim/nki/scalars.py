"""NkiScalar: an integer on the device, with Python's operators; scalar_load and scalar_store.

An operator issues an instruction and gives a new scalar (`isa.control.scalar`). While a kernel is
traced a scalar has no value, so Python's conditions, loops and numbers refuse it.

Source: nki.isa.NkiScalar, scalar_load, scalar_store; deep-dives/nki-scalar.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, NoReturn, Self

import numpy as np

from trnsim.dtypes import INT32, Dtype
from trnsim.errors import IllegalInstruction
from trnsim.isa import (
    Instruction,
    Scalar,
    ScalarArithmetic,
    ScalarLoad,
    ScalarStore,
    UnsupportedOperator,
    VirtualRegister,
)
from trnsim.isa.control.scalar import ARITHMETIC, COMPARISONS, SCALAR_DTYPES, SCALAR_SOURCE
from trnsim.memory import Tile
from trnsim.nki.arguments import documented_in
from trnsim.nki.loop_bodies import check_turn
from trnsim.program import current_core

_ARITHMETIC_METHODS = {"add": "add", "sub": "subtract", "mul": "multiply"}
"""Python's arithmetic methods -> names of instructions' operators."""
_COMPARISON_METHODS = {
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "eq": "equal",
    "ne": "not_equal",
}
"""Python's comparison methods -> names of instructions' operators."""
_REFUSED_OPERATORS = {
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "divmod": "divmod()",
    "pow": "**",
    "matmul": "@",
    "lshift": "<<",
    "rshift": ">>",
    "and": "&",
    "or": "|",
    "xor": "^",
}
"""Methods of operators that no instruction computes -> their signs."""
_NUMBER = "used as a number (int(), float(), range(), an index)"
_REFUSED_USES = {
    "bool": "used as a condition (if, while, assert, and, or, not)",
    **dict.fromkeys(("int", "index", "float", "complex", "trunc", "floor", "ceil"), _NUMBER),
    "iter": "used as a sequence (for, unpacking, list())",
    "len": "used as a sequence (len())",
    "getitem": "indexed",
    "contains": "used behind `in`",
    "array": "used by numpy",
}
"""Methods that would need the scalar's value -> the use, in words."""
_LEGAL = "+ - * and unary minus with integers and scalars of the same dtype"


class Turn:
    """A turn (iteration) of a device loop, to which its variable and its scalars are limited.

    Attributes:
        is_over: true once the body has returned.
    """

    __slots__ = ("is_over",)

    def __init__(self) -> None:
        self.is_over = False


_running_turns: ContextVar[tuple[Turn, ...]] = ContextVar("trnsim_turns", default=())


@contextmanager
def in_turn() -> Generator[Turn]:
    """A running turn of a device loop; scalars that its body loads or computes end with it."""
    turn = Turn()
    token = _running_turns.set((*_running_turns.get(), turn))
    try:
        yield turn
    finally:
        _running_turns.reset(token)
        turn.is_over = True


class NkiScalar(Scalar):
    """An integer of nl.int32 or nl.int64 on the device: a scalar_offset, or a bound of a loop.

    It comes from `nisa.scalar_load`; arithmetic on it gives new scalars of its dtype, and wraps on
    overflow.

    Attributes:
        dtype: nl.int32 or nl.int64.
        turns: the turns in which it was loaded or computed; outside of them it is refused.

    Source: nki.isa.NkiScalar.
    """

    turns: tuple[Turn, ...] = ()

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Refuse a call of the class: `nisa.scalar_load` gives a program its scalars.

        Raises:
            IllegalInstruction: always.
        """
        arguments = [*map(repr, args), *(f"{key}={value!r}" for key, value in kwargs.items())]
        raise IllegalInstruction(
            f"NkiScalar({', '.join(arguments)}); legal: scalars that nisa.scalar_load returns",
            fix="write the value into a tensor [1, 1] with nisa.memset, and load it: "
            "nisa.scalar_load(tensor)",
            source=SCALAR_SOURCE,
        )

    @classmethod
    def of_dtype(cls, dtype: Dtype, *, is_comparison: bool = False) -> Self:
        """A scalar for an instruction to set."""
        scalar = cls.__new__(cls)
        Scalar.__init__(scalar, dtype, is_comparison=is_comparison)
        scalar.turns = _running_turns.get()
        return scalar

    @classmethod
    def of_value(cls, value: int, origins: tuple[tuple[int, int], ...]) -> Self:
        """The int32 variable of a loop in the running turn.

        Args:
            value: its value.
            origins: the origins of the loop's bounds, for which users of the variable wait.
        """
        scalar = cls.of_dtype(INT32)
        scalar.put(value)
        scalar.origins = origins
        return scalar

    __hash__ = object.__hash__

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """An operator with one of numpy's integers on the left; other uses are refused."""
        if ufunc.__name__ not in ARITHMETIC | COMPARISONS or method != "__call__" or options:
            _refuse_value(self, f"passed to numpy.{ufunc.__name__}")
        return _issue_operator(ufunc.__name__, *inputs)

    def __pos__(self) -> NkiScalar:
        return _issue_operator("add", self, 0)

    def __neg__(self) -> NkiScalar:
        return _issue_operator("subtract", 0, self)

    def __repr__(self) -> str:
        state = "a comparison" if self.is_comparison else self._state
        return f"NkiScalar({self.dtype}, {'unknown' if state is None else state})"

    def __format__(self, spec: str) -> str:
        if spec:
            _refuse_value(self, "formatted as a number")
        return repr(self)


@documented_in("nisa")
def scalar_load(src: Tile) -> NkiScalar:
    """The element of `src` [1, 1] in HBM or SBUF, int32 or int64, as a scalar of its dtype.

    Raises:
        IllegalInstruction: for another shape, memory or dtype; unsigned formats are refused too.

    Source: nki.isa.scalar_load.
    """
    dtype: Dtype = getattr(src, "dtype", INT32)
    scalar = NkiScalar.of_dtype(dtype if dtype in SCALAR_DTYPES else INT32)
    _issue(ScalarLoad(src, dst=scalar))
    return scalar


@documented_in("nisa")
def scalar_store(dst: Tile, value: NkiScalar) -> None:
    """``dst = value`` for a tensor [1, 1] in HBM or SBUF of the scalar's own dtype.

    Raises:
        IllegalInstruction: for another dtype, and for a Python integer.

    Source: nki.isa.scalar_store.
    """
    require_in_turn(value)
    _issue(ScalarStore(dst, value))


def require_in_turn(scalar: object) -> None:
    """Refuse a loop's variable, and scalars that its body loaded or computed, after the turn.

    Raises:
        IllegalInstruction: if the turn is over.
    """
    if isinstance(scalar, NkiScalar) and any(turn.is_over for turn in scalar.turns):
        raise IllegalInstruction(
            "the variable of nl.fori_loop, or a scalar that the body of a device loop loaded or "
            "computed, is used after its turn; legal: in the body, which is traced once",
            fix="use it in the body; what is needed later stays in a tensor that was allocated "
            "before the loop: nisa.scalar_store(tensor, scalar)",
            source="nki.language.fori_loop, body_fun",
        )


def _issue_operator(op: str, x: Any, y: Any) -> NkiScalar:
    """The result of an operator on scalars and integers, after issue of its instruction."""
    operands = [_operand(op, operand) for operand in (x, y)]
    dtype = next(operand.dtype for operand in operands if isinstance(operand, Scalar))
    scalar = NkiScalar.of_dtype(dtype, is_comparison=op in COMPARISONS)
    _issue(ScalarArithmetic(op, *operands, dst=scalar))
    return scalar


def _issue(instruction: Instruction) -> None:
    core = current_core()
    if core.nesting.turns:
        check_turn(instruction)
    core.issue(instruction)


def _operand(op: str, operand: Any) -> Scalar | int:
    """An operand of an operator: a scalar in its turn, or an integer; others are refused."""
    if isinstance(operand, Scalar):
        require_in_turn(operand)
        return operand
    is_register = isinstance(operand, VirtualRegister)
    if not is_register and not isinstance(operand, Tile):
        with suppress(TypeError):
            return operator.index(operand)
    sign = (ARITHMETIC | COMPARISONS)[op]
    raise UnsupportedOperator(
        f"`{sign}` of a scalar and {type(operand).__name__}; legal: {_LEGAL}",
        fix="load both as scalars: nisa.register_store, then nisa.scalar_load"
        if is_register
        else "pass an integer, or a scalar that nisa.scalar_load returned",
        source=SCALAR_SOURCE,
    )


def _arithmetic(op: str, *, is_reflected: bool) -> Callable[[NkiScalar, Any], NkiScalar]:
    def apply(self: NkiScalar, other: Any) -> NkiScalar:
        return (
            _issue_operator(op, other, self) if is_reflected else _issue_operator(op, self, other)
        )

    return apply


def _comparison(op: str) -> Callable[[NkiScalar, Any], Any]:
    def compare(self: NkiScalar, other: Any) -> Any:
        if not isinstance(other, Scalar | VirtualRegister | int | float | np.number | np.bool_):
            return NotImplemented  # Python then compares identity, or refuses the order
        return _issue_operator(op, self, other)

    return compare


def _refuse_value(scalar: NkiScalar, use: str) -> NoReturn:
    """Refuse a use of a scalar that would need its value.

    Raises:
        UnsupportedOperator: always; it is an IllegalInstruction and a TypeError.
    """
    kind = "the result of a comparison" if scalar.is_comparison else f"a scalar of {scalar.dtype}"
    raise UnsupportedOperator(
        f"{kind} is {use}: it has no value while the kernel is traced; legal: {_LEGAL}, "
        "scalar_offset=, the bounds of nl.fori_loop",
        fix="count with nl.fori_loop(0, scalar, body); address with "
        "tensor.ap(pattern, scalar_offset=scalar); choose with tiles of ones and zeros",
        source=SCALAR_SOURCE,
    )


def _value_refusal(use: str) -> Callable[..., NoReturn]:
    def refuse(self: NkiScalar, *_: Any, **__: Any) -> NoReturn:
        _refuse_value(self, use)

    return refuse


def _operator_refusal(sign: str) -> Callable[..., NoReturn]:
    def refuse(self: NkiScalar, *_: Any) -> NoReturn:
        raise UnsupportedOperator(
            f"`{sign}` of a scalar of {self.dtype}; legal: {_LEGAL}",
            fix="compute it before the kernel, or on tiles, and load the result with "
            "nisa.scalar_load",
            source=SCALAR_SOURCE,
        )

    return refuse


for _name, _op in _ARITHMETIC_METHODS.items():
    setattr(NkiScalar, f"__{_name}__", _arithmetic(_op, is_reflected=False))
    setattr(NkiScalar, f"__r{_name}__", _arithmetic(_op, is_reflected=True))
for _name, _op in _COMPARISON_METHODS.items():
    setattr(NkiScalar, f"__{_name}__", _comparison(_op))
for _name, _sign in _REFUSED_OPERATORS.items():
    for _side in ("", "r"):
        setattr(NkiScalar, f"__{_side}{_name}__", _operator_refusal(_sign))
for _name, _sign in (("abs", "abs()"), ("invert", "~"), ("round", "round()")):
    setattr(NkiScalar, f"__{_name}__", _operator_refusal(_sign))
for _name, _use in _REFUSED_USES.items():
    setattr(NkiScalar, f"__{_name}__", _value_refusal(_use))
