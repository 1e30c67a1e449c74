"""Fields that the specs of SageMaker's jobs and endpoints share.

A container of SageMaker has its whole instance, with its devices and EFA interfaces.
Source: Amazon SageMaker API reference, ResourceConfig and ProductionVariant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trnsim.arch.catalogue import catalogue
from trnsim.errors import BadInput
from trnsim.jobs.formats.refusal import UnsupportedField, check_ranks
from trnsim.jobs.job import Role
from trnsim.jobs.spec import SpecReader, is_template

Keys = tuple[str | int, ...]
_PREFIX: Final = "ml."
_WHOLE: Final = "a container of SageMaker has its whole instance"
UNSUPPORTED_FIELDS: Final = {
    "parallelism": UnsupportedField("the spec has no field for it", "state it in the command"),
    "copies": UnsupportedField("SageMaker has no arrays of jobs", "write one copy"),
    "roles.device_indexes": UnsupportedField(_WHOLE, "leave out device_indexes"),
    "roles.cores": UnsupportedField(_WHOLE, "set NEURON_RT_NUM_CORES in the environment"),
    "roles.shm_bytes": UnsupportedField("SageMaker has no field for /dev/shm"),
    "roles.is_privileged": UnsupportedField("SageMaker runs no privileged containers"),
}
"""Fields that neither training jobs nor endpoints can express."""


def instance_in(reader: SpecReader, *keys: str | int, field: str) -> str:
    """An instance type without "ml."; "" if there is none.

    Raises:
        BadInput: the type does not begin with "ml.".
    """
    text = reader.text(*keys, field=field)
    if text and not text.startswith(_PREFIX) and not is_template(text):
        legal = "legal: a type of SageMaker, which begins with ml."
        raise reader.refused(keys, legal, f"write {_PREFIX}{text}")
    return text.removeprefix(_PREFIX)


def instance_name(role: Role) -> str:
    """SageMaker's name of a role's instance."""
    name = role.instance
    return f"{_PREFIX}{name}" if name and not is_template(name) else name


def take_examples(reader: SpecReader, examples: Mapping[Keys, str]) -> None:
    """Take the fields that have a writer's example values, so that they are not kept."""
    for keys, value in examples.items():
        if reader.value(*keys) == value:
            reader.take(*keys)


def check_whole(role: Role) -> None:
    """Check that a role has its instance for itself, and requests no more than the instance has.

    SageMaker sets up EFA: huge pages and IPC_LOCK are left out.

    Raises:
        BadInput: the role requests a part of the instance's devices, or more than the instance has.
    """
    check_ranks(role)
    if not role.is_exclusive:
        raise BadInput(
            f"role {role.name!r} shares its instance, which SageMaker has no way to",
            fix="give it all devices of its instance",
        )
    if set(role.capabilities) - {"IPC_LOCK"}:
        raise BadInput(
            f"role {role.name!r}: SageMaker adds no capabilities: {role.capabilities}",
            fix="take out all but IPC_LOCK",
        )
    instance = catalogue().instances.get(role.instance)
    instance_counts: dict[str, Any] = {"devices": None, "gpus": None, "efa": None}
    if instance is not None:
        is_neuron = instance.accelerator in catalogue().chips
        instance_counts["devices" if is_neuron else "gpus"] = instance.count
        instance_counts["efa"] = instance.efa_devices
    for name, count in instance_counts.items():
        value = getattr(role, name)
        if value is not None and value != count:
            whole_text = f"{count} of {role.instance}" if count is not None else "unknown"
            raise BadInput(
                f"role {role.name!r}: {name} is {value}; {_WHOLE}: {whole_text}",
                fix=f"leave out {name}",
            )
    host: dict[str, Any] = {"vcpus": None, "memory_bytes": None}
    if instance is not None:
        host = {"vcpus": instance.vcpus, "memory_bytes": instance.host_bytes}
    for name, supply in host.items():
        value, whole_text = getattr(role, name), "unknown" if supply is None else supply
        if value is not None and (supply is None or value > supply):
            raise BadInput(
                f"role {role.name!r}: {name} is {value}; {_WHOLE}: {whole_text}",
                fix=f"leave out {name}",
            )
