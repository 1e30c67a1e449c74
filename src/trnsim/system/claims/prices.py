"""Claims about prices themselves: the cut of June 2025, what a GPU costs an hour, the table."""

from __future__ import annotations

from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Final

from trnsim.system.claims.amounts import Absent, less_than
from trnsim.system.claims.chips import GUIDE
from trnsim.system.claims.rows import label
from trnsim.system.claims.verdict import Claim, besides, between, figure, number

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnsim.arch.catalogue import Price
    from trnsim.system.claims.amounts import Amount
    from trnsim.system.claims.rows import Pair, Rows
    from trnsim.system.claims.verdict import Basis, Given, Part

_P5: Final = "p5.48xlarge"
_CUT: Final = date(2025, 6, 1)
_KINDS: Final = ("on_demand", "capacity_block", "spot", "ri_1y", "ri_3y", "ri_effective")


def june_2025_cut(rows: Rows) -> Claim:
    """``1 - price after / price before`` of p5.48xlarge on demand."""

    def cut() -> Amount:
        prices = rows.prices(_P5, "on_demand")
        after = [one for one in prices if one.first_seen >= _CUT]
        before = [one for one in prices if one.first_seen < _CUT]
        if not after or not before:
            raise Absent(f"on_demand prices of {_P5} before and after June 2025")
        return less_than(rows.usd(after[0]), rows.usd(before[0]))

    return Claim(
        "C12",
        GUIDE,
        "AWS senkte die H100-Preise im Juni 2025 um etwa 44%",
        "AWS cut H100 prices by about 44 % in June 2025",
        (number("cut", 44, "%", figure(f"{_P5} on demand, before and after", cut)),),
        notes=("until 2025-06 and from 2025-06-23 on",),
    )


def h100_per_hour(rows: Rows) -> Claim:
    """Prices of p5.48xlarge over its GPUs since the cut: on demand, and as a capacity block."""

    def per_gpu(price: Price) -> Amount:
        return rows.usd(price) / rows.count(_P5)

    given = [
        figure(
            f"{label(price)}, per GPU",
            partial(per_gpu, price),
        )
        for kind in ("on_demand", "capacity_block")
        for price in rows.prices(_P5, kind)
        if price.first_seen >= _CUT
    ] or [f"a price of {_P5} since the cut"]
    return Claim(
        "C13",
        GUIDE,
        "wodurch On-Demand H100-Instanzen auf 3-4 Dollar pro GPU-Stunde kamen",
        "an H100 costs 3 to 4 USD per hour on demand since then",
        (between("price per GPU", 3, 4, "USD/h", *given),),
        notes=("on demand it does not; blocks, paid for whole days ahead, cost that in late 2025",),
    )


def price_table(rows: Rows) -> Claim:
    """Every price of the three instances in the guide's table, whatever its kind."""

    def part(instance: str, claimed: float) -> Part:
        given: list[Given] = [
            figure(label(price), partial(rows.usd, price))
            for kind in _KINDS
            for price in rows.prices(instance, kind)
        ]
        return number(instance, claimed, "USD/h", *(given or [f"any price of {instance}"]))

    return Claim(
        "C14",
        GUIDE,
        "trn1.2xlarge ~$1,10 ... trn2.48xlarge ~$4,80 ... p5.48xlarge ~$9,80",
        "trn1.2xlarge, trn2.48xlarge and p5.48xlarge cost about 1.10, 4.80 and 9.80 USD an hour",
        (part("trn1.2xlarge", 1.10), part("trn2.48xlarge", 4.80), part(_P5, 9.80)),
        notes=("9.80 is a tenth of the price of p5.48xlarge before June 2025",),
    )


def trn3_against_blackwell(rows: Rows) -> Claim:
    """``1 - USD per peak FP8`` of a Trn3 UltraServer over a GB200 NVL72, one kind of purchase."""
    ours, theirs = "Trn3 Gen2 UltraServer", "u-p6e-gb200x72"

    def less(pair: Pair) -> Amount:
        mine = rows.usd(pair.ours) / rows.instance_peak(ours, "mxfp8")
        return less_than(mine, rows.usd(pair.theirs) / rows.instance_peak(theirs, "fp8"))

    given: list[Given] = [
        figure(
            f"{pair.text}, per FP8 peak",
            partial(less, pair),
            caveats=pair.caveats,
        )
        for kind in _KINDS
        for pair in rows.pairs(ours, theirs, [kind])
    ]
    wanted = [_wanted(rows, theirs, part) for part in (0.6, 0.4)]
    return Claim(
        "C22",
        GUIDE,
        "kostet wahrscheinlich 40-60% weniger als gleichwertige Blackwell-Infrastruktur",
        "a Trn3 UltraServer costs 40 to 60 % less than equal Blackwell",
        (between("cost", 40, 60, "% less", *(given or [f"any price of {ours}"])),),
        tuple(one for found in wanted for one in found),
    )


def _wanted(rows: Rows, theirs: str, part: float) -> tuple[Basis, ...]:
    """The price that the claim asks for."""

    def usd(price: Price) -> Amount:
        return rows.usd(price) * part

    prices = rows.prices(theirs, "capacity_block")
    return besides(
        *(
            figure(
                f"USD/h would be {1 - part:.0%} less than {label(price)}",
                partial(usd, price),
            )
            for price in prices[:1]
        )
    )


CLAIMS: Final[tuple[Callable[[Rows], Claim], ...]] = (
    june_2025_cut,
    h100_per_hour,
    price_table,
    trn3_against_blackwell,
)
