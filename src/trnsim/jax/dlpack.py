"""Arrays for other frameworks, by the DLPack protocol: copies in the host's memory.

JAX gives memory of CPUs and GPUs alone to other frameworks, and jaxlib refuses other platforms by
name. Values of the emulated device are the host's anyway, so `np.from_dlpack`, `torch.from_dlpack`
and `jax.dlpack.from_dlpack` get a copy on the CPU, which they own. Memory is never shared. A chip
has no dlpack: the policy `chip` refuses it.

Source: dlpack, Python Specification (`__dlpack__`, `__dlpack_device__`).
"""

from __future__ import annotations

from typing import Any, Final

from trnsim.device.fallback_policy import VARIABLE, state
from trnsim.errors import NotModelled
from trnsim.jax import private
from trnsim.jax.host_client import HostArray, as_numpy, host

_CPU: Final = (1, 0)  # dlpack.h: kDLCPU, and its only device
SOURCE: Final = "aws-neuron-sdk jax-neuronx-known-issues.rst: jax.dlpack is not supported"


class NotShared(NotModelled, BufferError):
    """A request for memory of the device itself; the protocol's error for it is a BufferError."""


def capsule_of_copy(array: Any, dl_device: tuple[int, int] | None, copy: bool | None) -> Any:
    """A capsule of DLPack with a copy of a neuron array in the host's memory.

    Raises:
        NotShared: with copy=False, for another device than the CPU, or under the policy `chip`.
    """
    refuse_on_a_chip()
    if copy is False:
        raise NotShared(
            "dlpack of a neuron array with copy=False: memory of the device is not shared",
            fix="leave copy out, which gives a copy in the host's memory; or np.asarray(x)",
        )
    if dl_device is not None and tuple(map(int, dl_device)) != _CPU:
        raise NotShared(
            f"dlpack of a neuron array for dl_device={tuple(map(int, dl_device))}; legal: {_CPU}, "
            "the CPU",
            fix="leave dl_device out, and move what you get",
        )
    return private.capsule_of(_copy(array))


def _copy(array: Any) -> HostArray:
    """The elements in the host's memory, in an array of their own."""
    return host().put(as_numpy(array), 0)


def capsule_device() -> tuple[int, int]:
    """The device of the copies that `capsule_of_copy` returns: the CPU.

    Raises:
        NotShared: under the policy `chip`.
    """
    refuse_on_a_chip()
    return _CPU


def refuse_on_a_chip() -> None:
    """Refuse dlpack where only features of a chip are allowed.

    Raises:
        NotShared: under the policy `chip`.
    """
    if state.policy == "chip":
        raise NotShared(
            "dlpack of a neuron array: AWS documents that jax.dlpack is not supported",
            fix=f"go through numpy: np.asarray(x); or take a copy with {VARIABLE}=host",
            source=SOURCE,
        )
