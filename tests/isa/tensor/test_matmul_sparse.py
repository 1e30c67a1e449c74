"""nc_matmul_sparse: values, legality, price."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trnsim.isa
from trnsim.dtypes import (
    BFLOAT16,
    FLOAT8_E4M3,
    FLOAT16,
    FLOAT32,
    SPARSITY_PATTERNS,
    TFLOAT32,
    UINT16,
    compress,
)
from trnsim.errors import IllegalInstruction
from trnsim.isa import Engine, Instruction, NcMatmul, NcMatmulSparse
from trnsim.memory import Memory

PSUM = Memory.PSUM


def packed(tags):
    """Tags [K, M] of 4 bits, four to a uint16, the first in the lowest bits."""
    K, M = tags.shape
    result = np.zeros((K, M // 4), np.uint16)
    for k in range(K):
        for m in range(M):
            result[k, m // 4] |= int(tags[k, m]) << (4 * (m % 4))
    return result


@settings(max_examples=30)
@given(
    pattern=st.sampled_from(list(SPARSITY_PATTERNS)),
    blocks=st.sampled_from([1, 3]),
    M=st.sampled_from([4, 12]),
    N=st.sampled_from([1, 5]),
    dtype=st.sampled_from([BFLOAT16, FLOAT16, TFLOAT32, FLOAT8_E4M3]),
    seed=st.integers(0, 9),
)
def test_it_multiplies_each_value_with_the_row_that_its_tag_names(
    bench, random, pattern, blocks, M, N, dtype, seed
):
    kept, block = map(int, pattern.split(":"))
    ratio, K = block // kept, blocks * kept
    work = bench()
    tags = np.random.default_rng(seed).integers(0, block, (K, M))
    stationary = work.tile(random((K, M), seed=seed), dtype)
    moving = work.tile(random((K, ratio, N), seed=seed + 1), dtype)
    dst = work.issue(
        NcMatmulSparse(
            work.empty((M, N), memory=PSUM),
            moving,
            stationary,
            work.tile(packed(tags)),
            ratio,
            kept,
        )
    )
    values, rows = stationary.load(), moving.load().astype(np.float64)
    expected = np.zeros((M, N))
    for k in range(K):
        for m in range(M):
            place = k // kept * block + tags[k, m]  # along the dense contraction
            expected[m] += values[k, m] * rows[place // ratio, place % ratio]
    np.testing.assert_allclose(dst.load(), expected, rtol=1e-4, atol=1e-4)


def test_a_compressed_matrix_gives_the_product_of_the_dense_one(bench, random):
    work = bench()
    dense = random((8, 64))
    dense[:, np.arange(64) % 4 != 1] = 0
    values, tags = compress(dense, "4:16")
    moving = work.tile(random((16, 4, 6), seed=1), BFLOAT16)
    sparse = work.issue(
        NcMatmulSparse(
            work.empty((8, 6), memory=PSUM),
            moving,
            work.tile(values.T, BFLOAT16),
            work.tile(packed(tags.T)),
            4,
        )
    )
    whole = np.asarray(dense, BFLOAT16.dtype).astype(np.float64) @ moving.load().reshape(64, 6)
    np.testing.assert_allclose(sparse.load(), whole, rtol=1e-4, atol=1e-4)


def test_it_accumulates_as_nc_matmul(bench):
    work = bench()
    one = work.tile(np.ones((4, 4)), BFLOAT16)
    moving, tag = work.tile(np.ones((4, 2, 3)), BFLOAT16), work.tile(np.zeros((4, 1), np.uint16))
    dst = work.empty((4, 3), memory=PSUM)
    for accumulate, expected in ((None, 4), (None, 8), (False, 4), (True, 8)):
        work.issue(NcMatmulSparse(dst, moving, one, tag, 2, accumulate=accumulate))
        assert (dst.load() == expected).all()


def made(work, K=8, ratio=4, N=6, tag=None, dtypes=(BFLOAT16, BFLOAT16, FLOAT32), **options):
    return NcMatmulSparse(
        work.empty((8, N), dtypes[2], PSUM),
        work.empty((K, ratio, N), dtypes[0]),
        work.empty((K, 8), dtypes[1]),
        work.empty(tag or (K, 2), UINT16),
        **({"compress_ratio": ratio} | options),
    )


def test_the_documented_ratios_and_the_patterns_of_the_hardware_pages(bench, core_v3):
    work = bench(core_v3)
    for ratio, kept in ((4, 4), (3, 4), (2, 4), (4, 2), (2, 2), (4, 1), (2, 1)):
        made(work, ratio=ratio, kept=kept).verify(core_v3)
    for ratio, kept in ((5, 4), (3, 2), (1, 4), (8, 1)):
        with pytest.raises(IllegalInstruction, match=f"which is {kept}:{kept * ratio}; legal: 4:1"):
            made(work, ratio=ratio, kept=kept).verify(core_v3)


def test_its_constraints(bench, core_v2, core_v3):
    work = bench(core_v3)
    made(work).verify(core_v3)
    made(work, dtypes=(TFLOAT32, TFLOAT32, FLOAT32)).verify(core_v3)
    for options, message in (
        ({"K": 6}, "K=6 with 4:16; legal: multiples of 4"),
        ({"tag": (8, 3)}, "legal: a quarter of its free size"),
        ({"compress_ratio": 2}, r"`moving` is .* legal: \[8, 2, N\]"),
        ({"dtypes": (FLOAT32, FLOAT32, FLOAT32)}, "`moving` is .* legal dtypes"),
        ({"dtypes": (TFLOAT32, BFLOAT16, FLOAT32)}, "legal: both tfloat32, or neither"),
        ({"dtypes": (BFLOAT16, BFLOAT16, BFLOAT16)}, "`dst` is .* legal on NeuronCore-v3: float32"),
        ({"N": 513}, "N <= 512"),
    ):
        with pytest.raises(IllegalInstruction, match=message):
            made(work, **options).verify(core_v3)
    with pytest.raises(IllegalInstruction, match="on NeuronCore-v2; legal from NeuronCore-v3 on"):
        made(work).verify(core_v2)


def test_it_covers_the_ratio_in_the_time_of_a_dense_matmul(bench, core_v3):
    work = bench(core_v3, has_values=False)
    sparse = NcMatmulSparse(
        work.empty((128, 512), memory=PSUM),
        work.empty((128, 4, 512), BFLOAT16),
        work.empty((128, 128), BFLOAT16),
        work.empty((128, 32), UINT16),
        4,
    )
    dense = NcMatmul(
        work.empty((128, 512), memory=PSUM),
        work.empty((128, 128), BFLOAT16),
        work.empty((128, 512), BFLOAT16),
    )
    assert replace(work.cost(sparse), held_read=0) == work.cost(dense)
    assert sparse.chosen_engine(core_v3) is Engine.tensor


def test_it_has_no_name_in_nki_isa():
    assert trnsim.isa.nc_matmul_sparse is NcMatmulSparse
    assert not NcMatmulSparse.is_in_nki_isa
    assert Instruction.registry["nc_matmul_sparse"] is NcMatmulSparse
