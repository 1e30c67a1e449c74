"""Kernels with parameters, and what the tests declare for them."""

from pathlib import Path

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

from trnsim.gate.kernel_file import Arguments, KernelCase

X = np.ones((128, 1024), np.float32)


@nki.jit
def parted(x, parts=4, works_on=nisa.engine.vector, extra=0):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    assert x.shape[1] % parts == 0, f"{parts} parts"
    width = x.shape[1] // parts
    for start in range(0, x.shape[1], width):
        tile = nl.ndarray((x.shape[0], width), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:, start : start + width], name=f"load{start // width}")
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0, engine=works_on)
        for _ in range(extra):
            nisa.reciprocal(dst=tile, data=tile)
        nisa.dma_copy(dst=out[:, start : start + width], src=tile, name=f"store{start // width}")
    return out


def parted_case(parameters, arguments=(X,), keywords=None, kernel=parted):
    """The kernel with these parameters."""
    return KernelCase(
        Path("k.py"), "parted", kernel, Arguments(arguments, keywords or {}), parameters=parameters
    )
