"""The time of an exchange between ranks of a plan.

A plan's ranks fill instances in order, and each of its axes is a stride: members of a group are
``stride`` ranks apart. So a group's size and stride determine its chips and instances.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from trnsim.arch.catalogue import catalogue
from trnsim.errors import BadInput
from trnsim.fabric.collective_time import time_on
from trnsim.fabric.constants import has_described_algorithms
from trnsim.fabric.fabric import fabric
from trnsim.facts import Evidence, Interval, Provenance, Rate, measured
from trnsim.place.links import gpu, neuron
from trnsim.place.links.lines import Line, fastest
from trnsim.place.links.site import CAMPUS, Site
from trnsim.uncertainty import SEED, Inputs, interval

STAGED = ("all_gather", "reduce_scatter", "all_reduce")
"""Kinds with a stage inside instances and one between them."""
DIRECT = ("all_to_all", "permute", "send")
"""Kinds whose transfers go straight to their rank."""

LATENCIES: Final = Rate(
    1.0,
    Provenance(
        Evidence.DERIVED,
        "two published latencies of the first generation are 37 and 58 us: that factor lies "
        "between the median and P90",
        own_spread=0.35,
    ),
)
"""The factor of an exchange's latencies: 1, with its spread."""
BANDWIDTHS: Final = Rate(
    1.0,
    Provenance(
        Evidence.ASSUMED,
        "the one slope of the first generation is in sample, and of two ranks alone "
        "(docs/generated/accuracy-collectives.md)",
        own_spread=0.2,
    ),
)
"""The factor of the time of an exchange's bytes: 1, with its spread."""
UNMEASURED: Final = Rate(
    1.0,
    Provenance(
        Evidence.ASSUMED,
        "0.3 are added in squares where no slope was published of a named instance; the one of an "
        "unnamed instance is 61 % off (docs/generated/accuracy-collectives.md)",
        own_spread=0.36,
    ),
)
"""The bandwidths of chips whose links are known from documents alone."""
ALONE_S: Final = measured(
    58e-6, "all-reduce of 1 to 16 KiB by two ranks of the first generation (nccom-test.rst)"
)
"""Seconds that a collective alone takes at least on the first generation.

Within a model's step it takes less: its start overlaps the computation before it.
"""


@dataclass(frozen=True)
class Spread:
    """The ranks of one group of an axis.

    Attributes:
        size: ranks of the group.
        stride: ranks from one member to the next.
    """

    size: int
    stride: int = 1


@dataclass(frozen=True)
class Lay:
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


@dataclass(frozen=True)
class ExchangeTime:
    """The time of an exchange.

    Attributes:
        fixed_s: seconds of its latencies.
        bytes_s: seconds of its bytes.
        algorithm: name of the algorithm.
        level: the farthest link on its way: "chip", "instance", "EFA", "building".
        bandwidths: 1, with the spread of its bytes' time.
    """

    fixed_s: float
    bytes_s: float
    algorithm: str
    level: str
    bandwidths: Rate = BANDWIDTHS

    @property
    def time_s(self) -> float:
        """Seconds."""
        return self.fixed_s + self.bytes_s

    def interval(self, seed: int = SEED) -> Interval:
        """P10, P50 and P90, for the errors that published collectives show."""
        inputs = Inputs({"latencies": LATENCIES, "bandwidths": self.bandwidths}, seed=seed)
        return interval(
            self.fixed_s * inputs.draw("latencies") + self.bytes_s * inputs.draw("bandwidths")
        )


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
    lines, level = _lines(instance, lnc, kind, spread, site)
    if not lines:
        return _fabric_time(instance, lnc, kind, nbytes, spread, level)
    best = fastest(lines, nbytes)
    return ExchangeTime(best.fixed_s, nbytes * best.per_byte_s, best.name, level)


def alone(instance: str, lnc: int, kind: str, nbytes: float, spread: Spread) -> ExchangeTime:
    """The time of a collective beside which nothing runs, as nccom-test times it.

    Raises:
        BadInput: as `exchange`.
    """
    time = exchange(instance, lnc, kind, nbytes, spread)
    if not lnc or not time.time_s:
        return time
    if has_described_algorithms(catalogue().instance(instance).accelerator):
        return replace(time, bandwidths=UNMEASURED)
    return replace(time, fixed_s=max(time.fixed_s, ALONE_S - time.bytes_s))


@cache
def _lines(
    instance: str, lnc: int, kind: str, spread: Spread, site: Site
) -> tuple[tuple[Line, ...], str]:
    """Every algorithm's line, and the level; no line for kinds that only the fabric has."""
    per_node, per_chip = ranks_of(instance, lnc)
    lay = lay_of(spread, per_node)
    if lay.nodes > 1:
        _require_efa(instance)
    beyond = -(-lay.nodes * max(1, spread.stride // per_node) // site.instances_per_building)
    level = "building" if beyond > 1 else "EFA" if lay.nodes > 1 else "instance"
    if lay.nodes == 1 and spread.size * spread.stride <= per_chip:
        level = "chip"
    if not lnc:
        lines = gpu.lines(instance, kind, lay)
    elif lay.nodes == 1:
        lines = neuron.inside(instance, lnc, kind, spread.size, spread.stride)
    elif kind in STAGED:
        lines = neuron.lines(instance, lnc, kind, lay)
    elif kind in DIRECT:
        lines = neuron.direct(instance, lnc, kind, lay)
    else:
        lines = ()
    if level == "building":
        lines = tuple(_between_buildings(line, kind, lay, per_node, site) for line in lines)
    return lines, level


def _between_buildings(line: Line, kind: str, lay: Lay, per_node: int, site: Site) -> Line:
    """A line whose last stage is between buildings: their links are shared as EFA is."""
    buildings = -(-lay.nodes // site.instances_per_building)
    passes = 2 if kind == "all_reduce" else 1
    shared = per_node / lay.per_node / float(site.between_bytes_per_s)
    part = (buildings - 1) / buildings
    hops = passes * float(site.between_hop_s) * max(buildings - 1, 1).bit_length()
    return Line(line.name, line.fixed_s + hops, max(line.per_byte_s, passes * part * shared))


def ranks_of(instance: str, lnc: int) -> tuple[int, int]:
    """Ranks of an instance, and of one of its chips."""
    instance_row = catalogue().instance(instance)
    if not lnc:
        return instance_row.count, 1
    per_chip = catalogue().accelerator(instance_row.accelerator).cores // lnc
    return instance_row.count * per_chip, per_chip


def lay_of(spread: Spread, per_node: int) -> Lay:
    """The layout of a group on instances of `per_node` ranks."""
    size, stride = spread.size, spread.stride
    per_instance = max(1, min(size, per_node // stride))
    return Lay(size, stride, per_instance, -(-size // per_instance))


def _require_efa(instance: str) -> None:
    if not catalogue().instance(instance).efa_bytes_per_s:
        raise BadInput(
            f"a group of ranks lies on several {instance}, which have no EFA",
            fix="use one instance, or a type with EFA such as trn1.32xlarge or trn2.48xlarge",
        )


def _fabric_time(
    instance: str, lnc: int, kind: str, nbytes: float, spread: Spread, level: str
) -> ExchangeTime:
    """A collective that goes from one rank to all, or from all to one, on the fabric itself."""
    per_node, _ = ranks_of(instance, lnc)
    reach = spread.size * spread.stride
    instances = fabric(instance, nodes=-(-reach // per_node), lnc=lnc)
    group = [range(0, reach, spread.stride)]
    empty, full = time_on(instances, kind, 0.0, group), time_on(instances, kind, nbytes, group)
    return ExchangeTime(empty.time_s, full.time_s - empty.time_s, full.algorithm, level)
