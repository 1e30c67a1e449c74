"""XLA's CPU client, private to the device: it holds arrays and computes the values of `fast`.

jaxlib brings it. It has as many devices as the neuron client, under the same numbers, and JAX does
not see it: neither JAX_PLATFORMS nor XLA_FLAGS reaches it, and its arrays are not among
`jax.live_arrays()`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from trnsim.jax import private
from trnsim.jax.processes import host_client

HostArray: TypeAlias = Any
"""An array of the private client on one of its devices: jaxlib's `ArrayImpl`."""


class HostClient:
    """XLA's CPU client."""

    @cached_property
    def client(self) -> Any:
        """Jaxlib's client, made when it is first used."""
        return host_client()

    @cached_property
    def devices(self) -> list[Any]:
        """The devices of all processes, in the order of the neuron devices that they represent."""
        return sorted(self.client.devices(), key=lambda device: (device.process_index, device.id))

    @cached_property
    def local(self) -> list[Any]:
        """The devices of this process, each for one of its cores."""
        index = self.client.process_index()
        return [device for device in self.devices if device.process_index == index]

    @cached_property
    def first(self) -> int:
        """The number of this process's first device among the devices of all processes."""
        return self.devices.index(self.local[0])

    @cached_property
    def _shardings(self) -> list[Any]:
        return [private.single_device(device) for device in self.local]

    def put(self, array: npt.NDArray[Any], core: int) -> HostArray:
        """A copy of a numpy array on the device that represents `core`.

        The caller may change the array afterwards, as it may after a copy to a chip.
        """
        return private.put(array, self._shardings[core], self.local[core])

    def result_handler(self, shape: tuple[int, ...], dtype: np.dtype[Any], core: int) -> Any:
        """A maker of results on the device that represents `core`."""
        return private.result_handler(shape, dtype, self._shardings[core])

    def copy(self, array: HostArray, core: int) -> HostArray:
        """A copy of an array on the device that represents `core`."""
        return self.put(as_numpy(array), core)

    def join(self, arrays: Sequence[HostArray], numbers: Sequence[int]) -> HostArray:
        """The arrays of this process's devices as one argument of a program.

        `numbers` are the numbers of all devices of the program, also in other processes.
        """
        if len(numbers) == 1:
            return arrays[0]
        return private.join_arrays(arrays, [self.devices[number] for number in numbers])


def as_numpy(array: HostArray) -> npt.NDArray[Any]:
    """The elements of an array, once it is computed; the caller must not write to them.

    Raises:
        Exception: whatever its computation raised.
    """
    elements: npt.NDArray[Any] = array._single_device_array_to_np_array_did_copy()[0]  # noqa: SLF001
    return np.asarray(elements)


def error_of(arrays: Sequence[HostArray]) -> BaseException | None:
    """The exception of the computation of `arrays`, or None, after waiting for its end."""
    for array in arrays:
        try:
            if not array.is_deleted():
                array.block_until_ready()
        except Exception as error:  # noqa: BLE001  it belongs to the reader of the array
            return error
    return None


@cache
def host() -> HostClient:
    """The private client of this process, with a device for each of its cores."""
    return HostClient()
