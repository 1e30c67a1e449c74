"""Collectives of parts of one size, on two ranks."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import trnsim

PAIR = ncc.ReplicaGroup([[0, 1]])
CALLS = {
    "all_reduce": (lambda s, d: ncc.all_reduce([s], [d], PAIR, nl.add), 4, [0, 10, 20, 30]),
    "all_gather": (lambda s, d: ncc.all_gather([s], [d], PAIR, 0), 8, [0, 1, 2, 3, 0, 9, 18, 27]),
    "reduce_scatter": (lambda s, d: ncc.reduce_scatter([s], [d], PAIR, 0, nl.add), 2, [0, 10]),
    "all_to_all": (lambda s, d: ncc.all_to_all([s], [d], PAIR, 0), 4, [0, 1, 0, 9]),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_collective_has_its_values_on_the_first_rank(name):
    call, length, expected = CALLS[name]

    @nki.jit
    def kernel(x):
        src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="src")
        dst = nl.ndarray((length,), dtype=x.dtype, buffer=nl.shared_hbm, name="dst")
        out = nl.ndarray((length,), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=src, src=x)
        call(src, dst)
        nisa.dma_copy(dst=out, src=dst)
        return out

    def inputs(rank):
        return (np.arange(4, dtype=np.float32) * (9 if rank else 1),)

    world = trnsim.run(kernel, ranks=2, inputs=inputs)
    np.testing.assert_array_equal(world.outputs[0], expected)
