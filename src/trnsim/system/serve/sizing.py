"""Sizing of a fleet: the number of units for a request rate, spare included.

    units = ceil(rate / capacity of a unit + spare units)

A *unit* is the fewest instances that hold a replica, with all replicas that fit on them: nearly
always one instance. Each unit gets an independent stream of requests, so that the capacity of a
fleet is proportional to its units. Source: an assumption. Load balancers of several nodes, and DNS,
do not keep one round robin over all instances; a balancer that does gives each unit a more even
stream, and the fleet somewhat more capacity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from trnsim.errors import BadInput
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.server import Deployment

_ROUNDING = 1e-9
MOST_INSTANCES: Final = 10_000
"""Instances of one type: more than any region is known to have."""


class Spare(StrEnum):
    """The failure during which the rest of the fleet still serves the rate within the limits."""

    INSTANCE = "instance"
    """One instance: a failed chip takes its instance out of service."""
    REPLICA = "replica"
    """One replica."""
    NONE = "none"


@dataclass(frozen=True)
class Sizing:
    """A fleet of equal units.

    Attributes:
        units: number of units, spare included.
        unit_per_s: capacity of one unit, in requests a second.
        spare: the failure to survive.
        spare_units: units lost in that failure; a fraction of a unit for a replica.
        rate_per_s: requests a second to serve; None without a rate.
    """

    units: int
    unit_per_s: float
    spare: Spare
    spare_units: float
    rate_per_s: float | None

    @property
    def most_per_s(self) -> float:
        """Capacity of the fleet without a failure, in requests a second."""
        return self.units * self.unit_per_s

    @property
    def promised_per_s(self) -> float:
        """Capacity of the fleet during the failure of the spare, in requests a second."""
        return max(self.units - self.spare_units, 0.0) * self.unit_per_s

    @property
    def headroom(self) -> float | None:
        """``promised_per_s / rate_per_s``; None without a rate."""
        return None if self.rate_per_s is None else self.promised_per_s / self.rate_per_s


def units_for(rate_per_s: float, unit_per_s: float, spare_units: float) -> int:
    """The fewest units that still serve a rate after `spare_units` units failed."""
    return max(math.ceil(rate_per_s / unit_per_s + spare_units - _ROUNDING), 1)


def check_units(count: int, unit: Deployment) -> None:
    """Refuse a fleet of more instances than any region has.

    Raises:
        BadInput: `count` units are such a fleet.
    """
    instances = count * unit.instances
    if instances > MOST_INSTANCES:
        raise BadInput(
            f"{instances:,} instances of {unit.machine.instance.name} are needed; legal: up to "
            f"{MOST_INSTANCES:,}",
            fix="plan a part of the load, or name larger instances",
        )


def units_of_spare(spare: Spare, replicas: int) -> float:
    """Units lost in the failure of a spare; `replicas` is the number of replicas of a unit."""
    return {Spare.INSTANCE: 1.0, Spare.REPLICA: 1 / replicas, Spare.NONE: 0.0}[spare]


def is_set(options: ServerOptions) -> bool:
    """True if the user has set the number of instances or replicas."""
    return options.instances is not None or options.replicas is not None


def unit_of(deployment: Deployment) -> Deployment:
    """The unit that a deployment repeats.

    It is the whole deployment if the user set its replicas, or some only run prefills.
    """
    options = deployment.options
    if options.replicas is not None or options.prefill_replicas or options.instances is None:
        return deployment
    replicas_per_instance = deployment.machine.ranks // deployment.ranks
    replicas = replicas_per_instance or 1
    return replace(
        deployment,
        replicas=replicas,
        instances=deployment.instances * replicas // deployment.replicas,
    )


def repeated_deployment(unit: Deployment, count: int) -> Deployment:
    """`count` units as one deployment."""
    if count == 1:
        return unit
    options = replace(unit.options, prefill_replicas=count * unit.options.prefill_replicas)
    return replace(
        unit, options=options, replicas=count * unit.replicas, instances=count * unit.instances
    )
