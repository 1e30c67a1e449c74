"""A decision as a document: summary of all workloads, a section for each, sources, assumptions.

All dollars are those of `decide.document.figures`; each refers to its path in that JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trnsim.decide.decision import Decision, WorkloadDecision
from trnsim.decide.document.figures import candidate_rows, figures
from trnsim.decide.document.workload_section import (
    PriceSources,
    sources_items,
    verdict_mark,
    workload_section,
)
from trnsim.document.answer import (
    Block,
    Cell,
    Column,
    Document,
    Items,
    Note,
    PageLink,
    Section,
    Table,
    columns,
)
from trnsim.document.figure import Figures
from trnsim.formatting import amount
from trnsim.price.payback import PAYBACK_LIMIT_MONTHS

SCHEMA: Final = "assess-report/1"
_TITLE: Final = "Workloads on AWS's chips: what to do"
_SUMMARY_COLUMNS: Final = columns(
    "workload | verdict | USD a month today | best | USD a month there | months | why",
    numbers_from=7,
)
_READING_NOTES: Final = """\
Times are estimates, not measurements. The last column of candidates says how far plans of that \
family are from published times.
USD a month = today's bill x (paid hours x USD/h there) / (paid hours x USD/h here): an error that \
the model makes on both sides cancels, and staying saves nothing.
P50 is the figure at the medians of all inputs; P10 and P90 are quantiles of the draws.
figures.json beside this page has all its numbers, table.csv a row for each candidate."""


def decision_document(decision: Decision) -> Document:
    """Document of a decision; its values are those of `figures`."""
    values = figures(decision)
    page_figures = Figures(values)
    sources = PriceSources()
    limit = float(PAYBACK_LIMIT_MONTHS)
    workloads = [
        workload_section(workload, page_figures, index, limit, sources)
        for index, workload in enumerate(decision.workloads)
    ]
    draws = f"{decision.draws} draws"
    subtitle = (
        f"{decision.inventory}; prices of {decision.as_of}; {draws}, seed {decision.seed}; "
        f"trnsim {decision.version}"
    )
    assumption_blocks: list[Block] = [
        Note("assumed:", place="text"),
        _assumption_table(decision),
        Note(f"prices of {decision.as_of}, seed {decision.seed}, {draws}", place="text"),
        Items(decision.caveats),
    ]
    sections = [
        Section("Decisions", [_summary(decision, page_figures)], place="page"),
        *workloads,
        Section("Sources of prices", [sources_items(sources)], place="page"),
        Section("Assumed", assumption_blocks, heading_place="page"),
        Section("How to read it", [Items(_READING_NOTES.splitlines())], place="page"),
    ]
    return Document(_TITLE, values, sections, subtitle, candidate_rows(decision), SCHEMA)


def _summary(decision: Decision, page_figures: Figures) -> Block:
    if not decision.workloads:
        return Note("The inventory has no workloads.")
    rows: list[Sequence[Cell]] = [
        _summary_row(workload, page_figures, index)
        for index, workload in enumerate(decision.workloads)
    ]
    today_usd, after_usd, migration_usd = (
        page_figures.usd("totals", name)
        for name in ("today_usd_per_month", "after_usd_per_month", "migration_usd")
    )
    after_note = "once all that is go has moved"
    rows.append(
        ("all", "", today_usd, after_note, after_usd, "", (migration_usd, " USD once, to move it"))
    )
    return Table(_SUMMARY_COLUMNS, rows, marked={len(rows) - 1: "total"})


def _summary_row(workload: WorkloadDecision, page_figures: Figures, index: int) -> Sequence[Cell]:
    best = workload.candidate(workload.best)
    usd: Cell = "-"
    months = "-"
    if best is not None:
        path = ("workloads", index, "candidates", workload.candidates.index(best))
        usd = page_figures.usd_range(*path, "usd_per_month")
        if best.pays_back_months is not None and best.pays_back_months.p50 is not None:
            months = amount(best.pays_back_months.p50)
    today = page_figures.usd("workloads", index, "today", "usd_per_month")
    name = PageLink(workload.name, f"#workload-{index}")
    return (name, verdict_mark(workload), today, workload.best or "-", usd, months, workload.reason)


def _assumption_table(decision: Decision) -> Table:
    rows = [
        (
            f"{assumption.name}:",
            f"{'-' if assumption.value is None else amount(assumption.value)} {assumption.unit}",
            assumption.source,
        )
        for assumption in decision.assumptions
    ]
    headings = (Column(""), Column(""), Column("", place="page"))
    return Table(headings, rows, indent=2)
