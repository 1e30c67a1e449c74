"""The fleet of a scenario: chips, UltraServers, buildings, spares, prices and power."""

from __future__ import annotations

from trnsim.arch.catalogue import catalogue
from trnsim.price import quote
from trnsim.system.fleet.fields import MOST_CHIPS, FleetFields
from trnsim.system.fleet.scenario import HOUR_S, Fleet, spares_for


def fleet_of(fields: FleetFields) -> tuple[str, Fleet]:
    """The instance type and the fleet that `fields` describe.

    Raises:
        BadInput: fields that do not go together.
    """
    name = fields.instance
    size = catalogue().instances[name].count
    chips = fields.ultraserver_chips or size
    if chips % size:
        raise fields.refused("ultraserver_chips", f"legal: a multiple of {size}, of one {name}")
    buildings = _buildings(fields)
    if sum(buildings.values()) * chips > MOST_CHIPS:
        raise fields.refused("buildings", f"legal: at most {MOST_CHIPS:,} chips in all")
    usd, price = _price(fields, name, size)
    repair_share = chips * fields.repair_hours / fields.chip_mtbf_hours
    return name, Fleet(
        ultraserver_chips=chips,
        instance_chips=size,
        ultraservers=buildings,
        spares=_spares(fields, buildings, repair_share),
        chip_mtbf_s=fields.chip_mtbf_hours * HOUR_S,
        repair_s=fields.repair_hours * HOUR_S,
        usd_per_chip_hour=usd,
        usd_per_kwh=fields.usd_per_kwh,
        watts=fields.watts_per_chip,
        price=price,
    )


def _buildings(fields: FleetFields) -> dict[str, int]:
    """Number of UltraServers by building, from a mapping or a number of equal buildings."""
    if isinstance(fields.buildings, dict):
        if "ultraservers" in fields:
            raise fields.refused("ultraservers", "buildings says already how many each has")
        return fields.buildings
    if fields.ultraservers is None:
        raise fields.refused("ultraservers", "how many each building has")
    return {f"building {number}": fields.ultraservers for number in range(1, fields.buildings + 1)}


def _spares(fields: FleetFields, buildings: dict[str, int], repair_share: float) -> dict[str, int]:
    """Spare UltraServers by building: as set, or the 90th percentile of the number under repair.

    Args:
        fields: the fields of the fleet.
        buildings: UltraServers by building.
        repair_share: mean fraction of UltraServers under repair.
    """
    if fields.spares is None:
        return {name: spares_for(count, repair_share) for name, count in buildings.items()}
    smallest_building = min(buildings.values())
    if fields.spares >= smallest_building:
        raise fields.refused("spares", f"legal: from 0 to {smallest_building - 1}")
    return dict.fromkeys(buildings, fields.spares)


def _price(fields: FleetFields, name: str, chips: int) -> tuple[float, str]:
    """USD of an hour of a chip, and the source of this price.

    Raises:
        BadInput: a price and a kind of purchase are given, or the kind has no public price.
    """
    if fields.usd_per_chip_hour is not None:
        if "price" in fields:
            raise fields.refused("price", "usd_per_chip_hour is given already: give one of them")
        return fields.usd_per_chip_hour, "given"
    offer = quote(name, fields.price)
    if offer.usd_per_hour is None:
        raise fields.refused("usd_per_chip_hour", f"{name}: {offer}", "give usd_per_chip_hour")
    return float(offer.usd_per_hour) / chips, str(offer)
