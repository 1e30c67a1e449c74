"""Slices read and written at indices, inside and beyond, with gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agreeing import BFLOAT16, BLOCK, agree, agree_text, module_of, names
from jax import lax

from trnsim.errors import NotModelled
from trnsim.jax.stablehlo import graph_of

PLACES = np.array([0, 3, -1, 2, 9], np.int32)


@pytest.mark.slow_but("float32")
@pytest.mark.parametrize("dtype", [np.float32, BFLOAT16, np.int32])
def test_slices_at_indices(dtype):
    agree(
        lambda x, i: (
            x[i],
            x[:, i],
            x[i, i],
            x[i[0]],
            x[-1],
            jnp.take(x, i, axis=2, mode="clip"),
            jnp.take(x, i, axis=0, mode="fill"),
            jnp.take_along_axis(x, i[:3, None, None] * jnp.ones((1, 5, 4), int), 0),
        ),
        (BLOCK * 9).astype(dtype),
        PLACES,
    )


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint32"])
def test_indices_of_other_types(dtype):
    agree(lambda x, i: x[i], BLOCK, np.array([0, 3, 5, 2], dtype))


def test_updates_at_indices():
    agree(
        lambda x, i: (
            x.at[i].add(1.0),
            x.at[:, i].mul(2.0),
            x.at[i, i].min(0.0),
            x.at[i].max(0.1),
            x.at[i].set(7.0),
            jnp.zeros(7).at[i].add(x[0, :, 0]),
        ),
        BLOCK,
        PLACES,
    )
    agree(lambda x, i: x.at[i].add(3), (BLOCK * 9).astype(np.int32), PLACES)


def test_gradients_of_slices():
    def along(x, i):
        return jnp.take_along_axis(x, i[:3, None, None] * jnp.ones((1, 5, 4), int), 0)

    agree(jax.grad(lambda x, i: (x[i] ** 2).sum()), BLOCK, PLACES)
    agree(jax.grad(lambda x, i: (along(x, i) ** 2).sum()), BLOCK, PLACES)
    agree(jax.grad(lambda x, i: (x.at[i].add(x[:5]) ** 2).sum()), BLOCK, PLACES)


def test_windows_at_indices():
    numbers = lax.GatherDimensionNumbers((1, 2), (), (0, 2))
    agree(
        lambda x, i: lax.gather(x[:, 0], i, numbers._replace(start_index_map=(0, 1)), (2, 3)),
        BLOCK,
        np.array([[0, 0], [3, 9], [-2, 1]], np.int32),
    )


def test_several_operands_are_each_scattered():
    text = """func.func public @main(%a: tensor<4xf32>, %b: tensor<4xi32>, %i: tensor<2x1xi32>,
        %u: tensor<2xf32>, %v: tensor<2xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
      %0:2 = "stablehlo.scatter"(%a, %b, %i, %u, %v) ({
        ^bb0(%p: tensor<f32>, %q: tensor<i32>, %r: tensor<f32>, %s: tensor<i32>):
          %1 = stablehlo.add %p, %r : tensor<f32>
          %2 = stablehlo.maximum %q, %s : tensor<i32>
          stablehlo.return %1, %2 : tensor<f32>, tensor<i32>
      }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
          scatter_dims_to_operand_dims = [0], index_vector_dim = 1>,
          indices_are_sorted = false, unique_indices = false}
        : (tensor<4xf32>, tensor<4xi32>, tensor<2x1xi32>, tensor<2xf32>, tensor<2xi32>)
        -> (tensor<4xf32>, tensor<4xi32>)
      return %0#0, %0#1 : tensor<4xf32>, tensor<4xi32> }"""
    agree_text(
        text,
        np.arange(4, dtype=np.float32),
        np.arange(4, dtype=np.int32),
        np.array([[3], [1]], np.int32),
        np.array([1.5, 2], np.float32),
        np.array([0, 9], np.int32),
    )


def test_another_update_is_refused():
    module = module_of(lambda x, i: x.at[i].apply(jnp.sin), BLOCK, PLACES)
    with pytest.raises(NotModelled, match=r"^stablehlo\.scatter with a body that is none of add"):
        graph_of(module)


@pytest.mark.slow
@pytest.mark.slow_cases("fill-bfloat16")
@pytest.mark.parametrize("dtype", [np.float32, BFLOAT16])
@pytest.mark.parametrize("mode", ["fill", "clip"])
def test_one_number_of_each_row_is_put_back_by_a_comparison(dtype, mode):
    def picked(x, i):
        return (jnp.take_along_axis(x, i, -1, mode=mode).astype(jnp.float32) ** 3).sum()

    for shape, places in (((6, 5, 4), (6, 5, 1)), ((30, 4), (30, 1)), ((1, 4), (1, 1))):
        x = BLOCK.ravel()[: np.prod(shape)].reshape(shape).astype(dtype)
        at = (np.arange(np.prod(places)) % 7 - 5).astype(np.int32).reshape(places)
        found = agree(jax.grad(picked), x, at, tolerance=1e-2 if dtype is BFLOAT16 else 1e-5)
        assert "scatter" not in names(found)
    several = np.array([[0, 0], [3, 1]], np.int32)
    found = agree(jax.grad(picked), BLOCK[0, :2], several)
    assert "scatter" in names(found)  # a row may get two numbers at one place


def test_one_number_of_each_row_by_another_function():
    at, base = np.array([[1], [0], [3], [-2], [9]], np.int32), BLOCK[0]

    def changed(x, i):
        zeros = jnp.zeros((5, 4))
        return tuple(
            jax.vmap(lambda z, j, v, name=name: getattr(z.at[j], name)(v))(zeros, i, x[:, :1])
            for name in ("add", "set", "max", "min", "multiply")
        )

    agree(changed, base, at)
