"""The plugin and its client: versions, devices, and the default assignment of programs to them."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, Final

from trnsim.device.device_core import target
from trnsim.errors import BadInput
from trnsim.jax import autoload, private
from trnsim.jax.pjrt.devices import PjrtDevice, devices, local_devices, make_devices
from trnsim.jax.pjrt.handles import Handle, Numbers, Text, pointers
from trnsim.jax.pjrt.memories import memories
from trnsim.jax.pjrt.named_values import NamedValues
from trnsim.jax.pjrt.table import address_slot, slot, value_slot
from trnsim.jax.processes import processes
from trnsim.version import VERSION

_XLA_VERSION: Final = 2  # understands serialized StableHLO


class Client(Handle):
    """The client of this process: the devices of all processes, and its own (`local`)."""

    __slots__ = ("devices", "local", "memories", "name", "version")

    def __init__(self) -> None:
        super().__init__()
        self.name = Text(private.PLATFORM)
        self.version = Text(f"trnsim {VERSION} ({target().name})")
        self.devices = pointers([device.address for device in make_devices()])
        self.local = pointers([device.address for device in local_devices])
        self.memories = pointers(list(memories))


clients: Final[dict[int, Client]] = {}
"""Clients by their handles: the first, and another after each `clear_backends`."""


@cache
def attributes() -> NamedValues:
    """Attributes that JAX reads before it sends a program: the versions of StableHLO to write."""
    newest, oldest = private.stablehlo_versions()
    return NamedValues(
        {
            "xla_version": _XLA_VERSION,
            "stablehlo_current_version": newest,
            "stablehlo_minimum_version": oldest,
        }
    )


@slot("Plugin_Initialize")
def _initialize(args: Any) -> None:
    """Nothing to do: importing the plugin has done it."""
    del args


@slot("Plugin_Attributes")
def _attributes(args: Any) -> None:
    values = attributes()
    args.attributes, args.num_attributes = values.address, values.size


@slot("Client_Create")
def _create(args: Any) -> None:
    autoload.announce()
    client = Client()
    clients[client.address] = client
    args.client = client.address


def _client(args: Any) -> Client:
    return clients[args.client]


value_slot("Client_ProcessIndex", "process_index", lambda _: processes(), "index")
address_slot("Client_PlatformName", "platform_name", _client, "name")
address_slot("Client_PlatformVersion", "platform_version", _client, "version")
address_slot("Client_Devices", "devices", _client, "devices")
address_slot("Client_AddressableDevices", "addressable_devices", _client, "local")
address_slot("Client_AddressableMemories", "addressable_memories", _client, "memories")


@slot("Client_LookupDevice")
def _lookup(args: Any) -> None:
    args.device = _device(list(devices.values()), args.id)


@slot("Client_LookupAddressableDevice")
def _lookup_addressable(args: Any) -> None:
    args.addressable_device = _device(local_devices, args.local_hardware_id)


def _device(candidates: list[PjrtDevice], index: int) -> int:
    """The handle of a device by its index among the candidates.

    Raises:
        BadInput: there is no such device.
    """
    if 0 <= index < len(candidates):
        return candidates[index].address
    raise BadInput(
        f"neuron:{index} does not exist: this process has {len(local_devices)} device(s)"
    )


@slot("Client_DefaultDeviceAssignment")
def _assignment(args: Any) -> None:
    count = args.num_replicas * args.num_partitions
    if count > len(devices):
        raise BadInput(
            f"a program for {count} devices; this process has {len(devices)}",
            fix=f"set NEURON_RT_NUM_CORES={count} before the program starts",
        )
    candidates = local_devices if count <= len(local_devices) else list(devices.values())
    numbers = Numbers(ctypes.c_int32, [device.number for device in candidates[:count]])
    number_count = min(count, args.default_assignment_size)
    ctypes.memmove(args.default_assignment, numbers.address, number_count * 4)
