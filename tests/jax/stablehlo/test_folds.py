"""Reductions by functions that have no name in the graph."""

import jax.numpy as jnp
import numpy as np
import pytest
from agreeing import BFLOAT16, BLOCK, EDGES, WHOLE, agree, agree_text, module_of
from jax import lax

from trnsim.errors import NotModelled
from trnsim.jax.stablehlo import graph_of


@pytest.mark.slow_cases("False-bfloat16-0.0625", "True-bfloat16-0.0625")
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (BFLOAT16, 2.0**-4)])
@pytest.mark.parametrize("is_backward", [False, True])
def test_running_sums_of_exponentials(dtype, tolerance, is_backward):
    for axis in (0, 1):
        agree(
            lambda x, axis=axis: lax.cumlogsumexp(x, axis, reverse=is_backward),
            BLOCK.astype(dtype),
            tolerance=tolerance,
        )


def test_running_sums_of_exponentials_at_edges():
    for given in (EDGES, EDGES[:, :1], EDGES[:1].T):
        agree(lambda x: lax.cumlogsumexp(x, 1), given)


@pytest.mark.parametrize("dims", [(0,), (1,), (0, 2), (0, 1, 2)])
def test_a_sum_of_exponentials(dims):
    agree(lambda x: lax.reduce(x, -jnp.inf, jnp.logaddexp, dims), BLOCK)


def test_where_it_begins_counts_once():
    agree(lambda x: lax.reduce(x, jnp.float32(2), lambda a, b: a * b * 0.5, (1,)), BLOCK)
    agree(lambda x: lax.reduce(x, np.int32(5), lambda a, b: a + b + 1, (1,)), WHOLE % 9)
    agree(lambda x: lax.reduce(x, -jnp.inf, jnp.logaddexp, (1,)), BLOCK[:, :0])


def test_the_first_of_two_in_order():
    text = """func.func public @main(%a: tensor<2x7xf32>) -> tensor<2xf32> {
      %none = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = stablehlo.reduce(%a init: %none) across dimensions = [1]
        : (tensor<2x7xf32>, tensor<f32>) -> tensor<2xf32>
        reducer(%p: tensor<f32>, %q: tensor<f32>) {
          %is = stablehlo.compare EQ, %p, %none_: (tensor<f32>, tensor<f32>) -> tensor<i1>
          %1 = stablehlo.select %is, %q, %p : tensor<i1>, tensor<f32>
          stablehlo.return %1 : tensor<f32>
        }
      return %0 : tensor<2xf32> }"""
    inner = """{
          %zero = stablehlo.constant dense<0.0> : tensor<f32>
          %is ="""
    text = text.replace("{\n          %is =", inner).replace("%none_", "%zero ")
    given = np.float32([[0, 0, 3, 0, 5, 1, 2], [0, 0, 0, 0, 0, 0, 9]])
    agree_text(text, given)


def test_a_function_whose_order_matters_is_refused():
    module = module_of(lambda x: lax.reduce(x, jnp.float32(0), lax.sub, (1,)), BLOCK)
    with pytest.raises(NotModelled, match=r"^stablehlo\.reduce with a body .* nor associative"):
        graph_of(module)


def test_a_function_that_is_not_of_each_element_is_refused():
    module = module_of(
        lambda x: lax.reduce(x, jnp.float32(1), lambda a, b: a * b * jnp.ones(1).sum(), (1,)), BLOCK
    )
    with pytest.raises(NotModelled, match=r"^stablehlo\.reduce with a body that has stablehlo\."):
        graph_of(module)


def test_other_windows_are_refused():
    def pooled(x):
        return lax.reduce_window(x, -jnp.inf, jnp.logaddexp, (2, 1, 1), (2, 1, 1), "VALID")

    with pytest.raises(NotModelled, match=r"^stablehlo\.reduce_window with a body that is none of"):
        graph_of(module_of(pooled, BLOCK))
