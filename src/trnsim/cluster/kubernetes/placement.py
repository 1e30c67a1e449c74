"""The sets of devices of a pod's containers on one node: legal, free, and disjoint.

An init container ends before the other containers of its pod start, so it may hold the same
devices: kubelet hands them on. A sidecar, an init container that is restarted always, runs beside
all containers after it. Source: Kubernetes documentation, Init Containers and Sidecar Containers,
Resource sharing within containers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final, NamedTuple

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
"""Maximum number of sets that are tried for a pod; nearly always the first of each fit."""

Placement = dict[str, CoreSet]
"""The numbers of the cores of each container, by the container's name."""


def first_refusal(node: NeuronNode, demands: Sequence[ContainerDemand]) -> SetRefusal | None:
    """The refusal of the first demand that no set of the instance meets; None if all can be met."""
    for demand in demands:
        demand_refusal = (
            core_refusal(node.instance, demand.count, node.cores_per_device)
            if demand.is_of_cores
            else refusal(node.instance, demand.count)
        )
        if demand_refusal is not None:
            return demand_refusal
    return None


def place(
    node: NeuronNode, demands: Sequence[ContainerDemand], free: frozenset[int]
) -> Placement | None:
    """A set of the `free` cores for each container; None where there is no room.

    Containers that run together get disjoint sets, the largest first. Init containers run one after
    the other before the main ones and beside the sidecars before them in `demands`; they share the
    cores of later containers as far as legal sets allow.
    """
    by_size = sorted(demands, key=lambda demand: -_core_count(node, demand))
    main = [demand for demand in by_size if not demand.is_initial]
    initial = [
        _InitDemand(demand, [sidecar for sidecar in main if sidecar in demands[:position]])
        for position, demand in enumerate(demands)
        if demand.is_initial
    ]
    initial.sort(key=lambda init: -_core_count(node, init.demand))
    if initial:
        placement = _shared_sets(node, initial[0], main, free)
        if placement is not None:
            return _add_init_sets(node, initial[1:], free, placement)
    main_sets = _disjoint_sets(node, main, free)
    return None if main_sets is None else _add_init_sets(node, initial, free, main_sets)


class _InitDemand(NamedTuple):
    """The demand of an init container, and those of the sidecars that run beside it."""

    demand: ContainerDemand
    sidecars: list[ContainerDemand]


def _shared_sets(
    node: NeuronNode, init: _InitDemand, main: Sequence[ContainerDemand], free: frozenset[int]
) -> Placement | None:
    """Sets for an init container and for all of `main`, of which the later ones share its cores.

    None where its cores are too few for them, or the search finds none.
    """
    later = [demand for demand in main if demand not in init.sidecars]
    if _core_count(node, init.demand) < sum(_core_count(node, demand) for demand in later):
        return None
    for init_cores in _candidates(node, init.demand, free):
        later_sets = _disjoint_sets(node, later, frozenset(init_cores))
        if later_sets is None:
            continue
        sidecar_sets = _disjoint_sets(node, init.sidecars, free.difference(init_cores))
        if sidecar_sets is not None:
            return later_sets | sidecar_sets | {init.demand.container: init_cores}
    return None


def _core_count(node: NeuronNode, demand: ContainerDemand) -> int:
    return demand.count if demand.is_of_cores else demand.count * node.cores_per_device


def _candidates(
    node: NeuronNode, demand: ContainerDemand, free: frozenset[int]
) -> Iterator[CoreSet]:
    """Sets of free cores that meet a demand, the best set first."""
    best_cores = _best_cores(node, demand, free)
    if best_cores is None:
        return
    yield best_cores
    for cores in _core_sets(node, demand):
        if cores != best_cores and free.issuperset(cores):
            yield cores


def _best_cores(node: NeuronNode, demand: ContainerDemand, free: frozenset[int]) -> CoreSet | None:
    """The free cores for a demand that leave the largest sets free; None if too few are free."""
    per_device = node.cores_per_device
    if demand.is_of_cores:
        return choose_cores(node.instance, demand.count, free, per_device)
    devices = choose(node.instance, demand.count, whole_devices(free, node.devices, per_device))
    return None if devices is None else _device_cores(node, devices)


def _core_sets(node: NeuronNode, demand: ContainerDemand) -> Iterator[CoreSet]:
    """All legal sets of cores for a demand."""
    if demand.is_of_cores:
        yield from legal_core_sets(node.instance, demand.count, node.cores_per_device)
        return
    for devices in legal_sets(node.instance, demand.count):
        yield _device_cores(node, devices)


def _device_cores(node: NeuronNode, devices: DeviceSet) -> CoreSet:
    return tuple(sorted(node.cores_of(devices)))


def _disjoint_sets(
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


def _add_init_sets(
    node: NeuronNode, initial: Sequence[_InitDemand], free: frozenset[int], placement: Placement
) -> Placement | None:
    """`placement` with a set for each init container, of as few further cores as possible.

    None if an init container has no free set.
    """
    result = dict(placement)
    for demand, sidecars in initial:
        other_cores = {core for cores in result.values() for core in cores}
        unused = free.difference(*(placement[sidecar.container] for sidecar in sidecars))
        free_sets = [cores for cores in _core_sets(node, demand) if unused.issuperset(cores)]
        if not free_sets:
            return None
        result[demand.container] = max(
            free_sets, key=lambda cores: (len(other_cores.intersection(cores)), -cores[0])
        )
    return result
