"""The kernels of AWS's tutorials, from a local clone of aws-neuron-sdk.

Nothing of the clone is kept: modules are imported, and code inside a page is compiled as it lies.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib import import_module
from textwrap import dedent

import ml_dtypes
import numpy as np
from launches import Launch


def _example(folder, name, module):
    """A module of the SDK's folder of examples."""
    place = str(folder / "aws-neuron-sdk" / "nki" / "examples" / name)
    if place not in sys.path:
        sys.path.insert(0, place)
    return import_module(module)


def matmul(row, folder):
    """A matmul of the tutorial, on Trn1."""
    module = _example(folder, "matrix_multiplication", "matrix_multiplication_nki_kernels")
    name = row["id"].removeprefix("mm-trn1-").removesuffix("-hfu") + "_"
    return Launch(getattr(module, name), "trn1", _operands(row, ml_dtypes.bfloat16))


def guide_matmul(row, folder):
    """Version 2, 3 or 5 of the matmul of the guide to optimizing, on Trn2."""
    version = int(row["id"].split("-")[2].removeprefix("v"))
    return Launch(_guide(folder)[version - 1], "trn2", _operands(row, np.float32))


def _operands(row, dtype):
    m, k, n = (row["shapes"][axis] for axis in "MKN")
    return {"lhsT": np.empty((k, m), dtype), "rhs": np.empty((k, n), dtype)}


@cache
def _guide(folder):
    """The guide's versions of its kernel, in order."""
    path = folder / "aws-neuron-sdk/nki/guides/tutorials/kernel-optimization.rst"
    kernels = []
    for block in _code_blocks(path.read_text(encoding="utf-8")):
        if "def matrix_multiply_kernel(" in block:
            # The guide's results lie in nl.hbm, which the migration guide refuses since NKI 0.3.
            code = dedent(block).replace("buffer=nl.hbm", "buffer=nl.shared_hbm")
            names, environment = {}, dict(os.environ)
            exec(compile(code, path, "exec"), names)  # noqa: S102  the user's own clone
            os.environ.clear()
            os.environ.update(environment)  # a block chooses its chip there
            kernels.append(names["matrix_multiply_kernel"])
    return kernels


def _code_blocks(text):
    """The Python code blocks of a page, each after empty lines that keep its line numbers."""
    lines = text.splitlines()
    for start, line in enumerate(lines):
        if line.strip() != ".. code-block:: python":
            continue
        margin = len(line) - len(line.lstrip())
        end = start + 1
        while end < len(lines) and (not lines[end].strip() or _indent(lines[end]) > margin):
            end += 1
        yield "\n" * (start + 1) + "\n".join(lines[start + 1 : end])


def _indent(line):
    return len(line) - len(line.lstrip())


def mamba(row, folder):
    """A version of the fused Mamba kernel, on Trn1."""
    module = _example(folder, "fused_mamba", "mamba_nki_kernels")
    version = next(part for part in row["id"].replace("_", "-").split("-") if part in VERSIONS)
    shape = row["shapes"]
    batch, channels = shape.get("batch", 1), shape["channels"]
    state, length = shape["state"], shape["seq_len"]
    shapes = {
        "delta": (batch, channels, length),
        "u": (batch, channels, length),
        "A": (channels, state),
        "B": (batch, state, length),
        "C": (batch, state, length),
    }
    arrays = {name: np.empty(size, np.float32) for name, size in shapes.items()}
    return Launch(getattr(module, f"mamba_{version}"), "trn1", arrays)


VERSIONS = ("v1", "v2", "v3")
