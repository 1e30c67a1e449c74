"""Arrays for other frameworks: copies on the CPU, refused under the policy `chip`."""

import jax
import ml_dtypes
import numpy as np
import pytest

from trnsim.device.fallback_policy import set_policy
from trnsim.errors import NotModelled

GIVEN = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def array(neuron):
    return jax.device_put(GIVEN, neuron[1])


@pytest.fixture
def on_a_chip():
    set_policy("chip")
    yield
    set_policy("host")


def test_numpy_takes_a_copy(array):
    assert array.__dlpack_device__() == (1, 0), "kDLCPU"
    found = np.from_dlpack(array)
    np.testing.assert_array_equal(found, GIVEN)
    np.testing.assert_array_equal(array, GIVEN)


@pytest.mark.slow  # torch is slow to import
@pytest.mark.parametrize("dtype", [np.bool_, np.int32, np.complex64, ml_dtypes.bfloat16])
def test_torch_takes_a_copy_of_every_dtype_that_it_has(array, dtype):
    torch = pytest.importorskip("torch", reason="pip install 'trnsim[torch]'")
    found = torch.from_dlpack(array.astype(dtype))
    assert str(found.dtype) == f"torch.{np.dtype(dtype).name}"
    np.testing.assert_array_equal(found.to(torch.complex64).numpy(), GIVEN.astype(dtype))
    found.zero_()
    np.testing.assert_array_equal(array, GIVEN)


@pytest.mark.slow
def test_tensors_of_torch_come_to_the_device(neuron):
    torch = pytest.importorskip("torch", reason="pip install 'trnsim[torch]'")
    found = jax.dlpack.from_dlpack(torch.from_numpy(GIVEN.copy()), device=neuron[2])
    assert found.devices() == {neuron[2]}
    np.testing.assert_array_equal(found, GIVEN)


def test_jax_takes_a_neuron_array_to_its_cpu_and_to_another_device(array, neuron):
    assert jax.dlpack.from_dlpack(array).platform() == "cpu"
    found = jax.dlpack.from_dlpack(array, device=neuron[3])
    assert found.devices() == {neuron[3]}
    np.testing.assert_array_equal(found, GIVEN)


@pytest.mark.usefixtures("on_a_chip")
def test_arrays_of_other_platforms_are_jaxs_own(array, neuron):
    on_cpu = jax.device_put(GIVEN, jax.devices("cpu")[0])
    np.testing.assert_array_equal(np.from_dlpack(on_cpu), GIVEN)
    assert on_cpu.__dlpack_device__() == (1, 0)
    mesh = jax.sharding.Mesh(np.array(neuron[:2]), ("x",))
    spec = jax.sharding.PartitionSpec("x")
    split = jax.device_put(array, jax.sharding.NamedSharding(mesh, spec))
    with pytest.raises(BufferError, match="singular device"):
        split.__dlpack__()


def test_memory_itself_is_refused(array):
    with pytest.raises(BufferError) as caught:
        np.from_dlpack(array, copy=False)
    assert str(caught.value).startswith(
        "dlpack of a neuron array with copy=False: memory of the device is not shared\n"
        "  fix: leave copy out, which gives a copy in the host's memory; or np.asarray(x)"
    )


def test_another_device_than_the_cpu_is_refused(array):
    with pytest.raises(BufferError) as caught:
        array.__dlpack__(dl_device=(2, 1))
    assert str(caught.value).startswith(
        "dlpack of a neuron array for dl_device=(2, 1); legal: (1, 0), the CPU\n"
        "  fix: leave dl_device out, and move what you get"
    )
    for device in ("cpu", 5, ()):
        with pytest.raises(BufferError, match=r"legal: \(1, 0\), the CPU"):
            array.__dlpack__(dl_device=device)


@pytest.mark.usefixtures("on_a_chip")
@pytest.mark.parametrize("asked", ["__dlpack__", "__dlpack_device__"])
def test_a_chip_has_no_dlpack(array, asked):
    with pytest.raises(NotModelled) as caught:
        getattr(array, asked)()
    assert str(caught.value).startswith(
        "dlpack of a neuron array: AWS documents that jax.dlpack is not supported\n"
        "  fix: go through numpy: np.asarray(x); or take a copy with TRNSIM_POLICY=host\n"
        "  source: aws-neuron-sdk jax-neuronx-known-issues.rst: jax.dlpack is not supported"
    )
