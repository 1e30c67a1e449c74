"""CHLO's operations, as themselves and as composites of a portable artifact."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agreeing import BFLOAT16, BLOCK, EDGES, agree, names, parsed, same
from jax import export, lax

from trnsim.jax.stablehlo import graph_of

WRITTEN_OUT = (
    *("acos", "acosh", "asin", "asinh", "atanh", "bessel_i1e", "cosh", "digamma", "erf_inv"),
    *("erfc", "lgamma", "sinh"),
)


@pytest.mark.parametrize("name", ["erf", "square", "tan", "atan"])
def test_functions_that_the_graph_has(name):
    found = agree(getattr(lax, name), EDGES)
    assert names(found) == [name]
    agree(getattr(lax, name), EDGES.astype(BFLOAT16), tolerance=2.0**-7)


@pytest.mark.slow_but("erf_inv", "digamma", "acosh")
@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_functions_that_jaxlib_writes_out(name):
    agree(getattr(lax, name), EDGES, tolerance=2e-5)


def test_functions_of_two_that_jaxlib_writes_out():
    agree(lax.nextafter, EDGES, EDGES[:, ::-1].copy(), tolerance=0)
    agree(lax.polygamma, np.float32([1, 2]), np.float32([2.5, 3]), tolerance=1e-4)
    agree(lax.zeta, np.float32([2, 3]), np.float32([2.5, 3]), tolerance=1e-4)


def test_what_is_infinite():
    agree(lambda x: (jnp.isinf(x), jnp.isposinf(x), jnp.isneginf(x), jnp.isnan(x)), EDGES)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_the_largest_elements_and_their_places(k):
    agree(lambda x: lax.top_k(x, k), BLOCK)
    agree(lambda x: lax.top_k(x, k), (BLOCK * 3).astype(np.int32))


def test_composites_of_an_artifact():
    def program(x):
        return lax.top_k(x, 2), lax.erf(x), lax.erf_inv(x / 4), jnp.square(x)

    exported = export.export(jax.jit(program))(BLOCK)
    found = graph_of(parsed(exported.mlir_module()))
    is_old = jax.__version_info__ < (0, 9)  # its artifacts call functions by their names
    assert {"stablehlo.custom_call" if is_old else "stablehlo.composite"} <= set(found.operators)
    assert {"top_k", "erf"} <= set(names(found))
    for ours, theirs in zip(found.reference([BLOCK]), jax.tree.leaves(program(BLOCK)), strict=True):
        same(ours, theirs, 1e-5)


def test_a_composite_of_another_name_is_its_decomposition():
    text = """module {
      func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
        %0 = stablehlo.composite "my.twice" %a {decomposition = @twice}
          : (tensor<4xf32>) -> tensor<4xf32>
        return %0 : tensor<4xf32> }
      func.func private @twice(%a: tensor<4xf32>) -> tensor<4xf32> {
        %0 = stablehlo.add %a, %a : tensor<4xf32>
        return %0 : tensor<4xf32> } }"""
    assert names(graph_of(parsed(text))) == ["add"]
