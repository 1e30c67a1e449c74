"""Claims about price-performance: peak per USD, measured work, and ten workloads of the planner.

A comparison has one kind of purchase; prices more than 90 days apart stand with both days. Those of
two kinds are shown where the claim itself mixes them, and support nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from trnsim.system.claims.amounts import Absent, Amount, Kind, Origin, less_than, more_than
from trnsim.system.claims.chips import GUIDE, NOTES
from trnsim.system.claims.rates import geometric_mean, rate
from trnsim.system.claims.verdict import Claim, between, figure, number, stand_in, words
from trnsim.system.claims.workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trnsim.system.claims.rows import Pair, Rows
    from trnsim.system.claims.verdict import Given

Compare = Callable[[Amount, Amount], Amount]
"""Of USD for equal work on both sides, the figure that is claimed."""
_BLOCKS: Final = ("capacity_block",)
_RENTED: Final = ("capacity_block", "spot")
_ON_DEMAND: Final = ("on_demand",)
_BF16: Final = ("bf16", "bf16")
_FP8: Final = ("fp8_e4", "fp8")
_TRN1: Final = "trn1.32xlarge"
_TRN2: Final = "trn2.48xlarge"
_GPT: Final = "train GPT-3 6.7B"
_SERVED: Final = "USD per output token of trn2.48xlarge over p5en.48xlarge"
_TWO_KINDS: Final = Origin(Kind.PRICE, doubt="two kinds of purchase")


def _cost(rows: Rows, pair: Pair, ours: Amount, theirs: Amount) -> tuple[Amount, Amount]:
    """USD for equal work on both sides."""
    mine = rows.usd(pair.ours) / ours
    if pair.is_mixed:
        mine = Amount(mine.value, (*mine.origins, _TWO_KINDS))
    return mine, rows.usd(pair.theirs) / theirs


def _per_peak(rows: Rows, pair: Pair, dtypes: tuple[str, str], compare: Compare) -> Given:
    """What `compare` says of USD per peak FLOP."""

    def found() -> Amount:
        peaks = [
            rows.instance_peak(price.instance, dtype)
            for price, dtype in zip((pair.ours, pair.theirs), dtypes, strict=True)
        ]
        return compare(*_cost(rows, pair, *peaks))

    text = f"peak {dtypes[1].upper()} per USD, {pair.text}"
    return stand_in(text, found, caveats=pair.caveats)


def peaks(
    rows: Rows,
    ours: str,
    theirs: Sequence[str],
    kinds: Sequence[str],
    compare: Compare,
    dtypes: Sequence[tuple[str, str]] = (_BF16,),
) -> Iterator[Given]:
    """Peak per USD at every dated price of theirs, those of the document's day first."""
    pairs = [list(rows.pairs(ours, name, [kind])) for kind in kinds for name in theirs]
    for dtype in dtypes:
        yield from (_per_peak(rows, found[0], dtype, compare) for found in pairs if found)
    for found in pairs:
        yield from (_per_peak(rows, pair, dtypes[0], compare) for pair in found[1:])


def planned(
    rows: Rows, ours: str, theirs: str, kind: str, compare: Compare, names: Sequence[str] = ()
) -> Iterator[Given]:
    """What `compare` says of USD for workloads at the document's day: of all, then of each."""
    pair = next(rows.pairs(ours, theirs, [kind]), None)
    if pair is None:
        yield f"{kind} prices of {ours} and {theirs}"
        return
    names = names or [one.name for one in WORKLOADS]

    def of(name: str) -> tuple[Amount, Amount]:
        return _cost(rows, pair, rate(rows, name, ours), rate(rows, name, theirs))

    def of_one(name: str) -> Amount:
        return compare(*of(name))

    def of_all() -> Amount:
        mean = geometric_mean([mine / other for mine, other in map(of, names)])
        return compare(mean, Amount(1.0))

    if len(names) > 1:
        text = f"{len(names)} workloads, geometric mean, {pair.text}"
        yield figure(text, of_all, caveats=pair.caveats)
    for name in names:
        text = f"{name}, {pair.text}"
        yield figure(text, partial(of_one, name), caveats=pair.caveats)


def gain(ours: Amount, theirs: Amount) -> Amount:
    """Per cent more work per USD, from USD per work."""
    return more_than(theirs, ours)


def _share(ours: Amount, theirs: Amount) -> Amount:
    """Per cent of their USD per work."""
    return 100.0 * (ours / theirs)


def _served(rows: Rows) -> Iterator[Given]:
    """What was measured of one model, as per cent more work per USD."""

    def found(name: str) -> Amount:
        return 100.0 * (1 / rows.measured(name) - 1)

    for name in rows.catalogue.measurements:
        if name.startswith(_SERVED):
            text = f"measured on one model, {name.rpartition(', ')[2]}"
            yield stand_in(text, partial(found, name))


def trn2_over_p5e(rows: Rows) -> Claim:
    """Work per USD of trn2.48xlarge over P5e and P5en."""
    return Claim(
        "C07",
        NOTES,
        "30-40% better price-performance than GPU-based P5e/P5en instances",
        "Trn2 has 30 to 40 % better price-performance than P5e and P5en",
        (
            between(
                "work per USD",
                30,
                40,
                "% more",
                *peaks(
                    rows,
                    _TRN2,
                    ("p5e.48xlarge", "p5en.48xlarge"),
                    _RENTED,
                    gain,
                    (_BF16, _FP8),
                ),
                *_served(rows),
                *planned(rows, _TRN2, "p5en.48xlarge", "capacity_block", gain),
                *planned(rows, _TRN2, "p5e.48xlarge", "capacity_block", gain),
                is_varied=True,
            ),
        ),
        notes=("AWS first said so in December 2024, of which no price of trn2.48xlarge is known",),
    )


def trn2_over_p5(rows: Rows) -> Claim:
    """Work per USD of trn2.48xlarge over P5."""
    return Claim(
        "C53",
        GUIDE,
        "30-40% besseres Preis-Leistungs-Verhältnis als GPU-basierte P5-Instanzen",
        "Trn2 has 30 to 40 % better price-performance than P5",
        (
            between(
                "work per USD",
                30,
                40,
                "% more",
                *peaks(rows, _TRN2, ("p5.48xlarge",), _RENTED, gain, (_BF16, _FP8)),
                *planned(rows, _TRN2, "p5.48xlarge", "capacity_block", gain),
                is_varied=True,
            ),
        ),
    )


def half_the_cost(rows: Rows) -> Claim:
    """USD per work of Trn1 against P4d and P4de, and of Trn2 against P5en."""
    return Claim(
        "C08",
        NOTES,
        "reducing costs by up to 50% compared to comparable GPU-based EC2 instances",
        "costs are up to 50 % lower than on comparable GPU instances",
        (
            number(
                "cost",
                50,
                "% less",
                *peaks(rows, _TRN1, ("p4d.24xlarge", "p4de.24xlarge"), _ON_DEMAND, less_than),
                *peaks(rows, _TRN2, ("p5en.48xlarge",), _BLOCKS, less_than),
                *planned(rows, _TRN1, "p4d.24xlarge", "on_demand", less_than),
                *planned(rows, _TRN2, "p5en.48xlarge", "capacity_block", less_than),
                is_varied=True,
            ),
        ),
    )


def _of_h100(rows: Rows) -> Iterator[Given]:
    """USD for equal work of trn2.48xlarge over p5.48xlarge, per cent."""
    yield from peaks(rows, _TRN2, ("p5.48xlarge",), _RENTED, _share)
    for pair in rows.pairs(_TRN2, "p5.48xlarge", _BLOCKS, _ON_DEMAND):
        yield _per_peak(rows, pair, _BF16, _share)
    yield from planned(rows, _TRN2, "p5.48xlarge", "capacity_block", _share)


def half_of_h100(rows: Rows) -> Claim:
    """USD for equal work of trn2.48xlarge over p5.48xlarge."""
    return Claim(
        "C09",
        GUIDE,
        "Trainium2-Instanzen kosten etwa die Hälfte vergleichbarer NVIDIA H100-Instanzen",
        "Trn2 instances cost about half of comparable H100 instances",
        (number("cost of equal work", 50, "% of P5", *_of_h100(rows), is_varied=True),),
    )


def quarter_of_h100(rows: Rows) -> Claim:
    """USD for equal work of trn2.48xlarge over p5.48xlarge."""
    return Claim(
        "C10",
        GUIDE,
        "H100-äquivalente Leistung zu 25% der Kosten für spezifische Workloads",
        "Trainium can give H100-equivalent performance at 25 % of the cost",
        (number("cost of equal work", 25, "% of P5", *_of_h100(rows), is_varied=True),),
    )


def cheaper_than_a100(rows: Rows) -> Claim:
    """USD per token of Trn1 against A100 instances."""
    a100 = ("p4d.24xlarge", "p4de.24xlarge")
    return Claim(
        "C11",
        GUIDE,
        "54% niedrigere Kosten pro Token als A100-Cluster",
        "a token of a GPT costs 54 % less than on A100 clusters",
        (
            number(
                "cost per token",
                54,
                "% less",
                *peaks(rows, _TRN1, a100, _ON_DEMAND, less_than),
                *planned(rows, _TRN1, a100[0], "on_demand", less_than, (_GPT,)),
                is_varied=True,
            ),
        ),
        notes=("AWS's own benchmark, which names neither the model nor the prices",),
    )


def throughput_of_a100(rows: Rows) -> Claim:
    """Work of Trn1 over work of P4d."""
    p4d = "p4d.24xlarge"
    return Claim(
        "C54",
        GUIDE,
        "bei ähnlichem Durchsatz für GPT-Klasse-Modelle",
        "a GPT has a similar throughput on Trn1 and on A100",
        (
            number(
                "throughput",
                1,
                "x of A100",
                stand_in(
                    f"BF16 peak, {_TRN1} over {p4d}",
                    lambda: rows.instance_peak(_TRN1, "bf16") / rows.instance_peak(p4d, "bf16"),
                ),
                figure(
                    f"{_GPT}, {_TRN1} over {p4d}",
                    lambda: rate(rows, _GPT, _TRN1) / rate(rows, _GPT, p4d),
                ),
                is_varied=True,
            ),
        ),
    )


def less_than_a100(rows: Rows) -> Claim:
    """USD of a Trainium1 hour over USD of an A100 hour, on demand."""

    def compared() -> tuple[str, tuple[Origin, ...]]:
        pair = next(rows.pairs(_TRN1, "p4d.24xlarge", _ON_DEMAND), None)
        if pair is None:
            raise Absent(f"on_demand prices of {_TRN1} and p4d.24xlarge")
        ours = rows.usd(pair.ours) / rows.count(_TRN1)
        ratio = ours / (rows.usd(pair.theirs) / rows.count("p4d.24xlarge"))
        return "less" if ratio.value < 1 else "not less", ratio.origins

    return Claim(
        "C67",
        GUIDE,
        "wettbewerbsfähiger Leistung gegenüber NVIDIA A100 zu niedrigeren Kosten",
        "a Trainium1 costs less than an A100",
        (number("USD per chip and hour", "less", "", words("on demand, per chip", compared)),),
    )


def training_saving(rows: Rows) -> Claim:
    """USD of the four training workloads on Trn1 against P4d, and on Trn2 against P5en."""
    names = [one.name for one in WORKLOADS if one.does == "train"]
    return Claim(
        "C68",
        GUIDE,
        "Training, bei dem 30-50% Einsparungen den Migrationsaufwand rechtfertigen",
        "training saves 30 to 50 %",
        (
            between(
                "cost",
                30,
                50,
                "% less",
                *peaks(rows, _TRN1, ("p4d.24xlarge",), _ON_DEMAND, less_than),
                *peaks(rows, _TRN2, ("p5en.48xlarge",), _BLOCKS, less_than),
                *planned(rows, _TRN1, "p4d.24xlarge", "on_demand", less_than, names),
                *planned(rows, _TRN2, "p5en.48xlarge", "capacity_block", less_than, names),
                is_varied=True,
            ),
        ),
    )


CLAIMS: Final[tuple[Callable[[Rows], Claim], ...]] = (
    trn2_over_p5e,
    trn2_over_p5,
    half_the_cost,
    half_of_h100,
    quarter_of_h100,
    cheaper_than_a100,
    throughput_of_a100,
    less_than_a100,
    training_saving,
)
