"""Sets of devices and cores that one container or job may hold on an instance.

On a chain or ring a set is a run of devices whose numbers follow each other; on a torus or behind
switches it is a group of AWS's figures: an aligned block, such as a row of a 4x4 torus. One device
and all devices are always a set. The rows are ``arch/device_sets.json``; each has its source, and
those that AWS documents nothing about are marked as assumed.

A container's cores are a run of consecutive numbers (aws-neuron-sdk nrt-developer-guide.rst,
NEURON_RT_VISIBLE_CORES). On chains and rings any run is legal, as AWS's own example of nine cores
(deploy/includes/k8s-multiple-scheduler.rst). Elsewhere cores are of one device, or all cores of a
set of devices: AWS documents no other number there, and no figure has such a set.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Any, Final

from trnsim.facts import Evidence, Provenance
from trnsim.formatting import enumerated
from trnsim.instance.model import instance_named

DeviceSet = tuple[int, ...]
"""Numbers of devices, ascending, without a gap."""

CoreSet = tuple[int, ...]
"""Numbers of logical cores, ascending, without a gap."""

_ONE_OR_ALL: Final = (
    "aws-neuron-sdk@81ce03ae deploy/infrastructure/scheduler.rst, note: one or all is always valid"
)


@dataclass(frozen=True)
class SetRule:
    """The rule of an instance for the sets of devices that a job may hold.

    Attributes:
        groups: sizes of the groups in AWS's figures; () where every run of devices is a set.
        part_devices: number of devices of each part of the instance; a group lies in one part,
            unless it is the whole instance.
        provenance: the document that states the rule, or the basis of the assumption.
        note: a caveat, or "".
    """

    instance: str
    devices: int
    groups: tuple[int, ...]
    part_devices: int
    provenance: Provenance
    note: str = ""

    @property
    def is_documented(self) -> bool:
        """True if AWS documents the sets of this instance."""
        return self.provenance.kind is Evidence.DOCUMENTED

    @property
    def counts(self) -> tuple[int, ...]:
        """Numbers of devices that a set may have, ascending."""
        return self.groups or tuple(range(1, self.devices + 1))


@dataclass(frozen=True)
class SetRefusal:
    """A number of devices or cores that no set has.

    Attributes:
        reason: the words in which AWS's scheduler refuses, where AWS documents these.
        legal: legal numbers, ascending.
        source: the document that states the rule.
    """

    reason: str
    legal: tuple[int, ...]
    source: str

    @property
    def fix(self) -> str:
        """The legal numbers in words."""
        first, last = self.legal[0], self.legal[-1]
        if last - first > 1 and self.legal == tuple(range(first, last + 1)):
            return f"request {first} to {last}"
        return f"request {enumerated([str(count) for count in self.legal], 'or')}"


@cache
def rule(instance: str) -> SetRule:
    """The rule of the instance called `instance`.

    Raises:
        BadInput: there is no instance of that name with Neuron devices.
    """
    devices = instance_named(instance).count
    for row in _rows():
        if instance in row["instances"]:
            return SetRule(
                instance,
                devices,
                tuple(row.get("groups", ())),
                row.get("within", devices),
                Provenance(Evidence(row["kind"]), row["source"]),
                row.get("note", ""),
            )
    provenance = Provenance(Evidence.DOCUMENTED, _ONE_OR_ALL)
    counts = (1,) if devices == 1 else (1, devices)
    return SetRule(instance, devices, counts, devices, provenance)


@cache
def _rows() -> list[dict[str, Any]]:
    text = (resources.files("trnsim.arch") / "device_sets.json").read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = json.loads(text)
    return rows


def legal_counts(instance: str) -> tuple[int, ...]:
    """Numbers of devices that a set of `instance` may have, ascending."""
    return rule(instance).counts


@cache
def legal_sets(instance: str, count: int) -> tuple[DeviceSet, ...]:
    """All sets of `count` devices, by their first device; () if no set has that many."""
    set_rule = rule(instance)
    if count not in set_rule.counts:
        return ()
    if not set_rule.groups:
        return _runs(count, set_rule.devices)
    if count == set_rule.devices:
        return (tuple(range(count)),)
    return tuple(
        tuple(range(first, first + count))
        for part in range(0, set_rule.devices, set_rule.part_devices)
        for first in range(part, part + set_rule.part_devices - count + 1, count)
    )


def _runs(count: int, total: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(range(first, first + count)) for first in range(total - count + 1))


def is_legal(instance: str, devices: Iterable[int]) -> bool:
    """True if these devices, in any order, are a set of `instance`."""
    sorted_devices = tuple(sorted(devices))
    return sorted_devices in legal_sets(instance, len(sorted_devices))


def refusal(instance: str, count: int) -> SetRefusal | None:
    """The refusal of `count` devices; None for a legal number.

    Source of its words: aws-neuron-sdk@81ce03ae deploy/infrastructure/scheduler.rst,
    Trn1.32xlarge and Trn1n.32xlarge Instances.
    """
    return _refusal(instance, count, legal_counts(instance), "device", "devices")


def _refusal(
    instance: str, count: int, legal: tuple[int, ...], resource: str, plural: str
) -> SetRefusal | None:
    if count in legal:
        return None
    reason = (
        f"Instance type {instance} does not support requests for {resource}: {count}. "
        f"Please request a different number of {plural}."
    )
    return SetRefusal(reason, legal, rule(instance).provenance.source)


def choose(instance: str, count: int, free: Iterable[int]) -> DeviceSet | None:
    """The free set of `count` devices after which the largest sets stay free; None without one.

    Among equal ones, the set with the lowest numbers is chosen.
    """
    set_rule, free_devices = rule(instance), frozenset(free)
    candidate_sets = [
        devices for devices in legal_sets(instance, count) if free_devices.issuperset(devices)
    ]
    return max(
        candidate_sets,
        key=lambda devices: (_wholeness(set_rule, free_devices.difference(devices)), -devices[0]),
        default=None,
    )


def _wholeness(set_rule: SetRule, free: frozenset[int]) -> tuple[int, ...]:
    """A sort key of free devices, larger if larger sets are free.

    Where sets are groups, it has the number of free groups of each size, the largest size first.
    Where they are runs, it has the lengths of the free runs, the longest first.
    """
    if not set_rule.groups:
        return _lengths(free)
    return tuple(
        sum(free.issuperset(devices) for devices in legal_sets(set_rule.instance, count))
        for count in reversed(set_rule.groups)
    )


def _lengths(free: Iterable[int], part: int = 0) -> tuple[int, ...]:
    """Lengths of runs of consecutive numbers, descending; a run ends at each multiple of `part`."""
    sorted_numbers = sorted(free)
    if not sorted_numbers:
        return ()
    lengths = [1]
    for number, next_number in pairwise(sorted_numbers):
        if next_number == number + 1 and not (part and next_number % part == 0):
            lengths[-1] += 1
        else:
            lengths.append(1)
    return tuple(sorted(lengths, reverse=True))


def legal_core_counts(instance: str, cores_per_device: int) -> tuple[int, ...]:
    """Numbers of cores that one container may hold, ascending.

    Args:
        instance: an instance type.
        cores_per_device: logical cores of a device.
    """
    set_rule = rule(instance)
    if not set_rule.groups:
        return tuple(range(1, set_rule.devices * cores_per_device + 1))
    group_counts = (count * cores_per_device for count in set_rule.groups)
    return tuple(sorted({*range(1, cores_per_device + 1), *group_counts}))


@cache
def legal_core_sets(instance: str, count: int, cores_per_device: int) -> tuple[CoreSet, ...]:
    """All sets of `count` cores, by their first core; () if no set has that many."""
    set_rule = rule(instance)
    if count not in legal_core_counts(instance, cores_per_device):
        return ()
    if not set_rule.groups:
        return _runs(count, set_rule.devices * cores_per_device)
    if count <= cores_per_device:
        return tuple(
            tuple(range(first, first + count))
            for device in range(set_rule.devices)
            for first in range(
                device * cores_per_device, (device + 1) * cores_per_device - count + 1
            )
        )
    return tuple(
        tuple(range(devices[0] * cores_per_device, (devices[-1] + 1) * cores_per_device))
        for devices in legal_sets(instance, count // cores_per_device)
    )


def core_refusal(instance: str, count: int, cores_per_device: int) -> SetRefusal | None:
    """The refusal of `count` cores; None for a legal number.

    AWS documents the words for devices alone; the same are used with "neuroncore" and "cores".
    """
    legal = legal_core_counts(instance, cores_per_device)
    return _refusal(instance, count, legal, "neuroncore", "cores")


def choose_cores(
    instance: str, count: int, free: Iterable[int], cores_per_device: int
) -> CoreSet | None:
    """The free set of `count` cores after which the largest sets stay free; None without one.

    Sets of whole devices count first, then runs of cores, then low numbers.

    Args:
        instance: an instance type.
        count: cores that are needed.
        free: free cores.
        cores_per_device: logical cores of a device.
    """
    set_rule, free_cores = rule(instance), frozenset(free)
    part = cores_per_device if set_rule.groups else 0

    def remainder_key(core_set: CoreSet) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        remaining_cores = free_cores.difference(core_set)
        devices = whole_devices(remaining_cores, set_rule.devices, cores_per_device)
        return _wholeness(set_rule, devices), _lengths(remaining_cores, part), -core_set[0]

    core_sets = legal_core_sets(instance, count, cores_per_device)
    candidate_sets = (core_set for core_set in core_sets if free_cores.issuperset(core_set))
    return max(candidate_sets, key=remainder_key, default=None)


def whole_devices(free: Iterable[int], devices: int, cores_per_device: int) -> frozenset[int]:
    """Devices all of whose cores are free."""
    free_cores = frozenset(free)
    return frozenset(
        device
        for device in range(devices)
        if free_cores.issuperset(range(device * cores_per_device, (device + 1) * cores_per_device))
    )
