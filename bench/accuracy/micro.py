"""Single instructions whose time is published: small kernels, and how to read their times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
from launches import Launch

BF16 = ml_dtypes.bfloat16


@dataclass(frozen=True)
class Measure:
    """What a row of an instruction is read from.

    Attributes:
        launches: the kernels to run.
        read: function of the core and of the timeline of each launch that returns seconds.
    """

    launches: tuple[Launch, ...]
    read: Callable[..., Any]


@nki.jit
def copy(a):
    """Load, and store again."""
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=tile, src=a)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def loads(a, times):
    """Independent loads of one array."""
    for _ in range(times):
        tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def activations(a, times):
    """Exponentials, each of the one before."""
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=tile, src=a)
    for _ in range(times):
        nisa.activation(dst=tile, op=nl.exp, data=tile)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def matmuls(stationary, moving, times):
    """Matmuls into one PSUM tile."""
    tiles = []
    for array in (stationary, moving):
        tiles.append(nl.ndarray(array.shape, dtype=array.dtype, buffer=nl.sbuf))
        nisa.dma_copy(dst=tiles[-1], src=array)
    shape = (stationary.shape[1], moving.shape[1])
    psum = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
    for _ in range(times):
        nisa.nc_matmul(psum, tiles[0], tiles[1])
    result = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    out = nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.tensor_copy(result, psum)
    nisa.dma_copy(dst=out, src=result)
    return out


def _last(opcode, timeline):
    """The span of the last instruction of an opcode."""
    return [span for span in timeline.spans() if span.opcode == opcode][-1]


def _duration_s(opcode, core, timeline):
    """From start to result of the last instruction of an opcode."""
    del core
    span = _last(opcode, timeline)
    return span.end_s - span.start_s


def _transfer_s(core, timeline):
    """A transfer without what starts and ends it."""
    return _duration_s("dma_copy", core, timeline) - core.dma_start_s - core.dma_end_s


def _slope_s(repetitions, core, short, long):
    """One more repetition: twice as many less once as many, by their number."""
    del core
    return (long.device_time_s - short.device_time_s) / repetitions


def _constant(name, core):
    """A constant of the core that is itself what was measured."""
    return float(getattr(core, name))


def _slope(kernel, arguments, target="trn2", times=64, instructions=1):
    """The time of one more of `times` repetitions, each of so many hardware instructions."""
    launches = [Launch(kernel, target, {**arguments, "times": n}) for n in (times, 2 * times)]
    return Measure(tuple(launches), partial(_slope_s, times * instructions))


def _duration(kernel, opcode, arguments, target):
    """The time of the second of two instructions: the first may load a table."""
    launch = Launch(kernel, target, {**arguments, "times": 2})
    return Measure((launch,), partial(_duration_s, opcode))


def _operands(k, m, n, dtype=BF16):
    return {"stationary": np.zeros((k, m), dtype), "moving": np.zeros((k, n), dtype)}


def _column(free, dtype=BF16):
    return {"a": np.zeros((128, free), dtype)}


TRANSFER = Measure((Launch(copy, "trn2", {"a": np.zeros((4, 4096), BF16)}),), _transfer_s)

MEASURES = {
    "instr-dma-ex1-load": TRANSFER,
    "instr-dma-ex1-store": TRANSFER,
    "instr-dma-ex1-issue": Measure((), partial(_constant, "dma_start_s")),
    "instr-dma-ex1-sem": Measure((), partial(_constant, "dma_end_s")),
    "instr-act-table-load": Measure((), partial(_constant, "activation_table_load_s")),
    "instr-act-128": _duration(activations, "activation", _column(128), "trn2"),
    "instr-act-1-ii": _slope(activations, _column(1), "trn1"),
    "instr-act-1-dur": _duration(activations, "activation", _column(1), "trn1"),
    "instr-mm-128x96": _duration(matmuls, "nc_matmul", _operands(128, 96, 128), "trn1"),
    "instr-mm-128x1": _duration(matmuls, "nc_matmul", _operands(128, 1, 128), "trn1"),
    # The published interval is of one of the two hardware instructions of a float32 matmul.
    "instr-mm-fp32-512-trn2": _slope(matmuls, _operands(128, 128, 512, np.float32), instructions=2),
    **{
        f"dma-curve-{nbytes}": _slope(loads, _column(nbytes // 2), times=24)
        for nbytes in (32, 128, 256, 512, 2048, 4096, 16384, 32768)
    },
}
"""Row id -> how its time is found."""
