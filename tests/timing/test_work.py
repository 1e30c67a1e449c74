"""The time of a kernel by kinds of work."""

import numpy as np
import pytest

from trnsim.arch import NEURONCORE_V3
from trnsim.dtypes import BFLOAT16
from trnsim.isa import DmaCopy, DmaTranspose, NcMatmul, TensorCopy
from trnsim.memory import Memory
from trnsim.timing.work import ISSUE, WAITING, by_engine, work_shares

HBM, PSUM = Memory.HBM, Memory.PSUM


def test_the_launch_is_all_of_an_empty_kernel(bench):
    assert work_shares(bench().timeline) == {"launch LNC=1": 1.0}


def test_the_launch_on_two_cores_is_a_kind_of_its_own(bench):
    assert work_shares(bench(NEURONCORE_V3.paired()).timeline) == {"launch LNC=2": 1.0}


def test_shares_sum_to_one_and_name_engines_and_instructions(bench, core):
    work = bench(core, has_values=False)
    a = work.issue(
        DmaCopy(work.empty((128, 128), BFLOAT16), work.tile(np.ones((128, 128)), BFLOAT16, HBM))
    )
    product = work.issue(NcMatmul(work.empty((128, 128), memory=PSUM), a, a))
    result = work.issue(TensorCopy(work.empty((128, 128), BFLOAT16), product))
    work.issue(DmaCopy(work.empty((128, 128), BFLOAT16, HBM), result))
    shares = work_shares(work.timeline)
    assert sum(shares.values()) == pytest.approx(1.0)
    assert {"tensor nc_matmul", "vector tensor_copy", "dma rows below 512 B", WAITING} <= {*shares}
    assert sum(by_engine(shares).values()) == pytest.approx(1.0)
    assert {"tensor", "vector", "dma", "waiting", "launch"} <= {*by_engine(shares)}


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        (127, "dma rows below 512 B"),
        (128, "dma rows below 4 KiB"),
        (1023, "dma rows below 4 KiB"),
        (1024, "dma rows from 4 KiB"),
    ],
)
def test_transfers_differ_by_the_size_of_their_rows(bench, columns, kind):
    work = bench(has_values=False)
    source = work.tile(np.ones((128, columns), np.float32), memory=HBM)
    work.issue(DmaCopy(work.empty((128, columns)), source))
    assert kind in work_shares(work.timeline)


def test_a_transfer_that_transposes_is_a_kind_of_its_own(bench):
    work = bench(has_values=False)
    source = work.tile(np.ones((128, 128)), BFLOAT16, HBM)
    work.issue(DmaTranspose(work.empty((128, 128), BFLOAT16), source))
    assert "dma dma_transpose" in work_shares(work.timeline)


def test_many_small_transfers_wait_for_their_issue(bench):
    work = bench(has_values=False)
    for _ in range(64):
        work.issue(DmaCopy(work.empty((1, 8)), work.tile(np.ones((1, 8), np.float32), memory=HBM)))
    shares = work_shares(work.timeline)
    assert max(shares, key=shares.__getitem__) in (ISSUE, "launch LNC=1")
    assert shares[ISSUE] > 0.4
