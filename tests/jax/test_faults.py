"""What a program of JAX does on a device that has failed: all of it meets the fault."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from nki_kernels import double

from trnsim.device import faults
from trnsim.instance.state.hardware import StoredFault

FAILED = 1


@pytest.fixture
def held(neuron):
    """Arrays on the device that fails and on another, and one over both."""
    mesh = Mesh(np.array(neuron[:2]), "d")
    rows = NamedSharding(mesh, PartitionSpec("d"))
    ones = np.ones((4, 4), np.float32)
    kept, other = (jax.device_put(ones, neuron[core]) for core in (FAILED, 2))
    return {"kept": kept, "other": other, "rows": rows, "split": jax.device_put(ones, rows)}


USES = {
    "operation": lambda kept, **_: kept + kept,
    "program": lambda kept, **_: jax.jit(jnp.sin)(kept),
    "program of two devices": lambda split, **_: jax.jit(lambda x: x + 1)(split),
    "collective": lambda split, **_: jax.jit(jnp.sum)(split),
    "kernel": lambda kept, **_: double(kept),
    "kernel in a program": lambda kept, **_: jax.jit(double)(kept),
    "random numbers": lambda kept, **_: jax.random.split(jax.device_put(KEY, kept.device)),
    "to the host": lambda kept, **_: np.asarray(kept.copy_to_host_async() or kept),
    "item": lambda kept, **_: kept[0, 0].item(),
    "print": lambda kept, **_: repr(kept),
    "to the device": lambda kept, **_: jax.device_put(np.ones(2, np.float32), kept.device),
    "to both devices": lambda rows, **_: jax.device_put(np.ones((4, 2), np.float32), rows),
    "from another device": lambda kept, other, **_: jax.device_put(other, kept.device),
    "to another device": lambda kept, other, **_: jax.device_put(kept, other.device),
    "to another platform": lambda kept, **_: jax.device_put(kept, jax.devices("cpu")[0]),
    "from several devices": lambda split, other, **_: jax.device_put(split, other.device),
}
KEY = np.array([0, 1], np.uint32)


@pytest.mark.parametrize("use", USES)
def test_every_use_of_a_device_meets_its_fault(held, monkeypatch, use):
    monkeypatch.setitem(
        faults.pending_faults, FAILED, StoredFault("hbm-ecc", 0, 1, time.time(), None)
    )
    told = []
    monkeypatch.setattr(faults, "listeners", [lambda kind, _: told.append(kind)])
    # ValueError is what JAX raises of a copy to a device.
    with pytest.raises((RuntimeError, ValueError), match=r"1201\) .*, core 1 \(neuron:1\)"):
        USES[use](**held)
    assert told == ["hbm-ecc"]


def test_other_devices_go_on(held, monkeypatch, neuron):
    monkeypatch.setitem(
        faults.pending_faults, FAILED, StoredFault("hbm-ecc", 0, 1, time.time(), None)
    )
    assert float((held["other"] + held["other"]).sum()) == 32
    assert float(jax.device_put(held["other"], neuron[3])[0, 0]) == 1
