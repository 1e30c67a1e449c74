"""Single instructions whose time is published: the emulated core's answer, by running them."""

from __future__ import annotations

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

import trnsim

BF16 = ml_dtypes.bfloat16


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


def spans(kernel, opcode, *args, target="trn2"):
    """The spans of an opcode."""
    run = trnsim.run(kernel, *args, target=target, numerics=False)
    return [span for span in run.timeline.spans() if span.opcode == opcode]


def slope_s(kernel, *args, target="trn2", times=64):
    """Seconds of one more repetition: twice as many less once as many."""
    short, long = (
        trnsim.run(kernel, *args, times=n, target=target, numerics=False).total_time_s
        for n in (times, 2 * times)
    )
    return (long - short) / times


def transfer_s(shape):
    """A load without what starts and ends it."""
    span = spans(copy, "dma_copy", np.zeros(shape, BF16))[0]
    core = trnsim.arch.target("trn2").core
    return span.end_s - span.start_s - core.dma_start_s - core.dma_end_s


def duration_s(kernel, opcode, *args, target):
    """From start to result of the last of its kind."""
    span = spans(kernel, opcode, *args, target=target)[-1]
    return span.end_s - span.start_s


def _matmul_operands(k, m, n):
    return np.zeros((k, m), BF16), np.zeros((k, n), BF16)


def estimates():
    """Row id -> estimated seconds."""
    core = trnsim.arch.target("trn2").core
    found = {
        "instr-dma-ex1-load": transfer_s((4, 4096)),
        "instr-dma-ex1-store": transfer_s((4, 4096)),
        "instr-dma-ex1-issue": float(core.dma_start_s),
        "instr-dma-ex1-sem": float(core.dma_end_s),
        "instr-act-128": duration_s(
            activations, "activation", np.zeros((128, 128), BF16), 1, target="trn2"
        ),
        "instr-act-1-ii": slope_s(activations, np.zeros((128, 1), BF16), target="trn1"),
        "instr-act-1-dur": duration_s(
            activations, "activation", np.zeros((128, 1), BF16), 1, target="trn1"
        ),
        "instr-mm-128x96": duration_s(
            matmuls, "nc_matmul", *_matmul_operands(128, 96, 128), 1, target="trn1"
        ),
        "instr-mm-128x1": duration_s(
            matmuls, "nc_matmul", *_matmul_operands(128, 1, 128), 1, target="trn1"
        ),
        # The published interval is of one of the two hardware instructions of a float32 matmul.
        "instr-mm-fp32-512-trn2": slope_s(
            matmuls, *(a.astype(np.float32) for a in _matmul_operands(128, 128, 512))
        )
        / 2,
    }
    for nbytes in (32, 128, 256, 512, 2048, 4096, 16384, 32768):
        array = np.zeros((128, nbytes // 2), BF16)
        found[f"dma-curve-{nbytes}"] = slope_s(loads, array, times=24)
    return found
