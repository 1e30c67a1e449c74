"""The file of a site: factors on estimated times by chip and family, with their provenance.

It is the JSON of an answer of `trnsim calibrate`, of which this room reads the corrections. Each of
them has a digest of its own fields, and so has the head: a file that was changed by hand is refused
with the line of the change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final

from trnsim.document.values import SCHEMA, compact_json
from trnsim.reader import ForeignRecord, SourcePlace, declared, load, record
from trnsim.version import VERSION

SITE_SCHEMA: Final = "calibrate/1"
KERNELS_FAMILY: Final = "kernels"
OTHER: Final = "other"
"""The chip or family of a correction for all that were not measured."""
_CORRECTIONS: Final = "corrections"
_CHECK: Final = "check"
_DIGEST_DIGITS: Final = 12
_MOST_FACTOR: Final = 1e4
_FIX: Final = "write it again with trnsim calibrate, or delete it"


@dataclass(frozen=True, kw_only=True)
class Correction(ForeignRecord):
    """The correction of one family of times on one chip.

    Attributes:
        chip: the chip, or `OTHER`.
        family: the family of times, or `OTHER`.
        parts: factors on seconds by cause; "" for all causes without one.
        sigma: one sigma of the logarithm of (measured / corrected).
        rows: measured rows of this chip and family; 0 where the factors are those of others.
        check: digest of the fields above.
    """

    chip: str = declared(help="the chip")
    family: str = declared(help="the family of times")
    parts: dict[str, float] = declared(help="factors on seconds by cause")
    sigma: float = declared(help="one sigma of the logarithm", minimum=0, maximum=10)
    rows: int = declared(help="measured rows", minimum=0)
    check: str = declared(help="digest of the fields above")

    def factor(self, cause: str) -> float:
        """The factor on the seconds of a cause."""
        return self.parts.get(cause, self.parts[""])


@dataclass(frozen=True, kw_only=True)
class _SiteFields(ForeignRecord):
    """The fields of the file that estimates use; others are the answer's own."""

    version: str = declared(help="the version of trnsim whose estimates were compared")
    written: date = declared(help="the day of the calibration")
    rows: int = declared(help="measured rows", minimum=1)
    corrections: tuple[Correction, ...] = declared(help="factors by chip and family", minimum=1)
    check: str = declared(help="digest of all fields but the corrections")


@dataclass(frozen=True)
class SiteCorrections:
    """The corrections of a site.

    Attributes:
        file: path of the file.
        written: day of the calibration.
        rows: number of all measured rows.
        corrections: the corrections, by chip and family.
    """

    file: str
    written: date
    rows: int
    corrections: Mapping[tuple[str, str], Correction]

    def correction(self, chip: str, family: str) -> Correction:
        """The correction of a family on a chip: its own, or that of all others."""
        chips = {own_chip for own_chip, _ in self.corrections}
        families = {own_family for _, own_family in self.corrections}
        key = (chip if chip in chips else OTHER, family if family in families else OTHER)
        return self.corrections[key]

    def provenance(self, correction: Correction) -> str:
        """The provenance of a correction: ``yours, 2026-11-20, 14 rows``."""
        if correction.rows:
            return f"yours, {self.written}, {_rows(correction.rows)}"
        return f"yours, {self.written}, {_rows(self.rows)} of other chips or families"


def sealed(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values, with their digest as a further field."""
    return {**fields, _CHECK: digest(fields)}


def digest(fields: Mapping[str, Any]) -> str:
    """The digest of plain values except schema, digest and corrections.

    Each correction has a digest of its own. An edited text may have half of a surrogate pair.
    """
    excluded_names = (SCHEMA, _CHECK, _CORRECTIONS)
    sealed_fields = {name: value for name, value in fields.items() if name not in excluded_names}
    content = compact_json(sealed_fields).encode("utf-8", "surrogatepass")
    return hashlib.sha256(content).hexdigest()[:_DIGEST_DIGITS]


def read(path: Path) -> SiteCorrections:
    """The site in the file at `path`.

    Raises:
        BadInput: it cannot be read, is of another version, or was changed by hand: with the line.
    """
    root = load(path, _FIX).root
    schema = root.inner(SCHEMA)
    if schema.value != SITE_SCHEMA:
        raise schema.refused(f"legal: {SITE_SCHEMA}, which this version reads")
    fields = record(_SiteFields, root)
    if fields.version != VERSION:
        raise fields.refused(
            "version", f"legal: {VERSION}; another version may estimate other times"
        )
    places = [root.inner(_CORRECTIONS).inner(index) for index in range(len(fields.corrections))]
    for place, correction in zip(places, fields.corrections, strict=True):
        _check_digest(place)
        _check_factors(place, correction)
    _check_digest(root)
    corrections = {
        (correction.chip, correction.family): correction for correction in fields.corrections
    }
    if (OTHER, OTHER) not in corrections:
        raise root.inner(_CORRECTIONS).field_error(f": none of {OTHER} chips and families")
    return SiteCorrections(str(path), fields.written, fields.rows, corrections)


def _check_digest(place: SourcePlace) -> None:
    """Refuse fields that their digest does not fit.

    Raises:
        BadInput: with the line.
    """
    if place.value[_CHECK] != digest(place.value):
        name = place.name if place.keys else f"a field outside {_CORRECTIONS}"
        raise place.document.refused(
            place.line.line, f"{name} was changed since trnsim calibrate wrote it"
        )


def _check_factors(place: SourcePlace, correction: Correction) -> None:
    for name, factor in correction.parts.items():
        if not 1 / _MOST_FACTOR < factor < _MOST_FACTOR:
            raise (
                place.inner("parts")
                .inner(name)
                .refused(f"legal: a factor between {1 / _MOST_FACTOR:g} and {_MOST_FACTOR:g}")
            )
    if "" not in correction.parts:
        raise place.inner("parts").refused('no factor ""')


def _rows(count: int) -> str:
    return f"{count:,} row" if count == 1 else f"{count:,} rows"
