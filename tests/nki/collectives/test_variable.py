"""Collectives of chunks whose sizes are data: the calls. Values: tests/isa/collectives."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import trnsim
from trnsim.errors import IllegalInstruction, NotModelled


@pytest.mark.parametrize("name", ["all_to_all_v", "all_gather_v"])
def test_sources_and_destinations_are_lists(name):
    @nki.jit
    def kernel(x):
        src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="src")
        metadata = nl.ndarray((3, 2), dtype=nl.uint32, buffer=nl.shared_hbm, name="metadata")
        nisa.dma_copy(dst=src, src=x)
        getattr(ncc, name)(src, src, ncc.ReplicaGroup([[0, 1]]), metadata)
        return x

    with pytest.raises(IllegalInstruction) as caught:
        trnsim.run(kernel, np.ones((4, 4), np.float32), ranks=2)
    assert caught.value.reason == f"{name}: `srcs` is NkiTensor; legal: a list of tensors"
    assert caught.value.line.file == __file__


def test_reduce_scatter_v_is_refused_with_its_known_limits():
    @nki.jit
    def kernel(x):
        ncc.reduce_scatter_v([x], [x])

    with pytest.raises(NotModelled, match="LNC=2, groups of exactly 4 ranks") as caught:
        trnsim.run(kernel, np.ones((4, 4), np.float32), ranks=4)
    assert "at most 16 KiB of output a rank" in caught.value.reason
    assert caught.value.line.file == __file__
