"""Attention of many queries: stretches of keys that follow one another, and engines that share."""

import numpy as np
import pytest
from made_graphs import CHIPS, Made

from trnsim import compiler
from trnsim.graph.ops.contraction import Attention


def operands(made, queries, keys, width=16, values=16):
    return made.given(2, queries, width), made.given(2, keys, width), made.given(2, keys, values)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("queries", "keys"),
    [(129, 129), (300, 2049), (2200, 2200), (257, 2600), (128, 4097), (640, 640), (130, 1)],
)
@pytest.mark.parametrize("is_causal", [False, True])
def test_stretches_add_up(queries, keys, is_causal):
    made = Made()
    given = operands(made, queries, keys)
    made.check(made.attention(*given, is_causal=is_causal), chip=CHIPS[queries % 4])


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_largest_score_may_come_first_or_last(chip, dtype):
    """Sums of stretches are rescaled by what overflows where the maximum is not taken away."""
    made = Made(dtype)
    query, key, value = operands(made, 200, 2200)
    for place in (0, 511, 512, 2047, 2048, 2199):
        made.arrays[1][:, place] *= 20
    found = [made.attention(query, key, value, is_causal=one) for one in (False, True)]
    made.check(*found, chip=chip)


def test_values_as_wide_as_a_bank_but_for_their_sum():
    made = Made()
    made.check(made.attention(*operands(made, 140, 150, values=511), is_causal=True))


def test_queries_of_several_heads_stand_together():
    made = Made("bfloat16")
    query, key, value = (made.given(1, heads, 50, 32) for heads in (6, 2, 2))
    shape = (1, 2, 3, 50, 32)
    sides = [made.graph.broadcast_in_dim(one, shape, (0, 1, 3, 4)) for one in (key, value)]
    wide = made.graph.reshape(query, shape)
    made.check(made.attention(wide, *sides, is_causal=True))


@pytest.mark.parametrize("window", [1, 2, 127, 128, 129, 700])
@pytest.mark.parametrize("sizes", [(1, 1), (3, 9), (129, 130), (300, 600)])
def test_windows_hide_earlier_keys(sizes, window):
    made = Made()
    attention = Attention(0.25, is_causal=True, window=window)
    given = operands(made, *sizes)
    made.check(*made.graph.apply_to_all(attention, given), chip=CHIPS[(sum(sizes) + window) % 4])


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("window", [100, 1000, 2048, 2049, 2300])
@pytest.mark.parametrize("scale", [0.01, 1.0])
def test_a_window_may_hide_all_of_a_stretch(window, scale):
    """The sums of stretches that are hidden for some queries only have no part in the result."""
    made = Made()
    attention = Attention(scale, is_causal=True, window=window)
    made.check(*made.graph.apply_to_all(attention, operands(made, 2200, 2300)))


def test_windows_of_heads_that_stand_together_and_beside_a_bias():
    made = Made("bfloat16")
    query, key, value = (made.given(1, heads, 50, 32) for heads in (6, 2, 2))
    shape = (1, 2, 3, 50, 32)
    sides = [made.graph.broadcast_in_dim(one, shape, (0, 1, 3, 4)) for one in (key, value)]
    wide = made.graph.reshape(query, shape)
    window = Attention(32**-0.5, is_causal=True, window=20)
    bias = made.given(1, 2, 3, 50, 50)
    made.check(
        made.graph.apply_to_all(window, [wide, *sides])[0],
        made.graph.apply_to_all(window, [wide, *sides, bias])[0],
    )


def test_a_window_costs_the_keys_that_it_shows():
    made = Made("bfloat16")
    given = [made.given(1, 2048, 64) for _ in range(3)]
    times = [
        made.run(
            made.graph.apply_to_all(Attention(0.125, is_causal=True, window=window), given)[0]
        ).timeline.device_time_s
        for window in (128, 0)
    ]
    assert times[0] < times[1] / 2


def test_a_bias_and_hidden_keys_in_several_stretches():
    made = Made()
    query, key, value = operands(made, 150, 2300)
    made.check(made.attention(query, key, value, made.given(2, 150, 2300), is_causal=True))


def test_logarithms_are_those_of_the_sums():
    made = Made()
    given = operands(made, 300, 2100)
    made.check(*made.graph.apply_to_all(Attention(0.25, True), list(given)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chip", "limits", "most"),
    [
        ("trn2", ("tensor",), 1.2),
        ("trn3", ("tensor",), 1.25),
        ("trn1", ("scalar", "vector"), 1.1),  # one port to PSUM for both
    ],
)
def test_engines_work_at_once(chip, limits, most):
    """The program takes little longer than what must follow one another.

    Maxima and exponentials read PSUM once, at one score a lane and cycle. For 128 queries and 512
    keys the Tensor Engine streams 512 columns of scores, 4 * 128 of transposes and 4 * 129 of
    values, after nine loads of 128 stationary columns at two a cycle: 2,116 cycles. The bound
    counts the 1,024 of the products.
    """
    made = Made("bfloat16")
    query, key, value = (made.given(1, heads, 2048, 128) for heads in (4, 1, 1))
    shape = (1, 1, 4, 2048, 128)
    sides = [made.graph.broadcast_in_dim(one, shape, (0, 1, 3, 4)) for one in (key, value)]
    found = made.attention(made.graph.reshape(query, shape), *sides, is_causal=True)
    timeline = made.run(found, chip=chip).timeline
    busy = {engine.name: seconds for engine, seconds in timeline.busy_s().items()}
    assert timeline.device_time_s < most * sum(busy[engine] for engine in limits)
    assert busy["tensor"] < 2.5 * program_bound_s(made, found, chip)


def program_bound_s(made, found, chip):
    made.graph.outputs = [found]
    return compiler.compile(made.graph, chip).bound.seconds


def test_hidden_scores_leave_no_weight():
    made = Made("float16")
    query, key, value = operands(made, 200, 200)
    made.arrays[2][:, 1:] = 1000.0
    found = made.check(made.attention(query, key, value, is_causal=True))
    np.testing.assert_allclose(found[0][:, 0], made.arrays[2][:, 0])


@pytest.mark.parametrize(("queries", "width"), [(1, 256), (40, 192)])
def test_wide_values_of_heads_that_share_keys(queries, width):
    # The rows of the second head begin at a partition at which no engine can begin.
    made = Made("bfloat16")
    query = made.given(1, 3, queries, 16)
    keys, values = (
        made.graph.broadcast_in_dim(made.given(1, 1, 300, n), (1, 3, 300, n), range(4))
        for n in (16, width)
    )
    found = made.attention(query, keys, values)
    made.check(made.of("tanh", found))
