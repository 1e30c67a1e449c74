"""Containers of ECS and Batch: the fields that both spell alike.

Sources: Amazon ECS API reference, ContainerDefinition and LinuxParameters; AWS Batch API reference,
ContainerProperties and LinuxParameters. Memory is in MiB in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from trnsim.arch.catalogue import catalogue
from trnsim.errors import BadInput
from trnsim.instance.device_sets import DeviceSet
from trnsim.jobs.formats.listing import Keys, item_count, with_gaps
from trnsim.jobs.formats.refusal import in_units
from trnsim.jobs.formats.writing import IMAGE, stated_image, without_empty
from trnsim.jobs.job import KeptField, Role
from trnsim.jobs.spec import SpecReader

MIB: Final = 2**20
_NEURON: Final = re.compile(r"/dev/neuron(\d{1,4})", re.ASCII)
_EFA: Final = re.compile(r"/dev/infiniband/uverbs(\d{1,4})", re.ASCII)
_UNLIMITED: Final = -1
_LISTS: Final = (
    (("environment",), "name"),
    (("ulimits",), "name"),
    (("resourceRequirements",), "type"),
    (("linuxParameters", "devices"), "hostPath"),
)
"""Lists of a container whose items are written one by one, each with a field of all its items."""


class ContainerReader:
    """A container of a spec, read into fields of a role.

    Args:
        reader: the document.
        keys: the names and indexes that lead to the container.
        field: path of the role, such as "roles.0".

    Attributes:
        names: names of items that were read from lists, by the keys of the list and the index.
    """

    def __init__(self, reader: SpecReader, keys: Keys, field: str) -> None:
        self.reader = reader
        self.keys = keys
        self.field = field
        self.names: dict[Keys, dict[int, str]] = {}
        if (place := reader.place(*keys)) is not None:
            reader.lines.setdefault(f"{field}.container", place.line)

    def common(self) -> dict[str, Any]:
        """The fields of a role that ECS and Batch spell alike.

        Raises:
            BadInput: a value is not legal.
        """
        shm = self.whole("linuxParameters", "sharedMemorySize", field="shm_bytes")
        return {
            "image": stated_image(self.text("image", field="image")),
            "environment": self._environment(),
            "is_privileged": bool(
                self.reader.boolean(*self.keys, "privileged", field=f"{self.field}.is_privileged")
            ),
            "is_memlock_unlimited": self._is_memlock_unlimited(),
            "shm_bytes": None if shm is None else shm * MIB,
            **self._devices(),
        }

    def text(self, *keys: str | int, field: str) -> str:
        """A text of the container for a field of the role."""
        return self.reader.text(*self.keys, *keys, field=f"{self.field}.{field}")

    def whole(self, *keys: str | int, field: str) -> int | None:
        """A whole number of the container for a field of the role."""
        return self.reader.whole(*self.keys, *keys, field=f"{self.field}.{field}")

    def words(self, *keys: str | int, field: str) -> tuple[str, ...]:
        """A list of texts of the container for a field of the role."""
        return self.reader.words(*self.keys, *keys, field=f"{self.field}.{field}")

    def requirement_keys(self, kind: str, field: str) -> Keys | None:
        """Keys of the amount of a resource, whose type is marked as read; None if there is none.

        Of a type that is stated twice, only the first item is read.
        """
        list_keys = (*self.keys, "resourceRequirements")
        for index in range(item_count(self.reader, *list_keys)):
            if self.reader.value(*list_keys, index, "type") == kind:
                self.reader.take(*list_keys, index, "value", field=f"{self.field}.{field}")
                self.reader.take(*list_keys, index, "type")
                self.names.setdefault(list_keys, {})[index] = kind
                return (*list_keys, index, "value")
        return None

    def required_amount(self, kind: str, field: str) -> int | None:
        """The required amount of a resource; None if there is none.

        Raises:
            BadInput: the amount is no whole number.
        """
        list_keys = self.requirement_keys(kind, field)
        return (
            None
            if list_keys is None
            else self.reader.whole(*list_keys, field=f"{self.field}.{field}")
        )

    def _environment(self) -> tuple[tuple[str, str], ...]:
        list_keys = (*self.keys, "environment")
        variables = []
        for index in range(item_count(self.reader, *list_keys)):
            name = self.reader.value(*list_keys, index, "name")
            if not isinstance(name, str) or not name:
                raise self.reader.refused(
                    (*list_keys, index), "a variable without a name", "give it a text as name"
                )
            self.reader.take(*list_keys, index, "name", field=f"{self.field}.environment")
            self.reader.take(
                *list_keys, index, "name", field=f"{self.field}.environment.{name}.name"
            )
            value = self.text("environment", index, "value", field=f"environment.{name}")
            variables.append((name, value))
        return tuple(variables)

    def _is_memlock_unlimited(self) -> bool:
        list_keys = (*self.keys, "ulimits")
        unlimited = {"name": "memlock", "softLimit": _UNLIMITED, "hardLimit": _UNLIMITED}
        for index in range(item_count(self.reader, *list_keys)):
            if self.reader.value(*list_keys, index) == unlimited:
                for name in unlimited:
                    self.reader.take(
                        *list_keys, index, name, field=f"{self.field}.is_memlock_unlimited"
                    )
                return True
        return False

    def _devices(self) -> dict[str, Any]:
        """Fields of a role for Neuron devices, and EFA interfaces if their numbers begin at 0."""
        list_keys = (*self.keys, "linuxParameters", "devices")
        neuron: dict[int, int] = {}
        efa: dict[int, int] = {}
        for index in range(item_count(self.reader, *list_keys)):
            path = self.reader.value(*list_keys, index, "hostPath")
            target = self.reader.value(*list_keys, index, "containerPath")
            if not isinstance(path, str) or target not in (None, path):
                continue
            for pattern, numbers in ((_NEURON, neuron), (_EFA, efa)):
                match = pattern.fullmatch(path)
                if match:
                    numbers[index] = int(match[1])
        if sorted(efa.values()) != list(range(len(efa))):
            efa = {}
        for index in efa:
            self._take_device(list_keys, index, "efa")
        for position, index in enumerate(neuron):
            self._take_device(list_keys, index, "devices")
            for field in ("device_indexes", f"device_indexes.{position}"):
                self.reader.take(*list_keys, index, "hostPath", field=f"{self.field}.{field}")
        return {
            "devices": len(neuron) or None,
            "device_indexes": tuple(neuron.values()),
            "efa": len(efa) or None,
        }

    def _take_device(self, list_keys: Keys, index: int, field: str) -> None:
        path = self.reader.take(*list_keys, index, "hostPath", field=f"{self.field}.{field}")
        if self.reader.value(*list_keys, index, "containerPath") is not None:
            self.reader.take(*list_keys, index, "containerPath")
        self.names.setdefault(list_keys, {})[index] = path


def device_numbers(role: Role) -> DeviceSet:
    """Numbers of a role's Neuron devices, also where it has all devices of its instance.

    Raises:
        BadInput: for another count of devices than of device numbers.
    """
    if role.device_indexes and role.devices != len(role.device_indexes):
        raise BadInput(
            f"role {role.name!r} has {role.devices} devices and the numbers {role.device_indexes}",
            fix=f"ask for {len(role.device_indexes)} devices, or name {role.devices} numbers",
        )
    instance = catalogue().instances.get(role.instance)
    if role.device_indexes or instance is None or role.devices != instance.count:
        return role.device_indexes
    return tuple(range(instance.count))


def common_fields(role: Role) -> dict[str, Any]:
    """The fields of a container that ECS and Batch spell alike, without resources.

    Huge pages are left out: a container takes them from its host without asking.

    Raises:
        BadInput: /dev/shm is no whole number of MiB, or numbers of devices are missing.
    """
    paths = [f"/dev/infiniband/uverbs{index}" for index in range(role.efa or 0)]
    paths += [f"/dev/neuron{index}" for index in device_numbers(role)]
    unlimited = {"name": "memlock", "softLimit": _UNLIMITED, "hardLimit": _UNLIMITED}
    return {
        "image": role.image or IMAGE,
        "environment": [{"name": name, "value": value} for name, value in role.environment],
        "privileged": role.is_privileged or None,
        "ulimits": [unlimited] if role.is_memlock_unlimited else [],
        "linuxParameters": without_empty(
            {
                "devices": [{"hostPath": path, "containerPath": path} for path in paths],
                "sharedMemorySize": in_units(role.shm_bytes, MIB, "shm_bytes", "MiB"),
            }
        ),
    }


def with_kept_places(
    fields: dict[str, Any], kept_fields: Iterable[KeptField], keys: Keys
) -> dict[str, Any]:
    """The non-empty fields of a container; its lists have `{}` at the indexes of kept items.

    Args:
        fields: the fields.
        kept_fields: fields of the job.
        keys: the names and indexes that lead to the container.
    """
    kept_fields = tuple(kept_fields)
    for path, name in _LISTS:
        holder = fields
        for key in path[:-1]:
            holder = holder.get(key) or {}
        if holder.get(path[-1]):
            holder[path[-1]] = with_gaps(holder[path[-1]], kept_fields, (*keys, *path), name)
    return without_empty(fields)
