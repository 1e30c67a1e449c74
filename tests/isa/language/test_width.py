"""Which instructions take int64."""

import numpy as np
import pytest

from trnsim.dtypes import INT64
from trnsim.errors import IllegalInstruction
from trnsim.isa import DmaCopy, Instruction, Memset, RegisterLoad, TensorCopy, VirtualRegister


def test_int64_is_of_memory_and_of_scalars_alone():
    taking = {made.opcode for made in Instruction.registry.values() if made.takes_int64}
    assert taking == {"dma_copy", "scalar_load", "scalar_store"}


def test_an_engine_refuses_int64_and_says_how_to_go_on(bench):
    work = bench()
    tile, wide = work.empty((1, 1), np.int32), work.empty((1, 1), INT64)
    for instruction in (
        TensorCopy(tile, wide),
        Memset(wide, 1),
        RegisterLoad(VirtualRegister(), wide),
    ):
        with pytest.raises(IllegalInstruction, match="no engine computes with int64") as caught:
            instruction.verify(work.core)
        assert "x.astype('int32')" in caught.value.fix
        assert "nisa.scalar_load" in caught.value.fix
    DmaCopy(wide, work.empty((1, 1), INT64)).verify(work.core)
