"""The same elements in another order, fewer or more of them."""

import jax.numpy as jnp
import numpy as np
import pytest
from agreeing import BFLOAT16, BLOCK, EDGES, WHOLE, agree, agree_text, names, parsed
from jax import lax

from trnsim.errors import NotModelled
from trnsim.jax.stablehlo import graph_of


@pytest.mark.slow_but("float32")
@pytest.mark.parametrize("dtype", [np.float32, BFLOAT16, np.int32])
def test_views_and_moves(dtype):
    agree(
        lambda x: (
            x.reshape(4, 3),
            x.T,
            x[::-1],
            lax.rev(x, (0, 1)),
            x[1:, 1:6:2],
            jnp.concatenate([x, x * 2, x[:, :0]], 1),
            jnp.stack([x, x], 1),
            jnp.tile(x, (2, 1)),
            jnp.repeat(x, 2, 0),
            jnp.roll(x, 2, 1),
            jnp.broadcast_to(x[:, None, :1], (2, 3, 4)),
        ),
        WHOLE.astype(dtype),
    )


def test_dimensions_that_are_spread_and_turned():
    """JAX before 0.10 makes none of these, but files may have them."""
    text = """func.func public @main(%a: tensor<2x6xf32>) -> tensor<6x3x2xf32> {
      %0 = stablehlo.broadcast_in_dim %a, dims = [2, 0] : (tensor<2x6xf32>) -> tensor<6x3x2xf32>
      return %0 : tensor<6x3x2xf32> }"""
    agree_text(text, EDGES)


def test_tensors_of_nothing():
    agree(
        lambda x: (jnp.tril(x), jnp.triu(x, 1), jnp.eye(3), jnp.arange(5), jnp.zeros((2, 0))),
        EDGES,
    )
    agree(lambda x: x + jnp.linspace(0, 1, 6), EDGES)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.uint8, jnp.uint32])
def test_counts_of_any_type(dtype):
    agree(lambda x: x + lax.broadcasted_iota(dtype, (3, 5), 1), np.ones((3, 5), dtype))


def test_padding_of_numbers_and_of_what_is_computed():
    sides = (1, -2, 1), (0, 3, 2)
    agree(lambda x: (lax.pad(x, 3.0, sides), lax.pad(x, x[0, 2], sides)), EDGES)
    agree(lambda x: lax.pad(x, jnp.bfloat16(1.1), sides), EDGES.astype(BFLOAT16))


@pytest.mark.parametrize("place", [-3, 0, 1, 4, 100])
def test_windows_that_begin_where_values_say(place):
    found = agree(
        lambda x, i: (
            lax.dynamic_slice(x, (i, i), (1, 3)),
            lax.dynamic_update_slice(x, x[:1, :2] * 2, (i, i)),
        ),
        EDGES,
        np.int32(place),
    )
    assert {"dynamic_slice", "dynamic_update_slice"} <= set(names(found))


@pytest.mark.parametrize("place", [-3, 0, 1, 4, 100])
def test_windows_that_begin_at_a_known_place(place):
    found = agree(
        lambda x: (
            lax.dynamic_slice(x, (place, place), (1, 3)),
            lax.dynamic_update_slice(x, x[:1, :2] * 2, (place, place)),
            lax.dynamic_update_slice(x, x[:1] * 2, (place, 0)),
            lax.dynamic_update_slice(x, x * 2, (place, place)),
        ),
        EDGES,
    )
    assert not {"dynamic_slice", "dynamic_update_slice"} & set(names(found))


def test_what_is_written_and_read_again_is_not_moved():
    def program(x):
        rows = jnp.zeros((4, 6))
        for place in range(4):
            rows = lax.dynamic_update_slice(rows, x[:1] * place, (place, 0))
        return [lax.dynamic_slice(rows, (place, 0), (1, 6)) for place in range(4)]

    assert "concatenate" not in names(agree(program, np.nan_to_num(EDGES)))


def test_parts_are_computed_where_they_lie():
    """As the update of parameters by gradients of equal layers."""

    def program(x, y):
        rows = jnp.zeros((2, 6))
        for place in range(2):
            rows = lax.dynamic_update_slice(rows, x[:1] * place, (place, 0))
        return x - (rows * 0.5 + y * rows).astype("bfloat16").astype("float32")

    given = np.nan_to_num(EDGES, posinf=9, neginf=-9)
    found = names(agree(program, given, given[::-1].copy()))
    assert found[-1] == "concatenate"
    assert found.count("concatenate") == 1
    assert found.count("subtract") == 2


def test_parts_of_other_lengths_are_joined_first():
    def program(x):
        one = lax.dynamic_update_slice(jnp.zeros((4, 6)), x[:1], (1, 0))
        other = lax.dynamic_update_slice(jnp.zeros((4, 6)), x[:2], (2, 0))
        return one + other, one * 2, jnp.exp(other)

    agree(program, np.nan_to_num(EDGES, posinf=9, neginf=-9))


def test_constants_of_each_type():
    agree(lambda x: x + jnp.array([1.5, -2, np.inf, 3, 0, 1], jnp.bfloat16), EDGES.astype(BFLOAT16))
    long = np.arange(300).astype(BFLOAT16)
    agree(lambda x: x * jnp.asarray(long), np.ones(300, BFLOAT16))
    agree(lambda x: x & jnp.array([True, False, True]), np.array([True, True, False]))
    agree(lambda x: (x, jnp.array([1, 2], jnp.int8), jnp.float32(2)), EDGES)


def test_a_constant_is_an_input_of_the_graph_behind_the_arguments():
    found = agree(lambda x: x * jnp.array([1.0, 2, 3, 4, 5, 6]), EDGES)
    assert [one.shape for one in found.inputs] == [(2, 6)]
    assert [one.shape for one in found.graph.inputs] == [(2, 6), (6,)]
    assert [one.tolist() for one in found.constants.values()] == [[1, 2, 3, 4, 5, 6]]


def test_forms_that_stablehlo_has_besides():
    agree_text(
        """func.func public @main(%a: tensor<2x6xf32>) -> (tensor<3x2x6xf32>, tensor<i32>) {
        %0 = "stablehlo.broadcast"(%a) {broadcast_sizes = array<i64: 3>}
          : (tensor<2x6xf32>) -> tensor<3x2x6xf32>
        %1 = stablehlo.get_dimension_size %a, dim = 1 : (tensor<2x6xf32>) -> tensor<i32>
        return %0, %1 : tensor<3x2x6xf32>, tensor<i32> }""",
        EDGES,
    )
    agree_text(
        """func.func public @main(%a: tensor<6x5x4xf32>, %i: tensor<2xi32>) -> tensor<6x2x4xf32> {
        %0 = "stablehlo.torch_index_select"(%a, %i) {dim = 1 : i64, batch_dims = 0 : i64}
          : (tensor<6x5x4xf32>, tensor<2xi32>) -> tensor<6x2x4xf32>
        return %0 : tensor<6x2x4xf32> }""",
        BLOCK,
        np.array([3, 0], np.int32),
    )


def test_a_dimension_without_a_size_is_refused():
    text = """func.func public @main(%a: tensor<?x6xf32>) -> tensor<?x6xf32> {
      return %a : tensor<?x6xf32> }"""
    with pytest.raises(
        NotModelled, match=r"^argument 0 of main: tensor<\?x6xf32> has a dimension without a size"
    ):
        graph_of(parsed(text))


def test_tensors_of_nothing_behind_one_another():
    nothing = np.zeros((0, 4), np.float32)
    agree(lambda x, y: jnp.concatenate([x, y]), nothing, nothing)
