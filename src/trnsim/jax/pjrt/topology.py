"""The topology: a description of the devices of a client, which can be read without the client."""

from __future__ import annotations

import ctypes
from hashlib import blake2b
from typing import Any, Final

from trnsim.device.device_core import device_core, target
from trnsim.errors import NotModelled
from trnsim.jax import private
from trnsim.jax.memory_kinds import KINDS
from trnsim.jax.pjrt.devices import devices, make_devices
from trnsim.jax.pjrt.handles import Handle, Numbers, Text, pointers
from trnsim.jax.pjrt.named_values import NamedValues
from trnsim.jax.pjrt.table import address_slot, noop_address, slot
from trnsim.version import VERSION


class Topology(Handle):
    """The devices of all processes of the program, and their kinds of memory."""

    def __init__(self) -> None:
        super().__init__()
        self.name = Text(private.PLATFORM)
        self.version = Text(f"trnsim {VERSION} ({target().name})")
        self.devices = pointers([device.address for device in make_devices()])
        self.attributes = NamedValues({})
        self.serialized = Text(f"{target().name} {len(devices)}")
        self.kinds = Numbers(ctypes.c_int32, range(len(KINDS)))


topologies: Final[dict[int, Topology]] = {}
"""The topology by its handle; empty until a caller asks for it."""


def _topology_handle() -> int:
    """The handle of the topology, which is made at the first call."""
    if not topologies:
        topology = Topology()
        topologies[topology.address] = topology
    return next(iter(topologies))


@slot("Client_TopologyDescription")
def _client_topology(args: Any) -> None:
    args.topology = _topology_handle()


@slot("TopologyDescription_Create")
def _create(args: Any) -> None:
    """Refuse a topology without a client.

    JAX would compile for it in a second thread, which would wait for Python's lock, while the
    thread that holds the lock would wait for the second thread.
    """
    del args
    raise NotModelled(
        "compilation for devices that no client has is not modelled",
        fix="give this process the devices: TRNSIM_INSTANCE=trn2.48xlarge NEURON_RT_NUM_CORES=64 "
        "makes 64 that need no chip; jax.experimental.topologies.get_attached_topology('neuron') "
        "has them",
    )


for _name, _field, _attribute in (
    ("PlatformName", "platform_name", "name"),
    ("PlatformVersion", "platform_version", "version"),
    ("GetDeviceDescriptions", "descriptions", "devices"),
    ("Attributes", "attributes", "attributes"),
    ("GetMemorySpaceKindIds", "memory_space_kind_ids", "kinds"),
):
    address_slot(
        f"TopologyDescription_{_name}", _field, lambda args: topologies[args.topology], _attribute
    )


@slot("TopologyDescription_Serialize")
def _serialize(args: Any) -> None:
    text = topologies[args.topology].serialized
    args.serialized_bytes, args.serialized_bytes_size = text.address, text.size
    args.serialized_topology = args.topology
    args.serialized_topology_deleter = noop_address()


@slot("TopologyDescription_Fingerprint")
def _fingerprint(args: Any) -> None:
    text = f"{target().name} {device_core().physical_cores} {len(devices)}"
    args.fingerprint = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
