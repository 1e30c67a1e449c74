"""Arrays for other frameworks, by the DLPack protocol: copies in the host's memory.

JAX gives only memory of CPUs and GPUs to other frameworks, and jaxlib refuses other platforms by
name. Values of the emulated device are the host's anyway, so `np.from_dlpack`, `torch.from_dlpack`
and `jax.dlpack.from_dlpack` get a copy on the CPU, which they own. Memory is never shared. On
chips JAX has no dlpack: TRNSIM_POLICY=chip refuses it.

Source: dlpack, Python Specification (`__dlpack__`, `__dlpack_device__`).
"""

from __future__ import annotations

from typing import Any, Final

from trnsim.device.fallback_policy import VARIABLE, state
from trnsim.errors import NotModelled
from trnsim.jax import private
from trnsim.jax.host_client import as_numpy, host

_CPU: Final = (1, 0)  # dlpack.h: kDLCPU, and its only device
DLPACK_SOURCE: Final = "aws-neuron-sdk jax-neuronx-known-issues.rst: jax.dlpack is not supported"


class NotShared(NotModelled, BufferError):
    """The error of a DLPack request that is refused; the protocol says that it is a BufferError."""


def capsule_of_copy(array: Any, dl_device: Any, copy: bool | None) -> Any:
    """A capsule of DLPack with a copy of a neuron array in the host's memory.

    Raises:
        NotShared: with copy=False, for another device than the CPU, or under TRNSIM_POLICY=chip.
    """
    refuse_under_chip_policy()
    if copy is False:
        raise NotShared(
            "dlpack of a neuron array with copy=False: memory of the device is not shared",
            fix="leave copy out, which gives a copy in the host's memory; or np.asarray(x)",
        )
    is_cpu = isinstance(dl_device, tuple | list) and tuple(dl_device) == _CPU
    if dl_device is not None and not is_cpu:
        raise NotShared(
            f"dlpack of a neuron array for dl_device={dl_device!r}; legal: {_CPU}, the CPU",
            fix="leave dl_device out, and move what you get",
        )
    return private.capsule_of(host().put(as_numpy(array), 0))


def capsule_device() -> tuple[int, int]:
    """The device of the copies that `capsule_of_copy` returns: the CPU.

    Raises:
        NotShared: under TRNSIM_POLICY=chip.
    """
    refuse_under_chip_policy()
    return _CPU


def refuse_under_chip_policy() -> None:
    """Refuse dlpack where the policy allows only features of a chip.

    Raises:
        NotShared: under TRNSIM_POLICY=chip.
    """
    if state.policy == "chip":
        raise NotShared(
            "dlpack of a neuron array: AWS documents that jax.dlpack is not supported",
            fix=f"go through numpy: np.asarray(x); or take a copy with {VARIABLE}=host",
            source=DLPACK_SOURCE,
        )
