"""Messages between kubelet and its neighbours on a node: device plugins, and holders of devices.

They are declared here by the names and numbers of their fields, and made by protobuf at run time:
there is no generated code. Fields that a later kubelet adds are left out when they are read.

Source: github kubernetes/kubernetes v1.20.2, staging/src/k8s.io/kubelet/pkg/apis,
deviceplugin/v1beta1/api.proto, podresources/v1/api.proto.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final

from trnsim.errors import BadInput

_FIX: Final = "pip install 'trnsim[kubernetes]'"
_OPTIONAL, _REPEATED = 1, 3
_SCALARS: Final = {"int64": 3, "int32": 5, "bool": 8, "string": 9}
"""Numbers of the types in descriptor.proto; a message is 11."""
_MESSAGE_TYPE: Final = 11


@dataclass(frozen=True)
class Interface:
    """A version of an interface.

    Attributes:
        package: the package, with which the name of each service begins.
        messages: the fields of each message in the order of their numbers, as NAME:TYPE. `*` before
            a type declares a list, and `%` a table of texts.
    """

    package: str
    messages: Mapping[str, str]

    def method(self, service: str, name: str) -> str:
        """The path of a method, as HTTP/2 has it."""
        return f"/{self.package}.{service}/{name}"


DEVICE_PLUGIN: Final = Interface(
    "v1beta1",
    {
        "Empty": "",
        "DevicePluginOptions": "pre_start_required:bool get_preferred_allocation_available:bool",
        "RegisterRequest": "version:string endpoint:string resource_name:string "
        "options:DevicePluginOptions",
        "NUMANode": "ID:int64",
        "TopologyInfo": "nodes:*NUMANode",
        "Device": "ID:string health:string topology:TopologyInfo",
        "ListAndWatchResponse": "devices:*Device",
        "PreStartContainerRequest": "devicesIDs:*string",
        "PreStartContainerResponse": "",
        "ContainerPreferredAllocationRequest": "available_deviceIDs:*string "
        "must_include_deviceIDs:*string allocation_size:int32",
        "PreferredAllocationRequest": "container_requests:*ContainerPreferredAllocationRequest",
        "ContainerPreferredAllocationResponse": "deviceIDs:*string",
        "PreferredAllocationResponse": "container_responses:*ContainerPreferredAllocationResponse",
        "ContainerAllocateRequest": "devicesIDs:*string",
        "AllocateRequest": "container_requests:*ContainerAllocateRequest",
        "Mount": "container_path:string host_path:string read_only:bool",
        "DeviceSpec": "container_path:string host_path:string permissions:string",
        "ContainerAllocateResponse": "envs:% mounts:*Mount devices:*DeviceSpec annotations:%",
        "AllocateResponse": "container_responses:*ContainerAllocateResponse",
    },
)
POD_RESOURCES: Final = Interface(
    "v1",
    {
        "ListPodResourcesRequest": "",
        "NUMANode": "ID:int64",
        "TopologyInfo": "nodes:*NUMANode",
        "ContainerDevices": "resource_name:string device_ids:*string topology:TopologyInfo",
        "ContainerResources": "name:string devices:*ContainerDevices cpu_ids:*int64",
        "PodResources": "name:string namespace:string containers:*ContainerResources",
        "ListPodResourcesResponse": "pod_resources:*PodResources",
    },
)


def message(interface: Interface, name: str) -> Any:
    """The class of a message.

    Raises:
        BadInput: protobuf is not installed.
    """
    return _classes(interface.package)[name]


def message_bytes(content: Any) -> bytes:
    """The bytes of a message."""
    content_bytes: bytes = content.SerializeToString()
    return content_bytes


def grpc() -> Any:
    """The library grpc.

    Raises:
        BadInput: grpc is not installed.
    """
    return _load("grpc")


@cache
def _classes(package: str) -> dict[str, Any]:
    interface = next(
        service for service in (DEVICE_PLUGIN, POD_RESOURCES) if service.package == package
    )
    descriptors = _load("google.protobuf.descriptor_pb2")
    file = descriptors.FileDescriptorProto(
        name=f"trnsim/{package}.proto", package=package, syntax="proto3"
    )
    for name, fields in interface.messages.items():
        message_type = file.message_type.add(name=name)
        for number, field in enumerate(fields.split(), 1):
            _add_field(message_type, package, number, *field.split(":"))
    # A pool of its own: other libraries of the process may have messages of these names.
    pool = _load("google.protobuf.descriptor_pool").DescriptorPool()
    pool.Add(file)
    factory = _load("google.protobuf.message_factory")
    return {
        name: factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in interface.messages
    }


def _add_field(message_type: Any, package: str, number: int, name: str, kind: str) -> None:
    """Add a field to the declaration of a message."""
    label = _REPEATED if kind[0] in "*%" else _OPTIONAL
    field = message_type.field.add(name=name, number=number, label=label)
    kind = kind.removeprefix("*")
    if kind == "%":
        # A table is a list of pairs: protobuf's language guide, Maps.
        pair = message_type.nested_type.add(name=f"{name.capitalize()}Entry")
        pair.options.map_entry = True
        for field_number, part in enumerate(("key", "value"), 1):
            _add_field(pair, package, field_number, part, "string")
        kind = f"{message_type.name}.{pair.name}"
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type, field.type_name = _MESSAGE_TYPE, f".{package}.{kind}"


def _load(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise BadInput(f"{name.partition('.')[0]} is not installed", fix=_FIX) from None
