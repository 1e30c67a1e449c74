"""Kernels called with JAX's arrays and within its transformations, against numpy."""

# nki: 0.6
# Kernels of one core, in graphs of two: NKI 0.7 refuses them (tests of check_degree).

import base64
import json
import re

import jax
import jax.numpy as jnp
import nki
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from nki_kernels import (
    add,
    both,
    double,
    halves,
    into,
    lost,
    nothing,
    partly,
    reduced,
    stored,
    unwritten,
    wide,
)

from trnsim.device.call_log import recording
from trnsim.device.fallback_policy import state
from trnsim.device.numerics import numerics
from trnsim.device.step_time import step_time
from trnsim.errors import BadInput, IllegalInstruction, NotModelled

pytestmark = pytest.mark.usefixtures("neuron")
JaxRuntimeError = jax.errors.JaxRuntimeError


def numbers(*shape, dtype=np.float32):
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def here():
    """The line that calls this."""
    import inspect  # noqa: PLC0415

    return inspect.currentframe().f_back.f_lineno


X = numbers(5, 3)


@pytest.mark.parametrize("shape", [(5, 3), (1, 1), (128, 1), (1, 200), (2, 3, 4)])
def test_a_kernel_takes_an_array_and_gives_one_on_its_device(neuron, shape):
    given = numbers(*shape)
    found = double(jax.device_put(given, neuron[3]))
    assert isinstance(found, jax.Array)
    assert found.devices() == {neuron[3]}
    np.testing.assert_array_equal(found, given * 2)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize(
    "dtype", ["float32", "bfloat16", "float16", "float8_e5m2", "float8_e4m3", "int32", "uint8"]
)
def test_dtypes_of_both_enter_and_leave(dtype):
    given = jnp.array([[1, 2, 3]]).astype(dtype)
    for found in (double(given), jax.jit(double)(given)):
        assert found.dtype == given.dtype
        np.testing.assert_array_equal(np.asarray(found, np.float32), [[2, 4, 6]])


def test_between_two_operations_of_a_program():
    def program(a, b):
        return add(a * 3, jnp.sin(b), scale=0.5) - 1

    a, b = numbers(7, 4), numbers(7, 4) / 4
    expected = (a * 3 + np.sin(b)) * np.float32(0.5) - 1
    np.testing.assert_allclose(jax.jit(program)(a, b), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("transformed", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_nested_arguments_several_results_and_what_is_known_when_it_is_compiled(transformed):
    x, y = numbers(4, 2), numbers(4, 2) + 1

    @transformed
    def program(tree):
        found = both(tree, factor=2.0, dtype=jnp.bfloat16)
        assert found["rest"][1] == 7  # a number is no array
        return found["sum"], found["rest"][0]

    total, difference = program({"x": jnp.asarray(x), "y": jnp.asarray(y)})
    assert total.dtype == jnp.bfloat16
    np.testing.assert_array_equal(total, (x + y).astype(jnp.bfloat16))
    np.testing.assert_array_equal(difference, (x - y) * 2)


def test_1_and_true_and_a_half_are_three_calls():
    @nki.jit
    def by(x, factor):
        assert factor is not True
        return double(x) if isinstance(factor, int) else x

    x = jnp.asarray(X)
    np.testing.assert_array_equal(by(x, 1), X * 2)
    np.testing.assert_array_equal(by(x, 1.0), X)
    with pytest.raises(AssertionError):
        by(x, True)


def test_an_array_of_numpy_beside_is_a_constant_of_the_program():
    program = jax.jit(lambda x: add(x, X + 1))
    np.testing.assert_array_equal(program(X), X + (X + 1))
    text = program.lower(X).as_text()
    assert re.search(r"custom_call @AwsNeuronCustomNativeKernel\(%\w+, %cst\w*\)", text)


def test_it_arrives_as_awss_custom_call():
    lowered = jax.jit(lambda a: halves[2](a) + 1).lower(X[:4])
    (config,) = re.findall(
        r'@AwsNeuronCustomNativeKernel.*backend_config = "(\S+)"', lowered.as_text()
    )
    known = json.loads(base64.b64decode(config))
    assert list(known) == ["kernel_version", "klir_binary", "func_name", "grid", "has_collectives"]
    assert known["func_name"] == "halves"
    assert known["grid"] == [2]
    assert known["klir_binary"]["input_names"] == ["x"]
    assert len(known["klir_binary"]["output_names"]) == 1
    (module,) = lowered.compile().runtime_executable().hlo_modules()
    assert 'custom_call_target="AwsNeuronCustomNativeKernel"' in module.to_string()
    assert "api_version=API_VERSION_STATUS_RETURNING" in module.to_string()
    assert "/nki_call" in module.to_string()


def test_a_launch_grid_is_the_cores_of_a_logical_one():
    given = numbers(6, 3)
    np.testing.assert_array_equal(halves[2](jnp.asarray(given)), given * 2)
    np.testing.assert_array_equal(jax.jit(halves[2])(given), given * 2)
    with pytest.raises(BadInput, match=r"halves\[3\]; legal: kernel\[1\] or kernel\[2\]"):
        halves[3](jnp.asarray(given))


@pytest.mark.slow
def test_in_a_loop_and_in_a_branch():
    loop = jax.jit(lambda x: jax.lax.scan(lambda c, _: (double(c) + 1, None), x, length=4)[0])
    expected = X
    for _ in range(4):
        expected = expected * 2 + 1
    np.testing.assert_array_equal(loop(X), expected)
    branch = jax.jit(lambda p, x: jax.lax.cond(p, double, lambda y: y + 1, x))
    np.testing.assert_array_equal(branch(True, X), X * 2)
    np.testing.assert_array_equal(branch(False, X), X + 1)
    rows = jnp.stack([X, X + 1])
    np.testing.assert_array_equal(jax.lax.map(double, rows), np.stack([X * 2, (X + 1) * 2]))


@jax.custom_vjp
def sum_of(a, b):
    return add(a, b)


sum_of.defvjp(lambda a, b: (sum_of(a, b), None), lambda _, grown: (double(grown) / 2, grown))


@pytest.mark.slow
@pytest.mark.parametrize("transformed", [lambda f: f, jax.jit, jax.checkpoint])
def test_a_gradient_by_custom_vjp_is_that_of_the_same_function(transformed):
    def gradient(function):
        def loss(x, y):
            return (function(jnp.sin(x), y) * x * y).sum()

        return jax.grad(transformed(loss), (0, 1))

    given = numbers(12, 7), numbers(12, 7) + 1
    found, expected = gradient(sum_of)(*given), gradient(jnp.add)(*given)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-6)


def test_on_many_cores(neuron):
    mesh = Mesh(np.array(neuron), "d")
    rows, shared = numbers(40, 3), numbers(5, 3)

    @jax.jit
    def program(rows, shared):
        def each(own, shared):
            return jax.lax.psum(add(own, shared), "d")

        split, whole = PartitionSpec("d"), PartitionSpec()
        return jax.shard_map(each, mesh=mesh, in_specs=(split, whole), out_specs=whole)(
            rows, shared
        )

    expected = (rows.reshape(8, 5, 3) + shared).sum(0)
    with recording() as found:
        result = program(rows, shared)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
    (call,) = {event.call for event in found.events if "program" in event.call.name}
    times = step_time(found, "trn2")
    assert not times.missing
    assert [one.name for one in times.times[call].kernels].count("add") == 1
    apart = rows.reshape(8, 5, 3)
    np.testing.assert_array_equal(jax.pmap(double)(apart), apart * 2)
    split = jax.device_put(rows, NamedSharding(mesh, PartitionSpec("d")))
    np.testing.assert_array_equal(jax.jit(lambda x: double(x) + 1)(split), rows * 2 + 1)
    np.testing.assert_array_equal(double(split), rows * 2)


def test_without_jit_each_call_is_a_program_of_its_own(neuron):
    with jax.disable_jit(), recording() as found:
        result = jax.jit(lambda x: double(x) + 1)(jax.device_put(X, neuron[0]))
    np.testing.assert_array_equal(result, X * 2 + 1)
    assert any(event.call.name.startswith("jit_double-") for event in found.events)
    mesh = Mesh(np.array(neuron), "d")
    split = PartitionSpec("d")
    rows = numbers(16, 3)
    eager = jax.shard_map(double, mesh=mesh, in_specs=split, out_specs=split)
    np.testing.assert_array_equal(eager(rows), rows * 2)


def test_what_it_writes_comes_back_as_a_result_and_the_argument_stays():
    given, out = jnp.asarray(X), jnp.zeros_like(X)
    np.testing.assert_array_equal(into(given, out), X * 2)
    np.testing.assert_array_equal(jax.jit(into)(given, out), X * 2)
    assert not np.asarray(out).any()


def test_its_time_is_that_of_its_own_program_with_scope_and_line(neuron):
    def program(x):
        with jax.named_scope("mlp"):
            y = double(jnp.sin(x))
        return y + 1

    x = jax.device_put(numbers(64, 32), neuron[0])
    with recording() as found:
        jax.jit(program)(x)
        double(x)
    whole, alone = found.events
    assert whole.call.name.startswith("jit_program-")
    assert alone.call.name.startswith("jit_double-")
    times = step_time(found, "trn2")
    assert not times.missing
    (own,) = times.times[alone.call].kernels
    in_program = [one for one in times.times[whole.call].kernels if one.name == "double"]
    assert [one.device_time_s for one in in_program] == [own.device_time_s]
    assert "mlp" in {name for name, _, _ in times.by("module")}
    (node,) = [one for one in whole.call.graph.nodes if one.name == "custom_call"]
    assert node.origin.operator == "nki::double"
    assert (node.origin.module, node.origin.line.file) == ("mlp", __file__)


@pytest.mark.slow
def test_exact_numerics_compute_the_program_kernel_by_kernel():
    program = jax.jit(lambda x: double(jnp.tanh(x)) + 1)
    loop = jax.jit(lambda x: jax.lax.scan(lambda c, _: (double(c) / 2, None), x, length=40)[0])
    with numerics("exact") as on_host:
        np.testing.assert_allclose(program(X), np.tanh(X) * 2 + 1, rtol=1e-6)
        np.testing.assert_array_equal(loop(X), X)
    assert not on_host


def test_without_values_a_kernel_has_shapes_and_a_time(neuron):
    with numerics("shapes"), recording() as found:
        result = jax.jit(lambda x: double(x).astype(jnp.bfloat16))(jax.device_put(X, neuron[0]))
    assert (result.shape, result.dtype) == ((5, 3), jnp.bfloat16)
    assert not np.asarray(result, np.float32).any()
    assert step_time(found, "trn2").device_time_s > 0


def test_what_refuses_the_host_takes_kernels(monkeypatch):
    monkeypatch.setattr(state, "policy", "chip")
    with numerics("exact"):
        np.testing.assert_array_equal(jax.jit(lambda x: double(x) * 2)(X), X * 4)


def test_runs_of_kernels_are_collected_from_whichever_thread():
    from trnsim.runs import collecting  # noqa: PLC0415

    with collecting() as runs:
        jax.jit(lambda x: jax.lax.map(double, x))(jnp.stack([X] * 3)).block_until_ready()
    assert [run.title for run in runs] == ["double"] * 3


# ---- Errors, after each of which the kernel works


@pytest.fixture(autouse=True)
def _alive():
    yield
    np.testing.assert_array_equal(jax.jit(lambda x: double(x) + 1)(X), X * 2 + 1)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("transformed", [lambda f: f, jax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize(
    ("kernel", "error", "said"),
    [
        (wide, IllegalInstruction, r"has 256 partitions(.|\n)*nki_kernels\.py:\d+\b"),
        (unwritten, JaxRuntimeError, r"tensor_tensor reads SBUF(.|\n)*nki_kernels\.py:\d+\b"),
        (
            partly,
            JaxRuntimeError,
            r"some elements were never written(.|\n)*nki_kernels\.py:\d+\b",
        ),
        (
            reduced,
            IllegalInstruction,
            r"all_reduce(.|\n)*ranks=N(.|\n)*nki_kernels\.py:\d+\b",
        ),
        (nothing, BadInput, r"nothing returns no tensor\n  fix: return what it computes"),
    ],
    ids=lambda one: getattr(one, "title", ""),
)
def test_what_the_chip_refuses_is_an_error_with_the_line(transformed, kernel, error, said):
    with pytest.raises(error, match=said):
        np.asarray(transformed(kernel)(X + jnp.zeros_like(X)))


def test_a_kernel_that_fails_on_many_cores_is_an_error_and_hangs_nobody(neuron):
    mesh = Mesh(np.array(neuron), "d")

    def each(own):
        return jax.lax.psum(unwritten(own), "d")

    split = PartitionSpec("d")
    program = jax.shard_map(each, mesh=mesh, in_specs=split, out_specs=PartitionSpec())
    with pytest.raises(JaxRuntimeError, match=r"reads SBUF(.|\n)*nki_kernels\.py:\d+\b"):
        jax.jit(program)(numbers(16, 3))


def test_shapes_that_do_not_fit_are_the_kernels_own_error():
    for call in (add, jax.jit(add)):
        with pytest.raises(AssertionError, match="add takes tensors of one shape"):
            call(jnp.asarray(X), jnp.asarray(X[:2]))
    with pytest.raises(IllegalInstruction, match="has 200 partitions"):
        double(jnp.ones((200, 3)))


def test_dtypes_that_a_side_lacks_are_refused():
    with pytest.raises(IllegalInstruction, match="argument `x` is complex64, which no NeuronCore"):
        double(jnp.ones((2, 2), jnp.complex64))
    with pytest.raises(IllegalInstruction, match="float8_e4m3fn on NeuronCore-v3"):
        double(jnp.ones((2, 2), jnp.float8_e4m3fn))
    with pytest.raises(
        BadInput, match=r"double was called with an array of key<fry>\n  fix: pass its"
    ):
        double(jax.random.key(0))

    @nki.jit
    def packed(x):
        return nki.language.ndarray(
            x.shape, nki.language.float4_e2m1fn_x4, buffer=nki.language.shared_hbm
        )

    with pytest.raises((NotModelled, IllegalInstruction), match="float4_e2m1fn_x4"):
        packed(jnp.asarray(X))


def test_arguments_that_do_not_fit_are_refused():
    x = jnp.asarray(X)
    with pytest.raises(BadInput, match=r"^add\(a, b, scale=1.0\) was called with 4 positional"):
        add(x, x, 1.0, 2.0)
    with pytest.raises(
        BadInput, match=r"add was called with a set, \{1, 2\}, which is not hashable"
    ):
        add(x, x, {1, 2})

    class Weights(nki.language.NKIObject):
        def __init__(self, w):
            self.w = w

    with pytest.raises(BadInput, match="add was called with a Weights that holds arrays"):
        add(Weights(x), x)
    with pytest.raises(BadInput, match="add was called with a Weights that holds arrays"):
        jax.jit(lambda w: add(Weights(w), np.ones((2, 2), np.float32)))(x)


def test_a_write_that_would_be_lost_is_refused():
    with pytest.raises(BadInput, match="lost writes to an argument that it does not return"):
        lost(jnp.asarray(X), jnp.zeros_like(X))


def test_vmap_is_refused_by_name_and_says_what_to_do():
    def inner(x):
        return double(x)

    line = here() - 2
    for call in (jax.vmap(inner), jax.vmap(jax.jit(inner)), jax.jit(jax.vmap(inner))):
        with pytest.raises(
            NotModelled, match=r"^jax\.vmap over the kernel double(.|\n)*lax\.map"
        ) as e:
            call(jnp.stack([X, X]))
        assert e.value.line == (__file__, line)


def test_a_gradient_without_custom_vjp_is_refused_by_name_and_says_what_to_do():
    def inner(x):
        return double(x).sum()

    line = here() - 2
    for call in (jax.grad(inner), jax.grad(jax.jit(inner)), jax.jit(jax.grad(inner))):
        with pytest.raises(
            NotModelled, match=r"^the kernel double has no gradient(.|\n)*custom_vjp"
        ) as e:
            call(jnp.asarray(X))
        assert e.value.line == (__file__, line)
    still = jax.grad(lambda x: (x * double(jax.lax.stop_gradient(x))).sum())(jnp.asarray(X))
    np.testing.assert_array_equal(still, X * 2)


def test_arrays_of_the_cpu_are_emulated_there_and_programs_for_it_are_refused(neuron):
    cpu = jax.devices("cpu")[0]
    on_cpu = jax.device_put(X, cpu)
    np.testing.assert_array_equal(double(on_cpu), X * 2)
    with pytest.raises(
        NotModelled, match=r"^the NKI kernel double in a program for cpu: it runs on"
    ):
        jax.jit(double)(on_cpu)
    with pytest.raises(ValueError, match="Received incompatible devices"):
        add(on_cpu, jax.device_put(X, neuron[0]))
    with pytest.raises(ValueError, match="Received incompatible devices"):
        add(jax.device_put(X, neuron[1]), jax.device_put(X, neuron[0]))


def test_what_jax_cannot_nest_goes_the_way_of_numpy():
    @nki.jit
    def picked(tree):
        return stored(nki.language.load(tree[1]), tree[1].shape, tree[1].dtype)

    np.testing.assert_array_equal(picked({1: X, "a": X}), X)
