"""Claims about price and price-performance: every dated price of the catalogue is a basis."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Final

from trnsim.price import KINDS, equivalent_usd_per_hour, history
from trnsim.system.claims.specs import GUIDE, NOTES
from trnsim.system.claims.verdict import Claim, Figure, Part, awaited, between, number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trnsim.arch.catalogue import Catalogue, Price

_CUT: Final = date(2025, 6, 1)
_SERVED: Final = "USD per output token of trn2.48xlarge over p5en.48xlarge"


def _usd(price: Price) -> float:
    """USD per hour of a row from `history`, which returns only rows with a price."""
    return float(price.usd_per_hour or 0.0)


def _all_prices(rows: Catalogue, instance: str) -> list[Price]:
    return [price for kind in KINDS for price in history(instance, kind, rows=rows)]


def _label(price: Price) -> str:
    return f"{price.instance} {price.kind} {price.region} {price.as_of}"


def _peak_per_usd(rows: Catalogue, price: Price, dtype: str) -> float:
    instance = rows.instance(price.instance)
    return (
        instance.count * rows.accelerator(instance.accelerator).peak_flop_per_s[dtype] / _usd(price)
    )


def _gains(
    rows: Catalogue, ours: str, theirs: str, kind: str, dtypes: tuple[str, str]
) -> Iterator[Figure]:
    """``our peak per USD / theirs - 1`` in per cent: our newest price, each of theirs; one kind."""
    mine = history(ours, kind, rows=rows)
    for price in history(theirs, kind, rows=rows) if mine else ():
        gain = _peak_per_usd(rows, mine[0], dtypes[0]) / _peak_per_usd(rows, price, dtypes[1]) - 1
        basis = f"peak {dtypes[1].upper()} per USD, {_label(mine[0])} against {_label(price)}"
        yield Figure(basis, 100 * gain, is_proxy=True)


def trn2_price_performance(rows: Catalogue) -> Claim:
    """Peak per USD of trn2.48xlarge over P5, P5e and P5en, per purchase kind and date."""
    figures = [
        figure
        for theirs in ("p5.48xlarge", "p5e.48xlarge", "p5en.48xlarge")
        for kind in ("on_demand", "capacity_block", "spot")
        for dtypes in (("bf16", "bf16"), ("fp8_e4", "fp8"))
        for figure in _gains(rows, "trn2.48xlarge", theirs, kind, dtypes)
    ]
    figures += [
        Figure(f"measured on one model: {name}", 100 * (1 / ratio - 1), is_proxy=True)
        for name, ratio in rows.measurements.items()
        if name.startswith(_SERVED)
    ]
    has_price = history("trn2.48xlarge", "on_demand", rows=rows)
    missing = () if has_price else ("an on_demand price of trn2.48xlarge",)
    return Claim(
        "C07",
        ("000", "001", "002", "003"),
        "Trn2 has 30 to 40 % better price-performance than P5, P5e or P5en",
        (
            awaited(
                rows,
                "work per USD of a set of workloads on trn2.48xlarge over the P5 family, % more",
                "work per USD",
                30,
                40,
                "% more",
                *figures,
                missing=missing,
            ),
        ),
    )


def _trn1_savings(rows: Catalogue) -> Iterator[Figure]:
    """``1 - USD per peak BF16`` of trn1.32xlarge over P4d and P4de, on demand, by date."""
    for theirs in ("p4d.24xlarge", "p4de.24xlarge"):
        for mine in history("trn1.32xlarge", "on_demand", rows=rows):
            for price in history(theirs, "on_demand", rows=rows):
                ratio = _peak_per_usd(rows, price, "bf16") / _peak_per_usd(rows, mine, "bf16")
                basis = f"USD per peak BF16, {_label(mine)} against {_label(price)}"
                yield Figure(basis, 100 * (1 - ratio), is_proxy=True)


def half_the_cost(rows: Catalogue) -> Claim:
    """Trn1 against P4d and P4de per peak FLOP."""
    return Claim(
        "C08",
        NOTES,
        "training costs up to 50 % less than on comparable GPU instances",
        (
            awaited(
                rows,
                "cost of one training job on Trn1 against P4d, % less",
                "cost",
                50,
                50,
                "% less",
                *_trn1_savings(rows),
            ),
        ),
    )


def _h100_equivalents(rows: Catalogue) -> Iterator[Figure]:
    """USD per H100-equivalent hour of trn2 over USD per H100 hour of P5, per cent."""
    trn2, p5 = rows.instance("trn2.48xlarge"), rows.instance("p5.48xlarge")
    chip, h100 = rows.chips["trainium2"], rows.gpus["h100"]
    for mine in history(trn2.name, "capacity_block", rows=rows)[:1]:
        equivalent = equivalent_usd_per_hour(
            _usd(mine) / trn2.count, chip.peak_flop_per_s["bf16"], h100.peak_flop_per_s["bf16"]
        )
        for kind in ("on_demand", "capacity_block"):
            for price in history(p5.name, kind, rows=rows):
                mixed = "" if kind == mine.kind else " (two purchase kinds)"
                basis = f"{equivalent:.2f} USD/h of {_label(mine)} against {_label(price)}{mixed}"
                yield Figure(basis, 100 * equivalent * p5.count / _usd(price), is_proxy=True)


def half_of_h100(rows: Catalogue) -> Claim:
    """H100-equivalent price of trn2 over the H100 price."""
    return Claim(
        "C09",
        GUIDE,
        "Trn2 instances cost about half of comparable H100 instances",
        (
            awaited(
                rows,
                "cost of one workload on trn2.48xlarge over p5.48xlarge, %",
                "cost per H100-equivalent",
                50,
                50,
                "% of an H100",
                *_h100_equivalents(rows),
            ),
        ),
    )


def quarter_of_h100(rows: Catalogue) -> Claim:
    """H100-equivalent price of trn2 over the H100 price."""
    return Claim(
        "C10",
        GUIDE,
        "Trainium can give H100-equivalent performance at 25 % of the cost",
        (
            awaited(
                rows,
                "cost of one workload on trn2.48xlarge over p5.48xlarge, %",
                "cost per H100-equivalent",
                25,
                25,
                "% of an H100",
                *_h100_equivalents(rows),
            ),
        ),
    )


def cheaper_than_a100(rows: Catalogue) -> Claim:
    """Trn1 against A100 instances per peak FLOP."""
    return Claim(
        "C11",
        GUIDE,
        "a token costs 54 % less than on A100 clusters",
        (
            awaited(
                rows,
                "cost per token of a GPT on Trn1 against A100, % less",
                "cost per token",
                54,
                54,
                "% less",
                *_trn1_savings(rows),
            ),
        ),
    )


def june_2025_cut(rows: Catalogue) -> Claim:
    """``1 - newest / oldest`` on-demand price of p5.48xlarge."""
    prices = history("p5.48xlarge", "on_demand", rows=rows)
    figures = [
        Figure(f"{_label(old)} to {_label(prices[0])}", 100 * (1 - _usd(prices[0]) / _usd(old)))
        for old in prices[1:]
    ]
    missing = () if figures else ("two dated on_demand prices of p5.48xlarge",)
    return Claim(
        "C12",
        GUIDE,
        "AWS cut H100 prices by about 44 % in June 2025",
        (number("cut", 44, "%", *figures, missing=missing),),
    )


def h100_per_hour(rows: Catalogue) -> Claim:
    """Prices of p5.48xlarge over its 8 GPUs since the cut: on demand, and as a capacity block."""
    count = rows.instance("p5.48xlarge").count
    figures = [
        Figure(f"{_label(price)} / {count} GPUs", _usd(price) / count)
        for kind in ("on_demand", "capacity_block")
        for price in history("p5.48xlarge", kind, rows=rows)
        if price.first_seen >= _CUT
    ]
    missing = () if figures else ("a price of p5.48xlarge since the cut",)
    return Claim(
        "C13",
        GUIDE,
        "an H100 costs 3 to 4 USD per hour on demand since then",
        (between("price per GPU", 3, 4, "USD/h", *figures, missing=missing),),
    )


def price_table(rows: Catalogue) -> Claim:
    """Every price of the three instances in the guide's table, whatever its kind."""

    def part(instance: str, claimed: float) -> Part:
        prices = _all_prices(rows, instance)
        missing = () if prices else (f"any price of {instance}",)
        figures = (Figure(_label(price), _usd(price)) for price in prices)
        return number(instance, claimed, "USD/h", *figures, missing=missing)

    return Claim(
        "C14",
        GUIDE,
        "trn1.2xlarge, trn2.48xlarge and p5.48xlarge cost about 1.10, 4.80 and 9.80 USD an hour",
        (part("trn1.2xlarge", 1.10), part("trn2.48xlarge", 4.80), part("p5.48xlarge", 9.80)),
    )


def trn3_against_blackwell(rows: Catalogue) -> Claim:
    """``1 - USD per peak FP8`` of a Trn3 UltraServer over a GB200 NVL72."""
    ours, theirs = rows.instance("Trn3 Gen2 UltraServer"), rows.instance("u-p6e-gb200x72")
    peak = ours.count * rows.chips["trainium3"].peak_flop_per_s["mxfp8"]
    rack = theirs.count * rows.gpus["gb200"].peak_flop_per_s["fp8"]
    mine, racks = _all_prices(rows, ours.name), _all_prices(rows, theirs.name)
    figures = [
        Figure(
            f"{_label(price)} against {_label(other)}, per FP8 peak",
            100 * (1 - _usd(price) / _usd(other) * rack / peak),
        )
        for price in mine
        for other in racks
    ]
    implied = [
        f"40 to 60 % less than {_label(other)} would be {0.4 * _usd(other):.0f} to "
        f"{0.6 * _usd(other):.0f} USD/h"
        for other in racks
    ]
    missing = () if mine else (f"any price of {ours.name}",)
    return Claim(
        "C22",
        GUIDE,
        "a Trn3 UltraServer costs 40 to 60 % less than equal Blackwell",
        (between("cost", 40, 60, "% less", *figures, missing=missing),),
        tuple(implied),
    )


def inf1(rows: Catalogue) -> Claim:
    """``1 - (inf1.xlarge / g4dn.xlarge) / 2.3``: hourly prices, and the claimed throughput."""
    throughput_ratio = 2.3
    figures = [
        Figure(
            f"{_label(mine)} against {_label(price)}, at the claimed throughput",
            100 * (1 - _usd(mine) / _usd(price) / throughput_ratio),
            is_proxy=True,
        )
        for mine in history("inf1.xlarge", "on_demand", rows=rows)
        for price in history("g4dn.xlarge", "on_demand", rows=rows)
    ]
    return Claim(
        "C27",
        GUIDE,
        "Inf1 has 2.3x the throughput and 70 % lower cost per inference than GPU instances",
        (
            awaited(
                rows,
                "throughput of one model on inf1.xlarge over g4dn.xlarge",
                "throughput",
                throughput_ratio,
                throughput_ratio,
                "x",
            ),
            awaited(
                rows,
                "cost per inference of one model on Inf1 against G4dn at launch prices, % less",
                "cost per inference",
                70,
                70,
                "% less",
                *figures,
            ),
        ),
    )


def inf2(rows: Catalogue) -> Claim:
    """Peak per USD of inf2.xlarge over g5.xlarge and g6.xlarge, on demand."""
    figures = [
        figure
        for theirs in ("g5.xlarge", "g6.xlarge")
        for figure in _gains(rows, "inf2.xlarge", theirs, "on_demand", ("bf16", "bf16"))
    ]
    return Claim(
        "C30",
        GUIDE,
        "Inf2 has 40 % better price-performance than comparable instances",
        (
            awaited(
                rows,
                "work per USD of one model on inf2.xlarge over G5 or G6, % more",
                "work per USD",
                40,
                40,
                "% more",
                *figures,
            ),
        ),
    )


CLAIMS: Final[tuple[Callable[[Catalogue], Claim], ...]] = (
    trn2_price_performance,
    half_the_cost,
    half_of_h100,
    quarter_of_h100,
    cheaper_than_a100,
    june_2025_cut,
    h100_per_hour,
    price_table,
    trn3_against_blackwell,
    inf1,
    inf2,
)
