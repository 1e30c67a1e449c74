"""Scenario: the chips of a fleet, the services and training jobs that use them, and a period."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Final

from trnsim.facts import P90_SIGMAS
from trnsim.system.fleet.demand import DAY_HOURS, HOUR_STEPS, Curve

if TYPE_CHECKING:
    from trnsim.system.fleet.fields import PlanningFields, WattsFields

HOUR_S: Final = 3600
WATTS_PER_KW: Final = 1000


@dataclass(frozen=True)
class Fleet:
    """Chips of a fleet, in UltraServers in buildings.

    Attributes:
        ultraserver_chips: chips of an UltraServer.
        instance_chips: chips of an instance, of which an UltraServer has several.
        ultraservers: number of UltraServers by building.
        spares: number of those UltraServers kept as spares, by building.
        chip_mtbf_s: mean seconds between failures of one chip and its share of a server.
        repair_s: seconds until a failed UltraServer is repaired.
        usd_per_chip_hour: price of a chip, which is also paid while the chip is idle.
        usd_per_kwh: price of energy; 0 where it is part of the chip's price.
        watts: power of a chip and its share of the rest of a server; None if unknown.
        price: source of the price.
    """

    ultraserver_chips: int
    instance_chips: int
    ultraservers: Mapping[str, int]
    spares: Mapping[str, int]
    chip_mtbf_s: float
    repair_s: float
    usd_per_chip_hour: float
    usd_per_kwh: float = 0.0
    watts: WattsFields | None = None
    price: str = ""

    @property
    def chips(self) -> int:
        """Number of chips, spares included."""
        return self.ultraserver_chips * sum(self.ultraservers.values())

    def energy_usd_per_chip_hour(self, activity: str) -> float:
        """USD of the energy of a chip that is "serving", "training" or "idle" for an hour."""
        if self.watts is None:
            return 0.0
        return float(getattr(self.watts, activity)) / WATTS_PER_KW * self.usd_per_kwh


@dataclass(frozen=True)
class Service:
    """A model that is served within an SLO.

    Attributes:
        requests_per_s: rate of a replica within the SLO.
        drain_s: seconds in which a replica without new requests finishes its running ones.
        start_s: seconds in which a new replica loads weights, and programs from the compile cache.
        usd_per_missed_request: cost of a request outside the SLO.
        curve: demand by step.
        basis: source of replica and rate.
    """

    name: str
    replica_chips: int
    requests_per_s: float
    drain_s: float
    start_s: float
    usd_per_missed_request: float
    curve: Curve
    basis: str = "given"


@dataclass(frozen=True)
class Level:
    """A width at which a job runs.

    Attributes:
        chips: number of chips; 0 while it waits.
        tokens_per_s: tokens a second without failures, slowed by the slowest instance.
        kept: fraction of the tokens that failures, checkpoints and recovery leave.
    """

    chips: int
    blocks: int
    tokens_per_s: float
    kept: float

    @property
    def kept_tokens_per_s(self) -> float:
        """``tokens_per_s x kept``: tokens a second that no failure undoes."""
        return self.tokens_per_s * self.kept


@dataclass(frozen=True)
class TrainingJobKind:
    """Equal training jobs.

    Attributes:
        is_in_building: whether each must stay within one building.
        levels: widths, from waiting (0) to the largest.
        save_s: seconds to write a checkpoint before the width changes.
        restore_s: seconds to load the checkpoint, and the programs of the new width.
        basis: source of the tokens a second.
    """

    name: str
    count: int
    is_in_building: bool
    levels: tuple[Level, ...]
    save_s: float
    restore_s: float
    usd_per_token: float
    basis: str = "given"


@dataclass(frozen=True)
class Scenario:
    """A fleet, its work, and a period of time.

    Attributes:
        start: its first hour, with the time zone of its clocks.
        days: number of days, each of 24 hours even when clocks change.
        services: the services, in the order in which they receive chips if these are too few.
        jobs: the kinds of training jobs, in the order in which they receive chips.
        planning: how plans are made.
        block_ultraservers: UltraServers of a block, the unit of allocation.
    """

    name: str
    start: datetime
    days: int
    fleet: Fleet
    services: tuple[Service, ...]
    jobs: tuple[TrainingJobKind, ...]
    planning: PlanningFields
    block_ultraservers: int

    @property
    def hours(self) -> int:
        """Hours that are planned."""
        return self.days * DAY_HOURS

    @property
    def steps(self) -> int:
        """Steps that are simulated."""
        return self.hours * HOUR_STEPS

    @property
    def block_chips(self) -> int:
        """Chips of a block, the unit of allocation."""
        return self.block_ultraservers * self.fleet.ultraserver_chips

    @cached_property
    def building_blocks(self) -> Mapping[str, int]:
        """Number of whole blocks that plans use, by building; spares are left out."""
        fleet = self.fleet
        return {
            name: (count - fleet.spares[name]) // self.block_ultraservers
            for name, count in fleet.ultraservers.items()
        }

    @cached_property
    def blocks(self) -> int:
        """Blocks of the fleet that plans use."""
        return sum(self.building_blocks.values())

    @cached_property
    def handover_s(self) -> float:
        """Seconds until a block is free for its next user: the longest drain or checkpoint."""
        drains = [service.drain_s for service in self.services]
        return max(drains + [job.save_s for job in self.jobs], default=0.0)

    def ready_s(self, service: Service) -> float:
        """Seconds from the hour in which a service receives a block until the block serves."""
        return self.handover_s + service.start_s

    def stop_s(self, job: TrainingJobKind) -> float:
        """Seconds for which a job stands still when its width changes."""
        return self.handover_s + job.restore_s

    def block_requests_per_s(self, service: Service) -> float:
        """Requests a second of a service's block, less the mean loss to restarts after failures."""
        rate = self.block_chips / service.replica_chips * service.requests_per_s
        return rate * (1.0 - self.failed_part(service))

    def failed_part(self, service: Service) -> float:
        """Mean fraction of a service's blocks that are restarting after a failure."""
        return min(service.start_s * self.block_chips / self.fleet.chip_mtbf_s, 1.0)

    def local_time(self, hour: int) -> datetime:
        """Local time of an hour."""
        time_s = self.start.timestamp() + hour * HOUR_S
        return datetime.fromtimestamp(time_s, tz=self.start.tzinfo)


_SPARES_CERTAINTY: Final = 0.9
"""Probability with which spares suffice."""
_LEAST_NORMAL_MEAN: Final = 500.0
"""Mean above which the distribution is nearly normal, and its first term underflows."""


def spares_for(ultraservers: int, repair_share: float) -> int:
    """The 90th percentile of the number of UltraServers under repair, by Poisson's distribution.

    The number of spares is less than `ultraservers`: one UltraServer at least has work.

    Args:
        ultraservers: number of UltraServers.
        repair_share: mean fraction of UltraServers under repair.
    """
    mean = ultraservers * repair_share
    if mean >= ultraservers:
        return ultraservers - 1
    if mean > _LEAST_NORMAL_MEAN:
        return min(math.ceil(mean + P90_SIGMAS * math.sqrt(mean)), ultraservers - 1)
    chance = total = math.exp(-mean)
    count = 0
    while total < _SPARES_CERTAINTY and count < ultraservers - 1:
        count += 1
        chance *= mean / count
        total += chance
    return count
