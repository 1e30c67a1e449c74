"""The catalogue as amounts: every number that is read cites its row.

A claim reads rows through `RowReader` alone, so that it cites exactly what it read: deleting any
other row cannot change it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from trnsim.arch.catalogue import Accelerator, Catalogue, Instance, Price, Release
from trnsim.facts import Evidence, Rate
from trnsim.price import Quote, caveats, history
from trnsim.system.claims.amounts import Absent, Amount, Citation, Grade

GUIDE_DAY: Final = date(2025, 12, 11)
"""Day of the guide, which is document 001. The notes (000, 002, 003) have no date. Grok 4 Fast, the
model that wrote them, is of September 2025, so that the guide's day stands in for theirs."""
_JUDGED_DOCUMENTS: Final = (
    "'AWS Trainium AI Accelerator Chips'",
    "'Amazon Trainium und Inferentia'",
)
"""Titles of the judged documents, which are dropped from the sources of rows: a claim must not be
its own source."""


@dataclass(frozen=True)
class Pair:
    """Two prices that are compared.

    Attributes:
        ours: price of an instance with AWS's chips.
        theirs: price of an instance that it is compared with.
    """

    ours: Price
    theirs: Price

    @property
    def text(self) -> str:
        """Both instances with the regions of these prices."""
        ours, theirs = self.ours, self.theirs
        return f"{ours.instance} ({ours.region}) against {theirs.instance} ({theirs.region})"

    @property
    def is_mixed(self) -> bool:
        """True if the two prices are of different kinds of purchase."""
        return self.ours.kind != self.theirs.kind

    @property
    def caveats(self) -> tuple[str, ...]:
        """Caveats of a figure that compares the two prices (`trnsim.price.caveats`)."""
        quotes = [Quote(row.instance, row.kind, GUIDE_DAY, row) for row in (self.ours, self.theirs)]
        return caveats(quotes, is_mixed_on_purpose=True)


def label(price: Price) -> str:
    """Instance, kind, region and day of a price."""
    return f"{price.instance} {price.kind} {price.region} {price.as_of}"


def price_row(price: Price) -> str:
    """Key of a price's row."""
    usd = "none" if price.usd_per_hour is None else f"{float(price.usd_per_hour):g}"
    return f"prices/{price.instance}/{price.kind}/{price.region}/{price.as_of}/{usd}"


class RowReader:
    """Access to the rows of a catalogue that cites each row it reads.

    Every method raises `Absent` if there is no such row or figure.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self._day = str(catalogue.generated)
        self._prices: dict[tuple[str, str], list[Price]] = {}

    def chip(self, name: str) -> Accelerator:
        """The chip or GPU called `name`."""
        chip = self.catalogue.chips.get(name) or self.catalogue.gpus.get(name)
        if chip is None:
            raise Absent(f"row {_chip_row(name)}")
        return chip

    def instance(self, name: str) -> Instance:
        """The instance type or UltraServer called `name`."""
        instance = self.catalogue.instances.get(name)
        if instance is None:
            raise Absent(f"row instances/{name}")
        return instance

    def of_chip(self, name: str, field: str, key: str = "") -> Amount:
        """A figure of a chip's row: `field` is an attribute of `Accelerator`, `key` a dtype."""
        absent_name = f"{key or field.removesuffix('_w')} of {name}"
        try:
            chip = self.chip(name)
        except Absent:  # a missing row and a missing figure have one message: neither is cited
            raise Absent(absent_name) from None
        value = getattr(chip, field)
        if key:
            value = value.get(key)
        if value is None:
            raise Absent(absent_name)
        return self._amount(value, _chip_row(name, is_neuron=chip.is_neuron))

    def peak(self, name: str, dtype: str) -> Amount:
        """Published dense FLOP per second of a chip."""
        return self.of_chip(name, "peak_flop_per_s", dtype)

    def memory(self, name: str) -> Amount:
        """Bytes of a chip's memory."""
        return self.of_chip(name, "memory_bytes")

    def bandwidth(self, name: str) -> Amount:
        """Bytes per second of a chip's memory."""
        return self.of_chip(name, "memory_bytes_per_s")

    def count(self, name: str) -> Amount:
        """Chips of an instance."""
        origin = self._origin(f"instances/{name}", self.instance(name).memory_bytes)
        return Amount(self.instance(name).count, (origin,))

    def efa(self, name: str) -> Amount:
        """Bytes per second of EFA of an instance."""
        efa = self.instance(name).efa_bytes_per_s
        if efa is None:
            raise Absent(f"EFA of {name}")
        return self._amount(efa, f"instances/{name}")

    def instance_peak(self, name: str, dtype: str) -> Amount:
        """Dense FLOP per second of all chips of an instance."""
        return self.count(name) * self.peak(self.instance(name).accelerator, dtype)

    def largest(self, chip: str) -> Amount:
        """Number of chips of the largest instance type with a chip, UltraServers excluded."""
        instances = [row for row in self.catalogue.instances.values() if row.accelerator == chip]
        instances = [row for row in instances if "UltraServer" not in row.name]
        if not instances:
            raise Absent(f"an instance with {chip}")
        return self.count(max(instances, key=lambda row: row.count).name)

    def system(self, name: str, key: str) -> Amount:
        """A published figure of a GPU rack."""
        return self._entry("systems", self.catalogue.systems.get(name, {}), name, key)

    def site(self, key: str) -> Amount:
        """A published figure of the one site in the catalogue, Project Rainier."""
        return self._entry("rainier", self.catalogue.rainier, key, key)

    def announced(self, name: str, key: str) -> Amount:
        """An announced multiple of another chip's figure."""
        chip = self.catalogue.announced.get(name)
        return self._entry("announced", chip.multiples if chip else {}, name, key)

    def measured(self, name: str) -> Amount:
        """A published measurement."""
        measurement = self.catalogue.measurements.get(name)
        if measurement is None:
            raise Absent(name)
        amount = self._amount(measurement, f"measurements/{name}")
        (origin,) = amount.origins
        doubt = origin.doubt
        return Amount(
            amount.value, (Citation(Grade.MEASURED, origin.row, origin.day, origin.source, doubt),)
        )

    def release(self, version: str) -> tuple[Release, Citation]:
        """A release of the SDK."""
        release = self.catalogue.releases.get(version)
        if release is None:
            raise Absent(f"row releases/{version}")
        day = str(release.released)
        return release, Citation(
            Grade.ROW, f"releases/{version}", day, "aws-neuron-sdk, release-notes"
        )

    def usd(self, price: Price) -> Amount:
        """USD per hour of a row of prices."""
        if price.usd_per_hour is None:
            raise Absent(f"{price.kind} price of {price.instance}")
        origin = Citation(
            Grade.PRICE, price_row(price), f"{price.kind} {price.as_of}", price.source
        )
        return Amount(float(price.usd_per_hour), (origin,))

    def prices(self, instance: str, kind: str) -> list[Price]:
        """Prices of an instance, those nearest to the document's day first."""
        prices = self._prices.get((instance, kind))
        if prices is None:
            is_priced = any(row.instance == instance for row in self.catalogue.prices)
            quotes = history(instance, kind, rows=self.catalogue) if is_priced else []
            prices = self._prices[instance, kind] = sorted(quotes, key=_days_from_document)
        return prices

    def pairs(
        self, ours: str, theirs: str, kinds: Sequence[str], their_kinds: Sequence[str] = ()
    ) -> Iterator[Pair]:
        """Pairs of prices: each price of `theirs` with the price of `ours` nearest in time.

        Pairs nearest to the documents' day come first.

        Args:
            ours: an instance with AWS's chips.
            theirs: an instance that it is compared with.
            kinds: kinds of purchase; the prices of a pair are of the same kind.
            their_kinds: kinds of the prices of `theirs`, one for each of `kinds`; () for equal
                kinds.
        """
        for kind, their_kind in zip(kinds, their_kinds or kinds, strict=True):
            our_prices = self.prices(ours, kind)
            for price in self.prices(theirs, their_kind) if our_prices else ():
                yield Pair(min(our_prices, key=lambda row: _days_between(row, price)), price)

    def _entry(self, table: str, row: object, name: str, key: str) -> Amount:
        fact = row.get(key) if isinstance(row, Mapping) else None
        if fact is None:
            raise Absent(f"{key} of row {table}/{name}")
        return self._amount(fact, f"{table}/{name}")

    def _amount(self, fact: Rate, row: str) -> Amount:
        return Amount(float(fact), (self._origin(row, fact),))

    def _origin(self, row: str, fact: Rate) -> Citation:
        fact_source = fact.provenance.source
        source = "; ".join(
            part for part in fact_source.split("; ") if not part.startswith(_JUDGED_DOCUMENTS)
        )
        if not source:
            return Citation(
                Grade.ASSUMED, row, self._day, fact_source, f"from a judged document: {fact_source}"
            )
        is_assumed = fact.provenance.kind is Evidence.ASSUMED
        kind = Grade.ASSUMED if is_assumed else Grade.ROW
        return Citation(kind, row, self._day, source, f"assumed: {source}" if is_assumed else "")


def _chip_row(name: str, *, is_neuron: bool = True) -> str:
    return f"{'chips' if is_neuron else 'gpus'}/{name}"


def _days_from_document(price: Price) -> int:
    """Days between the document and the nearest day on which the price held."""
    return max((price.first_seen - GUIDE_DAY).days, (GUIDE_DAY - price.last_seen).days, 0)


def _days_between(ours: Price, theirs: Price) -> tuple[int, int]:
    """Sort key: days between two prices, then days between our price and the documents' day."""
    gap = max((ours.first_seen - theirs.last_seen).days, (theirs.first_seen - ours.last_seen).days)
    return max(gap, 0), _days_from_document(ours)
