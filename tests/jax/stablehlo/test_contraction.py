"""Products of any dimensions, and convolutions of any layout, with their gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agreeing import BFLOAT16, BLOCK, agree, agree_text, names, parsed, same
from jax import lax

from trnsim.errors import NotModelled
from trnsim.jax.stablehlo import graph_of

OTHER = np.random.default_rng(2).standard_normal((2, 5, 4)).astype(np.float32)
IMAGE = np.random.default_rng(3).standard_normal((2, 8, 9, 4)).astype(np.float32)
TAPS = np.random.default_rng(4).standard_normal((3, 3, 4, 6)).astype(np.float32)
GROUPED = TAPS[:, :2, :2].copy()
LAYOUT = ("NHWC", "HWIO", "NHWC")


@pytest.mark.parametrize(
    "sums", ["abc,dbc->ad", "abc,dbc->bad", "abc,dbc->cbda", "abc,dec->adbe", "abc,dec->eabd"]
)
def test_products_over_any_dimensions(sums):
    agree(lambda x, y: jnp.einsum(sums, x, y), BLOCK, OTHER, tolerance=1e-4)


def test_products_of_vectors_and_batches():
    agree(
        lambda x, y: (x[0, 0] @ y[0, 0], jnp.outer(x[0, 0], y[0, 0]), x[0, 0] @ y[0].T, x @ y[0].T),
        BLOCK,
        OTHER,
    )
    agree(jax.vmap(lambda x, y: x @ y), BLOCK, np.swapaxes(BLOCK, 1, 2).copy(), tolerance=1e-4)


def test_products_of_one_and_of_nothing():
    agree(lambda x, y: x @ y, np.ones((1, 1), np.float32), np.full((1, 1), 3, np.float32))
    agree(lambda x, y: x @ y, np.ones((2, 0), np.float32), np.ones((0, 3), np.float32))


def test_products_in_other_types():
    x, y = (one.astype(BFLOAT16) for one in (BLOCK[0], OTHER[0].T))
    agree(jnp.dot, x, y, tolerance=2.0**-6)
    agree(lambda x, y: jnp.dot(x, y, preferred_element_type=jnp.float32), x, y, tolerance=1e-5)
    agree(lambda x, y: x @ y, np.arange(6).reshape(2, 3), np.arange(-3, 3).reshape(3, 2))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_products_of_narrow_integers_wrap_around(dtype):
    most = np.iinfo(dtype).max
    x = np.array([[most, 7, 3], [3, most, most]], dtype) // 2 * 2
    agree(lambda x, y: x[:, :1] @ y[:1], x // 9, x.T // 7)
    agree(lambda x: jnp.einsum("ab,ab->a", x // 90, x // 80), x)


def test_a_side_that_lies_right_is_not_turned():
    for sums in ("ab,bc->ac", "ab,cb->ac", "ba,bc->ac", "ba,cb->ac"):
        found = agree(lambda x, y, sums=sums: jnp.einsum(sums, x, y), BLOCK[0, :4], OTHER[0, :4].T)
        assert [one for one in names(found) if one != "dot_general"] == []


def test_a_product_of_two_matrices_alone():
    text = """func.func public @main(%a: tensor<5x4xf32>, %b: tensor<4x3xf32>) -> tensor<5x3xf32> {
      %0 = stablehlo.dot %a, %b : (tensor<5x4xf32>, tensor<4x3xf32>) -> tensor<5x3xf32>
      return %0 : tensor<5x3xf32> }"""
    agree_text(text, BLOCK[0], OTHER[0, :3].T.copy())


@pytest.mark.parametrize(
    ("steps", "sides", "gaps", "dilations"),
    [
        ((1, 1), "SAME", (1, 1), (1, 1)),
        ((2, 1), "VALID", (1, 1), (1, 2)),
        ((1, 1), ((1, 2), (-1, 1)), (2, 1), (1, 1)),
        ((3, 2), ((0, 0), (4, 0)), (1, 2), (2, 1)),
    ],
)
def test_convolutions_and_their_gradients(steps, sides, gaps, dilations):
    def convolution(x, taps):
        return lax.conv_general_dilated(x, taps, steps, sides, gaps, dilations, LAYOUT)

    def square(x, taps):
        return (convolution(x, taps) ** 2).sum()

    agree(convolution, IMAGE, TAPS, tolerance=1e-4)
    agree(jax.grad(square, (0, 1)), IMAGE, TAPS, tolerance=2e-3)


def test_convolutions_in_groups_and_their_gradients():
    def convolution(x, taps):
        return lax.conv_general_dilated(
            x, taps, (1, 1), "SAME", dimension_numbers=LAYOUT, feature_group_count=2
        )

    agree(convolution, IMAGE, GROUPED, tolerance=1e-4)
    agree(
        jax.grad(lambda x, taps: (convolution(x, taps) ** 2).sum(), (0, 1)),
        IMAGE,
        GROUPED,
        tolerance=2e-3,
    )


def test_batches_in_groups():
    agree(
        lambda x, taps: lax.conv_general_dilated(
            x, taps, (1, 1), "SAME", dimension_numbers=LAYOUT, batch_group_count=2
        ),
        IMAGE,
        TAPS,
        tolerance=1e-4,
    )


def test_convolutions_that_widen():
    agree(lambda x, taps: lax.conv_transpose(x, taps, (2, 2), "SAME"), IMAGE, TAPS, tolerance=1e-4)


@pytest.mark.parametrize("reversal", ["true, false", "false, true", "true, true"])
def test_windows_that_are_reversed(reversal):
    text = f"""func.func public @main(%a: tensor<1x1x4x5xf32>, %b: tensor<2x1x2x3xf32>)
      -> tensor<1x2x3x3xf32> {{
      %0 = "stablehlo.convolution"(%a, %b) {{batch_group_count = 1 : i64,
        dimension_numbers = #stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>,
        feature_group_count = 1 : i64, window_reversal = array<i1: {reversal}>}}
        : (tensor<1x1x4x5xf32>, tensor<2x1x2x3xf32>) -> tensor<1x2x3x3xf32>
      return %0 : tensor<1x2x3x3xf32> }}"""
    x, taps = BLOCK.ravel()[:20].reshape(1, 1, 4, 5), OTHER.ravel()[:12].reshape(2, 1, 2, 3)
    agree_text(text, x, taps, tolerance=1e-4)


def test_a_convolution_of_one_dimension_in_bfloat16():
    x = IMAGE[:, :, 0].astype(BFLOAT16)
    taps = TAPS[:, 0].astype(BFLOAT16)
    agree(
        lambda x, taps: lax.conv_general_dilated(
            x, taps, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")
        ),
        x,
        taps,
        tolerance=2.0**-5,
    )


@pytest.mark.parametrize(
    ("sums", "shapes"),
    [
        ("ij->i", [(2, 3), (3, 4)]),
        ("ij,j->i", [(2, 3), (3, 4)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4)]),
        ("", [(2, 3), (3, 4)]),
        ("ij,jk->i", [(2, 3)]),
        ("ijk->i", [(2, 3)]),
    ],
)
def test_letters_that_no_dimension_has_are_refused(sums, shapes):
    types = [f"tensor<{'x'.join(map(str, shape))}xf32>" for shape in shapes]
    name = "einsum" if len(shapes) > 1 else "unary_einsum"
    arguments = ", ".join(f"%a{at}: {kind}" for at, kind in enumerate(types))
    names = ", ".join(f"%a{at}" for at in range(len(types)))
    text = f"""func.func @main({arguments}) -> tensor<2xf32> {{
      %0 = "stablehlo.{name}"({names}) {{einsum_config = "{sums}"}}
        : ({", ".join(types)}) -> tensor<2xf32>
      return %0 : tensor<2xf32>
    }}"""
    with pytest.raises(NotModelled, match="legal: a letter for each dimension"):
        graph_of(parsed(text))


def einsum(sums, *given):
    """A module with one operation of StableHLO's, of float32."""
    types = [f"tensor<{'x'.join(map(str, (*one.shape, 'f32')))}>" for one in given]
    found = np.einsum(sums, *given)
    result = f"tensor<{'x'.join(map(str, (*found.shape, 'f32')))}>"
    inputs = ", ".join(f"%a{at}: {kind}" for at, kind in enumerate(types))
    names = ", ".join(f"%a{at}" for at in range(len(given)))
    name = "einsum" if len(given) > 1 else "unary_einsum"
    return f"""func.func public @main({inputs}) -> {result} {{
      %0 = "stablehlo.{name}"({names}) {{einsum_config = "{sums}"}}
        : ({", ".join(types)}) -> {result}
      return %0 : {result} }}"""


@pytest.mark.parametrize(
    "sums", ["abc,dbc->ad", "abc,dbc->bad", "abc,dec->eabd", "abc,dec->ea", "abc,dbc->"]
)
def test_products_of_dimensions_with_letters(sums):
    agree_text(einsum(sums, BLOCK, OTHER), BLOCK, OTHER, tolerance=1e-4)


@pytest.mark.parametrize("sums", ["abc->cab", "abc->b", "abc->ca", "abc->"])
def test_sums_of_dimensions_with_letters(sums):
    """XLA has none of these, and numpy is the oracle."""
    (found,) = graph_of(parsed(einsum(sums, BLOCK))).reference([BLOCK])
    same(found, np.einsum(sums, BLOCK), 1e-4)


@pytest.mark.parametrize("sums", ["abb,cb->ac", "...c,dc->...d"])
def test_letters_twice_or_for_several_dimensions_are_refused(sums):
    given = np.ones((3, 2, 2), np.float32), np.ones((4, 2), np.float32)
    with pytest.raises(NotModelled, match=r"^stablehlo\.einsum of .*; legal: a letter for each"):
        graph_of(parsed(einsum(sums, *given)))
