"""Devices and cores of a node as resources of Kubernetes: their ids, health, and allocations.

Kubelet counts each resource alone, although one `aws.amazon.com/neuron` is the same hardware as
several `aws.amazon.com/neuroncore`. An allocation of hardware that another container already holds
under another resource is refused.

Sources: aws-neuron-sdk deploy/infrastructure/plugins.rst; deploy/tutorials/build-run-container.rst,
Cores: a container has its own devices in /dev, and numbers of cores are those of the instance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trnsim.arch import CORES_VARIABLE, INSTANCE_VARIABLE
from trnsim.errors import BadInput
from trnsim.instance.cores import VISIBLE
from trnsim.instance.device_sets import choose, choose_cores, legal_core_sets, legal_sets
from trnsim.instance.model import InstanceModel
from trnsim.instance.state.hardware import KINDS, StoredFault

NEURON: Final = "aws.amazon.com/neuron"
NEURONCORE: Final = "aws.amazon.com/neuroncore"
NEURONDEVICE: Final = "aws.amazon.com/neurondevice"
RESOURCES: Final = (NEURON, NEURONCORE, NEURONDEVICE)
DEFAULT: Final = (NEURON, NEURONCORE)
"""Resources of today's plugin. `neurondevice` ended with release 2.20; source: aws-neuron-sdk
about-neuron/announcements/neuron2.x/announce-no-support-device-version.rst."""


@dataclass(frozen=True)
class ContainerHolding:
    """Devices or cores that a container of a pod holds, according to kubelet.

    Attributes:
        resource: one of `RESOURCES`.
        ids: kubelet's ids of the devices or cores that the container holds.
    """

    namespace: str
    pod: str
    container: str
    resource: str
    ids: tuple[str, ...]


@dataclass(frozen=True)
class NodeDevices:
    """The devices of a node, which is the emulated `instance`."""

    instance: InstanceModel

    def ids(self, resource: str) -> list[str]:
        """Ids of a resource: the numbers of its devices, or of its logical cores."""
        return [str(number) for number in range(self._total(resource))]

    def healthy(self, resource: str, faults: Iterable[StoredFault]) -> dict[str, bool]:
        """Whether each id is free of active faults.

        A fault of a core leaves the other cores of its device healthy. A fault that programs
        survive, `thermal`, makes no device unhealthy.
        """
        severe = [fault for fault in faults if fault.is_active() and KINDS[fault.kind].status]
        per_device = self.instance.devices[0].cores
        faulty_cores = {
            core
            for fault in severe
            for core in range(self.instance.cores)
            if fault.strikes(core % per_device, core // per_device)
        }
        return {
            id_: faulty_cores.isdisjoint(self.cores(resource, [id_])) for id_ in self.ids(resource)
        }

    def cores(self, resource: str, ids: Iterable[str]) -> tuple[int, ...]:
        """Numbers of the logical cores that ids of a resource stand for, ascending.

        Raises:
            BadInput: the node has no such id.
        """
        numbers = sorted({self._number(resource, id_) for id_ in ids})
        if resource == NEURONCORE:
            return tuple(numbers)
        return tuple(core for number in numbers for core in self.instance.devices[number].core_ids)

    def devices(self, resource: str, ids: Iterable[str]) -> tuple[int, ...]:
        """Numbers of the devices that ids of a resource name, or whose cores they name, ascending.

        Raises:
            BadInput: the node has no such id.
        """
        per_device = self.instance.devices[0].cores
        return tuple(sorted({core // per_device for core in self.cores(resource, ids)}))

    def preferred(
        self,
        resource: str,
        available: Iterable[str],
        required_ids: Sequence[str],
        count: int,
        holdings: Iterable[ContainerHolding] = (),
    ) -> list[str]:
        """Ids of a legal set of `count`, as AWS's scheduler extension would choose them.

        Where no free set is legal, the lowest free numbers are chosen: AWS's plugin alone does not
        promise consecutive cores (deploy/tutorials/build-run-container.rst, note).

        Args:
            resource: one of `RESOURCES`.
            available: ids that kubelet may give.
            required_ids: ids that kubelet will give in any case.
            count: number of ids.
            holdings: the devices of all containers; hardware that a container holds as another
                resource is not chosen.

        Raises:
            BadInput: the node has no such id.
        """
        other_cores = self._taken_elsewhere(resource, holdings)
        needed_numbers = {self._number(resource, id_) for id_ in required_ids}
        free = {
            self._number(resource, id_)
            for id_ in available
            if other_cores.isdisjoint(self.cores(resource, [id_]))
        } | needed_numbers
        chosen = self._legal_set(resource, free, needed_numbers, count)
        if chosen is None:
            others = sorted(free - needed_numbers)
            chosen = tuple(
                sorted([*needed_numbers, *others[: max(count - len(needed_numbers), 0)]])
            )
        return [str(number) for number in chosen]

    def _legal_set(
        self, resource: str, free: set[int], needed_numbers: set[int], count: int
    ) -> tuple[int, ...] | None:
        """A legal set of `count` free numbers that has all needed ones; None without such a set."""
        name, per_device = self.instance.name, self.instance.devices[0].cores
        if needed_numbers:
            sets = (
                legal_core_sets(name, count, per_device)
                if resource == NEURONCORE
                else legal_sets(name, count)
            )
            return next((ids for ids in sets if needed_numbers <= set(ids) <= free), None)
        if resource == NEURONCORE:
            return choose_cores(name, count, free, per_device)
        return choose(name, count, free)

    def conflict(
        self, resource: str, ids: Iterable[str], holdings: Iterable[ContainerHolding]
    ) -> ContainerHolding | None:
        """The container that holds hardware of these ids as another resource; None without one."""
        cores = set(self.cores(resource, ids))
        for holding in holdings:
            if self._is_other(resource, holding) and not cores.isdisjoint(
                self.cores(holding.resource, holding.ids)
            ):
                return holding
        return None

    def variables(self, resource: str, ids: Sequence[str]) -> Mapping[str, str]:
        """Environment variables of a container: its cores, and the emulated instance.

        AWS's plugin sets the cores alone, as a program asks the driver for the instance.
        """
        pairs = {CORES_VARIABLE: str(self.instance.lnc)} if self.instance.has_pairs else {}
        cores = self.cores(resource, ids)
        return {VISIBLE: _visible_text(cores), INSTANCE_VARIABLE: self.instance.name, **pairs}

    def _taken_elsewhere(self, resource: str, holdings: Iterable[ContainerHolding]) -> set[int]:
        """Cores that containers hold as another resource."""
        return {
            core
            for holding in holdings
            if self._is_other(resource, holding)
            for core in self.cores(holding.resource, holding.ids)
        }

    @staticmethod
    def _is_other(resource: str, holding: ContainerHolding) -> bool:
        return holding.resource in RESOURCES and holding.resource != resource

    def _total(self, resource: str) -> int:
        return self.instance.cores if resource == NEURONCORE else len(self.instance.devices)

    def _number(self, resource: str, id_: str) -> int:
        total = self._total(resource)
        if id_.isascii() and id_.isdecimal() and int(id_) < total:
            return int(id_)
        raise BadInput(
            f"{resource} has no {id_!r} on {self.instance.name}; legal: 0 to {total - 1}"
        )


def _visible_text(cores: Sequence[int]) -> str:
    """Text of cores for NEURON_RT_VISIBLE_CORES: a range, or a list where numbers are missing."""
    if len(cores) > 1 and cores[-1] - cores[0] == len(cores) - 1:
        return f"{cores[0]}-{cores[-1]}"
    return ",".join(map(str, cores))
