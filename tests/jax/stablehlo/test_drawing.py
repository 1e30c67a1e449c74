"""Random numbers: JAX's own bit for bit, the chip's by their range and mean."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agreeing import BLOCK, agree, agree_text, module_of, names, parsed
from jax import lax

from trnsim.errors import NotModelled
from trnsim.jax.stablehlo import graph_of

KEY = np.array([0, 4], np.uint32)


@pytest.mark.slow
def test_random_numbers_of_jax_are_the_same():
    agree(
        lambda key: (
            *(jax.random.bits(key, (5, 3)), jax.random.uniform(key, (5, 3))),
            *(jax.random.randint(key, (4,), 0, 10), jax.random.permutation(key, jnp.arange(9))),
            *(jax.random.bernoulli(key, 0.4, (7,)), jax.random.split(key, 3)),
            jax.random.fold_in(key, 3),
        ),
        KEY,
        tolerance=0,
    )


@pytest.mark.slow
def test_distributions_of_jax():
    agree(
        lambda key: (
            *(jax.random.normal(key, (40,)), jax.random.gumbel(key, (3,))),
            *(jax.random.categorical(key, jnp.ones(5)), jax.random.exponential(key, (1,))),
        ),
        KEY,
    )


def test_bits_of_a_state():
    def drawn(state):
        return lax.rng_bit_generator(state, (64, 32), jnp.uint32)

    found = graph_of(module_of(drawn, np.arange(4, dtype=np.uint32)))
    assert "rng_bit_generator" in names(found)
    after, bits = found.reference([np.arange(4, dtype=np.uint32)])
    assert (after.shape, after.dtype, bits.shape) == ((4,), np.uint32, (64, 32))
    assert (after != np.arange(4)).any()
    assert np.unpackbits(bits.view(np.uint8)).mean() == pytest.approx(0.5, abs=0.01)


def test_the_generator_that_aws_advises():
    """`rbg` keeps four words, which JAX hands on as two integers of 64 bits."""

    def drawn(key):
        keys = jax.random.wrap_key_data(key, impl="rbg")
        return jax.random.uniform(keys, (64, 32)), jax.random.bits(keys, (3,))

    found = graph_of(module_of(drawn, np.arange(4, dtype=np.uint32)))
    assert "rng_bit_generator" in names(found)
    uniform, bits = found.reference([np.arange(4, dtype=np.uint32)])
    assert (uniform.shape, bits.dtype) == ((64, 32), np.uint32)
    assert 0 <= uniform.min() < uniform.max() < 1
    assert uniform.mean() == pytest.approx(0.5, abs=0.03)


DRAWN = """func.func public @main() -> tensor<64x32xf32> {{
  %a = stablehlo.constant dense<2.0> : tensor<f32>
  %b = stablehlo.constant dense<5.0> : tensor<f32>
  %s = stablehlo.constant dense<[64, 32]> : tensor<2xi64>
  %0 = stablehlo.rng %a, %b, %s, distribution = {kind}
    : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<64x32xf32>
  return %0 : tensor<64x32xf32> }}"""


def test_numbers_of_the_chips_own():
    (uniform,) = graph_of(parsed(DRAWN.format(kind="UNIFORM"))).reference([])
    assert 2 <= uniform.min() < uniform.mean() < uniform.max() < 5
    assert uniform.mean() == pytest.approx(3.5, abs=0.1)
    (normal,) = graph_of(parsed(DRAWN.format(kind="NORMAL"))).reference([])
    assert np.isfinite(normal).all()


def test_another_state_is_refused():
    text = """func.func public @main(%a: tensor<2xui32>) -> tensor<3xui32> {
      %0, %1 = stablehlo.rng_bit_generator %a, algorithm = DEFAULT
        : (tensor<2xui32>) -> (tensor<2xui32>, tensor<3xui32>)
      return %1 : tensor<3xui32> }"""
    with pytest.raises(NotModelled, match="of a state tensor<2xuint32>; legal: four words"):
        graph_of(parsed(text))


def test_bits_of_a_key_that_is_known():
    def drawn(x):
        return x + jax.random.uniform(jax.random.key(3, impl="rbg"), x.shape)

    found = graph_of(module_of(drawn, BLOCK, platform="neuron"))
    assert names(found).count("rng_bit_generator") == 1
    (numbers,) = found.reference([BLOCK])
    assert (numbers - BLOCK).min() >= 0
    assert 0.3 < (numbers - BLOCK).mean() < 0.7


def test_a_known_number_as_an_integer_of_64_bits_and_back():
    text = """func.func public @main(%a: tensor<3xui32>) -> tensor<3xui32> {
      %c = stablehlo.constant dense<[1, 2, 4294967295]> : tensor<3xui32>
      %0 = stablehlo.convert %c : (tensor<3xui32>) -> tensor<3xui64>
      %1 = stablehlo.convert %0 : (tensor<3xui64>) -> tensor<3xui32>
      %2 = stablehlo.add %a, %1 : tensor<3xui32>
      return %2 : tensor<3xui32> }"""
    agree_text(text, np.uint32([5, 6, 7]))


def test_integers_between_two_come_equally_often():
    def drawn(low, high):
        return lax.rng_uniform(low, high, (4096,))

    imported = graph_of(module_of(drawn, np.int32(-2), np.int32(2)))
    (numbers,) = imported.reference([np.array(-2, np.int32), np.array(2, np.int32)])
    assert sorted({*numbers.tolist()}) == [-2, -1, 0, 1]
    assert np.bincount(numbers + 2).min() > 4096 / 4 * 0.8
