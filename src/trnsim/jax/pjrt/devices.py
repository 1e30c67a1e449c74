"""Devices: one logical NeuronCore each, with its share of the chip's HBM.

Those of other processes are known by number and kind only.

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
from trnsim.jax.pjrt.table import noop_address, slot
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
        process: the number of its process.
        core: its place among the devices of its process.
        is_local: whether its process is this one.
        kind: the kind of its core.
        text: its name.
        memory: its HBM.
        host_memory: the host's memory that it reaches.
    """

    __slots__ = (
        *("_attributes", "core", "host_memory", "is_local", "kind", "memories", "memory"),
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
        self._attributes = NamedValues(self._facts())

    def _facts(self) -> dict[str, Value]:
        """Attributes that programs may read."""
        local_facts: dict[str, Value] = {"neuron_core": cores()[self.core]} if self.is_local else {}
        return {
            "target": target().name,
            **local_facts,
            "physical_cores": device_core().physical_cores,
        }

    @property
    def hbm(self) -> DeviceMemory:
        """Its HBM, with the allocations in it."""
        return device_memory(self.core)

    def of_kind(self, kind: str) -> PjrtMemory:
        """Its memory of a kind."""
        return self.memory if kind == HBM else self.host_memory

    @property
    def attributes(self) -> NamedValues:
        """Its facts, as C reads them."""
        return self._attributes


devices: Final[dict[int, PjrtDevice]] = {}
"""Devices of all processes by their handles, in order."""
by_core: Final[list[PjrtDevice]] = []
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
                by_core.append(device)
                memories.update(
                    {memory.address: memory for memory in (device.memory, device.host_memory)}
                )
    return list(devices.values())


def memory_at(device: int | None, memory: int | None) -> PjrtMemory:
    """The memory that a call names, or the HBM of the device that it names."""
    if memory:
        return memories[memory]
    return devices[device].memory if device else by_core[0].memory


@slot("Device_GetDescription")
def _description(args: Any) -> None:
    args.device_description = args.device


@slot("DeviceDescription_Id")
def _id(args: Any) -> None:
    args.id = devices[args.device_description].number


@slot("DeviceDescription_ProcessIndex")
def _process(args: Any) -> None:
    args.process_index = devices[args.device_description].process


@slot("DeviceDescription_Attributes")
def _described(args: Any) -> None:
    attributes = devices[args.device_description].attributes
    args.attributes, args.num_attributes = attributes.address, attributes.size


@slot("DeviceDescription_Kind")
def _kind(args: Any) -> None:
    kind = devices[args.device_description].kind
    args.device_kind, args.device_kind_size = kind.address, kind.size


@slot("DeviceDescription_DebugString")
def _debug_text(args: Any) -> None:
    text = devices[args.device_description].text
    args.debug_string, args.debug_string_size = text.address, text.size


@slot("DeviceDescription_ToString")
def _text(args: Any) -> None:
    text = devices[args.device_description].text
    args.to_string, args.to_string_size = text.address, text.size


@slot("Device_IsAddressable")
def _is_addressable(args: Any) -> None:
    args.is_addressable = devices[args.device].is_local


@slot("Device_LocalHardwareId")
def _hardware(args: Any) -> None:
    args.local_hardware_id = devices[args.device].core


@slot("Device_AddressableMemories")
def _memories(args: Any) -> None:
    addresses = devices[args.device].memories
    args.memories, args.num_memories = addresses.address, addresses.size


@slot("Device_DefaultMemory")
def _default_memory(args: Any) -> None:
    args.memory = devices[args.device].memory.address


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
    largest = max((allocation.nbytes for allocation in list(hbm.allocations.values())), default=0)
    figures = {
        "peak_bytes_in_use": hbm.peak_bytes,
        "num_allocs": len(hbm.allocations),
        "largest_alloc_size": largest,
        "bytes_limit": hbm.capacity_bytes,
    }
    args.bytes_in_use = hbm.live_bytes
    flags = [name for name, _ in type(args)._fields_ if name.endswith(_IS_SET)]
    fill_struct(args, **figures, **{name: name.removesuffix(_IS_SET) in figures for name in flags})


@slot("Device_ClearMemoryStats")
def _clear_memory_stats(args: Any) -> None:
    sweep()
    devices[args.device].hbm.reset_peak()
