import numpy as np

from trnsim.jax.host_client import HostClient, as_numpy, error_of, host


def test_the_private_client_is_not_seen_by_jax(neuron):
    import jax  # noqa: PLC0415

    kept = host().put(np.ones(3, np.float32), 1)
    assert all(array is not kept for array in jax.live_arrays("cpu"))
    assert len(host().devices) == len(neuron)


def test_what_is_put_is_a_copy_that_lies_on_its_device():
    client = HostClient()
    given = np.arange(6.0).reshape(2, 3)
    array = client.put(given, 1)
    given[:] = 0
    np.testing.assert_array_equal(as_numpy(array), np.arange(6.0).reshape(2, 3))
    assert array.devices() == {client.devices[1]}
    other = client.copy(array, 0)
    array.delete()
    assert as_numpy(other)[1, 2] == 5


def test_parts_are_joined_as_they_are():
    client = HostClient()
    parts = [client.put(np.full(3, at, np.float32), at) for at in range(2)]
    joined = client.join(parts, [0, 1])
    assert joined.shape == (3,)
    assert [float(as_numpy(one)[0]) for one in joined._arrays] == [0, 1]
    assert client.join(parts[:1], [0]) is parts[0]


class Failed:
    """Stands for an array whose computation failed."""

    def is_deleted(self):
        return False

    def block_until_ready(self):
        raise ValueError("of the array")


def test_what_a_computation_raised_is_asked_of_its_arrays():
    fine = HostClient().put(np.ones(2), 0)
    assert error_of([fine]) is None
    assert isinstance(error_of([fine, Failed()]), ValueError)
