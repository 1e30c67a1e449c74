"""XLA's CPU client, private to the device: it holds arrays and computes the values of `fast`.

jaxlib brings it. It has as many devices as the neuron client, under the same numbers, and nothing
of it is seen by JAX: neither JAX_PLATFORMS nor XLA_FLAGS reaches it, and its arrays are not among
`jax.live_arrays()`.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from trnsim.device.device_core import visible_cores
from trnsim.jax import private

if TYPE_CHECKING:
    from collections.abc import Sequence

HostArray: TypeAlias = Any
"""An array of the private client on one of its devices: jaxlib's `ArrayImpl`."""


class HostClient:
    """XLA's CPU client with `count` devices."""

    def __init__(self, count: int) -> None:
        self._count = count

    @cached_property
    def client(self) -> Any:
        """Jaxlib's client, made when it is first used."""
        return private.cpu_client(self._count)

    @cached_property
    def devices(self) -> list[Any]:
        """Its devices; the number of each is that of the neuron device that it stands for."""
        return list(self.client.devices())

    @cached_property
    def _shardings(self) -> list[Any]:
        return [private.on_one(device) for device in self.devices]

    def put(self, array: npt.NDArray[Any], core: int) -> HostArray:
        """A copy of a numpy array on the device that stands for `core`.

        The caller may change the array afterwards, as it may after a copy to a chip.
        """
        return private.put(array, self._shardings[core], self.devices[core])

    def copy(self, array: HostArray, core: int) -> HostArray:
        """A copy of an array on the device that stands for `core`."""
        return self.put(as_numpy(array), core)

    def joined(self, arrays: Sequence[HostArray], cores: Sequence[int]) -> HostArray:
        """The arrays of several devices as one argument of a program that runs on all of them."""
        if len(arrays) == 1:
            return arrays[0]
        return private.joined(arrays, [self.devices[core] for core in cores])


def as_numpy(array: HostArray) -> npt.NDArray[Any]:
    """The elements of an array, once it is computed; not to be written.

    Raises:
        Exception: whatever its computation raised.
    """
    found: npt.NDArray[Any] = array._single_device_array_to_np_array_did_copy()[0]  # noqa: SLF001
    return np.asarray(found)


def error_of(arrays: Sequence[HostArray]) -> BaseException | None:
    """What the computation of `arrays` raised, or None; waits for its end."""
    for array in arrays:
        try:
            if not array.is_deleted():
                array.block_until_ready()
        except Exception as error:  # noqa: BLE001  it belongs to whoever reads the array
            return error
    return None


@cache
def host() -> HostClient:
    """The private client of this process, with a device for each of its cores."""
    return HostClient(len(visible_cores()))
