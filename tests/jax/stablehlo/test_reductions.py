"""Reductions, windows and orders, at edge values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agreeing import BFLOAT16, BLOCK, EDGES, WHOLE, agree, agree_text, names, parsed
from jax import lax

from trnsim.errors import NotModelled
from trnsim.jax.stablehlo import graph_of


@pytest.mark.slow_cases("bfloat16")
@pytest.mark.parametrize("dtype", [np.float32, BFLOAT16])
def test_reductions_over_any_dimensions(dtype):
    agree(
        lambda x: (
            *(x.sum(), x.sum((0, 2)), x.max(1), x.min(), x.prod(-1), x.mean(), x.std(0)),
            *(jnp.any(x > 0, 0), jnp.all(x > 0), jax.nn.logsumexp(x, 1)),
        ),
        BLOCK.astype(dtype),
        tolerance=1e-4 if dtype is np.float32 else 2.0**-5,
    )


def test_reductions_of_integers():
    agree(lambda x: (x.sum(), x.max(1), x.min(), x.prod(0)), WHOLE)
    agree(lambda x: (x.max(1), x.min(0)), WHOLE.astype(np.uint8))


def test_reductions_of_edges_and_of_nothing():
    agree(lambda x: (x.max(1), x.min(0), x.sum(0), jnp.nanmax(x)), EDGES)
    agree(lambda x: (x.sum(0), x.prod(0)), np.ones((0, 3), np.float32))


@pytest.mark.parametrize("start", [100.0, 3.0, np.nan])
def test_a_start_that_may_be_an_argmax_is_refused(start):
    def largest(a, b):
        is_first = (a[0] > b[0]) | (a[0] != a[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
        is_left = (a[0] > b[0]) | (a[0] != a[0])
        return jnp.where(is_left, a[0], b[0]), jnp.where(is_first, a[1], b[1])

    def program(x, start):
        indices = lax.broadcasted_iota(np.int32, x.shape, 0)
        return lax.reduce((x, indices), (np.float32(start), np.int32(0)), largest, (0,))

    x = np.float32([1, 5, 2, 5])
    agree(lambda x: program(x, -np.inf), x)
    with pytest.raises(NotModelled, match="whose start is no neutral element of maximum"):
        graph_of(parsed(jax.jit(lambda x: program(x, start)).lower(x).as_text()))


def test_where_a_reduction_begins():
    agree(lambda x, y: lax.reduce(x, y[0], lax.max, (1,)), EDGES, np.ones(1, np.float32))
    agree(lambda x: lax.reduce(x, 2.5, lax.add, (1,)), BLOCK)
    agree(lambda x: lax.reduce(x, 0.0, lax.max, (0, 2)), BLOCK - 9)


@pytest.mark.slow
def test_places_of_extremes():
    """The first of equal ones, and NaN before all numbers."""
    for given in (EDGES, WHOLE, WHOLE.astype(np.uint8), EDGES > 0, np.ones((2, 6), np.float32)):
        agree(
            lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 1), jnp.argmax(x), jnp.argmin(x, 0)), given
        )


def test_extremes_with_their_places():
    found = agree(lambda x: lax.argmax(x, 1, jnp.int32), BLOCK)
    assert "top_k" in names(found)


def test_sums_beside_the_largest_index_are_no_extreme():
    def both(x, y):
        return x[0] + y[0], jnp.maximum(x[1], y[1])

    def program(x):
        numbers = lax.broadcasted_iota(jnp.int32, x.shape, 1)
        return lax.reduce((x, numbers), (0.0, jnp.int32(-5)), both, (1,))

    agree(program, BLOCK)


def test_several_operands_apart():
    text = """func.func public @main(%a: tensor<2x6xf32>, %b: tensor<2x6xf32>)
        -> (tensor<2xf32>, tensor<2xf32>) {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %0:2 = stablehlo.reduce(%a init: %zero), (%b init: %low) across dimensions = [1]
        : (tensor<2x6xf32>, tensor<2x6xf32>, tensor<f32>, tensor<f32>)
        -> (tensor<2xf32>, tensor<2xf32>)
        reducer(%p: tensor<f32>, %q: tensor<f32>) (%r: tensor<f32>, %s: tensor<f32>) {
          %1 = stablehlo.add %p, %q : tensor<f32>
          %2 = stablehlo.maximum %r, %s : tensor<f32>
          stablehlo.return %1, %2 : tensor<f32>, tensor<f32>
        }
      return %0#0, %0#1 : tensor<2xf32>, tensor<2xf32> }"""
    given = BLOCK.ravel()[:12].reshape(2, 6)
    agree_text(text, given, given + 1)
    mixed = text.replace("stablehlo.maximum %r, %s", "stablehlo.add %r, %q")
    with pytest.raises(NotModelled, match=r"^stablehlo\.reduce with a body that is none of add"):
        graph_of(parsed(mixed))
    both = text.replace("stablehlo.maximum %r, %s", "stablehlo.maximum %r, %s").replace(
        "stablehlo.return %1, %2", "%3 = stablehlo.multiply %2, %1 : tensor<f32>\n return %1, %3"
    )
    with pytest.raises(NotModelled, match=r"none of add|mixes its 2 operands"):
        graph_of(parsed(both.replace("\n return", "\n stablehlo.return")))


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_the_largest_and_a_number_that_stands_beside_it(name):
    direction = {"maximum": "GT", "minimum": "LT"}[name]
    start = {"maximum": "0xFF800000", "minimum": "0x7F800000"}[name]
    text = f"""func.func public @main(%a: tensor<4x6xf32>, %b: tensor<4x6xi32>)
        -> (tensor<4xf32>, tensor<4xi32>) {{
      %low = stablehlo.constant dense<{start}> : tensor<f32>
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %0:2 = stablehlo.reduce(%a init: %low), (%b init: %zero) across dimensions = [1]
        : (tensor<4x6xf32>, tensor<4x6xi32>, tensor<f32>, tensor<i32>)
        -> (tensor<4xf32>, tensor<4xi32>)
        reducer(%p: tensor<f32>, %q: tensor<f32>) (%r: tensor<i32>, %s: tensor<i32>) {{
          %1 = stablehlo.compare {direction}, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
          %2 = stablehlo.compare NE, %p, %p : (tensor<f32>, tensor<f32>) -> tensor<i1>
          %3 = stablehlo.or %1, %2 : tensor<i1>
          %4 = stablehlo.select %3, %p, %q : tensor<i1>, tensor<f32>
          %5 = stablehlo.compare EQ, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
          %6 = stablehlo.compare LT, %r, %s : (tensor<i32>, tensor<i32>) -> tensor<i1>
          %7 = stablehlo.and %5, %6 : tensor<i1>
          %8 = stablehlo.or %3, %7 : tensor<i1>
          %9 = stablehlo.select %8, %r, %s : tensor<i1>, tensor<i32>
          stablehlo.return %4, %9 : tensor<f32>, tensor<i32>
        }}
      return %0#0, %0#1 : tensor<4xf32>, tensor<4xi32> }}"""
    given = BLOCK.ravel()[:24].reshape(4, 6).copy()
    given[1] = [2, -3, 2, -3, 2, -3]  # several are alike
    given[2, 4] = np.nan
    numbers = np.array([7, 30, 4, 12, 9, 25] * 4, np.int32).reshape(4, 6)
    agree_text(text, given, numbers)


def test_running_results():
    found = agree(
        lambda x: (
            *(jnp.cumsum(x, 0), jnp.cumprod(x, 1), lax.cummax(x, 2)),
            *(lax.cummin(x, 1, reverse=True), lax.cumsum(x, 2, reverse=True)),
        ),
        BLOCK,
        tolerance=1e-4,
    )
    assert names(found).count("scan") == 5
    agree(lambda x: jnp.cumsum(x, 0), np.ones((1, 3), np.float32))
    agree(jnp.cumsum, WHOLE)


def test_windows():
    agree(
        lambda x: (
            lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 2), (1, 2, 1), "SAME"),
            lax.reduce_window(
                x, 0.0, lax.add, (2, 3, 2), (1, 2, 1), "VALID", window_dilation=(1, 1, 2)
            ),
            lax.reduce_window(
                x, 0.0, lax.add, (2, 3, 2), (1, 2, 1), ((0, 0), (1, 2), (0, 1)), (1, 2, 3)
            ),
            lax.reduce_window(x, 1.5, lax.add, (1, 2, 2), (1, 2, 2), "VALID"),
            lax.reduce_window(x, jnp.inf, lax.min, (1, 1, 4), (1, 1, 4), "VALID"),
        ),
        BLOCK,
        tolerance=1e-4,
    )


def test_gradients_of_windows():
    def pooled(x):
        return (lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 2), (1, 2, 1), "SAME") ** 2).sum()

    found = agree(jax.grad(pooled), BLOCK)
    assert "select_and_scatter" in names(found)


@pytest.mark.parametrize(
    "given", [BLOCK, EDGES, WHOLE, WHOLE.astype(np.uint8)], ids=lambda g: g.dtype
)
def test_orders(given):
    agree(
        lambda x: (
            *(jnp.sort(x), jnp.sort(x, 0), jnp.argsort(x), jnp.sort(x, descending=True)),
            jnp.argsort(x, descending=True, axis=0),
        ),
        given,
    )


def test_orders_by_several_keys():
    agree(lambda x: lax.sort((jnp.round(x), x), num_keys=2, dimension=0), BLOCK)
    agree(lambda x: lax.sort((jnp.round(x), x, x * 2), num_keys=1), BLOCK)


@pytest.mark.parametrize("direction", ["LT", "LE", "GT", "GE"])
def test_an_order_by_each_comparison(direction):
    text = f"""func.func public @main(%a: tensor<24xf32>) -> tensor<24xf32> {{
      %0 = "stablehlo.sort"(%a) ({{
        ^bb0(%x: tensor<f32>, %y: tensor<f32>):
          %1 = stablehlo.compare {direction}, %x, %y, TOTALORDER
            : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %1 : tensor<i1>
      }}) {{dimension = 0 : i64, is_stable = false}} : (tensor<24xf32>) -> tensor<24xf32>
      return %0 : tensor<24xf32> }}"""
    given = np.concatenate([BLOCK.ravel()[:10], [0.0, -0.0]] * 2).astype(np.float32)
    wanted = np.sort(given)
    wanted[wanted == 0] = [-0.0, -0.0, 0.0, 0.0]
    wanted = wanted if direction.startswith("L") else wanted[::-1]
    (found,) = graph_of(parsed(text)).reference([given])
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
    plain = text.replace(", TOTALORDER", ", FLOAT")
    np.testing.assert_array_equal(graph_of(parsed(plain)).reference([given])[0], wanted)


def test_an_order_by_another_body_is_refused():
    text = """func.func public @main(%a: tensor<6xf32>) -> tensor<6xf32> {
      %0 = "stablehlo.sort"(%a) ({
        ^bb0(%x: tensor<f32>, %y: tensor<f32>):
          %1 = stablehlo.abs %x : tensor<f32>
          %2 = stablehlo.compare LT, %1, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %2 : tensor<i1>
      }) {dimension = 0 : i64, is_stable = true} : (tensor<6xf32>) -> tensor<6xf32>
      return %0 : tensor<6xf32> }"""
    with pytest.raises(NotModelled, match=r"^stablehlo\.sort whose body is no order") as refused:
        graph_of(parsed(text))
    assert "jax-neuronx-known-issues.rst, sort" in str(refused.value)


def test_dilated_windows_of_one_element():
    text = """func.func public @main(%a: tensor<3xf32>) -> tensor<1xf32> {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = "stablehlo.reduce_window"(%a, %zero) ({
        ^bb0(%x: tensor<f32>, %y: tensor<f32>):
          %s = stablehlo.add %x, %y : tensor<f32>
          stablehlo.return %s : tensor<f32>
      }) {window_dimensions = array<i64: 3>, window_strides = array<i64: 2>,
        window_dilations = array<i64: 2>, padding = dense<[[2, 0]]> : tensor<1x2xi64>}
        : (tensor<3xf32>, tensor<f32>) -> tensor<1xf32>
      return %0 : tensor<1xf32> }"""
    agree_text(text, np.array([1, 2, 4], np.float32))


_SCATTERED = """func.func public @main(%a: tensor<4xf32>, %b: tensor<2xf32>) -> tensor<4xf32> {{
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = "stablehlo.select_and_scatter"(%a, %b, %zero) ({{
        ^bb0(%x: tensor<f32>, %y: tensor<f32>):
          %c = stablehlo.compare {compared} : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
      }}, {{
        ^bb0(%x: tensor<f32>, %y: tensor<f32>):
          %s = stablehlo.add {added} : tensor<f32>
          stablehlo.return {returned} : tensor<f32>
      }}) {{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}}
        : (tensor<4xf32>, tensor<2xf32>, tensor<f32>) -> tensor<4xf32>
      return %0 : tensor<4xf32> }}"""
PEAKS, SOURCES = np.array([1, 2, 4, 3], np.float32), np.array([10, 20], np.float32)


@pytest.mark.parametrize("compared", ["GE, %x, %y", "LE, %x, %y"])
def test_sources_at_the_extremes_of_windows(compared):
    text = _SCATTERED.format(compared=compared, added="%y, %x", returned="%s")
    agree_text(text, PEAKS, SOURCES)


@pytest.mark.parametrize(
    ("compared", "added", "returned"),
    [
        ("GE, %y, %x", "%x, %y", "%s"),
        ("GE, %x, %x", "%x, %y", "%s"),
        ("GE, %x, %y", "%x, %x", "%s"),
        ("GE, %x, %y", "%x, %y", "%y"),
    ],
)
def test_other_bodies_of_select_and_scatter_are_refused(compared, added, returned):
    """The first operations alone were read: the smallest was taken for the largest."""
    text = _SCATTERED.format(compared=compared, added=added, returned=returned)
    with pytest.raises(NotModelled, match="GE or LE of both arguments in order, and their sum"):
        graph_of(parsed(text))


def test_the_smallest_number_beside_a_largest_may_be_a_float():
    def kept(x, y):
        larger = (x[0] > y[0]) | (x[0] != x[0])
        is_first = larger | ((x[0] == y[0]) & (x[1] < y[1]))
        return jnp.where(larger, x[0], y[0]), jnp.where(is_first, x[1], y[1])

    numbers = np.broadcast_to(np.arange(4, dtype=np.float32), BLOCK.shape)
    agree(lambda x, y: lax.reduce((x, y), (-jnp.inf, jnp.inf), kept, (2,)), BLOCK, numbers)
