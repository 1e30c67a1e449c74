"""Series of figures: peak FLOPs per USD at every price, work per USD by workload, prices.

Both prices of a comparison are of one kind of purchase; if they are more than 90 days apart, both
days are shown. Prices of two kinds are compared only where the claim itself mixes them; such a
figure supports nothing. `SERIES` has each series by its name in ``claims.yaml``. Options that
several series have:

    ours, theirs    instances: one with AWS's chips, and what it is compared with
    kind, kinds     of purchase
    compare         comparison of USD for equal work on both sides, a key of `COMPARISONS`
    of              workloads: "train" or "infer" for all of a kind, a name for one, "" for all
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from typing import Final

from trnsim.arch.catalogue import Price
from trnsim.system.claims.amounts import Amount, Citation, Grade, percent_less, percent_more
from trnsim.system.claims.published import TABLES, PublishedFigure
from trnsim.system.claims.rates import geometric_mean, rate, stored_rates
from trnsim.system.claims.rows import Pair, RowReader, label
from trnsim.system.claims.verdict import BasisOrGap, figure, stand_in

_BF16_PEAKS: Final = ("bf16", "bf16")
_TWO_KINDS: Final = Citation(Grade.PRICE, doubt="two kinds of purchase")


def _gain(ours: Amount, theirs: Amount) -> Amount:
    """Per cent more work per USD, from USD per work."""
    return percent_more(theirs, ours)


def _share(ours: Amount, theirs: Amount) -> Amount:
    """Our USD per work in per cent of theirs."""
    return 100.0 * (ours / theirs)


COMPARISONS: Final = {"gain": _gain, "less_than": percent_less, "share": _share}
"""Comparisons of our and their USD for equal work, by name in ``claims.yaml``."""


def _usd_of_equal_work(
    rows: RowReader, pair: Pair, ours: Amount, theirs: Amount
) -> tuple[Amount, Amount]:
    """USD for equal work on both sides."""
    our_usd = rows.usd(pair.ours) / ours
    if pair.is_mixed:
        our_usd = Amount(our_usd.value, (*our_usd.origins, _TWO_KINDS))
    return our_usd, rows.usd(pair.theirs) / theirs


def _compare_peaks(rows: RowReader, pair: Pair, dtypes: Sequence[str], compare: str) -> Amount:
    """Comparison `compare` of USD per peak FLOP; `dtypes` are ours and theirs."""
    peaks = [
        rows.instance_peak(price.instance, dtype)
        for price, dtype in zip((pair.ours, pair.theirs), dtypes, strict=True)
    ]
    return COMPARISONS[compare](*_usd_of_equal_work(rows, pair, *peaks))


def _peak_basis(rows: RowReader, pair: Pair, dtypes: Sequence[str], compare: str) -> BasisOrGap:
    """Comparison of peak per USD, as a stand-in for work per USD."""
    text = f"peak {dtypes[1].upper()} per USD, {pair.text}"
    compute = partial(_compare_peaks, rows, pair, dtypes, compare)
    return stand_in(text, compute, caveats=pair.caveats)


def peaks(
    rows: RowReader,
    ours: str,
    theirs: Sequence[str],
    kinds: Sequence[str],
    compare: str,
    dtypes: Sequence[Sequence[str]] = (_BF16_PEAKS,),
) -> Iterator[BasisOrGap]:
    """Peak FLOPs per USD at every price of `theirs`, prices nearest to the documents' day first."""
    pairs = [list(rows.pairs(ours, name, [kind])) for kind in kinds for name in theirs]
    for dtype in dtypes:
        yield from (
            _peak_basis(rows, price_pairs[0], dtype, compare)
            for price_pairs in pairs
            if price_pairs
        )
    for price_pairs in pairs:
        yield from (_peak_basis(rows, pair, dtypes[0], compare) for pair in price_pairs[1:])


def mixed_peaks(
    rows: RowReader, ours: str, theirs: str, kind: str, their_kind: str, compare: str
) -> Iterator[BasisOrGap]:
    """Peak per USD at prices of two kinds of purchase."""
    for pair in rows.pairs(ours, theirs, [kind], [their_kind]):
        yield _peak_basis(rows, pair, _BF16_PEAKS, compare)


def workload_names(of: str = "") -> list[str]:
    """Names of the workloads that `of` selects."""
    return [name for name in stored_rates() if not of or of in (name, name.partition(" ")[0])]


def workloads(
    rows: RowReader, ours: str, theirs: str, kind: str, compare: str, of: str = ""
) -> Iterator[BasisOrGap]:
    """Comparison `compare` of USD for equal work at the prices nearest to the documents' day.

    The geometric mean of all workloads comes first, then each workload.
    """
    pair = next(rows.pairs(ours, theirs, [kind]), None)
    if pair is None:
        yield f"{kind} prices of {ours} and {theirs}"
        return
    names = workload_names(of)

    def costs(name: str) -> tuple[Amount, Amount]:
        return _usd_of_equal_work(rows, pair, rate(rows, name, ours), rate(rows, name, theirs))

    def compare_workload(name: str) -> Amount:
        return COMPARISONS[compare](*costs(name))

    def compare_mean() -> Amount:
        mean = geometric_mean([our_usd / their_usd for our_usd, their_usd in map(costs, names)])
        return COMPARISONS[compare](mean, Amount(1.0))

    if len(names) > 1:
        text = f"{len(names)} workloads, geometric mean, {pair.text}"
        yield figure(text, compare_mean, caveats=pair.caveats)
    for name in names:
        yield figure(f"{name}, {pair.text}", partial(compare_workload, name), caveats=pair.caveats)


def workload_rates(rows: RowReader, ours: str, theirs: str, of: str) -> Iterator[BasisOrGap]:
    """Work of one instance over work of another, of each workload."""

    def ratio(name: str) -> Amount:
        return rate(rows, name, ours) / rate(rows, name, theirs)

    for name in workload_names(of):
        yield figure(f"trnsim plan {name}, {ours} over {theirs}", partial(ratio, name))


def measured(rows: RowReader, of: str, text: str) -> Iterator[BasisOrGap]:
    """Gains of work per USD in per cent, from the measurements whose names begin with `of`."""

    def gain(name: str) -> Amount:
        return 100.0 * (1 / rows.measured(name) - 1)

    for name in rows.catalogue.measurements:
        if name.startswith(of):
            yield stand_in(f"{text}, {name.rpartition(', ')[2]}", partial(gain, name))


def hourly(
    rows: RowReader, ours: str, theirs: str, kind: str, times: float, text: str
) -> Iterator[BasisOrGap]:
    """Per cent by which equal work costs less, if an hour of ours does `times` that of theirs."""

    def saving(pair: Pair) -> Amount:
        return percent_less(rows.usd(pair.ours), rows.usd(pair.theirs) * times)

    for pair in rows.pairs(ours, theirs, [kind]):
        yield stand_in(f"{text}, {pair.text}", partial(saving, pair), caveats=pair.caveats)


def table(rows: RowReader, name: str) -> Iterator[BasisOrGap]:
    """Ratio of Inferentia2 to Inferentia1 in each row of a table; the inverse for latencies."""
    del rows

    def ratio(pair: tuple[PublishedFigure, PublishedFigure]) -> Amount:
        inferentia1, inferentia2 = pair
        return (
            inferentia1.amount / inferentia2.amount
            if name == "latency"
            else inferentia2.amount / inferentia1.amount
        )

    for text, pair in TABLES[name].items():
        yield figure(text, partial(ratio, pair))


def prices(
    rows: RowReader,
    instance: str,
    kinds: Sequence[str],
    or_missing: str,
    since: str = "",
    per_chip: str = "",
) -> Iterator[BasisOrGap]:
    """Every price of an instance, or with `per_chip` of each of its chips, from a day on."""

    def usd(price: Price) -> Amount:
        return rows.usd(price) / rows.count(instance) if per_chip else rows.usd(price)

    first_day = date.fromisoformat(since) if since else date.min
    quotes = [price for kind in kinds for price in rows.prices(instance, kind)]
    quotes = [price for price in quotes if price.first_seen >= first_day]
    for price in quotes:
        text = f"{label(price)}, {per_chip}" if per_chip else label(price)
        yield figure(text, partial(usd, price))
    if not quotes:
        yield or_missing


def peak_prices(
    rows: RowReader,
    ours: str,
    theirs: str,
    kinds: Sequence[str],
    dtypes: Sequence[str],
    text: str,
    or_missing: str,
) -> Iterator[BasisOrGap]:
    """Per cent by which a peak FLOP costs less, at every price of one kind of purchase."""
    pairs = [pair for kind in kinds for pair in rows.pairs(ours, theirs, [kind])]
    for pair in pairs:
        compute = partial(_compare_peaks, rows, pair, dtypes, "less_than")
        yield figure(f"{pair.text}, {text}", compute, caveats=pair.caveats)
    if not pairs:
        yield or_missing


def price_thresholds(
    rows: RowReader, instance: str, kind: str, parts: Sequence[float]
) -> Iterator[BasisOrGap]:
    """Prices times a fraction: thresholds that a claim names as conditions."""

    def usd(price: Price, part: float) -> Amount:
        return rows.usd(price) * part

    for part in parts:
        for price in rows.prices(instance, kind)[:1]:
            text = f"USD/h would be {1 - part:.0%} less than {label(price)}"
            yield figure(text, partial(usd, price, part))


SERIES: Final[Mapping[str, Callable[..., Iterator[BasisOrGap]]]] = {
    series.__name__: series
    for series in (
        *(hourly, measured, mixed_peaks, peak_prices, peaks, price_thresholds, prices, table),
        *(workload_rates, workloads),
    )
}
