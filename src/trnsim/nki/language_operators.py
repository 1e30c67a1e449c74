"""The operators of `nki.language`: names for an instruction's `op`, and functions of tiles.

Called on tiles, an operator issues the instruction that computes it, and returns a new SBUF tile.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn

import numpy as np

from trnsim.absence import refuse_attribute
from trnsim.behaviours.language import FUNCTIONS_OF_TILES
from trnsim.behaviours.tensors import (
    COPY_IS_EXACT,
    COPY_READS_PSUM,
    RSQRT_ON_SCALAR_ENGINE,
    RSQRT_READS_PSUM,
)
from trnsim.dtypes import Dtype
from trnsim.errors import IllegalInstruction
from trnsim.isa import ACTIVATIONS, ALU
from trnsim.memory import Memory
from trnsim.nki.arguments import check_call
from trnsim.nki.dialect import follows, require
from trnsim.nki.notices import refuse_or_warn
from trnsim.nki.tensor import NkiTensor
from trnsim.nki.tiles import as_tile, cast, issue, match_shapes, new_tile, plain_number

_KNOWN_ISSUES = "release notes of NKI 0.4, Known issues, NKI Language"
_NAMES_ONLY = ("average", "bypass", "prelu")
_OTHER_NAMES = {
    "absolute": "abs",
    "eq": "equal",
    "max": "maximum",
    "mean": "average",
    "min": "minimum",
    "mul": "multiply",
    "ne": "not_equal",
    "pow": "power",
    "sub": "subtract",
    "sum": "add",
}
"""Name of an operator in numpy or Python -> its name in nki.language, where they differ."""
_PSUM_READERS = {"copy": COPY_READS_PSUM, "rsqrt": RSQRT_READS_PSUM}
"""Operator -> the row of the table of behaviours by which it reads PSUM."""


class Operator:
    """An operator such as `nl.add`.

    Passed as `op` it names an ALU operator or activation function; called on tiles it issues the
    instruction that computes it and returns a new SBUF tile.
    """

    def __init__(self, name: str, public_name: str = "") -> None:
        """An operator.

        Args:
            name: its name in instructions.
            public_name: its name in `nki.language`, if that is another.
        """
        self.name = name
        self.__name__ = public_name or name
        self.__signature__ = inspect.signature(self._apply)

    def __repr__(self) -> str:
        return f"nl.{self.__name__}"

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse a name that operators lack."""
        refuse_attribute(self.__repr__, name, ())

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles hold the name in `nki.language`."""
        return _language_attribute, (self.__name__,)

    def __call__(self, *args: Any, **kwargs: Any) -> NkiTensor:
        """The operator's function of tiles.

        Raises:
            IllegalInstruction: for operands that do not fit its signature, for an operator
                without such a function, which is only a name for `op`, and before NKI 0.3.
        """
        require(FUNCTIONS_OF_TILES, f"a call of {self!r}")
        try:
            return self._apply(*args, **kwargs)
        except TypeError:
            check_call(repr(self), self.__signature__, args, kwargs)
            raise

    def _apply(self, *args: Any, **kwargs: Any) -> NkiTensor:
        del args, kwargs
        raise IllegalInstruction(
            f"{self!r} is called; legal: as the operator of an instruction",
            fix=f"pass it: op={self!r}",
            source="nki.language",
        )


class UnaryOperator(Operator):
    """A function of a tile."""

    def _apply(self, x: Any, dtype: Any = None) -> NkiTensor:
        """The operator applied element by element, as a single instruction.

        Raises:
            IllegalInstruction: for rsqrt of a tile in PSUM.
        """
        tile = as_tile(repr(self), x)
        if tile.memory is Memory.PSUM and self.name in _PSUM_READERS:
            require(_PSUM_READERS[self.name], f"{self!r} of {tile}")
        if self.name == "copy" and follows(COPY_IS_EXACT):
            return cast(tile, dtype)
        result = new_tile(tile.shape, tile.dtype if dtype is None else dtype)
        if self.name == "reciprocal":
            issue("reciprocal", result, tile)
        elif self.name in ACTIVATIONS and (self.name != "rsqrt" or follows(RSQRT_ON_SCALAR_ENGINE)):
            issue("activation", result, self.name, tile)
        else:
            issue("tensor_scalar", result, tile, self.name)
        return result


class BinaryOperator(Operator):
    """A function of two tiles, or of a tile and a number on either side."""

    def _apply(self, x: Any, y: Any, dtype: Any = None) -> NkiTensor:
        """The operator applied element by element, as a single instruction.

        Raises:
            IllegalInstruction: for different shapes, and for a number as an exponent.
        """
        x, y = plain_number(x), plain_number(y)
        is_reversed = isinstance(x, int | float) and isinstance(y, NkiTensor)
        if is_reversed:
            x, y = y, x
        tile = as_tile(repr(self), x)
        if isinstance(y, int | float):
            self._refuse_exponent(y, is_number=not is_reversed)
            result = new_tile(tile.shape, tile.dtype if dtype is None else dtype)
            issue("tensor_scalar", result, tile, self.name, y, is_reversed)
            return result
        first, second = match_shapes(repr(self), tile, as_tile(repr(self), y))
        result = new_tile(first.shape, tile.dtype if dtype is None else dtype)
        issue("tensor_tensor", result, first, second, self.name)
        return result

    def _refuse_exponent(self, exponent: float, *, is_number: bool) -> None:
        if self.name == "power" and is_number:
            refuse_or_warn(
                f"nl.power(tile, {exponent}); legal: an exponent that is a tile",
                "make a tile of it with nl.full, or use nisa.tensor_scalar(op0=nl.power)",
                _KNOWN_ISSUES,
            )


class ComposedFunction(Operator):
    """A function of tiles that takes several instructions, so that it cannot be an `op`."""

    def __init__(self, function: Callable[..., NkiTensor], *, replacement: str = "") -> None:
        """An operator.

        Args:
            function: its function of tiles.
            replacement: the expression to write instead, if AWS's compiler refuses the operator.
        """
        super().__init__(function.__name__)
        self.__doc__ = function.__doc__
        self.__signature__ = inspect.signature(function)
        self._function = function
        self._replacement = replacement

    def _apply(self, *args: Any, **kwargs: Any) -> NkiTensor:
        """The function's result in a new tile."""
        if self._replacement:
            refuse_or_warn(
                f"{self!r}: no engine has it, and the compiler refuses it",
                self._replacement,
                _KNOWN_ISSUES,
            )
        return self._function(*args, **kwargs)


def operator_name(usage: str, value: object) -> str:
    """The name of an operator in instructions; `usage` is as in `refuse_operator`.

    Raises:
        IllegalInstruction: for anything but an operator of `nki.language`.
    """
    return value.name if isinstance(value, Operator) else refuse_operator(usage, value)


def refuse_operator(usage: str, value: object) -> NoReturn:
    """Refuse a value that is no operator of `nki.language`.

    No version of NKI documents operators of numpy and Python, or names in quotes.

    Args:
        usage: the call and the operand, such as "tensor_tensor: `op`".
        value: the user's value.

    Raises:
        IllegalInstruction: always.
    """
    name = str(value if isinstance(value, str) else getattr(value, "__name__", ""))
    similar_names = get_close_matches(
        _OTHER_NAMES.get(name, name).removeprefix("nl."), OPERATORS, 1, 0.75
    )
    raise IllegalInstruction(
        f"{usage} is {_value_text(value)}; legal: operators of nki.language",
        fix=f"pass nl.{similar_names[0]}"
        if similar_names
        else "pass an operator of nl, such as nl.add",
        source="nki.api.shared.rst, Supported Math Operators by NKI ISA",
    )


def _value_text(value: object) -> str:
    """A value that is no operator, in words for an error."""
    if isinstance(value, str):
        return repr(value)
    name = getattr(value, "__name__", "")
    if isinstance(value, np.ufunc):
        return f"numpy's {name}"
    if isinstance(value, Dtype) or not callable(value) or not name:
        return f"a {type(value).__name__}"
    return f"the function {name}"


def _language_attribute(name: str) -> Any:
    """The attribute `name` of `nki.language`, imported lazily: that module imports this one."""
    return getattr(import_module("trnsim.nki.language"), name)


def _operator(name: str) -> Operator:
    if name in _NAMES_ONLY:
        return Operator(name)
    is_binary = name in ALU and ALU[name].arity > 1
    return BinaryOperator(name) if is_binary else UnaryOperator(name)


OPERATORS = {name: _operator(name) for name in {**ALU, **ACTIVATIONS, "average": None}}
"""Name -> operator, for the operators that instructions take as `op`."""
