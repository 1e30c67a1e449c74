"""The old spelling of a call: `jax_neuronx.nki_call`."""

from functools import partial

import jax
import jax.numpy as jnp
import nki.language as nl
import numpy as np
import pytest
from nki_kernels import double

from trnsim.errors import BadInput
from trnsim.jax.nki_call import nki_call

pytestmark = pytest.mark.usefixtures("neuron")
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def scaled_sum(a, b, out, *, scale=1.0):
    nl.store(out, value=nl.multiply(nl.add(nl.load(a), nl.load(b)), scale))


def split(a, low, high):
    half = a.shape[1] // 2
    tile = nl.load(a)
    nl.store(low, value=tile[:, :half])
    nl.store(high, value=tile[:, half:])


def like(array, dtype=None):
    return jax.ShapeDtypeStruct(array.shape, dtype or array.dtype)


@pytest.mark.slow
def test_the_name_is_that_of_awss_package(ran):
    said = ran(
        "import jax_neuronx; print(jax_neuronx.nki_call.__module__, hasattr(jax_neuronx, 'x'))"
    )
    assert said.stdout == "trnsim.jax.nki_call False\n"


@pytest.mark.parametrize("transformed", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_the_function_writes_its_last_parameters(transformed):
    @transformed
    def program(a, b):
        return nki_call(partial(scaled_sum, scale=3.0), a, b, out_shape=like(a, jnp.bfloat16))

    found = program(jnp.asarray(X), jnp.asarray(X))
    assert found.dtype == jnp.bfloat16
    np.testing.assert_array_equal(np.asarray(found, np.float32), X * 6)


def test_results_are_nested_as_their_shapes_and_keywords_pass():
    given = jnp.asarray(np.arange(8, dtype=np.float32).reshape(2, 4))
    low, high = nki_call(split, given, out_shape=[jax.ShapeDtypeStruct((2, 2), jnp.float32)] * 2)
    np.testing.assert_array_equal(np.hstack([low, high]), given)
    found = nki_call(scaled_sum, given, given, out_shape={"sum": like(given)}, scale=0.5)
    np.testing.assert_array_equal(found["sum"], given)


def test_equal_calls_are_one_kernel():
    def text():
        program = jax.jit(lambda a: nki_call(scaled_sum, a, a, out_shape=like(a)))
        return program.lower(X).as_text()

    assert text() == text()


def test_grids_are_those_of_logical_cores():
    def halves(a, out):
        rows = a.shape[0] // nl.num_programs()
        start = nl.program_id() * rows
        nl.store(out[start : start + rows], value=nl.load(a[start : start + rows]))

    np.testing.assert_array_equal(nki_call(halves, jnp.asarray(X), grid=2, out_shape=like(X)), X)
    with pytest.raises(BadInput, match=r"halves\[\(4, 2\)\]; legal: kernel\[1\] or kernel\[2\]"):
        nki_call(halves, jnp.asarray(X), grid=(4, 2), out_shape=like(X))


def test_what_it_does_not_take_is_refused():
    with pytest.raises(BadInput, match=r"nki_call\(double\): a function of nki\.jit is called by"):
        nki_call(double, jnp.asarray(X), out_shape=like(X))
    with pytest.raises(BadInput, match=r"nki_call\(5\); legal: a function"):
        nki_call(5, out_shape=(2, 3))
    with pytest.raises(BadInput, match=r"nki_call\(out_shape=\(2, 3\)\); legal: values with a"):
        nki_call(scaled_sum, jnp.asarray(X), out_shape=(2, 3))


def test_bound_arguments_may_be_lists():
    """A kernel of a partial was looked up by its arguments, of which a list has no hash."""

    def scaled(factors, a, out):
        nl.store(out, value=nl.multiply(nl.load(a), factors[1]))

    found = nki_call(partial(scaled, [1.0, 3.0]), jnp.asarray(X), out_shape=like(X))
    np.testing.assert_array_equal(found, 3 * X)
