"""The devices that a pod claims by name, for Kubernetes to allocate as it starts."""

from __future__ import annotations

from typing import NamedTuple

from trnsim.errors import SourceLine


class DeviceClaim(NamedTuple):
    """A claim on Neuron devices; only its name is known if the file lacks its template.

    Attributes:
        name: name of the template.
        place: file and line of the request; None if the file does not hold the template.
        devices: number of devices; None if it is not stated.
        is_whole_instance: whether the claim is on all devices of an instance.
        group: size of the connected group that has the devices; None for any devices.
        group_place: file and line of the constraint that states the group.
        instance: EC2 type of the devices' instance, or "".
        lnc: NeuronCores of a logical core that the driver sets; None for its default.
    """

    name: str
    place: SourceLine | None = None
    devices: int | None = None
    is_whole_instance: bool = False
    group: int | None = None
    group_place: SourceLine | None = None
    instance: str = ""
    lnc: int | None = None
