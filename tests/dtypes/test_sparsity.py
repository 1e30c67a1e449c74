"""Structured sparsity against a search through every block."""

import itertools

import numpy as np
import pytest

from trnsim.dtypes import BFLOAT16, FLOAT8_E4M3, SPARSITY_PATTERNS, compress, expand, round_to
from trnsim.errors import IllegalInstruction


@pytest.fixture(params=SPARSITY_PATTERNS)
def pattern(request):
    return request.param


def brute_force(block, kept):
    """The indices of the kept values: of all choices the one with the largest magnitudes,
    the lower index where two are equal."""
    ranked = sorted(range(len(block)), key=lambda index: (-abs(block[index]), index))
    return sorted(ranked[:kept])


def test_the_patterns_are_those_that_aws_lists():
    # neuron-core-v3.rst: "several sparsity patterns, including 4:16, 4:12, 4:8, 2:8, 2:4, 1:4,
    # and 1:2", "where only M elements out of every N contiguous elements are non-zero".
    assert list(SPARSITY_PATTERNS) == ["4:16", "4:12", "4:8", "2:8", "2:4", "1:4", "1:2"]
    for name, form in SPARSITY_PATTERNS.items():
        assert name == str(form) == f"{form.nonzeros}:{form.block}"
        assert form.compression * form.nonzeros == form.block
    assert max(form.block for form in SPARSITY_PATTERNS.values()) == 16
    assert max(form.compression for form in SPARSITY_PATTERNS.values()) == 4


def test_the_largest_magnitudes_are_kept(pattern):
    kept, block = SPARSITY_PATTERNS[pattern]
    values = np.random.default_rng(0).integers(-4, 5, (20, 6 * block)).astype(np.float32)
    stored = compress(values, pattern)
    assert stored.values.shape == stored.tags.shape == (20, 6 * kept)
    assert stored.tags.dtype == np.uint8
    for row, number in itertools.product(range(20), range(6)):
        dense = values[row, number * block : (number + 1) * block].tolist()
        indices = brute_force(dense, kept)
        at = slice(number * kept, (number + 1) * kept)
        assert stored.tags[row, at].tolist() == indices
        assert stored.values[row, at].tolist() == [dense[index] for index in indices]


def test_ties_go_to_the_lower_index(pattern):
    kept, block = SPARSITY_PATTERNS[pattern]
    values = np.resize(np.array([1, -1], np.float32), block)
    assert compress(values, pattern).tags.tolist() == list(range(kept))


def test_expanding_what_was_compressed_gives_back_what_was_sparse(pattern):
    kept, block = SPARSITY_PATTERNS[pattern]
    rng = np.random.default_rng(1)
    values = rng.standard_normal((3, 5, 4 * block)).astype(np.float32)
    keep = rng.permuted(np.tile(np.arange(block) < kept, (3, 5, 4, 1)), axis=-1)
    values = np.where(keep.reshape(values.shape), values, 0).astype(np.float32)
    np.testing.assert_array_equal(expand(*compress(values, pattern), pattern), values)


def test_a_sparse_product_is_the_dense_product_of_what_was_kept(pattern):
    kept, block = SPARSITY_PATTERNS[pattern]
    rng = np.random.default_rng(2)
    weights = rng.integers(-9, 9, (6, 2 * block)).astype(np.float32)
    moving = rng.integers(-9, 9, (2 * block, 7)).astype(np.float32)
    stored = compress(weights, pattern)
    base = np.arange(2 * kept) // kept * block
    product = np.einsum("rk,rkn->rn", stored.values, moving[base + stored.tags])
    np.testing.assert_array_equal(product, expand(*stored, pattern) @ moving)


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT8_E4M3], ids=str)
def test_narrow_formats_stay_as_they_are_stored(pattern, dtype):
    block = SPARSITY_PATTERNS[pattern].block
    wide = np.random.default_rng(3).standard_normal((4, 2 * block)).astype(np.float32)
    values = round_to(wide, dtype)
    stored = compress(values, pattern)
    assert stored.values.dtype == dtype
    from_wide = compress(values.astype(np.float32), pattern)
    np.testing.assert_array_equal(stored.tags, from_wide.tags)
    np.testing.assert_array_equal(stored.values.astype(np.float32), from_wide.values)
    assert expand(*stored, pattern).dtype == np.float32


def test_a_nan_is_never_dropped(pattern):
    block = SPARSITY_PATTERNS[pattern].block
    values = np.full(block, np.inf, np.float32)
    values[-1] = np.nan
    kept = compress(values, pattern).values
    assert np.isinf(kept[:-1]).all()
    values[:-1] = 1e30
    assert np.isnan(compress(values, pattern).values).sum() == 1


def test_repeated_tags_add():
    kept, tags = np.array([1, 2, 4, 8], np.float32), np.array([3, 3, 0, 3], np.uint8)
    expected = np.zeros(16)
    expected[[0, 3]] = 4, 11
    np.testing.assert_array_equal(expand(kept, tags, "4:16"), expected)


def test_a_pattern_that_the_engine_has_not_is_refused():
    for attempt in (
        lambda: compress(np.zeros(16, np.float32), "16:4"),
        lambda: expand(np.zeros(4, np.float32), np.zeros(4, np.uint8), "3:4"),
    ):
        with pytest.raises(IllegalInstruction, match=r"legal: 4:16, .*1:2 \(kept:block\)"):
            attempt()


def test_lengths_that_end_within_a_block_are_refused():
    with pytest.raises(IllegalInstruction, match=r"has 20 values.* legal: a multiple of 16"):
        compress(np.zeros((2, 20), np.float32), "4:16")
    with pytest.raises(IllegalInstruction, match=r"has 6 kept values.* legal: a multiple of 4"):
        expand(np.zeros(6, np.float32), np.zeros(6, np.uint8), "4:8")
    with pytest.raises(IllegalInstruction, match="has 1 values"):
        compress(np.zeros((), np.float32), "1:2")


def test_a_value_needs_a_tag_within_its_block():
    with pytest.raises(IllegalInstruction, match="one tag for each value"):
        expand(np.zeros(4, np.float32), np.zeros(8, np.uint8), "4:8")
    tags = np.array([0, 1, 2, 8])
    with pytest.raises(IllegalInstruction, match="tag 8 in a block of 8; legal: 0 to 7"):
        expand(np.zeros(4, np.float32), tags, "4:8")
    with pytest.raises(IllegalInstruction, match="tag -1 in a block of 8"):
        expand(np.zeros(4, np.float32), tags - 1, "4:8")
