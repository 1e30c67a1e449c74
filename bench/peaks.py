"""Documented peaks, reached by running kernels, with AWS's figures beside them.

Each figure is a slope: the time of twice as many operations less that of once as many, so that the
launch, the first loads and the Tensor Engine's ramp do not count.
"""

from __future__ import annotations

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

import trnsim
from trnsim.dtypes import FLOAT8_E4M3FN_X4
from trnsim.isa import NcMatmulSparse
from trnsim.program import current_core

TIMES = 256
K = M = 128
N = 512
BANKS = 4
PACKED = 4
BF16, FP8 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3
PLAIN, DOUBLE_ROW = nisa.matmul_perf_mode.none, nisa.matmul_perf_mode.double_row
CORES = 8
"""NeuronCores of a Trn2 or Trn3 chip."""


def _loaded(array):
    tile = nl.ndarray(array.shape, dtype=array.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=array)
    return tile


def _stored(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def _banks():
    return [nl.ndarray((M, N), dtype=nl.float32, buffer=nl.psum) for _ in range(BANKS)]


def _result(psum):
    tile = nl.ndarray(psum.shape, dtype=psum.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(tile, psum)
    return _stored(tile)


@nki.jit
def matmul(stationary, moving, perf_mode, times):
    """One moving tile after the other through the array."""
    a, b, banks = _loaded(stationary), _loaded(moving), _banks()
    for i in range(times):
        nisa.nc_matmul(banks[i % BANKS], a, b, perf_mode=perf_mode)
    return _result(banks[0])


@nki.jit
def matmul_mx(stationary, moving, scales, times):
    """Microscaling formats: four times the contraction."""
    a, b, scale, banks = _loaded(stationary), _loaded(moving), _loaded(scales), _banks()
    for i in range(times):
        nisa.nc_matmul_mx(banks[i % BANKS], a, b, scale[:, 0:M], scale)
    return _result(banks[0])


@nki.jit
def matmul_sparse(stationary, moving, tags, times):
    """Four of sixteen values kept: what a dense matmul of four times the contraction gives."""
    a, b, tag, banks = _loaded(stationary), _loaded(moving), _loaded(tags), _banks()
    for i in range(times):
        current_core().issue(NcMatmulSparse(banks[i % BANKS], b, a, tag, moving.shape[1]))
    return _result(banks[0])


@nki.jit
def copies(data, times):
    """tensor_copy of a tile of SBUF on the Vector Engine."""
    tile = _loaded(data)
    other = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
    for _ in range(times):
        nisa.tensor_copy(other, tile, engine=nisa.engine.vector)
    return _stored(other)


@nki.jit
def sums(data, times):
    """tensor_tensor of tiles of SBUF."""
    tile = _loaded(data)
    other = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
    for _ in range(times):
        nisa.tensor_tensor(other, tile, tile, op=nl.add)
    return _stored(other)


@nki.jit
def reads(data, times):
    """Loads from HBM."""
    for _ in range(times):
        tile = _loaded(data)
    return _stored(tile)


def slope_s(kernel, *args, target, times=TIMES):
    """Seconds of one more repetition."""
    once, twice = (
        trnsim.run(kernel, *args, n, target=target, numerics=False).total_time_s
        for n in (times, 2 * times)
    )
    return (twice - once) / times


def matmul_flop_per_s(target, dtype, rows=(K,), mode=PLAIN):
    """FLOP a second of nc_matmul."""
    operands = [np.zeros((*rows, columns), dtype) for columns in (M, N)]
    return 2 * np.prod(rows) * M * N / slope_s(matmul, *operands, mode, target=target)


def mx_flop_per_s(target="trn3"):
    """FLOP a second of nc_matmul_mx, whose elements are four."""
    operands = [np.zeros((K, columns), FLOAT8_E4M3FN_X4.dtype) for columns in (M, N)]
    scales = np.zeros((K, N), np.uint8)
    return 2 * PACKED * K * M * N / slope_s(matmul_mx, *operands, scales, target=target)


def sparse_flop_per_s(target="trn2", ratio=PACKED):
    """FLOP a second that a dense matmul would need for what nc_matmul_sparse gives."""
    stationary, moving = np.zeros((K, M), BF16), np.zeros((K, ratio, N), BF16)
    tags = np.zeros((K, M // PACKED), np.uint16)
    return 2 * ratio * K * M * N / slope_s(matmul_sparse, stationary, moving, tags, target=target)


def read_bytes_per_s(target):
    """Bytes a second from HBM, in loads of 4 MiB."""
    data = np.zeros((128, 8192), np.float32)
    return data.nbytes / slope_s(reads, data, target=target, times=16)


def elements_per_s(kernel, target, dtype, columns=4096):
    """Elements a second and partition of a Vector Engine's instruction."""
    return columns / slope_s(kernel, np.zeros((128, columns), dtype), target=target, times=32)


def rows():
    """(what, target, figure, what the documents give for it, unit)."""
    array = {name: _array_flop_per_s(name) for name in ("trn1", "trn2", "trn3")}
    for target, peak in array.items():
        yield "bf16 matmul", target, matmul_flop_per_s(target, BF16), peak, "FLOP/s"
        yield "fp32 matmul", target, matmul_flop_per_s(target, np.float32), peak / 4, "FLOP/s"
    double = matmul_flop_per_s("trn2", FP8, (K, 2), DOUBLE_ROW)
    yield "fp8 double row", "trn2", double, 2 * array["trn2"], "FLOP/s"
    yield "4:16 sparse matmul", "trn2", sparse_flop_per_s(), 4 * array["trn2"], "FLOP/s"
    yield "MX matmul", "trn3", mx_flop_per_s(), 4 * array["trn3"], "FLOP/s"
    for target, rate in (("trn1", 272e9), ("trn2", 368e9), ("trn3", 528e9)):
        yield "read from HBM", target, read_bytes_per_s(target), rate, "B/s"
    for target, clock_hz in (("trn1", 1.12e9), ("trn2", 0.96e9), ("trn3", 1.2e9)):
        is_new = target != "trn1"
        for dtype, speedup in ((np.float32, 1), (BF16, 4 if is_new else 1)):
            name = f"vector copy {np.dtype(dtype)}"
            found = elements_per_s(copies, target, dtype)
            yield name, target, found, speedup * clock_hz, "elements/s"
        # From v3 on two bf16 operands of SBUF are read at twice the rate of float32's half.
        for dtype, speedup in ((np.float32, 0.5), (BF16, 1.0)):
            name = f"vector add {np.dtype(dtype)}"
            found = elements_per_s(sums, target, dtype)
            yield name, target, found, speedup * clock_hz, "elements/s"


def _array_flop_per_s(target):
    core = trnsim.arch.target(target).core
    return 2 * core.pe_rows * core.pe_columns * core.tensor_clock_hz


def chips():
    """(chip, format, TFLOP/s by running on all cores, AWS's figure)."""
    return [
        ("Trn2", "bf16", CORES * matmul_flop_per_s("trn2", BF16) / 1e12, 667),
        ("Trn2", "fp8", CORES * matmul_flop_per_s("trn2", FP8, (K, 2), DOUBLE_ROW) / 1e12, 1299),
        ("Trn3", "MX", CORES * mx_flop_per_s() / 1e12, 2517),
    ]


def main():
    """Print both tables."""
    for name, target, found, documented, unit in rows():
        share = f"{100 * found / documented:6.1f} %"
        print(f"{name:<22} {target}  {found:10.4g} of {documented:10.4g} {unit:<10} {share}")
    for chip, kind, found, published in chips():
        print(f"{chip} {kind:<5} {found:7.0f} TFLOP/s by {CORES} cores x clock; AWS: {published}")


if __name__ == "__main__":
    main()
