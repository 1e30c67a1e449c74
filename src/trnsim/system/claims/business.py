"""Claims about Project Rainier, the payback of a migration, customers, and the SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trnsim.price import history
from trnsim.system.claims.specs import GUIDE
from trnsim.system.claims.verdict import Claim, Figure, awaited, number
from trnsim.system.payback import HOURS_PER_MONTH, MIGRATION_USD, threshold_usd_per_month

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnsim.arch.catalogue import Catalogue

_M2_PER_ACRE: Final = 4046.8564224
_M2_PER_HECTARE: Final = 10_000
_RAINIER_CHIPS: Final = 500_000


def rainier_chips(rows: Catalogue) -> Claim:
    """Power of the buildings in operation over the power of a chip: an upper bound, so a proxy."""
    chip, site = rows.chips["trainium2"], rows.rainier
    running = site["buildings_running"] / site["buildings_planned"]
    figures: list[Figure] = []
    if chip.power_w is not None:
        most = site["power_full_build"] * running / chip.power_w
        basis = "power of the running buildings / chip power, nothing else drawing any"
        figures.append(Figure(basis, most, is_proxy=True))
    bf16 = _RAINIER_CHIPS * chip.peak_flop_per_s["bf16"] / 1e18
    memory = _RAINIER_CHIPS * chip.memory_bytes / 1e15
    implied = [f"500,000 chips would be {bf16:.1f} EFLOP/s BF16 and {memory:.1f} PB of HBM"]
    for price in history("trn2.48xlarge", "capacity_block", rows=rows)[:1]:
        per_chip = float(price.usd_per_hour or 0) / rows.instance(price.instance).count
        usd = _RAINIER_CHIPS * per_chip / 1e6
        implied.append(f"and {usd:.2f} million USD/h at the capacity_block rate of {price.as_of}")
    return Claim(
        "C23",
        GUIDE,
        "Project Rainier has nearly 500,000 Trainium2 chips",
        (
            awaited(
                rows,
                "Project Rainier, chips installed, counted by AWS or Anthropic",
                "chips",
                _RAINIER_CHIPS,
                _RAINIER_CHIPS,
                "",
                *figures,
            ),
        ),
        tuple(implied),
    )


def rainier_site(rows: Catalogue) -> Claim:
    """Buildings planned and running; acres in hectares."""
    site = rows.rainier
    hectares = site["acres"] * _M2_PER_ACRE / _M2_PER_HECTARE
    return Claim(
        "C24",
        GUIDE,
        "the chips are spread over 30 data centres on 485 hectares",
        (
            number(
                "data centres",
                30,
                "",
                Figure("planned", site["buildings_planned"]),
                Figure("running at activation", site["buildings_running"]),
            ),
            number("site", 485, "ha", Figure("acres of the site", hectares)),
        ),
    )


def rainier_growth(rows: Catalogue) -> Claim:
    """Sizes of earlier clusters and of chips in use: not checkable until they are published."""
    earlier = "Project Rainier, FLOP/s over earlier Claude clusters"
    million = 1_000_000
    return Claim(
        "C25",
        GUIDE,
        "five times the compute of earlier clusters, and a million chips by the end of 2025",
        (
            awaited(rows, earlier, "compute", 5, 5, "x"),
            awaited(rows, "Trainium2 chips in use, 2025-12", "chips", million, million, ""),
        ),
    )


def day_and_night(rows: Catalogue) -> Claim:
    """The share of chips that serve at the peak: not checkable until it is published."""
    share = "Project Rainier, share of chips that serve at the daily peak, %"
    return Claim(
        "C26",
        GUIDE,
        "most chips serve by day and train by night",
        (awaited(rows, share, "share serving at the peak", 50, 100, "%"),),
    )


def inference_threshold(rows: Catalogue) -> Claim:
    """``migration / (12 months x saving)`` at the claimed savings, with an assumed migration."""
    figures = [
        Figure(
            f"migration of {MIGRATION_USD:,.0f} USD (assumed), 12 months, {saving:.0%} saved",
            threshold_usd_per_month(saving),
            is_assumed=True,
        )
        for saving in (0.40, 0.50)
    ]
    return Claim(
        "C31",
        GUIDE,
        "moving to Inferentia pays above 10,000 USD a month",
        (
            awaited(
                rows,
                "monthly USD from which migrations to Inferentia paid back",
                "monthly spend",
                10_000,
                10_000,
                "USD",
                *figures,
            ),
        ),
    )


def customers(rows: Catalogue) -> Claim:
    """Two case studies: not checkable until their inputs are published."""
    cases = (
        ("Metagenomi, cost before and after", "Metagenomi, cost", 56, "% less"),
        ("Rufus, response time before over after", "Rufus, response time", 2, "x"),
        ("Rufus, cost of inference before and after", "Rufus, cost", 50, "% less"),
    )
    return Claim(
        "C32",
        GUIDE,
        "Metagenomi saved 56 %; Rufus became twice as fast at half the cost",
        tuple(
            awaited(rows, measurement, quantity, claimed, claimed, unit)
            for measurement, quantity, claimed, unit in cases
        ),
    )


def training_threshold(rows: Catalogue) -> Claim:
    """Number of chips whose yearly savings pay for an assumed migration."""
    figures = []
    for price in history("trn2.48xlarge", "capacity_block", rows=rows)[:1]:
        per_chip = float(price.usd_per_hour or 0) / rows.instance(price.instance).count
        for saving in (0.30, 0.50):
            # The bill before the migration is the Trainium bill over (1 - saving).
            chips = threshold_usd_per_month(saving) * (1 - saving) / (per_chip * HOURS_PER_MONTH)
            basis = f"{saving:.0%} saved, migration of {MIGRATION_USD:,.0f} USD (assumed)"
            figures.append(Figure(basis, chips, is_assumed=True))
    return Claim(
        "C33",
        GUIDE,
        "training is worth moving above 100 chips, where it saves 30 to 50 %",
        (
            awaited(
                rows,
                "chips from which migrations to Trainium paid back",
                "chips",
                100,
                100,
                "",
                *figures,
            ),
        ),
    )


def sdk_release(rows: Catalogue) -> Claim:
    """Month of the release, and the versions that it supports."""
    release = rows.releases["2.26.0"]
    month = release.released.strftime("%Y-%m")
    supports = release.supports
    return Claim(
        "C34",
        GUIDE,
        "Neuron SDK 2.26.0 came in November 2025 with PyTorch 2.8, JAX 0.6.2 and Python 3.11",
        (
            number("month", "2025-11", "", Figure("release notes", month)),
            number("PyTorch", "2.8", "", Figure("release notes", supports["pytorch"])),
            number("JAX", "0.6.2", "", Figure("release notes", supports["jax"])),
            number("Python", "3.11", "", Figure("release notes", supports["python"])),
        ),
    )


CLAIMS: Final[tuple[Callable[[Catalogue], Claim], ...]] = (
    rainier_chips,
    rainier_site,
    rainier_growth,
    day_and_night,
    inference_threshold,
    customers,
    training_threshold,
    sdk_release,
)
