"""Permutes: lists of tensors, channels and pairs are lists."""

import nki
import nki.collectives as ncc
import numpy as np
import pytest

import trnsim
from trnsim.errors import IllegalInstruction

CURRENT_RANK = "collective_permute_implicit_current_processing_rank_id"
LISTS = {
    "collective_permute: `source_target_pairs` is (0, 1); legal: a tuple, each item a tuple": (
        lambda a, b, _: ncc.collective_permute([a], [b], [0, 1])
    ),
    "collective_permute: `source_target_pairs` is 1; legal: a tuple": (
        lambda a, b, _: ncc.collective_permute([a], [b], 1)
    ),
    "collective_permute_implicit: `channel_ids` is 0; legal: a tuple": (
        lambda a, b, g: ncc.collective_permute_implicit([[a]], [[b]], g, 0)
    ),
    f"{CURRENT_RANK}: `iteration_id` is None; legal: a whole number": (
        lambda *_: ncc.collective_permute_implicit_current_processing_rank_id(
            None, ncc.ReplicaGroup([[0, 1]])
        )
    ),
    f"{CURRENT_RANK}: `iteration_id` is 1.5; legal: a whole number": (
        lambda *_: ncc.collective_permute_implicit_current_processing_rank_id(
            1.5, ncc.ReplicaGroup([[0, 1]])
        )
    ),
    "all_reduce: `srcs` is NkiTensor; legal: a list of tensors": (
        lambda a, b, g: ncc.all_reduce(a, b, g, nki.language.add)
    ),
}


@pytest.mark.parametrize("message", LISTS)
def test_lists_are_lists(message):
    @nki.jit
    def kernel(x):
        a, b = (
            nki.language.ndarray(x.shape, dtype=x.dtype, buffer=nki.language.shared_hbm, name=name)
            for name in "ab"
        )
        nki.isa.dma_copy(dst=a, src=x)
        LISTS[message](a, b, ncc.ReplicaGroup([[0, 1]]))
        return x

    with pytest.raises(IllegalInstruction) as caught:
        trnsim.run(kernel, np.ones((4, 4), np.float32), ranks=2)
    assert caught.value.reason.startswith(message)
    assert caught.value.line.file == __file__
