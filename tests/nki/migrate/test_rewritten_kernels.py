"""Kernels of NKI 0.2 and what is made of them for 0.7: equal values on the same random inputs."""

import pytest

from trnsim.nki.migrate.inputs import shapes_of
from trnsim.nki.migrate.report import report_of
from trnsim.nki.migrate.trial import trials_of
from trnsim.nki.migrate.writing import rewritten_file

HEAD = """import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def kernel(x, counts):
    out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.hbm)
    tile = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
"""
END = """
    nisa.dma_copy(out, tile)
    return out
"""
BODIES = {
    "outputs": "",
    "string buffers": "copy = nl.ndarray((128, 64), nl.float32, buffer='sbuf')\n"
    "nisa.tensor_copy(copy, tile)\nnisa.tensor_tensor(tile, copy, tile, nl.add)",
    "integer enumerations": "nisa.dma_copy(tile, x, dge_mode=2)",
    "copies from PSUM": "psum = nl.ndarray((64, 128), nl.float32, buffer=nl.psum)\n"
    "nisa.nc_transpose(psum, tile)\nother = nl.ndarray((64, 128), nl.float32, buffer=nl.hbm)\n"
    "nisa.dma_copy(other, psum[0:64, 0:128])\nnisa.dma_copy(tile[0:64, 0:64], other[0:64, 0:64])",
    "read-modify-write": "nisa.dma_copy(out, tile)\nnisa.dma_copy(out, x, dst_rmw_op=nl.add)\n"
    "nisa.dma_copy(tile, out)",
    "read-modify-write in a loop": "for k in range(3):\n"
    "    op = None if k == 0 else nl.add\n"
    "    nisa.dma_copy(src=x.ap([[64, 128], [1, 64]]), dst=out, dst_rmw_op=op)\n"
    "nisa.dma_copy(tile, out)",
    "dma_compute": "nisa.dma_compute(out, [x, x], [1.0, 1.0], nl.add)\nnisa.dma_copy(tile, out)",
    "affine_select": "other = nl.ndarray((128, 64), nl.float32)\n"
    "nisa.affine_select(other, [[1, 64]], 3, -1, tile, 0.5, cmp_op=nl.greater_equal)\n"
    "nisa.tensor_copy(tile, other)",
    "memset": "number = nl.ndarray((128, 64), nl.int32)\nnisa.memset(number, 3.0)\n"
    "nisa.tensor_tensor(tile, tile, number, nl.multiply)",
    "axis 1": "cube = nl.ndarray((128, 4, 16), nl.float32)\n"
    "sums = nl.ndarray((128, 4), nl.float32)\n"
    "nisa.dma_copy(cube, x.reshape((128, 4, 16)))\n"
    "nisa.tensor_reduce(sums, nl.add, cube, axis=1)\nnisa.tensor_copy(tile[:, 0:4], sums)",
    "registers": "register = nisa.register_alloc(1)\nnisa.register_move(register, imm=3)\n"
    "for i in nl.dynamic_range(register):\n"
    "    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)",
    "counted loops": "number = nl.ndarray((1, 1), nl.int32)\nnisa.dma_copy(number, counts)\n"
    "register = nisa.register_alloc(1)\nnisa.register_load(register, number)\n"
    "for i in nl.dynamic_range(0, register, 1):\n    for j in nl.dynamic_range(2):\n"
    "        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=1.5)",
    "loops while": "number = nl.ndarray((1, 1), nl.int32)\nnisa.memset(number, 3)\n"
    "register = nisa.register_alloc(3)\nwhile register:\n"
    "    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)\n"
    "    nisa.tensor_scalar(dst=number, data=number, op0=nl.subtract, operand0=1)\n"
    "    nisa.register_load(register, number)",
    "range_select": "other = nl.ndarray((128, 64), nl.float32)\n"
    "low = nl.ndarray((128, 1), nl.float32)\nhigh = nl.ndarray((128, 1), nl.float32)\n"
    "nisa.memset(low, 3.0)\nnisa.memset(high, 9.0)\n"
    "nisa.range_select(other, tile, nl.greater_equal, nl.less, low, high,"
    " on_false_value=0.0)\nnisa.tensor_copy(tile, other)",
}


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("name", BODIES)
def test_values_are_equal(name):
    body = "".join(f"    {line}\n" for line in BODIES[name].splitlines())
    report = report_of(HEAD + body + END, "kernels.py", origin="0.2")
    assert report.statements
    made = rewritten_file(report)
    assert made.commented_statements == []
    (trial,) = trials_of(report, made.text, shapes_of(["x=128x64", "counts=1x1:int32"]))
    assert (trial.end, trial.says) == ("equal values", "")
