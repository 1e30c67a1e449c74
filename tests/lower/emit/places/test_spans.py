"""Spans and groups of them, beside all elements one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trnsim.lower.emit.places.spans import blocks_together, group_spans, merged_span, tile_spans
from trnsim.lower.emit.places.walk import Frame, TileSpan


@given(
    st.sampled_from([1, 2, 127, 128, 129, 256, 300]),
    st.sampled_from([1, 127, 128, 512, 513, 2048]),
    st.sampled_from([128, 96, 80]),
    st.sampled_from([1, 512, 2048, 4096]),
    st.sampled_from([1, 128, 512, 2048]),
    st.data(),
)
def test_spans_cover_each_element_once(rows, columns, block, longest, most, data):
    frame = Frame((rows, columns), (0,), (1,), block)
    start = data.draw(st.integers(0, columns - 1))
    count = data.draw(st.integers(1, columns - start))
    seen = np.zeros((rows, columns), int)
    for span in tile_spans(frame, start, count, longest, most):
        assert span.columns <= most
        assert span.blocks * span.columns <= max(longest, span.columns)
        for number in range(span.block, span.block + span.blocks):
            first = number * block
            assert span.partitions == min(block, rows - first)
            seen[first : first + span.partitions, span.start : span.start + span.columns] += 1
    assert (seen[:, start : start + count] == 1).all()
    assert seen.sum() == rows * count


def test_neighbours_of_a_block_are_one_strip_up_to_so_many_columns():
    one = [TileSpan(0, 1, 128, at, 10) for at in (0, 10, 20, 40, 50)]
    other = [TileSpan(1, 1, 64, 60, 10), TileSpan(1, 1, 64, 70, 3)]
    found = [[span.start for span in strip] for strip in group_spans([*one, *other], 20)]
    assert found == [[0, 10], [20], [40, 50], [60, 70]]
    assert [list(strip) for strip in group_spans(one[:1], 5)] == [one[:1]]  # one may be longer
    assert list(group_spans([], 5)) == []
    assert merged_span(other) == TileSpan(1, 1, 64, 60, 13)


def test_blocks_with_all_columns_are_one_group_up_to_so_many():
    frame = Frame((5 * 128 + 3, 10), (0,), (1,))
    groups = list(group_spans(tile_spans(frame, 0, 10, 1, 10), 30, 4))
    assert [len(group) for group in groups] == [3, 2, 1]
    assert merged_span(groups[1]) == TileSpan(3, 2, 128, 0, 10)
    assert merged_span(groups[2]) == TileSpan(5, 1, 3, 0, 10)


def test_short_rows_of_many_blocks_leave_together():
    assert blocks_together(Frame((128 * 64, 256), (0,), (1,)), 4) == 4
    assert blocks_together(Frame((128 * 64, 257), (0,), (1,)), 4) == 1
    assert blocks_together(Frame((128 * 31, 1), (0,), (1,)), 4) == 1
