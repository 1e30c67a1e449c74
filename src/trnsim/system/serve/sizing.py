"""The number of instances for a rate, with a spare.

    instances = ceil(rate / capacity of an instance) + 1

A *unit* is the fewest instances that hold a replica, with as many replicas as they hold: nearly
always one instance. Its requests are a stream of their own, so that capacity grows with the units.
Source: an assumption. Balancers of several nodes, and DNS, take no common turn over instances; one
that does gives each a more even stream, and somewhat more load is kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.server import Deployment

_ROUNDING = 1e-9


class Spare(StrEnum):
    """A failure during which the rest keeps the load."""

    INSTANCE = "instance"
    """Hosts and chips fail, and a failed chip takes its instance away."""
    REPLICA = "replica"
    NONE = "none"


@dataclass(frozen=True)
class Sizing:
    """A fleet of equal units.

    Attributes:
        units: units that are paid for.
        unit_per_s: most requests a second of one.
        spare: what may fail.
        lost: units that the spare stands for, a fraction of one for a replica.
        rate_per_s: requests a second that have to be kept; None without a rate.
    """

    units: int
    unit_per_s: float
    spare: Spare
    lost: float
    rate_per_s: float | None

    @property
    def most_per_s(self) -> float:
        """Most requests a second while all work."""
        return self.units * self.unit_per_s

    @property
    def promised_per_s(self) -> float:
        """Most requests a second while the spare has failed."""
        return max(self.units - self.lost, 0.0) * self.unit_per_s

    @property
    def headroom(self) -> float | None:
        """Most load with the spare lost over the rate; None without a rate."""
        return None if self.rate_per_s is None else self.promised_per_s / self.rate_per_s


def units_for(rate_per_s: float, unit_per_s: float, lost: float) -> int:
    """The fewest units that keep a rate with `lost` units less."""
    return max(math.ceil(rate_per_s / unit_per_s + lost - _ROUNDING), 1)


def lost_units(spare: Spare, replicas: int) -> float:
    """Units that a spare stands for, of `replicas` replicas each."""
    return {Spare.INSTANCE: 1.0, Spare.REPLICA: 1 / replicas, Spare.NONE: 0.0}[spare]


def is_set(options: ServerOptions) -> bool:
    """True if the user has set the number of instances or replicas."""
    return options.instances is not None or options.replicas is not None


def unit_of(deployment: Deployment) -> Deployment:
    """The part of a deployment that repeats; all of one whose replicas are set or differ."""
    options = deployment.options
    if options.replicas is not None or options.prefill_replicas or options.instances is None:
        return deployment
    fit = deployment.machine.ranks // deployment.ranks
    replicas = fit or 1
    return replace(
        deployment,
        replicas=replicas,
        instances=deployment.instances * replicas // deployment.replicas,
    )


def repeated(unit: Deployment, count: int) -> Deployment:
    """`count` units as one deployment."""
    if count == 1:
        return unit
    options = replace(unit.options, prefill_replicas=count * unit.options.prefill_replicas)
    return replace(
        unit, options=options, replicas=count * unit.replicas, instances=count * unit.instances
    )
