"""Attention on the chip, for widths of heads that fit partitions and those that do not."""

import numpy as np
import pytest
from made_graphs import CHIPS, Made

from trnsim.graph.ops.contraction import Attention

WIDTHS = [1, 32, 64, 80, 96, 128, 130]


def projected(made, x, heads, width):
    return made.heads(made.linear(x, heads * width), heads)


@pytest.mark.slow_but_every(3)
@pytest.mark.slow_cases("1-float32")
@pytest.mark.parametrize(
    ("width", "dtype"), [*((width, "float32") for width in WIDTHS), (64, "bfloat16")]
)
def test_heads_of_projections_attend(width, dtype):
    made = Made(dtype)
    x = made.given(2, 43, 96)
    query, key, value = (projected(made, x, 3, width) for _ in range(3))
    found = made.joined(made.attention(query, key, value))
    made.check(made.of("add", x, made.linear(found, 96)), chip=CHIPS[width % 4])


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize(
    ("width", "tokens"), [*((width, 5) for width in WIDTHS), (64, 1), (64, 129), (80, 129)]
)
def test_groups_of_heads_share_keys_under_a_causal_mask(width, tokens):
    made = Made("bfloat16")
    x = made.given(1, tokens, 64)
    query = projected(made, x, 4, width)
    key, value = (repeated_heads(made, projected(made, x, 2, width), 2) for _ in range(2))
    found = made.joined(made.attention(query, key, value, is_causal=True))
    made.check(found, chip=CHIPS[tokens % 4])


def repeated_heads(made, x, times):
    """[B, G, S, E] as [B, G * times, S, E], each head `times` times."""
    batch, groups, rows, width = x.shape
    wide = made.graph.broadcast_in_dim(x, (batch, groups, times, rows, width), (0, 1, 3, 4))
    return made.graph.reshape(wide, (batch, groups * times, rows, width))


@pytest.mark.parametrize(("rows", "keys"), [(1, 1), (127, 128), (128, 129), (129, 513), (3, 2050)])
@pytest.mark.parametrize("is_causal", [False, True])
def test_queries_and_keys_of_any_number(rows, keys, is_causal):
    made = Made()
    query = made.given(2, rows, 32)
    key, value = made.given(2, keys, 32), made.given(2, keys, 40)
    made.check(made.attention(query, key, value, is_causal=is_causal), chip=CHIPS[rows % 4])


@pytest.mark.parametrize("width", [16, 48, 64])
def test_few_heads_of_any_width_lie_at_any_partition(width):
    # Engines begin at partitions 0, 32, 64 and 96 alone.
    made = Made()
    parts = [made.given(2, 3, 9, width) for _ in range(3)]
    biased = made.given(2, 3, 9, 9)
    made.check(made.attention(*parts), made.attention(*parts, biased))


def test_a_bias_hides_keys():
    made = Made()
    query, key, value = (made.given(1, 2, 5, 32) for _ in range(3))
    numbers = np.where(made.random.random((1, 2, 5, 5)) < 0.5, -np.inf, 0.0)
    numbers[..., 0] = 0.0
    bias = made.given(1, 2, 5, 5, array=numbers)
    lowest = made.given(1, 2, 5, 5, array=np.maximum(numbers, np.finfo(np.float32).min))
    hidden, low = (made.attention(query, key, value, one) for one in (bias, lowest))
    found = made.check(hidden, low)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


@pytest.mark.parametrize("scale", [0.125, 2.0])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_bias_of_any_format_and_scale_hides_keys(dtype, scale):
    # The lowest score that float32 holds, times the scale, may be beyond the bias's format.
    made = Made(dtype)
    query, key, value = (made.given(1, 2, 5, 32) for _ in range(3))
    numbers = np.where(made.random.random((1, 2, 5, 5)) < 0.5, -np.inf, 0.0)
    numbers[..., 0] = 0.0
    bias = made.given(1, 2, 5, 5, array=numbers)
    sides = [query, key, value, bias]
    made.check(made.graph.apply_to_all(Attention(scale), sides)[0])


@pytest.mark.parametrize("past", [1, 130, 512])
def test_new_keys_beside_a_cache_are_not_copied(past):
    made = Made("bfloat16")
    x = made.given(2, 1, 64)
    query = projected(made, x, 4, 32)
    sides = []
    for _ in range(2):
        cache = made.given(2, 2, past, 32)
        both = made.graph.concatenate([cache, projected(made, x, 2, 32)], 2)
        sides.append(made.graph.broadcast_in_dim(
            made.graph.reshape(both, (2, 2, 1, past + 1, 32)), (2, 2, 2, past + 1, 32),
            (0, 1, 2, 3, 4)))  # fmt: skip
    wide = made.graph.reshape(query, (2, 2, 2, 1, 32))
    found = made.attention(wide, *sides)
    made.check(found)
    made.graph.outputs = [found]
    moved = [
        span.operands for span in made.run(found).timeline.spans() if span.opcode == "dma_copy"
    ]
    # The whole cache with the new key, [2, 2, past + 1, 32], is nowhere in HBM.
    assert not any(f"[2, 2, {past + 1}, 32]" in operands for operands in moved)


@pytest.mark.parametrize(
    ("scale", "width", "values"), [(0.0, 32, 32), (-0.5, 32, 32), (0.2, 130, 32), (0.2, 32, 513)]
)
def test_other_scales_and_widths_go_by_a_kernel(scale, width, values):
    made = Made()
    query, key = made.given(2, 5, width), made.given(2, 7, width)
    given = [query, key, made.given(2, 7, values), made.given(2, 5, 7)]
    made.check(made.graph.apply_to_all(Attention(scale, False), given)[0])


def test_the_logarithms_of_sums_come_from_a_kernel():
    made = Made()
    given = [made.given(2, 5, 32) for _ in range(3)]
    made.check(*made.graph.apply_to_all(Attention(0.2, True), given))


@pytest.mark.slow
def test_many_short_heads_stay_within_a_bank():
    made = Made()
    given = [made.given(200, rows, 2) for rows in (128, 3, 3)]
    made.check(made.attention(*given), chip="trn1")


def test_operands_in_any_order_of_dimensions():
    made = Made()
    query, key, value = (
        made.graph.transpose(made.of("negate", made.given(2, 32, 3, 5)), (0, 2, 3, 1))
        for _ in range(3)
    )
    flipped = [made.graph.transpose(made.given(3, 5, 2, 32), (2, 0, 1, 3)) for _ in range(3)]
    made.check(made.attention(query, key, value), made.attention(*flipped, is_causal=True))


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("given", ["key", "value", "key and value"])
@pytest.mark.parametrize(("keys", "heads"), [(128, 1), (256, 2), (300, 1), (2100, 1)])
def test_keys_and_values_are_in_one_order_wherever_each_lies(keys, heads, given):
    """In HBM, where a partition may hold neighbours, or in SBUF, as a product left it."""
    made = Made("bfloat16")

    def operand(name):
        if name in given:
            return made.given(1, heads, keys, 64)
        return made.heads(made.linear(made.given(1, keys, 128), 64 * heads), heads)

    query = made.given(1, heads, 40, 64)
    made.check(made.attention(query, operand("key"), operand("value")))


def test_values_of_groups_that_are_part_of_one_projection():
    made = Made("bfloat16")
    query, key = made.given(2, 8, 1, 64), made.given(2, 8, 17, 64)
    parts = made.linear(made.given(2, 17, 32), 3 * 4 * 64)
    part = made.graph.slice(parts, [0, 0, 4 * 64], [2, 17, 4 * 64])
    heads = made.graph.broadcast_in_dim(made.heads(part, 4), (2, 4, 2, 17, 64), (0, 1, 3, 4))
    value = made.graph.reshape(heads, (2, 8, 17, 64))
    bias = made.of("tanh", made.given(2, 8, 1, 17))
    made.check(made.attention(query, key, value, bias, is_causal=True), chip="trn1")
