"""The time of an exchange between ranks of a plan.

A plan's ranks fill instances in order, and each of its axes is a stride: members of a group are
``stride`` ranks apart. So a group's size and stride determine its chips and instances.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

from trnsim.arch.catalogue import catalogue
from trnsim.errors import BadInput
from trnsim.fabric.collective_time import time_on
from trnsim.fabric.constants import BANDWIDTHS
from trnsim.fabric.fabric import fabric
from trnsim.fabric.floors import Floor, FloorTimes, floor_times
from trnsim.facts import Interval, assumed
from trnsim.place.links import gpu, neuron
from trnsim.place.links.lines import Line, fastest
from trnsim.place.links.site import CAMPUS, Site
from trnsim.uncertainty import SEED

STAGED: Final = ("all_gather", "reduce_scatter", "all_reduce")
"""Kinds with a stage inside instances and one between them."""
DIRECT: Final = ("all_to_all", "permute", "send")
"""Kinds whose transfers go straight to their rank."""
NO_START_S: Final = assumed(0.0, "NCCL's base includes the start of its kernel")


@dataclass(frozen=True)
class Spread:
    """The ranks of one group of an axis.

    Attributes:
        stride: ranks from one member to the next.
    """

    size: int
    stride: int = 1


@dataclass(frozen=True)
class GroupLayout:
    """The layout of a group on instances.

    Attributes:
        size: ranks of the group.
        stride: ranks from one member to the next.
        per_node: members on each instance.
        nodes: instances that have members.
    """

    size: int
    stride: int
    per_node: int
    nodes: int


class ExchangeRequest(NamedTuple):
    """A collective of equal groups, by which its start from the host is timed.

    Attributes:
        chip: the chip of NeuronCores; "" for a GPU.
        nbytes: bytes of the whole message.
        nodes: instances that they are on.
    """

    chip: str
    kind: str
    nbytes: float
    size: int
    nodes: int


@dataclass(frozen=True)
class ExchangeTime:
    """The time of an exchange inside a running program.

    Attributes:
        fixed_s: seconds of its latencies.
        level: the farthest link on its way: "chip", "instance", "EFA", "building".
        request: the exchange, by which its start from the host is timed; None for a single rank.
    """

    fixed_s: float
    bytes_s: float
    algorithm: str
    level: str
    request: ExchangeRequest | None = None

    @property
    def time_s(self) -> float:
        """Seconds."""
        return self.fixed_s + self.bytes_s

    @property
    def floors(self) -> FloorTimes:
        """The time by floor; GPUs and single ranks have no start from the host."""
        request = self.request
        if request is None or not request.chip:
            return FloorTimes(self.fixed_s, self.bytes_s, NO_START_S, BANDWIDTHS)
        groups = [(request.size, request.nodes)]
        return floor_times(
            request.chip, request.kind, request.nbytes, groups, self.fixed_s, self.bytes_s
        )

    def interval(self, floor: Floor = Floor.PROGRAM, seed: int = SEED) -> Interval:
        """P10, P50 and P90, for the errors that published collectives show."""
        return self.floors.interval(floor, seed)


def exchange(
    instance: str, lnc: int, kind: str, nbytes: float, spread: Spread, site: Site = CAMPUS
) -> ExchangeTime:
    """The time of a collective of equal groups on instances of one type, all at once.

    Args:
        instance: the type.
        lnc: NeuronCores of a rank; 0 for a GPU.
        kind: one of `trnsim.fabric.choice.KINDS`.
        nbytes: bytes of the whole message: the larger of a rank's input and output.
        spread: size and stride of a group.
        site: the links between instances.

    Raises:
        BadInput: for a type that is not known, or a group over instances without EFA.
    """
    if spread.size == 1 or not nbytes:
        return ExchangeTime(0.0, 0.0, "", "chip")
    lines, level, chip, nodes = _lines(instance, lnc, kind, spread, site)
    request = ExchangeRequest(chip, kind, nbytes, spread.size, nodes)
    if not lines:
        return _fabric_time(instance, lnc, spread, level, request)
    best = fastest(lines, nbytes)
    return ExchangeTime(best.fixed_s, nbytes * best.per_byte_s, best.name, level, request)


@cache
def _lines(
    instance: str, lnc: int, kind: str, spread: Spread, site: Site
) -> tuple[tuple[Line, ...], str, str, int]:
    """The lines of all algorithms, the level, the chip, and the number of instances.

    Lines are () for kinds that only the fabric has; the chip is "" for a GPU.
    """
    per_node, per_chip = ranks_of(instance, lnc)
    layout = layout_of(spread, per_node)
    if layout.nodes > 1:
        _require_efa(instance)
    spanned_buildings = -(
        -layout.nodes * max(1, spread.stride // per_node) // site.instances_per_building
    )
    level = "building" if spanned_buildings > 1 else "EFA" if layout.nodes > 1 else "instance"
    if layout.nodes == 1 and spread.size * spread.stride <= per_chip:
        level = "chip"
    if not lnc:
        lines = gpu.lines(instance, kind, layout)
    elif layout.nodes == 1:
        lines = neuron.inside_lines(instance, lnc, kind, spread.size, spread.stride)
    elif kind in STAGED:
        lines = neuron.staged_lines(instance, lnc, kind, layout)
    elif kind in DIRECT:
        lines = neuron.direct_lines(instance, lnc, kind, layout)
    else:
        lines = ()
    if level == "building":
        buildings = min(
            spanned_buildings, layout.nodes
        )  # with a stride most of those spanned have no rank
        lines = tuple(
            _between_buildings(line, kind, buildings, per_node / layout.per_node, site)
            for line in lines
        )
    chip = catalogue().instance(instance).accelerator if lnc else ""
    return lines, level, chip, layout.nodes


def _between_buildings(
    line: Line, kind: str, buildings: int, groups_of_node: float, site: Site
) -> Line:
    """A line whose last stage is between `buildings`, two or more, over links shared as EFA is.

    Args:
        line: the line within a building.
        kind: the kind of collective.
        buildings: buildings in which the group has ranks.
        groups_of_node: groups that exchange from one instance at once.
        site: the site of the buildings.
    """
    passes = 2 if kind == "all_reduce" else 1
    share_s = groups_of_node / float(site.between_bytes_per_s)
    part = (buildings - 1) / buildings
    hops = passes * float(site.between_hop_s) * (buildings - 1).bit_length()
    return Line(line.name, line.fixed_s + hops, max(line.per_byte_s, passes * part * share_s))


def ranks_of(instance: str, lnc: int) -> tuple[int, int]:
    """Ranks of an instance, and of one of its chips."""
    instance_row = catalogue().instance(instance)
    if not lnc:
        return instance_row.count, 1
    per_chip = catalogue().accelerator(instance_row.accelerator).cores // lnc
    return instance_row.count * per_chip, per_chip


def layout_of(spread: Spread, per_node: int) -> GroupLayout:
    """The layout of a group on instances of `per_node` ranks."""
    size, stride = spread.size, spread.stride
    per_instance = max(1, min(size, per_node // stride))
    return GroupLayout(size, stride, per_instance, -(-size // per_instance))


def _require_efa(instance: str) -> None:
    if not catalogue().instance(instance).efa_bytes_per_s:
        raise BadInput(
            f"a group of ranks lies on several {instance}, which have no EFA",
            fix="use one instance, or a type with EFA such as trn1.32xlarge or trn2.48xlarge",
        )


def _fabric_time(
    instance: str, lnc: int, spread: Spread, level: str, request: ExchangeRequest
) -> ExchangeTime:
    """A collective that goes from one rank to all, or from all to one, on the fabric itself."""
    per_node, _ = ranks_of(instance, lnc)
    reach = spread.size * spread.stride
    instances = fabric(instance, nodes=-(-reach // per_node), lnc=lnc)
    time = time_on(instances, request.kind, request.nbytes, [range(0, reach, spread.stride)])
    floors = time.floors
    return ExchangeTime(floors.latencies_s, floors.bytes_s, time.algorithm, level, request)
