"""What programs of networks compute is what XLA's CPU computes, bit for bit."""

from functools import partial

import jax
import jax.numpy as jnp
import llama
import ml_dtypes
import numpy as np
import pytest

NO_EXCESS = {"xla_allow_excess_precision": False}
"""With it XLA's CPU rounds each operation to its dtype, as the device does."""


@pytest.fixture
def on_both(neuron):
    """What a function gives on the device and on XLA's CPU."""

    def run(function, *given):
        found = []
        for device in (neuron[0], jax.devices("cpu")[0]):
            own = jax.device_put(given, device)
            made = jax.jit(function).lower(*own).compile(compiler_options=NO_EXCESS)(*own)
            assert {one for leaf in jax.tree.leaves(made) for one in leaf.devices()} == {device}
            found.append(jax.tree.map(np.asarray, made))
        return found

    return run


def same_bits(ours, theirs):
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        assert one.tobytes() == other.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_a_model_of_scanned_layers_trains_as_on_the_cpu(on_both, dtype):
    step, given, params = (
        partial(llama.step, is_remat=True),
        llama.tokens(),
        llama.parameters(dtype),
    )
    ours, theirs = on_both(step, params, given)
    same_bits(ours, theirs)
    assert all(one.dtype == dtype for one in jax.tree.leaves(ours[1]))


SHAPE = (3, 5)
SAMPLES = {
    "bernoulli": lambda key: jax.random.bernoulli(key, 0.3, SHAPE),
    "bits": lambda key: [jax.random.bits(key, SHAPE, kind) for kind in ("uint8", "uint32")],
    "categorical": lambda key: jax.random.categorical(key, jnp.arange(15.0).reshape(SHAPE)),
    "choice": lambda key: jax.random.choice(key, 20, SHAPE, replace=False),
    "exponential": lambda key: jax.random.exponential(key, SHAPE),
    "fold_in": lambda key: jax.random.key_data(jax.random.fold_in(key, 7)),
    "gumbel": lambda key: jax.random.gumbel(key, SHAPE),
    "laplace": lambda key: jax.random.laplace(key, SHAPE, jnp.bfloat16),
    "normal": lambda key: [jax.random.normal(key, SHAPE, k) for k in ("float32", "bfloat16")],
    "permutation": lambda key: jax.random.permutation(key, 33),
    "poisson": lambda key: jax.random.poisson(key, 4.0, SHAPE),
    "randint": lambda key: [jax.random.randint(key, SHAPE, -3, 9, k) for k in ("int8", "int32")],
    "split": lambda key: jax.random.key_data(jax.random.split(key, 5)),
    "truncated_normal": lambda key: jax.random.truncated_normal(key, -1.0, 2.0, SHAPE),
    "uniform": lambda key: [jax.random.uniform(key, SHAPE, k) for k in ("float16", "float32")],
}


def drawn(implementation, names, numbers):
    key = jax.random.wrap_key_data(numbers, impl=implementation)
    return {name: SAMPLES[name](jax.random.fold_in(key, 1)) for name in names}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("implementation", "words", "names"),
    [("threefry2x32", 2, SAMPLES), ("rbg", 4, ["bits", "split"]), ("unsafe_rbg", 4, ["bits"])],
)
def test_random_numbers_are_those_of_the_cpu_bit_for_bit(on_both, implementation, words, names):
    """Ball, beta, gamma and t are made of these; orthogonal needs LAPACK, which is the host's."""
    start = np.arange(words, dtype=np.uint32)
    ours, theirs = on_both(partial(drawn, implementation, names), start)
    same_bits(ours, theirs)
    assert len(np.unique(ours["bits"][1])) == np.prod(SHAPE)
