import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trnsim.device.numerics import numerics
from trnsim.jax import rounding

HALF = np.full((64, 64), 1 + 2.0**-9, np.float32)
"""A quarter of the way from 1 to the next number in bfloat16."""
NEXT = 1 + 2.0**-7


@pytest.fixture
def rounded(neuron):
    """Runs a function on the first device with stochastic rounding, from seed 0."""

    def run(function, *given):
        rounding._generators.cache_clear()
        own = jax.device_put(given, neuron[0])
        with numerics("fast", is_stochastic=True):
            return jax.tree.map(np.asarray, jax.jit(function)(*own))

    yield run
    rounding._generators.cache_clear()


def narrowed(x):
    return x.astype(jnp.bfloat16)


def test_a_number_goes_up_as_often_as_it_is_near(rounded):
    found = rounded(narrowed, HALF)
    assert found.dtype == jnp.bfloat16
    assert set(np.unique(found.astype(np.float32))) == {1.0, NEXT}
    share = (found.astype(np.float32) == NEXT).mean()
    assert share == pytest.approx(0.25, abs=4 * (0.25 * 0.75 / HALF.size) ** 0.5)
    assert (np.asarray(jax.jit(narrowed)(HALF)) == 1.0).all()  # to nearest again


def test_a_seed_repeats_roundings_and_the_next_call_draws_anew(rounded, monkeypatch):
    first = rounded(narrowed, HALF)
    again = rounded(narrowed, HALF)
    np.testing.assert_array_equal(first, again)
    monkeypatch.setenv("NEURON_RT_STOCHASTIC_ROUNDING_SEED", "7")
    assert (rounded(narrowed, HALF) != first).any()
    with numerics("fast", is_stochastic=True):
        x = jax.device_put(HALF, jax.devices("neuron")[0])
        one, other = (np.asarray(jax.jit(narrowed)(x)) for _ in range(2))
    assert (one != other).any()


def test_each_operation_rounds_what_it_gives(rounded):
    small = np.full((64, 64), 2.0**-9, jnp.bfloat16)

    def summed(x):
        return jax.lax.fori_loop(0, 64, lambda _, total: total + x, jnp.ones_like(x))

    nearest = np.asarray(jax.jit(summed)(small)).astype(np.float32)
    assert (nearest == 1.0).all()  # every addition is lost
    found = rounded(summed, small).astype(np.float32)
    assert found.mean() == pytest.approx(1 + 64 * 2.0**-9, abs=4e-3)
    assert len(np.unique(found)) > 5


def test_exact_and_special_numbers_stay(rounded):
    given = np.array([1.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, -2.5], np.float32)
    found = rounded(narrowed, given).astype(np.float32)
    np.testing.assert_array_equal(found, given.astype(jnp.bfloat16).astype(np.float32))
    moved = rounded(lambda x: (x.T[::-1], x[1:3], jnp.where(x > 0, x, x)), narrowed(HALF))
    for one in moved:
        assert (one == 1.0).all()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"])
def test_each_format_rounds_up_and_down(rounded, dtype):
    kind = jnp.dtype(dtype)
    between = np.full(500, 1 + float(jnp.finfo(kind).eps) / 2, np.float32)
    found = np.unique(rounded(lambda x: x.astype(kind), between).astype(np.float32))
    assert found.tolist() == [1.0, 1 + float(jnp.finfo(kind).eps)]


def test_single_precision_is_that_of_xla_bit_for_bit(rounded):
    x = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    function = lambda x: jnp.tanh(x @ x)  # noqa: E731  one name for both
    np.testing.assert_array_equal(rounded(function, x), np.asarray(jax.jit(function)(x)))


def test_what_has_no_graph_or_several_devices_is_refused_by_name(rounded, neuron):
    def transformed(x):
        return jnp.abs(jnp.fft.fft(x.astype(jnp.float32))).astype(jnp.bfloat16)

    with pytest.raises(
        jax.errors.JaxRuntimeError,
        match=r"ROUNDING_EN=1 and jit_transformed, .* rounds to nearest: stablehlo",
    ):
        rounded(transformed, narrowed(HALF[0]))
    with (
        numerics("fast", is_stochastic=True),
        pytest.raises(jax.errors.JaxRuntimeError, match="it runs on several devices"),
    ):
        jax.pmap(lambda x: x + x, devices=neuron[:2])(HALF[:2].astype(jnp.bfloat16))


PROGRAM = """
import jax, jax.numpy as jnp, numpy as np
x = np.full(1000, 1 + 2.0**-9, np.float32)
print(np.unique(np.asarray(jax.jit(lambda x: x.astype(jnp.bfloat16))(x)).astype(float)).size)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "size"), [("1", 2), ("0", 1)])
def test_the_environment_asks_for_it(ran, asked, size):
    found = ran(PROGRAM, JAX_PLATFORMS="neuron", NEURON_RT_STOCHASTIC_ROUNDING_EN=asked)
    assert int(found.stdout) == size
