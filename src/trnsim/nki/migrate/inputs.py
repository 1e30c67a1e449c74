"""Random inputs of a kernel: from options, annotations of nki.typing, and defaults."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from trnsim.dtypes import Array
from trnsim.errors import BadInput
from trnsim.nki.migrate.file import Function, SourceFile

_SHAPE: Final = re.compile(r"(\w+)=(\d+(?:x\d+)*)(?::(\w+))?")
_INTEGERS_END: Final = 4
"""Exclusive upper bound of random integers, small so that they are valid indices and counts."""


class Shape(NamedTuple):
    """The extents of a tensor, and its dtype as numpy and ml_dtypes name it."""

    extents: tuple[int, ...]
    dtype: str = "float32"


def shapes_of(texts: Sequence[str]) -> dict[str, Shape]:
    """Parameters with their shapes, from texts such as "x=128x512:bfloat16".

    Raises:
        BadInput: for a text of another form, or one that names no dtype.
    """
    shapes = {}
    for text in texts:
        match = _SHAPE.fullmatch(text)
        if match is None:
            raise BadInput(
                f"--shape {text}; legal: NAME=128x512 or NAME=128x512:bfloat16",
                fix="write the extents with x between them",
            )
        shapes[match[1]] = Shape(tuple(map(int, match[2].split("x"))), match[3] or "float32")
        _check_dtype(shapes[match[1]].dtype, text)
    return shapes


def _check_dtype(name: str, text: str) -> None:
    """Refuse a dtype that numpy and ml_dtypes lack; `text` is the option, for the error."""
    try:
        np.dtype(name)
    except TypeError as error:
        raise BadInput(
            f"--shape {text}: {name} is no dtype; legal: float32, bfloat16, float16, int32, ...",
            fix="name a dtype of numpy or ml_dtypes",
        ) from error


def inputs_of(
    file: SourceFile,
    kernel: Function,
    shapes: Mapping[str, Shape],
    arrays: Sequence[Array],
    seed: int,
) -> tuple[dict[str, Array], list[str]]:
    """The arrays of a kernel by parameter, and the required parameters without a known shape.

    Args:
        file: the file of the kernel.
        kernel: the kernel.
        shapes: shapes of parameters by their name.
        arrays: arrays of the first parameters.
        seed: seed of the random values.
    """
    random = np.random.default_rng(seed)
    positional_parameters = [*kernel.args.posonlyargs, *kernel.args.args]
    required_count = len(positional_parameters) - len(kernel.args.defaults)
    required_names = [parameter.arg for parameter in positional_parameters[:required_count]]
    required_names += [
        parameter.arg
        for parameter, default in zip(kernel.args.kwonlyargs, kernel.args.kw_defaults, strict=True)
        if default is None
    ]
    inputs = dict(zip((parameter.arg for parameter in positional_parameters), arrays, strict=False))
    for parameter in (*positional_parameters, *kernel.args.kwonlyargs):
        if parameter.arg in inputs:
            continue
        shape = shapes.get(parameter.arg) or _annotated_shape(file, parameter.annotation)
        if shape is not None:
            inputs[parameter.arg] = _random_array(shape, random)
    return inputs, [name for name in required_names if name not in inputs]


def _annotated_shape(file: SourceFile, annotation: ast.expr | None) -> Shape | None:
    """The shape of an annotation such as ``nt.tensor[128, 512]``."""
    if not isinstance(annotation, ast.Subscript):
        return None
    if file.short(annotation.value) not in {"nt.tensor", "nt.mutable_tensor"}:
        return None
    index = annotation.slice
    extents = [
        item.value if isinstance(item, ast.Constant) else None
        for item in (index.elts if isinstance(index, ast.Tuple) else [index])
    ]
    lengths = tuple(extent for extent in extents if isinstance(extent, int))
    return Shape(lengths) if len(lengths) == len(extents) else None


def _random_array(shape: Shape, random: np.random.Generator) -> Any:
    dtype = np.dtype(shape.dtype)
    if dtype.kind in "iub":
        return random.integers(0, _INTEGERS_END, shape.extents).astype(dtype)
    return random.standard_normal(shape.extents).astype(dtype)
