"""Networks between instances: one inside a building, and links between buildings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trnsim.facts import Rate, assumed, derived


@dataclass(frozen=True)
class Site:
    """Buildings with equal instances.

    Attributes:
        between_bytes_per_s: bytes per second of one instance to other buildings, in each direction.
        between_hop_s: seconds of a message to another building, in addition to those of EFA.
    """

    instances_per_building: int
    between_bytes_per_s: Rate
    between_hop_s: Rate


CAMPUS: Final = Site(
    instances_per_building=1_000,
    between_bytes_per_s=assumed(
        50e9,
        "400 Gb/s an instance: no figure is published; EFA inside a building is taken to be "
        "without oversubscription, and an eighth of it to leave the building",
    ),
    between_hop_s=derived(10e-6, "2 km of fibre at 5 us a km; the distance is assumed"),
)
"""Buildings of about 16,000 chips each on one campus, like the thirty of Project Rainier."""
