"""Claims about Project Rainier: what is published, and what follows from rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trnsim.system.claims.amounts import Absent, Amount
from trnsim.system.claims.chips import GUIDE
from trnsim.system.claims.instances import TRN2, TRN2_ULTRASERVER
from trnsim.system.claims.published import stated
from trnsim.system.claims.verdict import Claim, besides, figure, number, stand_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnsim.system.claims.rows import Rows

_M2_PER_ACRE: Final = 4046.8564224
_M2_PER_HECTARE: Final = 10_000
_CHIPS: Final = 500_000
_CHIP: Final = "trainium2"


def rainier_chips(rows: Rows) -> Claim:
    """AWS's announcement; the power of the buildings in operation over that of a chip bounds it."""

    def most() -> Amount:
        running = rows.site("buildings_running") / rows.site("buildings_planned")
        return rows.site("power_full_build") * running / rows.of_chip(_CHIP, "power_w")

    def usd() -> Amount:
        prices = rows.prices(TRN2, "capacity_block")
        if not prices:
            raise Absent(f"a capacity_block price of {TRN2}")
        return _CHIPS * (rows.usd(prices[0]) / rows.count(TRN2)) / 1e6

    return Claim(
        "C23",
        GUIDE,
        "setzt nahezu 500.000 Trainium2-Chips ... ein",
        "Project Rainier has nearly 500,000 Trainium2 chips",
        (
            number(
                "chips",
                _CHIPS,
                "",
                stated("Rainier, chips", "as AWS announced; nobody else has counted"),
                stand_in("at most: power of the running buildings over a chip's", most),
            ),
        ),
        besides(
            figure("EFLOP/s, FP8 peak", lambda: _CHIPS * rows.peak(_CHIP, "fp8_e4") / 1e18),
            figure("EFLOP/s, BF16 peak", lambda: _CHIPS * rows.peak(_CHIP, "bf16") / 1e18),
            figure("PB of HBM", lambda: _CHIPS * rows.memory(_CHIP) / 1e15),
            figure("million USD/h as capacity blocks", usd),
        ),
    )


def rainier_site(rows: Rows) -> Claim:
    """Buildings planned and running; acres in hectares."""
    return Claim(
        "C24",
        GUIDE,
        "über 30 Rechenzentren auf einem 485 Hektar großen Gelände in Indiana verteilt",
        "the chips are spread over 30 data centres on 485 hectares in Indiana",
        (
            number(
                "data centres",
                30,
                "",
                figure("planned", lambda: rows.site("buildings_planned")),
                figure("running at activation", lambda: rows.site("buildings_running")),
            ),
            number(
                "site",
                485,
                "ha",
                figure("acres", lambda: rows.site("acres") * (_M2_PER_ACRE / _M2_PER_HECTARE)),
            ),
            number(
                "states", 1, "", stated("Rainier, states", "sites of the cluster, by one source")
            ),
        ),
    )


def rainier_growth(rows: Rows) -> Claim:
    """What AWS and Anthropic announced."""
    del rows
    return Claim(
        "C25",
        GUIDE,
        "die 5-fache Rechenleistung ... bis Ende 2025 über 1 Million Trainium2-Chips",
        "five times the compute of earlier clusters, and a million chips by the end of 2025",
        (
            number(
                "compute",
                5,
                "x",
                stated("Rainier, compute", "as AWS announced; the size before is not told"),
            ),
            number(
                "chips",
                1_000_000,
                "",
                stated("Rainier, chips of Anthropic", "as Anthropic said; nobody else has counted"),
            ),
        ),
    )


def day_and_night(rows: Rows) -> Claim:
    """What one newspaper was told."""
    del rows
    return Claim(
        "C26",
        GUIDE,
        "nutzt die Mehrheit der Chips während der Tagesspitzenzeiten für Inferenz",
        "most chips serve by day and train by night",
        (
            number("by day", "the majority", "", stated("Rainier, serving by day", "serve")),
            number(
                "by night", "in the evening", "", stated("Rainier, training", "some chips train")
            ),
        ),
        notes=(
            "one source, which names a portion of the chips in the evening; see trnsim plan fleet",
        ),
    )


def activated(rows: Rows) -> Claim:
    """Month of AWS's announcement."""
    del rows
    return Claim(
        "C62",
        GUIDE,
        "Project Rainier, im Oktober 2025 aktiviert",
        "Project Rainier was activated in October 2025",
        (number("month", "2025-10", "", stated("Rainier, activated", "AWS's announcement")),),
    )


def largest(rows: Rows) -> Claim:
    """A rank among clusters needs the others' sizes."""
    del rows
    return Claim(
        "C63",
        GUIDE,
        "der weltweit größte Nicht-NVIDIA-KI-Cluster",
        "Project Rainier is the world's largest AI cluster without NVIDIA",
        (number("rank", 1, "", "chips and rates of the other large clusters, TPUs above all"),),
    )


def ultraservers(rows: Rows) -> Claim:
    """Chips of an UltraServer; how many of them the cluster has follows."""
    return Claim(
        "C65",
        GUIDE,
        "Trainium2 UltraServer verbinden jeweils 64 Chips über NeuronLink",
        "the cluster is made of UltraServers of 64 chips",
        (
            number(
                "chips of an UltraServer",
                64,
                "",
                figure("row", lambda: rows.count(TRN2_ULTRASERVER)),
            ),
        ),
        besides(
            figure("UltraServers of 500,000 chips", lambda: _CHIPS / rows.count(TRN2_ULTRASERVER))
        ),
    )


CLAIMS: Final[tuple[Callable[[Rows], Claim], ...]] = (
    rainier_chips,
    rainier_site,
    rainier_growth,
    day_and_night,
    activated,
    largest,
    ultraservers,
)
