"""A decision as one HTML file, which needs no network and has no script.

All dollars are read from the figures of `decide.page.figures`, and say from where there.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from trnsim.decide.page.figures import chosen, figures
from trnsim.decide.page.workload_panel import Sources, verdict_mark, workload_panel
from trnsim.document.builder import page, panel
from trnsim.document.drawing import STYLE
from trnsim.document.figure import Figures
from trnsim.formatting import amount
from trnsim.price.payback import PAYBACK_LIMIT_MONTHS

if TYPE_CHECKING:
    from trnsim.decide.decision import Decision, WorkloadDecision

_TITLE: Final = "Workloads on AWS's chips: what to do"
_STYLE: Final = (
    STYLE
    + """
/* A decision: wide tables scroll by themselves, verdicts are marks. */
h3 { font-size: 12.5px; margin: 12px 0 2px } .wide { overflow-x: auto }
p { margin: 4px 0; overflow-wrap: anywhere } ul { margin: 4px 0; padding-left: 20px }
a { color: var(--accent) } td { font-size: 13px } td .soft { font-size: 11.5px }
table.candidates td { min-width: 74px } table.candidates td:first-child { min-width: 190px }
table.candidates td:nth-child(3) { min-width: 150px }
table.candidates td:nth-child(4) { min-width: 96px }
table.rules td:nth-child(2) { min-width: 130px } table.rules td:nth-child(3) { min-width: 180px }
table.refused td { font-size: 12px; overflow-wrap: anywhere } tr.best { background: var(--tint) }
table.refused td:first-child { min-width: 110px } tr.total td { font-weight: 600 }
.verdict { font-weight: 600; white-space: nowrap }
.verdict { border: 1px solid var(--line); border-radius: 6px; padding: 1px 7px }
.verdict.go { color: var(--gain) } .verdict.no-go { color: var(--critical) }
.verdict.pilot { color: var(--accent) } .verdict.needs-quote { color: var(--dma) }
details summary { cursor: pointer; font-size: 12px; color: var(--accent); margin: 4px 0 }
ol.sources { margin: 4px 0; padding-left: 26px; font-size: 12px; overflow-wrap: anywhere }
table.summary td { min-width: 84px } table.summary td.reason { min-width: 220px }
"""
)


_READING: Final = """\
Times are estimates, not measurements. The last column of candidates says how far plans of that \
family are from published times.
USD a month = today's bill x (paid hours x USD/h there) / (paid hours x USD/h here): an error that \
the model makes on both sides cancels, and staying saves nothing.
P50 is the figure at the medians of all inputs; P10 and P90 are quantiles of the draws.
figures.json beside this page has all its numbers, table.csv a row for each candidate."""


def decision_page(decision: Decision) -> str:
    """The page."""
    found = Figures(figures(decision))
    sources = Sources()
    limit = float(PAYBACK_LIMIT_MONTHS)
    panels = [
        workload_panel(one, found, at, limit, sources) for at, one in enumerate(decision.workloads)
    ]
    said = (
        f"{decision.inventory}; prices of {decision.as_of}; {decision.draws} draws, "
        f"seed {decision.seed}; trnsim {decision.version}"
    )
    body = [
        f'<header><h1>{_TITLE}</h1><span class="soft">{escape(said)}</span></header>\n',
        panel("Decisions", _summary(decision, found)),
        *panels,
        panel("Sources of prices", sources.listed()),
        panel("Assumed", _assumed(decision)),
        panel("How to read it", _caveats(decision)),
    ]
    return page(_TITLE, "".join(body), _STYLE)


def _summary(decision: Decision, found: Figures) -> str:
    if not decision.workloads:
        return "<p>The inventory has no workloads.</p>"
    names = (
        "workload",
        "verdict",
        "USD a month today",
        "best",
        "USD a month there",
        "months",
        "why",
    )
    head = "".join(f"<th>{name}</th>" for name in names)
    lines = "".join(_line(one, found, at) for at, one in enumerate(decision.workloads))
    today, after, once = (
        found.usd("totals", name)
        for name in ("today_usd_per_month", "after_usd_per_month", "migration_usd")
    )
    total = (
        f'<tr class="total"><td>all</td><td></td><td>{today}</td>'
        f"<td>once all that is go has moved</td><td>{after}</td><td></td>"
        f'<td class="reason">{once} USD once, to move it</td></tr>'
    )
    return f'<div class="wide"><table class="summary"><tr>{head}</tr>{lines}{total}</table></div>'


def _line(one: WorkloadDecision, found: Figures, at: int) -> str:
    best = chosen(one)
    usd, months = "-", "-"
    if best is not None:
        place = ("workloads", at, "candidates", one.candidates.index(best))
        usd = found.usd_range(*place, "usd_per_month")
        if best.pays_back_months is not None and best.pays_back_months.p50 is not None:
            months = amount(best.pays_back_months.p50)
    return (
        f'<tr><td><a href="#workload-{at}">{escape(one.name)}</a></td><td>{verdict_mark(one)}</td>'
        f"<td>{found.usd('workloads', at, 'today', 'usd_per_month')}</td>"
        f"<td>{escape(one.best or '-')}</td><td>{usd}</td><td>{months}</td>"
        f'<td class="reason">{escape(one.reason)}</td></tr>'
    )


def _assumed(decision: Decision) -> str:
    lines = "".join(
        f"<tr><td>{escape(one.name)}</td>"
        f"<td>{'-' if one.value is None else amount(one.value)} {escape(one.unit)}</td>"
        f"<td>{escape(one.source)}</td></tr>"
        for one in decision.assumptions
    )
    head = "".join(f"<th>{name}</th>" for name in ("what", "value", "source"))
    return f'<div class="wide"><table class="assumed"><tr>{head}</tr>{lines}</table></div>'


def _caveats(decision: Decision) -> str:
    said = [*_READING.splitlines(), *decision.caveats]
    return f"<ul>{''.join(f'<li>{escape(one)}</li>' for one in said)}</ul>"
