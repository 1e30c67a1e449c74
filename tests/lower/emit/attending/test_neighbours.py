"""Rows of heads in HBM: few transfers bring many short heads, and parts of long ones."""

import pytest
from made_graphs import CHIPS, Made

from trnsim.graph.ops.contraction import Attention, AttentionBackward
from trnsim.lower.emit.attending.neighbours import Neighbours, lies_in_rows
from trnsim.lower.emit.places.tensor_place import TensorPlace, in_hbm


def transfers(made, found):
    return made.opcodes(found).count("dma_copy")


@pytest.mark.parametrize(("rows", "most"), [(128, 8), (64, 8), (40, 8), (512, 70)])
def test_short_heads_come_and_go_together(rows, most):
    made = Made("bfloat16")
    given = [made.given(16, rows, 64) for _ in range(3)]
    assert transfers(made, made.attention(*given)) <= most


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("rows", [1, 3, 64, 128, 130, 256])
@pytest.mark.parametrize("width", [1, 48, 64])
def test_heads_brought_together_are_what_they_were(rows, width):
    made = Made()
    given = [made.given(5, 3, rows, width) for _ in range(3)]
    made.check(made.attention(*given), chip=CHIPS[rows % 4])


@pytest.mark.parametrize("rows", [2048, 2176, 2304])
def test_a_long_head_comes_in_parts(rows):
    # 8 rows of 128 numbers in float32 are 4 KiB.
    made = Made()
    query, key, value = made.given(2, rows, 128), made.given(2, 3, 128), made.given(2, 3, 128)
    made.check(made.attention(query, key, value))


def test_heads_in_uneven_places():
    """Heads of every other batch, and of all groups: no one step says where they begin."""
    made = Made()
    parts = [made.given(3, 4, 9, 16) for _ in range(3)]
    some = [made.graph.slice(one, [0, 1, 0, 0], [3, 4, 9, 16]) for one in parts]
    made.check(made.attention(*some), made.attention(*some, is_causal=True))


def test_what_does_not_lie_in_rows_stays():
    tensor = object()
    across = TensorPlace(tensor, (2, 4, 8), ((32,), (1,), (4,)), (0,))
    assert not lies_in_rows(TensorPlace(tensor, (4, 8), ((1,), (4,)), (0,)), 8)
    assert Neighbours((2,)).head_and_first_row(across, (1,))[0].steps == ((1,), (4,))
    whole = in_hbm(tensor, (2, 200, 8))
    found, first = Neighbours((2,)).head_and_first_row(whole, (1,), 130)
    assert (found.storage, first) == (tensor, 0)


@pytest.mark.slow_cases("256-60")
@pytest.mark.parametrize(("rows", "most"), [(128, 40), (256, 60)])
def test_gradients_of_short_heads_come_and_go_together(rows, most):
    made = Made("bfloat16")
    query, key, value, slope = (made.given(4, 8, rows, 64) for _ in range(4))
    result, logs = made.graph.apply_to_all(Attention(0.125, False), [query, key, value])
    operands = [query, key, value, slope, result, logs]
    gradients = made.graph.apply_to_all(AttentionBackward(0.125, False), operands)
    assert made.opcodes(result, *gradients).count("dma_copy") <= most


@pytest.mark.slow_but_every(3)
@pytest.mark.slow_cases("33-128-64", "3-512-32")
@pytest.mark.parametrize("width", [32, 64])
@pytest.mark.parametrize(("heads", "rows"), [(7, 40), (33, 128), (5, 256), (3, 512)])
def test_narrow_heads_are_turned_together(heads, rows, width):
    made = Made("bfloat16")
    query, key, value, slope = (made.given(heads, rows, width) for _ in range(4))
    operands = [query, key, value]
    result, logs = made.graph.apply_to_all(Attention(0.125, True), operands)
    operands += [slope, result, logs]
    gradients = made.graph.apply_to_all(AttentionBackward(0.125, True), operands)
    made.check(result, *gradients, chip=CHIPS[heads % 4])


@pytest.mark.parametrize("rows", [40, 130, 256])
def test_narrow_heads_that_share_keys_begin_where_these_do(rows):
    made = Made()
    query, key, value = (made.given(2, heads, rows, 64) for heads in (6, 3, 3))
    shape = (2, 3, 2, rows, 64)
    sides = [made.graph.broadcast_in_dim(one, shape, (0, 1, 3, 4)) for one in (key, value)]
    made.check(made.attention(made.graph.reshape(query, shape), *sides, is_causal=True))


def test_pairs_of_heads_take_half_the_transposes():
    made = Made("bfloat16")
    names = made.opcodes(made.attention(*(made.given(16, 128, 64) for _ in range(3))))
    # Queries and keys by pairs, weights by heads.
    assert names.count("nc_transpose") == 8 + 8 + 16


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("widths", [(64, 64, 64), (64, 64, 32), (64, 64, 128), (32, 32, 128)])
@pytest.mark.parametrize(("keys", "queries"), [(40, 5), (128, 7), (64, 64), (16, 1)])
def test_queries_keys_and_values_may_be_slices_of_one_tensor(keys, queries, widths):
    made = Made()
    x = made.given(2, 4, keys, 128)
    rows = (queries, keys, keys)
    sides = [
        made.graph.slice(x, [0] * 4, [2, 4, count, width])
        for count, width in zip(rows, widths, strict=True)
    ]
    made.check(made.attention(*sides))


@pytest.mark.parametrize(("keys", "queries"), [(40, 5), (64, 64), (130, 7)])
@pytest.mark.parametrize("widths", [(64, 32), (64, 128)])
def test_gradients_of_slices_of_one_tensor(keys, queries, widths):
    made = Made()
    x = made.given(2, 4, keys, 128)
    width, value_width = widths
    query, key, value = (
        made.graph.slice(x, [0] * 4, [2, 4, *shape])
        for shape in ((queries, width), (keys, width), (keys, value_width))
    )
    slope = made.given(2, 4, queries, value_width)
    result, logs = made.graph.apply_to_all(Attention(0.125), [query, key, value])
    operands = [query, key, value, slope, result, logs]
    made.check(*made.graph.apply_to_all(AttentionBackward(0.125), operands))
