"""Arrays in the host's memory (`pinned_host`) in programs, and the program without its kinds."""

import gc
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from trnsim.device.fallback_policy import set_policy
from trnsim.device.numerics import numerics
from trnsim.errors import BadInput
from trnsim.jax import private
from trnsim.jax.memory_kinds import forget_kinds, is_placed, kinds_of

X = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
PROGRAM = b"""
func.func @main(%a: tensor<2xf32> {mhlo.memory_kind = "pinned_host", jax.buffer_donor = true},
                %b: tensor<2xf32>) -> (tensor<2xf32> {mhlo.memory_kind = "KIND"}) {
  %0 = stablehlo.custom_call @annotate_device_placement(%a) {has_side_effect = true,
    mhlo.frontend_attributes = {_xla_buffer_placement = "device"}}
    : (tensor<2xf32>) -> tensor<2xf32>
  %1 = stablehlo.add %0, %b : tensor<2xf32>
  return %1 : tensor<2xf32>
}
"""


@pytest.fixture
def of_kind(neuron):
    return lambda kind: SingleDeviceSharding(neuron[1], memory_kind=kind)


def test_kinds_are_read_and_taken_out():
    code = PROGRAM.replace(b"KIND", b"pinned_host")
    module = private.module_of(code)
    assert kinds_of(module, 2, 1) == (("pinned_host", "device"), ("pinned_host",))
    forget_kinds(module)
    assert kinds_of(module, 2, 1) == (("device", "device"), ("device",))
    assert private.donors(module) == {0}, "what else is said stays"
    assert is_placed(code)
    assert not is_placed(str(module).encode())


def test_a_program_without_attributes_is_all_in_hbm():
    module = private.module_of(b"func.func @main(%a: tensor<2xf32>) { return }")
    assert kinds_of(module, 1, 0) == (("device",), ())
    forget_kinds(module)
    empty = private.module_of(b"func.func @other() { return }")
    assert kinds_of(empty, 0, 0) == ((), ())


def test_a_kind_that_is_not_there_is_refused_by_name():
    module = private.module_of(PROGRAM.replace(b"KIND", b"unpinned_host"))
    with pytest.raises(BadInput) as caught:
        kinds_of(module, 2, 1)
    assert str(caught.value).startswith(
        "memory_kind='unpinned_host' of an argument or result; legal: device, pinned_host\n"
        "  fix: memory_kind='pinned_host'"
    )


def test_results_lie_where_out_shardings_say(neuron, of_kind):
    x = jax.device_put(X, of_kind("device"))
    gc.collect()
    before = neuron[1].memory_stats()["bytes_in_use"]
    found = jax.jit(lambda a: a * 2, out_shardings=of_kind("pinned_host"))(x)
    assert found.sharding.memory_kind == "pinned_host"
    assert neuron[1].memory_stats()["bytes_in_use"] == before
    np.testing.assert_array_equal(found, 2 * X)


def test_arguments_lie_where_in_shardings_say(of_kind):
    x = jax.device_put(X, of_kind("pinned_host"))

    @partial(jax.jit, in_shardings=of_kind("pinned_host"), out_shardings=of_kind("device"))
    def twice(a):
        return jax.device_put(a, of_kind("device")) * 2

    assert "annotate_device_placement" in twice.lower(x).as_text()
    assert twice.lower(x).compile().input_shardings[0][0].memory_kind == "pinned_host"
    found = twice(x)
    assert found.sharding.memory_kind == "device"
    np.testing.assert_array_equal(found, 2 * X)


def test_a_program_moves_a_result_to_the_host(of_kind):
    x = jax.device_put(X, of_kind("device"))
    found = jax.jit(lambda a: jax.device_put(a + 1, jax.memory.Space.Host))(x)
    assert found.sharding.memory_kind == "pinned_host"
    np.testing.assert_array_equal(found, X + 1)


def test_a_donated_array_of_the_host_is_taken(of_kind):
    host = of_kind("pinned_host")
    x = jax.device_put(X, host)
    add = jax.jit(lambda a: a + 1, in_shardings=host, out_shardings=host, donate_argnums=0)
    np.testing.assert_array_equal(add(x), X + 1)
    assert x.is_deleted()


def test_shares_of_a_mesh_lie_in_the_hosts_memory(neuron):
    mesh = Mesh(np.array(neuron), ("x",))
    split = NamedSharding(mesh, PartitionSpec("x"), memory_kind="pinned_host")
    x = jax.device_put(X, split)
    assert x.sharding.memory_kind == "pinned_host"
    found = jax.jit(lambda a: a * 2 + a.sum(), out_shardings=split)(x)
    assert found.sharding.memory_kind == "pinned_host"
    np.testing.assert_allclose(found, 2 * X + X.sum(), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(jax.device_put(x, split.with_memory_kind("device")), X)


def gradient_of_offloaded(w):
    """The gradient by an activation that lies in the host's memory meanwhile."""
    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[],
        names_which_can_be_offloaded=["hidden"],
        offload_src="device",
        offload_dst="pinned_host",
    )

    @partial(jax.checkpoint, policy=policy)
    def layer(w):
        return jnp.sin(checkpoint_name(jnp.sin(X @ w), "hidden") @ w).sum()

    return jax.jit(jax.grad(layer)).lower(w)


def expected():
    hidden = np.sin(X.astype(np.float64) @ X)
    outer = np.cos(hidden @ X)
    return hidden.T @ outer + X.T @ (np.cos(X.astype(np.float64) @ X) * (outer @ X.T))


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["host", "chip"])
def test_remat_offloads_what_its_policy_names(neuron, policy):
    set_policy(policy)
    try:
        lowered = gradient_of_offloaded(jax.device_put(X, neuron[0]))
        assert lowered.as_text().count("annotate_device_placement") == 2, "there and back"
        found = lowered.compile()(X)
    finally:
        set_policy("host")
    np.testing.assert_allclose(found, expected(), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_offloaded_values_are_the_chips_in_exact(neuron):
    with numerics("exact"):
        found = gradient_of_offloaded(jax.device_put(X, neuron[0])).compile()(X)
    np.testing.assert_allclose(found, expected(), rtol=1e-3, atol=1e-3)
