"""Readers of MLIR's objects: types, attributes and constants of StableHLO's operations.

An operation (`Op`), a value (`Ssa`), a block (`Block`) are jaxlib's own objects. They live as long
as their module: an imported graph keeps none of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import ml_dtypes
import numpy as np
from jaxlib.mlir import ir

from trnsim.errors import NotModelled
from trnsim.graph.types import ELEMENT_TYPES, Array, TensorType

Op = Any
"""An operation of MLIR."""
Ssa = Any
"""A value of MLIR: the result of an operation, or an argument of a block."""
Block = Any
"""Operations one after the other, and their arguments."""

_NAMES: Final = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f8E4M3": "float8_e4m3",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
    "i1": "bool",
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}
"""Element types by their names in MLIR."""
_SOURCE: Final = "nki.api.shared.rst, Supported Data Types"
_WORD: Final = re.compile(r"0x[0-9A-Fa-f]+|-?\d[\d.]*(?:[eE][-+]?\d+)?")
_ENUM: Final = re.compile(r"(\w+)>?$")


def functions(module: Any) -> dict[str, Op]:
    """The functions of a module by their names."""
    return {
        str(view.operation.attributes["sym_name"]).strip('"'): view.operation
        for view in module.operation.regions[0].blocks[0].operations
        if view.operation.name == "func.func"
    }


def body_of(function: Op) -> Block:
    """The block of a function.

    Raises:
        NotModelled: the module only declares the function.
    """
    blocks = function.regions[0].blocks
    if not len(blocks):
        name = str(function.attributes["sym_name"]).strip('"')
        raise NotModelled(
            f"the function {name} is declared, and has no body", fix="put its body in the module"
        )
    return blocks[0]


def element_type(type_: Any) -> str:
    """The element type of a tensor's type by numpy's or ml_dtypes' name, or else by MLIR's name."""
    text = str(ir.RankedTensorType(type_).element_type)
    return _NAMES.get(text, text)


def shape_of(type_: Any) -> tuple[int, ...]:
    """The shape of a tensor's type.

    Raises:
        NotModelled: it has a dimension without a size.
    """
    ranked_type = ir.RankedTensorType(type_)
    if not ranked_type.has_static_shape:
        raise NotModelled(
            f"{type_} has a dimension without a size",
            fix="export the program at fixed shapes",
            source="aws-neuron-sdk compiler/error-codes/EMOD025.rst",
        )
    return tuple(ranked_type.shape)


def tensor_type(type_: Any) -> TensorType:
    """The type of a tensor.

    Raises:
        NotModelled: a NeuronCore stores no such elements.
    """
    if not is_tensor(type_):
        raise NotModelled(f"a value of type {type_} is no tensor", fix="leave it out")
    name = element_type(type_)
    if name not in ELEMENT_TYPES:
        raise NotModelled(
            f"a tensor of {name}; a NeuronCore stores {', '.join(ELEMENT_TYPES)}",
            fix="cast it first, for example to float32",
            source=_SOURCE,
        )
    return TensorType(shape_of(type_), name)


def is_tensor(type_: Any) -> bool:
    """True for the type of a tensor with a rank."""
    return bool(ir.RankedTensorType.static_typeid == type_.typeid)


def ints(op: Op, name: str, default: Sequence[int] = ()) -> tuple[int, ...]:
    """An attribute that lists whole numbers."""
    if name not in op.attributes:
        return tuple(default)
    return tuple(int(integer) for integer in op.attributes[name])


def number(op: Op, name: str, default: int = 0) -> int:
    """An attribute that is a whole number."""
    return int(op.attributes[name].value) if name in op.attributes else default


def flag(op: Op, name: str) -> bool:
    """An attribute that is true or false; false where it is missing."""
    return name in op.attributes and bool(op.attributes[name].value)


def symbol(op: Op, name: str) -> str:
    """An attribute that is an enumerator, such as LT, or a name; "" where it is missing."""
    if name not in op.attributes:
        return ""
    text = str(op.attributes[name]).strip('"@')
    match = _ENUM.search(text)
    return match[1] if text.startswith("#") and match else text


def matrix(op: Op, name: str) -> list[list[int]]:
    """An attribute that is a matrix of whole numbers; empty where it is missing."""
    return np.array(op.attributes[name]).tolist() if name in op.attributes else []


def constant(op: Op) -> Array:
    """The elements of a constant; a splat takes the memory of one element."""
    type_ = op.results[0].type
    shape, name = shape_of(type_), element_type(type_)
    if name not in _NAMES.values():
        raise NotModelled(
            f"a constant of {name}; a NeuronCore stores {', '.join(ELEMENT_TYPES)}", source=_SOURCE
        )
    kind, attribute = np.dtype(getattr(ml_dtypes, name, name)), op.attributes["value"]
    if getattr(attribute, "is_splat", False):
        element = np.array(attribute.get_splat_value().value).astype(kind)
        return np.broadcast_to(element, shape)
    if kind.kind == "V":
        return _parse_dense(str(attribute), kind).reshape(shape)
    return np.array(attribute).astype(kind).reshape(shape)


def _parse_dense(text: str, kind: np.dtype[Any]) -> Array:
    """The numbers of a text ``dense<[1.0, 0x7F80]> : ..``, for types that jaxlib does not read.

    Numbers that are not finite are written as bits, and long tensors as one run of bytes.
    """
    _, is_bytes, digits = text.partition('"0x')
    if is_bytes:
        return np.frombuffer(bytes.fromhex(digits.partition('"')[0]), kind)
    tokens = _WORD.findall(text.partition("dense<")[2].partition(">")[0])
    bits = np.dtype(f"u{kind.itemsize}")
    numbers = [
        np.array(int(token, 16), bits).view(kind) if "0x" in token else np.array(float(token), kind)
        for token in tokens
    ]
    return np.array(numbers, kind)
