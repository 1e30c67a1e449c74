"""Claims from ``claims.yaml``: each sentence with its documents, its parts and their figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from trnsim.price.payback import MIGRATION_USD
from trnsim.system.claims.formulas import value_of
from trnsim.system.claims.published import stated_basis, yaml_data
from trnsim.system.claims.rows import RowReader
from trnsim.system.claims.series import SERIES
from trnsim.system.claims.verdict import BasisOrGap, Claim, ClaimPart, besides, figure, quantity

_NOTES: Final = ("002", "000", "003")
_GUIDE: Final = ("001",)
DOCUMENTS: Final = {"notes": _NOTES, "guide": _GUIDE, "both": _NOTES + _GUIDE}


def judged_claims(rows: RowReader) -> list[Claim]:
    """The claims of ``claims.yaml`` in its order, judged against `rows`."""
    return [_claim(sentence, rows) for sentence in yaml_data("claims.yaml")]


def _claim(sentence: Mapping[str, Any], rows: RowReader) -> Claim:
    return Claim(
        sentence["id"],
        DOCUMENTS[sentence["documents"]],
        sentence["quote"],
        sentence["says"],
        tuple(_part(part, rows) for part in sentence["parts"]),
        besides(*_figures(sentence.get("besides", ()), rows)),
        tuple(sentence.get("notes", ())),
    )


def _part(part: Mapping[str, Any], rows: RowReader) -> ClaimPart:
    return quantity(
        part["quantity"],
        part["claimed"],
        part.get("unit", ""),
        *_figures(part["figures"], rows),
        is_varied=part.get("is_varied", False),
    )


def _figures(entries: Sequence[Mapping[str, Any]], rows: RowReader) -> Iterator[BasisOrGap]:
    """Our values of a claimed quantity, or names of unknown inputs, from entries of the file."""
    for entry in entries:
        (key, option), *_ = entry.items()
        if key in SERIES:
            options = option if isinstance(option, dict) else {"name": option}
            yield from SERIES[key](rows, **options)
        elif key == "stated":
            yield stated_basis(option, entry.get("text", ""))
        elif key == "missing":
            yield option
        elif "stand_in" in entry:
            compute = partial(value_of, entry["stand_in"], rows)
            yield figure(entry["text"], compute, is_stand_in=True)
        else:
            text = key.format(migration=f"{MIGRATION_USD:,.0f}")
            yield figure(text, partial(value_of, option, rows))
