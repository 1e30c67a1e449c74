"""A failing kernel as a Python script of its own."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path

import numpy as np
from formats import FORMATS
from runner import expected

FOLDER = Path(__file__).parents[2] / "build" / "fuzz"

_SCRIPT = '''"""{title}"""

import base64
import zlib

import ml_dtypes  # its formats, for np.dtype
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

import trnsim
from trnsim import isa
from trnsim.program import current_core


def array(text, dtype, shape):
    """An array from the text below."""
    stored = np.dtype(getattr(ml_dtypes, dtype, dtype))
    return np.frombuffer(zlib.decompress(base64.b85decode(text)), stored).reshape(shape).copy()


{source}

INPUTS = [
{inputs}]
# What the oracle allows: the lowest and the highest value of each element of each output.
EXPECTED = [
{expected}]

outputs = trnsim.run({launched}, *INPUTS, target="{target}", nki="0.6").outputs
for name, output, (low, high) in zip({names}, outputs, EXPECTED):
    values = output.astype(np.float64)
    wrong = ~((low <= values) & (values <= high) | (np.isnan(low) & np.isnan(values)))
    wrong &= ~(np.isneginf(low) & np.isposinf(high))
    print(name, "differs at", np.argwhere(wrong).tolist()[:5] if wrong.any() else "no element")
'''


def write_script(kernel, failure):
    """Write the script of a failing kernel and return where it lies."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"kernel-{kernel.seed}.py"
    path.write_text(script(kernel, failure), encoding="utf-8")
    return path


def script(kernel, failure):
    """The text of the script."""
    inputs = [
        _literal(np.asarray(values, FORMATS[dtype].stored))
        for values, dtype in kernel.inputs.values()
    ]
    # Of an illegal kernel nothing is expected.
    intervals = expected(kernel) if kernel.outputs else []
    ends = [(interval.low, interval.high) for interval in intervals]
    return _SCRIPT.format(
        title=f"Seed {kernel.seed} on {kernel.target}: {failure.kind}.",
        source=kernel.source(),
        inputs="".join(f"    {text},\n" for text in inputs),
        expected="".join(f"    ({_literal(low)}, {_literal(high)}),\n" for low, high in ends),
        launched="kernel[2]" if kernel.cores > 1 else "kernel",
        target=kernel.target,
        names=[name for name, *_ in kernel.outputs],
    )


def _literal(values):
    packed = base64.b85encode(zlib.compress(np.ascontiguousarray(values).tobytes())).decode()
    return f"array({packed!r}, {values.dtype.name!r}, {values.shape})"
