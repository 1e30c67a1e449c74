"""An estimate as HTML to embed in a notebook: its parts, its errors and its evidence."""

from __future__ import annotations

from collections.abc import Mapping

from trnsim.document.answer import Document, Figure, Items, Section, Table, columns
from trnsim.document.html import html, inline
from trnsim.estimate.estimate import Estimate
from trnsim.formatting import seconds


def estimate_page(estimate: Estimate) -> str:
    """The estimate as a line, and below it a frame with its tables."""
    evidence = [
        *(f"{phase}: {source}" for phase, source in estimate.sources.items()),
        *estimate.conditions,
        *estimate.extrapolations,
        *estimate.evidence,
    ]
    sections = [
        Section("Parts, which add up", [_table("part", estimate.parts_s)]),
        Section("Errors, one sigma by source", [_table("source", estimate.errors_s)]),
    ]
    if evidence:
        sections.append(Section("What it rests on", [Items(evidence)]))
    line = str(estimate)
    return inline(line, html(Document("Estimated time", None, sections, line)))


def _table(label: str, times_s: Mapping[str, float]) -> Table:
    """A row for each time, the longest first."""
    ordered = sorted(times_s.items(), key=lambda item: -item[1])
    rows = [(name, Figure(time_s, seconds(time_s))) for name, time_s in ordered]
    return Table(columns(f"{label} | time"), rows)
