"""The fleet of a scenario: chips, UltraServers, buildings, spares, prices and power."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trnsim.arch.catalogue import catalogue
from trnsim.price import KINDS, quote
from trnsim.system.fleet.scenario import HOUR_S, Fleet, Watts, spares_for
from trnsim.system.train.run import CHIP_MTBF_S, REPAIR_S

if TYPE_CHECKING:
    from trnsim.system.fleet.fields import Fields

_FLEET: Final = (
    *("instance", "ultraserver_chips", "buildings", "ultraservers", "spares", "chip_mtbf_hours"),
    *("repair_hours", "usd_per_chip_hour", "price", "usd_per_kwh", "watts_per_chip"),
)
_DOING: Final = ("serving", "training", "idle")
_MOST_CHIPS: Final = 10_000_000
_MOST_BUILDINGS: Final = 10_000
_MOST_HOURS: Final = 1e12
_YEAR_HOURS: Final = 8784


def fleet_of(top: Fields) -> tuple[str, Fleet]:
    """The instance type and the fleet that the field `fleet` describes.

    Raises:
        BadInput: a field is missing or not what is legal.
    """
    fields = top.mapping("fleet", _FLEET)
    rows = catalogue().instances
    name = fields.one_of("instance", sorted(rows))
    each = rows[name].count
    chips = fields.whole("ultraserver_chips", least=1, most=_MOST_CHIPS, default=each)
    if chips % each:
        raise fields.refused("ultraserver_chips", f"legal: a multiple of {each}, of one {name}")
    buildings = _buildings(fields)
    if sum(buildings.values()) * chips > _MOST_CHIPS:
        raise fields.refused("buildings", f"legal: at most {_MOST_CHIPS:,} chips in all")
    mtbf_h = fields.number(
        "chip_mtbf_hours", least=1, most=_MOST_HOURS, default=CHIP_MTBF_S / HOUR_S
    )
    repair_h = fields.number("repair_hours", least=0, most=_YEAR_HOURS, default=REPAIR_S / HOUR_S)
    usd, price = _price(fields, name, each)
    return name, Fleet(
        ultraserver_chips=chips,
        instance_chips=each,
        ultraservers=buildings,
        spares=_spares(fields, buildings, chips * repair_h / mtbf_h),
        chip_mtbf_s=mtbf_h * HOUR_S,
        repair_s=repair_h * HOUR_S,
        usd_per_chip_hour=usd,
        usd_per_kwh=fields.number("usd_per_kwh", least=0, most=1000, default=0.0),
        watts=_watts(fields),
        price=price,
    )


def _buildings(fields: Fields) -> dict[str, int]:
    """UltraServers by building: a mapping, or a number of equal ones."""
    if isinstance(fields.value("buildings").content, dict):
        if "ultraservers" in fields:
            raise fields.refused("ultraservers", "buildings says already how many each has")
        each = fields.mapping("buildings")
        return {name: each.whole(name, least=1, most=_MOST_CHIPS) for name in each.values}
    count = fields.whole("buildings", least=1, most=_MOST_BUILDINGS)
    servers = fields.whole("ultraservers", least=1, most=_MOST_CHIPS)
    return {f"building {at + 1}": servers for at in range(count)}


def _spares(fields: Fields, buildings: dict[str, int], repaired: float) -> dict[str, int]:
    """Spare UltraServers by building: given, or as many as are under repair nine times in ten.

    Args:
        fields: of the fleet.
        buildings: UltraServers by building.
        repaired: the mean part of them under repair.
    """
    if "spares" not in fields:
        return {name: spares_for(count, repaired) for name, count in buildings.items()}
    least = min(buildings.values())
    return dict.fromkeys(buildings, fields.whole("spares", least=0, most=least - 1))


def _price(fields: Fields, name: str, chips: int) -> tuple[float, str]:
    """USD of a chip for an hour, and where that is from.

    Raises:
        BadInput: a price is given twice, or neither it nor a kind with a public price.
    """
    if "usd_per_chip_hour" in fields:
        if "price" in fields:
            raise fields.refused("price", "usd_per_chip_hour is given already: give one of them")
        return fields.number("usd_per_chip_hour", least=0, most=1e6), "given"
    found = quote(name, fields.one_of("price", tuple(KINDS), "capacity_block"))
    if found.usd_per_hour is None:
        raise fields.refused("usd_per_chip_hour", f"{name}: {found}", "give usd_per_chip_hour")
    return float(found.usd_per_hour) / chips, str(found)


def _watts(fields: Fields) -> Watts | None:
    if "watts_per_chip" not in fields:
        return None
    watts = fields.mapping("watts_per_chip", _DOING)
    return Watts(*(watts.number(one, least=0, most=1e5) for one in _DOING))
