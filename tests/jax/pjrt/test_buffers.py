"""Arrays from and to the host: every dtype, stride and shape; copies; deletion; HBM."""

import gc

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax._src.lib import xla_client
from jax.sharding import SingleDeviceSharding

from trnsim.device.call_log import recording
from trnsim.device.hbm import device_memory
from trnsim.device.steps import steps
from trnsim.jax import private
from trnsim.jax.memory_kinds import KINDS
from trnsim.jax.pjrt.buffers import buffers
from trnsim.jax.pjrt.sweep import sweep

DTYPES = [
    *(np.bool_, np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32),
    *(np.float16, np.float32, np.complex64, ml_dtypes.bfloat16),
    *(ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3b11fnuz),
    *(ml_dtypes.float8_e4m3, ml_dtypes.float8_e3m4, ml_dtypes.float8_e8m0fnu),
    *(ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.float4_e2m1fn, ml_dtypes.int2),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_an_array_of_every_dtype_comes_back_bit_for_bit(neuron, dtype):
    given = np.array([[0, 1], [1, 0], [1, 1]]).astype(dtype)
    found = np.asarray(jax.device_put(given, neuron[1]))
    assert found.dtype == given.dtype
    assert found.tobytes() == given.tobytes()


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.uint64, np.complex128])
def test_64_bit_dtypes_come_back_where_jax_has_them(dtype):
    with jax.enable_x64(True):
        found = jax.device_put(np.array([1, 2], dtype))
        assert found.dtype == dtype
        assert (np.asarray(found) == [1, 2]).all()


@pytest.mark.parametrize(
    ("values", "element"),
    [([1.0 + 2**-40, -0.0], "f64"), ([2**40 + 1, -(2**63)], "i64"), ([2**64 - 1, 0], "ui64")],
)
def test_a_program_of_64_bits_keeps_them_where_jax_has_32(neuron, values, element):
    kind = {"f64": np.float64, "i64": np.int64, "ui64": np.uint64}[element]
    array, device = np.array(values, kind), neuron[0]
    tensor = f"tensor<2x{element}>"
    program = (
        f"func.func @main(%x: {tensor}) -> {tensor} {{ %y = stablehlo.maximum %x, %x : {tensor}\n"
        f"return %y : {tensor} }}"
    )
    sharding = xla_client.GSPMDSharding((device,), xla_client.OpSharding())
    aval = jax.core.ShapedArray(array.shape, array.dtype)
    buffer = xla_client.batched_device_put(aval, sharding, [array], [device], True, enable_x64=True)
    assert not jax.config.jax_enable_x64
    (result,) = device.client.compile_and_load(program, [device]).execute([buffer])
    assert np.asarray(result).tobytes() == array.tobytes()


WHOLE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize(
    "given",
    [
        WHOLE[::-1],
        WHOLE[:, ::-2, ::-1],
        WHOLE.transpose(2, 0, 1),
        WHOLE[:, :1, 1:3],
        np.broadcast_to(np.float32(3), (2, 5)),
        np.float32(2.5),
        np.zeros((0, 3), np.int32),
        np.zeros((3, 0, 2), np.float32)[::-1],
        np.asfortranarray(WHOLE),
        np.ones((1, 1, 1), np.int8),
    ],
    ids=lambda given: f"{given.shape}{getattr(given, 'strides', ())}",
)
def test_strides_of_every_sort_are_followed(neuron, given):
    found = jax.device_put(given, neuron[0])
    assert found.shape == given.shape
    np.testing.assert_array_equal(np.asarray(found), given)
    if given.size:
        np.testing.assert_array_equal(np.asarray(found + found), given + given)


def test_a_numpy_array_may_be_changed_once_it_is_on_the_device(neuron):
    given = np.zeros(1 << 16, np.float32)
    found = jax.device_put(given, neuron[0])
    given[:] = 7
    assert not np.asarray(found).any()


def test_copies_between_devices_are_of_their_own(neuron):
    first = jax.device_put(np.arange(4.0, dtype=np.float32), neuron[0])
    second = jax.device_put(first, neuron[3])
    assert second.devices() == {neuron[3]}
    first.delete()
    np.testing.assert_array_equal(np.asarray(second), [0, 1, 2, 3])


def test_an_array_goes_to_the_cpu_and_back(neuron):
    host = jax.device_put(jax.device_put(np.float32(3), neuron[2]), jax.devices("cpu")[0])
    assert host.platform() == "cpu"
    assert float(jax.device_put(host, neuron[1])) == 3


def test_hbm_counts_packed_bytes_until_the_last_array_is_gone(neuron):
    sweep()
    gc.collect()
    sweep()
    before = neuron[5].memory_stats()["bytes_in_use"]
    kept = jax.device_put(np.zeros(1000, ml_dtypes.int4), neuron[5])
    lost = jax.device_put(np.zeros(100, np.float32), neuron[5])
    assert neuron[5].memory_stats()["bytes_in_use"] == before + 500 + 400
    del lost
    assert neuron[5].memory_stats()["bytes_in_use"] == before + 500
    kept.delete()
    assert device_memory(5).live_bytes == before, "without a sweep: the program said so"


def test_a_deleted_array_is_refused_and_the_others_stay(neuron):
    first, second = (jax.device_put(np.ones(3, np.float32), neuron[0]) for _ in range(2))
    first.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(first)
    assert float(second.sum()) == 3


def test_memory_of_the_device_is_not_shared(neuron):
    array = jax.device_put(np.ones(3, np.float32), neuron[0])
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        private.capsule_of(array)
    assert str(caught.value).startswith(
        "UNIMPLEMENTED: memory of a neuron device cannot be shared with another framework\n"
        "  fix: take a copy: np.asarray(x), np.from_dlpack(x) or torch.from_dlpack(x)\n"
        "  source: aws-neuron-sdk jax-neuronx-known-issues.rst: jax.dlpack is not supported"
    )


def in_hbm(device):
    gc.collect()
    return device.memory_stats()["bytes_in_use"]


def test_an_array_in_the_hosts_memory_takes_no_hbm(neuron):
    before = in_hbm(neuron[4])
    hbm, host = (SingleDeviceSharding(neuron[4], memory_kind=kind) for kind in KINDS)
    with recording() as seen:
        first = jax.device_put(np.arange(1000, dtype=np.float32), host)
        assert first.sharding.memory_kind == "pinned_host"
        assert in_hbm(neuron[4]) == before
        second = jax.device_put(first, hbm)
        assert (second.sharding.memory_kind, in_hbm(neuron[4])) == ("device", before + 4000)
        third = jax.device_put(second, host)
        second.delete()
        assert (third.sharding.memory_kind, in_hbm(neuron[4])) == ("pinned_host", before)
        np.testing.assert_array_equal(third, np.arange(1000))
    assert (seen.from_host_bytes, seen.to_host_bytes) == (4000, 4000)


def test_hbm_that_is_full_leaves_the_hosts_memory(neuron, monkeypatch):
    monkeypatch.setattr(device_memory(3), "capacity_bytes", device_memory(3).live_bytes)
    given = np.zeros(1000, np.float32)
    kept = jax.device_put(given, SingleDeviceSharding(neuron[3], memory_kind="pinned_host"))
    with pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED"):
        jax.device_put(kept, SingleDeviceSharding(neuron[3], memory_kind="device"))


def test_a_buffer_says_its_size_and_its_pointer_is_its_handle(neuron):
    array = jnp.asarray(jax.device_put(np.ones((2, 3), np.float32), neuron[0]))
    assert array.on_device_size_in_bytes() == 24
    assert array.unsafe_buffer_pointer() in buffers


def test_reading_an_array_waits_for_the_device_once_for_all_work_since(neuron):
    add = jax.jit(lambda x: x + 1)
    x = add(jax.device_put(np.zeros(3, np.float32), neuron[0]))
    np.asarray(x)
    before = steps.number
    for _ in range(3):
        x = add(add(x))
        assert float(x.sum()) >= 0
        np.asarray(x)
    assert steps.number == before + 3
