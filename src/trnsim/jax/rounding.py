"""Stochastic rounding of programs, with NEURON_RT_STOCHASTIC_ROUNDING_EN=1.

XLA on the host rounds to nearest, so a program with 16-bit or 8-bit floating point is computed by
its graph instead: the reference of each operation at full precision, and its result is rounded up
or down at random, as an engine would on writing. Numbers that are exact stay as they are, and other
programs are XLA's. Constants of a program are rounded to nearest when it is compiled.

Source: rounding-modes.rst, Stochastic Rounding (SR).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trnsim.device.device_core import visible_cores
from trnsim.device.numerics import STOCHASTIC, rounding_generator
from trnsim.dtypes import as_dtype, round_stochastically
from trnsim.errors import EmulatorError, NotModelled
from trnsim.graph import TensorType, rounding_with
from trnsim.graph.types import round_to_dtype
from trnsim.jax.lowered import LoweredProgram, arguments_of

_NARROW_FLOAT: Final = re.compile(r"[x<](?:bf16|f16|f8\w+|f4\w+)[>,]")
"""A type of MLIR with floating point of less than 32 bits."""
_SINGLE_BYTES: Final = 4


def has_narrow_floats(module: Any) -> bool:
    """True if a module has floating point of less than 32 bits."""
    return _NARROW_FLOAT.search(str(module)) is not None


@cache
def _generators() -> list[np.random.Generator]:
    """A generator for each core of this process."""
    return [rounding_generator(core) for core in range(len(visible_cores()))]


def rounded_results(
    program: LoweredProgram, arguments: Sequence[npt.NDArray[Any]], core: int
) -> list[npt.NDArray[Any]]:
    """The results of a program on a core, rounded stochastically.

    Raises:
        NotModelled: for a program without a graph.
    """
    try:
        module = program.imported()
    except EmulatorError as error:
        raise refusal(program.name, error.reason) from error
    arrays = arguments_of(module, list(arguments))
    generator = _generators()[core]

    def round_result(numbers: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
        type_ = TensorType((), dtype)
        if not type_.is_floating or type_.numpy_dtype().itemsize >= _SINGLE_BYTES:
            return round_to_dtype(numbers, dtype)
        float32_numbers = round_to_dtype(numbers, "float32")
        return round_stochastically(float32_numbers, as_dtype(dtype), generator)

    with rounding_with(round_result), np.errstate(all="ignore"):
        return module.graph.reference(arrays)


def refusal(name: str, reason: str) -> NotModelled:
    """The error for a program that is not rounded stochastically."""
    return NotModelled(
        f"{STOCHASTIC}=1 and {name}, which has floating point of 16 bits or less and is computed "
        f"by XLA, which rounds to nearest: {reason}",
        fix=f"{STOCHASTIC}=0",
    )
