"""The sets of devices of a pod's containers on one node: legal, free, and disjoint.

An init container ends before the other containers of its pod start, so it may hold the same
devices: kubelet hands them on. Source: Kubernetes documentation, Init Containers, Resource sharing
within containers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final

from trnsim.cluster.kubernetes.nodes import NeuronNode
from trnsim.cluster.kubernetes.pods import ContainerDemand
from trnsim.instance.device_sets import (
    CoreSet,
    DeviceSet,
    SetRefusal,
    choose,
    choose_cores,
    core_refusal,
    legal_core_sets,
    legal_sets,
    refusal,
    whole_devices,
)

_MOST_STEPS: Final = 2_000
"""Maximum number of sets tried for a pod of several containers; the first nearly always fit."""

Placement = dict[str, CoreSet]
"""The numbers of the cores of each container, by the container's name."""


def first_refusal(node: NeuronNode, demands: Sequence[ContainerDemand]) -> SetRefusal | None:
    """The refusal of the first demand that no set of the instance meets; None if all can be met."""
    for demand in demands:
        refusal_here = (
            core_refusal(node.instance, demand.count, node.cores_per_device)
            if demand.is_of_cores
            else refusal(node.instance, demand.count)
        )
        if refusal_here is not None:
            return refusal_here
    return None


def place(
    node: NeuronNode, demands: Sequence[ContainerDemand], free: frozenset[int]
) -> Placement | None:
    """A set of the `free` cores for each container; None where there is no room.

    Containers that run together get disjoint sets, the largest first. Init containers run one after
    the other before them, and share their cores as far as legal sets allow.
    """
    together = _largest_first(node, [each for each in demands if not each.is_initial])
    initial = _largest_first(node, [each for each in demands if each.is_initial])
    if initial and _cores(node, initial[0]) >= sum(_cores(node, each) for each in together):
        for outer in _candidates(node, initial[0], free):
            inner = _disjoint(node, together, frozenset(outer))
            if inner is not None:
                placed = inner | {initial[0].container: outer}
                return _with_initial(node, initial[1:], free, placed)
    apart = _disjoint(node, together, free)
    return None if apart is None else _with_initial(node, initial, free, apart)


def _cores(node: NeuronNode, demand: ContainerDemand) -> int:
    return demand.count if demand.is_of_cores else demand.count * node.cores_per_device


def _largest_first(node: NeuronNode, demands: list[ContainerDemand]) -> list[ContainerDemand]:
    return sorted(demands, key=lambda demand: -_cores(node, demand))


def _candidates(
    node: NeuronNode, demand: ContainerDemand, free: frozenset[int]
) -> Iterator[CoreSet]:
    """Sets of free cores that meet a demand, the best set first."""
    best = _best(node, demand, free)
    if best is None:
        return
    yield best
    for cores in _sets(node, demand):
        if cores != best and free.issuperset(cores):
            yield cores


def _best(node: NeuronNode, demand: ContainerDemand, free: frozenset[int]) -> CoreSet | None:
    """The free cores for a demand that leave the largest sets free; None if too few are free."""
    per_device = node.cores_per_device
    if demand.is_of_cores:
        return choose_cores(node.instance, demand.count, free, per_device)
    devices = choose(node.instance, demand.count, whole_devices(free, node.devices, per_device))
    return None if devices is None else _as_cores(node, devices)


def _sets(node: NeuronNode, demand: ContainerDemand) -> Iterator[CoreSet]:
    """All legal sets of cores for a demand."""
    if demand.is_of_cores:
        yield from legal_core_sets(node.instance, demand.count, node.cores_per_device)
        return
    for devices in legal_sets(node.instance, demand.count):
        yield _as_cores(node, devices)


def _as_cores(node: NeuronNode, devices: DeviceSet) -> CoreSet:
    return tuple(sorted(node.cores_of(devices)))


def _disjoint(
    node: NeuronNode, demands: Sequence[ContainerDemand], free: frozenset[int]
) -> Placement | None:
    """Disjoint sets for all `demands`; None where the search finds none."""
    steps = count()

    def search(position: int, free_cores: frozenset[int]) -> Placement | None:
        if position == len(demands):
            return {}
        demand = demands[position]
        for cores in _candidates(node, demand, free_cores):
            if next(steps) > _MOST_STEPS:
                return None
            rest = search(position + 1, free_cores.difference(cores))
            if rest is not None:
                return {demand.container: cores} | rest
        return None

    return search(0, free)


def _with_initial(
    node: NeuronNode, initial: Sequence[ContainerDemand], free: frozenset[int], placed: Placement
) -> Placement | None:
    """`placed` with a set for each init container, of as few further cores as possible.

    None if an init container has no free set.
    """
    result = dict(placed)
    for demand in initial:
        other_cores = {core for cores in result.values() for core in cores}
        fitting = [cores for cores in _sets(node, demand) if free.issuperset(cores)]
        if not fitting:
            return None
        result[demand.container] = max(
            fitting, key=lambda cores: (len(other_cores.intersection(cores)), -cores[0])
        )
    return result
