"""The panel of one workload: verdict, rules, candidates, charts, findings, assumptions."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from trnsim.decide.page.workload_charts import workload_charts
from trnsim.document.builder import panel
from trnsim.document.figure import percent, usd_per_hour
from trnsim.formatting import amount

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnsim.decide.decision import Candidate, Finding, Rule, WorkloadDecision
    from trnsim.document.figure import Figures
    from trnsim.facts import Interval

_MARKS: Final = {True: "yes", False: "no", None: "?"}
_HEADER: Final = (
    ("instance", "its number; how it is laid out"),
    ("hours a month", "instance-hours: P50 (P10 to P90)"),
    ("USD/h", "price of the kind of today's, and its source"),
    ("USD a month", "today's bill x predicted cost there / predicted cost here"),
    ("saving", "part of today's bill"),
    ("pays back up to", "USD/h at which the move is paid back at the limit"),
    ("months", "until the move is paid back"),
    ("in time", "share of draws that pay back within the limit"),
    ("promise", "whether latency or deadline is kept"),
    ("times off by", "error of the family of plans: median, P90"),
)


class Sources:
    """Sources of prices, numbered in the order in which a page names them."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def number(self, source: str) -> int:
        """The number of a source."""
        return self.known.setdefault(source, len(self.known) + 1)

    def listed(self) -> str:
        """All of them as markup."""
        lines = "".join(f"<li>{escape(source)}</li>" for source in self.known)
        return f'<ol class="sources">{lines}</ol>' if lines else "<p>No price was found.</p>"


def workload_panel(
    one: WorkloadDecision, found: Figures, at: int, limit: float, sources: Sources
) -> str:
    """The panel of the workload number `at`."""
    parts = [
        _verdict(one),
        _today(one, found, at, sources),
        workload_charts(one, found, at, limit),
        "<h3>Rules</h3>",
        _rules(one.rules),
        "<h3>Candidates</h3>",
        _candidates(one, found, at, sources),
        _findings(one.findings),
        _list("Assumed of this workload", one.assumptions),
    ]
    return f'<div id="workload-{at}">{panel(one.name, "".join(parts))}</div>'


def verdict_mark(one: WorkloadDecision) -> str:
    """The verdict as a mark."""
    words = one.verdict.value + (", close call" if one.is_close_call else "")
    return f'<span class="verdict {one.verdict.value}">{escape(words)}</span>'


def _verdict(one: WorkloadDecision) -> str:
    return f"<p>{verdict_mark(one)} {escape(one.reason)}</p>"


def _today(one: WorkloadDecision, found: Figures, at: int, sources: Sources) -> str:
    today = one.today
    place = ("workloads", at, "today")
    count = "" if today.count is None else f"{today.count} x "
    volume = f"{amount(one.volume)} {one.volume_unit.replace('_', ' ')}"
    said = f"{one.kind} {one.model}, {volume}; today {count}{today.instance}, {today.kind}, "
    parts = [escape(said), found.usd(*place, "usd_per_month"), " USD a month"]
    if today.price is not None:
        parts += [" at ", found.usd(*place, "price", "usd_per_hour", form=usd_per_hour)]
        parts += [f" USD/h [{sources.number(today.price.source)}]"]
    if today.paid_hours is not None:
        parts += [f", predicted {amount(today.paid_hours)} instance-hours a month"]
    if today.refused is not None:
        parts += [escape(f"; not predicted: {today.refused}")]
    move = one.migration
    cost = (
        f". A move to AWS's chips: {amount(move.weeks)} weeks x "
        f"{found.usd('workloads', at, 'migration', 'usd_per_week')} USD = "
        f"{found.usd('workloads', at, 'migration', 'usd')} USD."
    )
    return f'<p class="soft">{"".join(parts)}{cost}</p>'


def _rules(rules: Sequence[Rule]) -> str:
    lines = "".join(
        f'<tr><td class="mark">{_MARKS[rule.applies]}</td><td>{escape(rule.name)}</td>'
        f"<td>{escape(rule.evidence)}</td><td>{escape(rule.effect)}</td>"
        f'<td class="soft">{escape(rule.group)}</td></tr>'
        for rule in rules
    )
    head = "".join(f"<th>{name}</th>" for name in ("", "rule", "evidence", "effect", "group"))
    return f'<div class="wide"><table class="rules"><tr>{head}</tr>{lines}</table></div>'


def _candidates(one: WorkloadDecision, found: Figures, at: int, sources: Sources) -> str:
    head = "".join(f'<th title="{escape(why)}">{name}</th>' for name, why in _HEADER)
    shown = [
        _candidate(one, each, found, ("workloads", at, "candidates", n), sources)
        for n, each in enumerate(one.candidates)
        if each.refused is None
    ]
    refused = [each for each in one.candidates if each.refused is not None]
    table = (
        f'<div class="wide"><table class="candidates"><tr>{head}</tr>{"".join(shown)}</table></div>'
    )
    return (table if shown else "<p>No instance can run it.</p>") + _refused(refused)


def _candidate(
    one: WorkloadDecision,
    each: Candidate,
    found: Figures,
    place: tuple[str | int, ...],
    sources: Sources,
) -> str:
    months = each.pays_back_months
    late = months is None or months.p50 is None
    share = "-" if each.share_paying_back is None else percent(each.share_paying_back)
    name = f"<b>{escape(each.instance)}</b>"
    if each.instance == one.today.instance:
        name += " (today)"
    details = "; ".join(filter(None, (each.layout, *each.notes)))
    cells = (
        f'{name} x {each.instances}<div class="soft">{escape(details)}</div>',
        _hours(each.hours),
        _price(each, found, place, sources),
        found.usd_range(*place, "usd_per_month"),
        _saving(each.saving),
        found.usd(*place, "break_even_usd_per_hour", form=usd_per_hour),
        "-" if late or months is None or months.p50 is None else amount(months.p50),
        share,
        each.slo or "-",
        _error(each),
    )
    kind = ' class="best"' if each.instance == one.best else ""
    return f"<tr{kind}>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _hours(hours: Interval | None) -> str:
    if hours is None:
        return "-"
    p10, p50, p90 = (amount(one) for one in (hours.p10, hours.p50, hours.p90))
    return f'{p50} <span class="soft">({p10} to {p90})</span>'


def _price(each: Candidate, found: Figures, place: tuple[str | int, ...], sources: Sources) -> str:
    price = each.price
    if price is None:
        return f'<span class="soft">{escape(each.no_price or "no price")}</span>'
    stale = ", more than 90 days old" if price.is_stale else ""
    said = f"{price.kind}, {price.region}, {price.day}{stale} [{sources.number(price.source)}]"
    usd = found.usd(*place, "price", "usd_per_hour", form=usd_per_hour)
    return f'{usd}<div class="soft">{escape(said)}</div>'


def _saving(saving: Interval | None) -> str:
    if saving is None:
        return "-"
    p10, p50, p90 = (percent(one) for one in (saving.p10, saving.p50, saving.p90))
    return f'{p50} <span class="soft">({p10} to {p90})</span>'


def _error(each: Candidate) -> str:
    if not each.error:
        return "-"
    known = "" if each.is_validated else "; this chip has no published times"
    median, p90 = percent(each.error["median"]), percent(each.error["p90"])
    return f'{median}, {p90}<div class="soft">{escape(each.family + known)}</div>'


def _refused(refused: Sequence[Candidate]) -> str:
    if not refused:
        return ""
    lines = "".join(
        f"<tr><td>{escape(each.instance)}</td><td>{escape(each.refused or '')}</td></tr>"
        for each in refused
    )
    return (
        f"<details><summary>{len(refused)} instances cannot run it</summary>"
        f'<table class="refused">{lines}</table></details>'
    )


def _findings(findings: Sequence[Finding]) -> str:
    if not findings:
        return ""
    lines = "".join(
        f"<tr><td><code>{escape(one.path)}:{one.line}</code></td><td>{escape(one.kind)}</td>"
        f"<td><code>{escape(one.name)}</code></td><td>{escape(one.text)}</td></tr>"
        for one in findings
    )
    head = "".join(f"<th>{name}</th>" for name in ("where", "kind", "name", "what"))
    return (
        f"<h3>Found in its programs</h3>"
        f'<div class="wide"><table class="findings"><tr>{head}</tr>{lines}</table></div>'
    )


def _list(heading: str, lines: Sequence[str]) -> str:
    if not lines:
        return ""
    return f"<h3>{heading}</h3><ul>{''.join(f'<li>{escape(one)}</li>' for one in lines)}</ul>"
