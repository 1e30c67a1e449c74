"""Devices: one logical NeuronCore each, with its share of the chip's HBM.

Devices of other processes are known only by number and kind.

Kinds are AWS's: "NC_v2", "NC_v3", and with a "d" where a device is two NeuronCores.
Source: aws-neuron-sdk archive/appnotes/torch-neuronx/introducing-pytorch-2-6.rst.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from trnsim.device.device_core import device_core, target
from trnsim.device.hbm import DeviceMemory, device_memory
from trnsim.jax.host_client import host
from trnsim.jax.memory_kinds import HBM, KINDS
from trnsim.jax.pjrt.handles import Handle, Text, pointers
from trnsim.jax.pjrt.memories import PjrtMemory, memories
from trnsim.jax.pjrt.named_values import NamedValues, Value
from trnsim.jax.pjrt.structs import fill_struct
from trnsim.jax.pjrt.sweep import sweep
from trnsim.jax.pjrt.table import address_slot, noop_address, slot, value_slot
from trnsim.jax.processes import cores

_PAIR: Final = 2
_IS_SET: Final = "_is_set"


def device_kind() -> str:
    """The kind of this process's devices: "NC_v3d"."""
    core = device_core()
    pair = "d" if core.physical_cores == _PAIR else ""
    return f"NC_v{core.chip.core.generation}{pair}"


class PjrtDevice(Handle):
    """A device, which is its own description too.

    Attributes:
        number: its id in JAX, among all processes.
        core: its index among the devices of its process.
        is_local: True if it belongs to this process.
        kind: the kind of its core ("NC_v3").
        text: its name.
        host_memory: the host's memory that it reaches.
        memories: the handles of both, as C reads them.
        owners: its own handle, as C reads it.
        attributes: the attributes that programs may read, as C reads them.
    """

    __slots__ = (
        *("attributes", "core", "host_memory", "is_local", "kind", "memories", "memory"),
        *("number", "owners", "process", "text"),
    )

    def __init__(
        self, number: int, process: int, core: int, count: int, *, is_local: bool = True
    ) -> None:
        """`count` is the number of devices of all processes."""
        super().__init__()
        self.number, self.process, self.core, self.is_local = number, process, core, is_local
        self.kind = Text(device_kind())
        self.text = Text(f"NeuronDevice(id={number})")
        self.memory, self.host_memory = (PjrtMemory(self, kind, count) for kind in KINDS)
        self.memories = pointers([self.memory.address, self.host_memory.address])
        self.owners = pointers([self.address])
        local: dict[str, Value] = {"neuron_core": cores()[core]} if is_local else {}
        physical_cores = device_core().physical_cores
        self.attributes = NamedValues(
            {"target": target().name, **local, "physical_cores": physical_cores}
        )

    @property
    def hbm(self) -> DeviceMemory:
        """Its HBM, with the allocations in it."""
        return device_memory(self.core)

    def of_kind(self, kind: str) -> PjrtMemory:
        """Its memory of a kind."""
        return self.memory if kind == HBM else self.host_memory


devices: Final[dict[int, PjrtDevice]] = {}
"""Devices of all processes by their handles, in order."""
local_devices: Final[list[PjrtDevice]] = []
"""Devices of this process, in order."""


def make_devices() -> list[PjrtDevice]:
    """The devices of all processes, made once: their handles outlive every client."""
    if not devices:
        count = Counter[int]()
        for number, host_device in enumerate(host().devices):
            process, is_local = host_device.process_index, host_device in host().local
            device = PjrtDevice(
                number, process, count[process], len(host().devices), is_local=is_local
            )
            count[process] += 1
            devices[device.address] = device
            if is_local:
                local_devices.append(device)
                memories.update(
                    {memory.address: memory for memory in (device.memory, device.host_memory)}
                )
    return list(devices.values())


def memory_at(device: int | None, memory: int | None) -> PjrtMemory:
    """The memory that a call names, or the HBM of the device that it names."""
    if memory:
        return memories[memory]
    return devices[device].memory if device else local_devices[0].memory


def _device(args: Any) -> PjrtDevice:
    return devices[args.device]


def _described_device(args: Any) -> PjrtDevice:
    return devices[args.device_description]


value_slot("Device_GetDescription", "device_description", lambda args: args, "device")
value_slot("Device_IsAddressable", "is_addressable", _device, "is_local")
value_slot("Device_LocalHardwareId", "local_hardware_id", _device, "core")
value_slot("Device_DefaultMemory", "memory", _device, "memory.address")
address_slot("Device_AddressableMemories", "memories", _device, "memories")
value_slot("DeviceDescription_Id", "id", _described_device, "number")
value_slot("DeviceDescription_ProcessIndex", "process_index", _described_device, "process")
address_slot("DeviceDescription_Attributes", "attributes", _described_device, "attributes")
address_slot("DeviceDescription_Kind", "device_kind", _described_device, "kind")
address_slot("DeviceDescription_DebugString", "debug_string", _described_device, "text")
address_slot("DeviceDescription_ToString", "to_string", _described_device, "text")


@slot("Device_GetAttributes")
def _attributes(args: Any) -> None:
    attributes = devices[args.device].attributes
    args.attributes, args.num_attributes = attributes.address, attributes.size
    args.device_attributes = args.device
    args.attributes_deleter = noop_address()


@slot("Device_MemoryStats")
def _memory_stats(args: Any) -> None:
    sweep()
    hbm = devices[args.device].hbm
    largest_bytes = max(
        (allocation.nbytes for allocation in list(hbm.allocations.values())), default=0
    )
    figures = {
        "peak_bytes_in_use": hbm.peak_bytes,
        "num_allocs": len(hbm.allocations),
        "largest_alloc_size": largest_bytes,
        "bytes_limit": hbm.capacity_bytes,
    }
    args.bytes_in_use = hbm.live_bytes
    flags = [name for name, _ in type(args)._fields_ if name.endswith(_IS_SET)]
    fill_struct(args, **figures, **{name: name.removesuffix(_IS_SET) in figures for name in flags})


@slot("Device_ClearMemoryStats")
def _clear_memory_stats(args: Any) -> None:
    sweep()
    devices[args.device].hbm.reset_peak()
