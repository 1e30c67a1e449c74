"""Refusals of Python operations that read a tensor's elements while a kernel is compiled.

Tensors are memory on the device: Python's conditions, comparisons, loops and numbers see their
shapes and dtypes, never their elements. Identity works as in Python: `is`, use as a key of a
dictionary or set, and `tensor == tensor` of the same object.

Source: nki-language-guide.rst, Tensor Values.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, NoReturn

import numpy as np

from trnsim.absence import NoAttribute
from trnsim.isa import ACTIVATIONS, ALU, UnsupportedOperator, VirtualRegister
from trnsim.memory import Tile

_VALUED_TYPES = (Tile, VirtualRegister, int, float, complex, np.generic, np.ndarray, list, tuple)
"""Types that a tensor could equal element by element; None, text and dtypes are not among them."""

# Each use of a tensor that is refused: how it is used, the legal operands, the remedy.
_CONDITION_USE = (
    "as a condition (if, while, assert, and, or, not)",
    "numbers, shapes, dtypes, and `tensor is None`",
    "choose with nl.where(condition, a, b); on the device loop: nisa.register_load, nl.while_loop",
)
_SEQUENCE_USE = (
    "as a sequence (for, unpacking, list(), sum())",
    "loops over numbers, lists and tuples",
    "loop over a length, and slice: for i in range(tensor.shape[1]): tensor[:, i : i + 1]",
)
_CONTAINER_USE = (
    "behind `in`",
    "lists, tuples and dictionaries",
    "compare with nl.equal(tensor, value), and reduce the result with nl.max",
)
_LEN_USE = ("by len()", "tensor.shape, tensor.size, tensor.ndim", "write tensor.shape[0]")
_NUMPY_USE = (
    "by numpy",
    "arrays that enter the kernel as arguments, and those that it returns",
    "use a function of nki.language, such as nl.add or nl.max; print with nl.device_print",
)
_NUMBER_USE = (
    "as a number (int(), float(), range(), an index)",
    "integers",
    "load one element into a register: nisa.register_load(register, tensor[0:1, 0:1])",
)
_VALUE_METHODS = {
    "bool": _CONDITION_USE,
    "iter": _SEQUENCE_USE,
    "contains": _CONTAINER_USE,
    "len": _LEN_USE,
    "array": _NUMPY_USE,
    "array_function": _NUMPY_USE,
    **dict.fromkeys(("int", "float", "complex", "index", "trunc"), _NUMBER_USE),
}
"""Python's method, without underscores -> use of the tensor, legal operands, replacement."""
_EQUALITY_OPERATORS = {
    "eq": ("==", "nl.equal", "; `is` asks for the same tensor"),
    "ne": ("!=", "nl.not_equal", "; `is not` asks for another tensor"),
}
_ORDER_OPERATORS = {
    "lt": ("<", "nl.less"),
    "le": ("<=", "nl.less_equal"),
    "gt": (">", "nl.greater"),
    "ge": (">=", "nl.greater_equal"),
}
BINARY_OPERATORS = {
    "add": ("+", "nl.add"),
    "sub": ("-", "nl.subtract"),
    "mul": ("*", "nl.multiply"),
    "truediv": ("/", "nl.reciprocal and nl.multiply"),
    "floordiv": ("//", "nl.reciprocal, nl.multiply and nl.floor"),
    "mod": ("%", "nl.mod"),
    "divmod": ("divmod()", "nl.floor and nl.mod"),
    "pow": ("**", "nl.power"),
    "matmul": ("@", "nl.matmul"),
    "and": ("&", "nl.bitwise_and"),
    "or": ("|", "nl.bitwise_or"),
    "xor": ("^", "nl.bitwise_xor"),
    "lshift": ("<<", "nl.left_shift"),
    "rshift": (">>", "nl.right_shift"),
}
"""Python's method of an operator, without underscores -> its sign, and the functions to write."""
_UNARY_OPERATORS = {
    "neg": ("-", "nl.negative"),
    "pos": ("+", "nl.copy"),
    "abs": ("abs()", "nl.abs"),
    "round": ("round()", "nl.trunc, nl.floor or nl.ceil"),
    "floor": ("math.floor()", "nl.floor"),
    "ceil": ("math.ceil()", "nl.ceil"),
    "invert": ("~", "nl.invert"),
}


_PUBLISHED_ATTRIBUTES = (
    "shape, dtype, buffer, ndim, size, strides, offset, name, ap, view, reshape, slice, select, "
    "permute, broadcast, expand_dim, squeeze_dim, reshape_dim, flatten_dims, rearrange"
)
"""Attributes of tensors that AWS documents, for errors."""
_NKI_FUNCTIONS = {
    "T": "tensor.permute((0, 2, 1)) for free axes; nisa.nc_transpose(dst, data) for partitions",
    "astype": "nisa.tensor_copy(dst, tensor), with a dst of that dtype",
    "copy": "nl.copy(tensor), or nisa.tensor_copy(dst, tensor)",
    "fill": "nisa.memset(tensor, value)",
    "item": "nisa.register_load(register, tensor[0:1, 0:1])",
    "flatten": "tensor.reshape(shape)",
    "squeeze": "tensor.squeeze_dim(dim)",
    "unsqueeze": "tensor.expand_dim(dim)",
    "numpy": "the array that the kernel returns; nl.device_print shows a tensor meanwhile",
    **{name: f"nl.{name}(tensor, axis)" for name in ("sum", "max", "min", "mean", "var", "prod")},
}
_REPLACEMENTS = _NKI_FUNCTIONS | {
    "transpose": _NKI_FUNCTIONS["T"],
    "to": _NKI_FUNCTIONS["astype"],
    "cast": _NKI_FUNCTIONS["astype"],
    "clone": _NKI_FUNCTIONS["copy"],
    "ravel": _NKI_FUNCTIONS["flatten"],
    "tolist": _NKI_FUNCTIONS["numpy"],
}
"""Attribute of numpy's arrays or PyTorch's tensors -> its replacement in NKI."""


_REFLECTED_METHODS = {
    "add": "radd",
    "subtract": "rsub",
    "multiply": "rmul",
    "divide": "rtruediv",
    "floor_divide": "rfloordiv",
    "remainder": "rmod",
    "power": "rpow",
    "matmul": "rmatmul",
    "bitwise_and": "rand",
    "bitwise_or": "ror",
    "bitwise_xor": "rxor",
    "left_shift": "rlshift",
    "right_shift": "rrshift",
    "equal": "eq",
    "not_equal": "ne",
    "less": "gt",
    "less_equal": "ge",
    "greater": "lt",
    "greater_equal": "le",
}
"""Name of a numpy ufunc -> the method of the right operand for the same operator of Python."""
_COMPOSED_FUNCTIONS = frozenset(
    ("negative", "floor", "ceil", "trunc", "cos", "tan", "mod", "fmod", "logical_not")
)
"""Functions of nki.language that several instructions compute."""
_OTHER_NAMES = {"absolute": "abs", "remainder": "mod", "pow": "power"}
"""Name of a numpy function -> its name in nki.language, where they differ."""


class Valueless(Tile):
    """A tile whose elements Python's own conditions, loops and operators cannot see.

    Each such use is refused, with an error that is also a TypeError.
    """

    __slots__ = ()

    __hash__ = object.__hash__

    def __array_ufunc__(self, ufunc: np.ufunc, _: str, *inputs: Any, **__: Any) -> Any:
        """Refuse a function of numpy; the error names the equivalent function of nki.language.

        An operator with one of numpy's values on the left is refused as Python's operator.
        """
        if ufunc.__name__ in _REFLECTED_METHODS and not isinstance(inputs[0], Tile):
            return getattr(self, f"__{_REFLECTED_METHODS[ufunc.__name__]}__")(inputs[0])
        name = _OTHER_NAMES.get(ufunc.__name__, ufunc.__name__)
        is_in_nki = name in ALU or name in ACTIVATIONS or name in _COMPOSED_FUNCTIONS
        fix = f"write nl.{name} in place of numpy's" if is_in_nki else _NUMPY_USE[2]
        return _refuse(self, f"by numpy.{ufunc.__name__}", _NUMPY_USE[1], fix)

    def __delitem__(self, key: object) -> NoReturn:
        """Refuse `del tensor[...]`.

        Raises:
            UnsupportedOperator: always; it is an IllegalInstruction and a TypeError.
        """
        raise UnsupportedOperator(
            f"del of elements of {self}; legal: views of a part of a tensor, whose shape is fixed",
            fix="select what remains, tensor[:, start:end]; or write elements with nisa.memset",
            source="nki.language.NkiTensor",
        )

    def __format__(self, spec: str) -> str:
        """The tensor in words, in an f-string.

        Raises:
            UnsupportedOperator: for a format of numbers.
        """
        try:
            return format(str(self), spec)
        except ValueError:
            _refuse(self, f"as a number, of the format {spec!r}", _NUMPY_USE[1], _NUMPY_USE[2])

    def absent(self, name: str) -> Any:
        """Refuse an attribute that tensors lack; the error names NKI's replacement.

        Raises:
            NoAttribute: for all names but those that Python and libraries probe for.
        """
        if name.startswith("_") or hasattr(type(self), name):
            return super().absent(name)
        legal = [public for public in dir(type(self)) if not public.startswith("_")]
        similar_names = get_close_matches(name, legal, 1, 0.75)
        replacement = _REPLACEMENTS.get(name) or "".join(
            f"tensor.{other}" for other in similar_names
        )
        raise NoAttribute(
            f"{self} has no attribute {name!r}; legal: those of nl.NkiTensor: "
            f"{_PUBLISHED_ATTRIBUTES}",
            fix=f"write {replacement}" if replacement else "use one of these",
            source="nki.language.NkiTensor",
        )


def _refuse(tensor: Tile, use: str, legal: str, fix: str) -> NoReturn:
    raise UnsupportedOperator(
        f"{tensor} is used {use}: its elements are not known when the kernel is compiled; "
        f"legal: {legal}",
        fix=fix,
        source="nki-language-guide.rst, Tensor Values",
    )


def _refusal(use: str, legal: str, fix: str) -> Callable[..., NoReturn]:
    def refuse(self: Valueless, *_: Any, **__: Any) -> NoReturn:
        _refuse(self, use, legal, fix)

    return refuse


def _comparison_refusal(
    sign: str, function: str, identity: str
) -> Callable[[Valueless, object], Any]:
    legal = f"numbers, shapes and dtypes{identity}"
    fix = f"{function}(a, b) gives a tile of ones and zeros, for nl.where(tile, x, y)"

    def compare(self: Valueless, other: object) -> Any:
        if isinstance(other, _VALUED_TYPES) and other is not self:
            _refuse(self, f"with `{sign}`", legal, fix)
        return NotImplemented  # Python then compares identity

    return compare


for _name, _words in _VALUE_METHODS.items():
    setattr(Valueless, f"__{_name}__", _refusal(*_words))
for _name, _comparison in _EQUALITY_OPERATORS.items():
    setattr(Valueless, f"__{_name}__", _comparison_refusal(*_comparison))
for _name, (_sign, _function) in _ORDER_OPERATORS.items():
    _fix = f"{_function}(a, b) gives a tile of ones and zeros, for nl.where(tile, x, y)"
    setattr(Valueless, f"__{_name}__", _refusal(f"with `{_sign}`", "numbers", _fix))
for _name, (_sign, _function) in {**BINARY_OPERATORS, **_UNARY_OPERATORS}.items():
    for _side in ("",) if _name in _UNARY_OPERATORS else ("", "r", "i"):
        _method = _refusal(
            f"with `{_sign}`", "the functions of nki.language and nki.isa", f"write {_function}"
        )
        setattr(Valueless, f"__{_side}{_name}__", _method)
