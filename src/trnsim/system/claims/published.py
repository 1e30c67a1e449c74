"""Figures of documents outside the catalogue, from ``facts.yaml``: dates, sums, tables.

The four documents whose claims are judged are not among their sources.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

import yaml

from trnsim.system.claims.amounts import Amount, Citation, Grade
from trnsim.system.claims.verdict import BasisOrGap, ClaimBasis


@cache
def yaml_data(name: str) -> Any:
    """The content of a YAML file beside this module."""
    text = (resources.files("trnsim.system.claims") / name).read_text(encoding="utf-8")
    # libyaml's loader, where PyYAML has it, is ten times as fast as Python's.
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506  both are safe


@dataclass(frozen=True)
class PublishedFigure:
    """A figure that a document states.

    Attributes:
        day: the day on which the document was written, or on which the event in it happened.
        kind: grade of the evidence: measured, or merely stated.
        is_unconfirmed: whether only an interested party or an unnamed person states it, so that
            it counts as a stand-in.
    """

    value: float | str
    day: str
    source: str
    kind: Grade = Grade.DOCUMENT
    is_unconfirmed: bool = False

    @property
    def origin(self) -> Citation:
        """The source of the figure."""
        return Citation(self.kind, "", self.day, self.source)

    @property
    def amount(self) -> Amount:
        """The figure as a number."""
        return Amount(float(self.value), (self.origin,))


def _table(name: str) -> dict[str, tuple[PublishedFigure, PublishedFigure]]:
    """The rows of a table by name: measurements of Inferentia1 and of Inferentia2."""
    tables = yaml_data("facts.yaml")["tables"]
    day, documents = tables["day"], tables["documents"]
    rows = {}
    for row, values in tables[name].items():
        inferentia1, inferentia2 = (
            PublishedFigure(value, day, documents[document], Grade.MEASURED)
            for document, value in values.items()
        )
        rows[row] = inferentia1, inferentia2
    return rows


FACTS: Final = {
    name: PublishedFigure(**fact) for name, fact in yaml_data("facts.yaml")["facts"].items()
}
"""Figures by their subject."""
TABLES: Final = {name: _table(name) for name in ("throughput", "latency")}
"""Tables of inferences a second, and of median milliseconds."""


def stated_basis(name: str, text: str = "") -> BasisOrGap:
    """The figure of a document, named in `FACTS`, as a basis of a claim."""
    fact = FACTS[name]
    return ClaimBasis(text or name, fact.value, (fact.origin,), is_stand_in=fact.is_unconfirmed)
