"""The section of one workload: verdict, bill, charts, candidates, rules, findings, assumptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trnsim.decide.document.workload_charts import workload_charts
from trnsim.document.answer import (
    Block,
    Cell,
    Column,
    Folded,
    Items,
    Mark,
    Note,
    Section,
    Table,
    Words,
    columns,
)
from trnsim.document.figure import percent, usd_per_hour
from trnsim.formatting import amount, clipped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnsim.decide.decision import Candidate, WorkloadDecision
    from trnsim.document.figure import Figures
    from trnsim.facts import Interval

SHOWN: Final = 8
"""Candidates of a workload that the text shows; page and JSON have all."""
_NAME: Final = 20
_MARKS: Final = {True: "yes", False: "no", None: "?"}
_HEADS: Final = {
    "ideal": "ideal for Trainium",
    "considerations": "to consider before a move",
    "not-recommended": "not recommended for",
    "inferentia": "ideal for Inferentia",
}
_CANDIDATES: Final = (
    Column("instance", place="text"),
    Column("", place="text"),
    Column("instance", help="its number; how it is laid out", place="page"),
    Column("hours a month", help="instance-hours: P50 (P10 to P90)", place="page"),
    Column("USD/h", help="price of the kind of today's, and its source", place="page"),
    Column("USD a month", place="text"),
    Column(
        "USD a month",
        help="today's bill x predicted cost there / predicted cost here",
        place="page",
    ),
    Column("saving (P10 to P90)", help="part of today's bill"),
    Column("in time", help="share of draws that pay back within the limit", place="text"),
    Column("USD/h", place="text"),
    Column("even at", help="USD/h at which the move is paid back at the limit"),
    Column("months", help="until the move is paid back", place="page"),
    Column("in time", help="share of draws that pay back within the limit", place="page"),
    Column("promise", help="whether latency or deadline is kept", place="page"),
    Column("times off by", help="error of the family of plans: median, P90", place="page"),
)


class Sources:
    """Sources of prices, numbered in the order in which a document names them."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def number(self, source: str) -> int:
        """The number of a source."""
        return self.known.setdefault(source, len(self.known) + 1)


def workload_section(
    one: WorkloadDecision, found: Figures, at: int, limit: float, sources: Sources
) -> Section:
    """The section of the workload number `at`, whose moves are to pay back in `limit` months."""
    close = " (close call)" if one.is_close_call else ""
    blocks: list[Block] = [
        Note(f"{one.name}: {one.verdict.value.upper()}{close}. {one.reason}", place="text"),
        Note((verdict_mark(one), f" {one.reason}"), place="page"),
        _today(one, found, at),
        Note(_move(one, found, at, sources), kind="soft", place="page"),
        *_basis(one, found, at),
        *workload_charts(one, found, at, limit),
        *_candidates(one, found, at, sources),
        *_rules(one),
        *_findings(one),
    ]
    return Section(one.name, blocks, f"workload-{at}", heading_place="page")


def verdict_mark(one: WorkloadDecision) -> Mark:
    """The verdict as a mark."""
    close = ", close call" if one.is_close_call else ""
    return Mark(one.verdict.value + close, f"verdict {one.verdict.value}")


def _today(one: WorkloadDecision, found: Figures, at: int) -> Note:
    today = one.today
    count = "" if today.count is None else f"{today.count} x "
    unit = one.volume_unit.replace("_per_month", "").replace("_", " ")
    said = (
        f"{one.kind} {one.model}, {amount(one.volume)} {unit} a month, today {count}"
        f"{today.instance} {today.kind}, "
    )
    usd = found.usd("workloads", at, "today", "usd_per_month")
    return Note((said, usd, " USD a month"), indent=2)


def _move(one: WorkloadDecision, found: Figures, at: int, sources: Sources) -> Words:
    """Where today's price is from, why today is not predicted, what a move costs."""
    today, move = one.today, one.migration
    parts: list[Words] = []
    if today.price is not None:
        usd = found.usd("workloads", at, "today", "price", "usd_per_hour", form=usd_per_hour)
        parts.append(("Today's price: ", usd, f" USD/h [{sources.number(today.price.source)}]. "))
    if today.refused is not None:
        parts.append(f"Today is not predicted: {today.refused}. ")
    week = found.usd("workloads", at, "migration", "usd_per_week")
    cost = found.usd("workloads", at, "migration", "usd")
    parts.append((f"A move to AWS's chips: {amount(move.weeks)} weeks x ", week, " USD = "))
    return (*parts, cost, " USD.")


def _basis(one: WorkloadDecision, found: Figures, at: int) -> list[Note]:
    """The prediction that today's bill is compared with, and the assumptions."""
    today, notes = one.today, list[Note]()
    if today.paid_hours is not None and today.price is not None:
        usd = today.paid_hours * today.price.usd_per_hour
        place = ("workloads", at, "today", "price", "usd_per_hour")
        price = found.usd(*place, form=usd_per_hour)
        said = (
            f"predicted here: {amount(today.paid_hours)} instance-hours x ",
            price,
            (
                f" USD ({today.price.kind}) = {amount(usd)} USD; the bill is "
                f"{today.usd_per_month / usd:.3g} times that, and all sums below are scaled by it"
            ),
        )
        notes.append(Note(said, indent=2))
    return [*notes, *(Note(f"assumed: {said}", indent=2) for said in one.assumptions)]


def _candidates(
    one: WorkloadDecision, found: Figures, at: int, sources: Sources
) -> Sequence[Block]:
    """Today's instance, the one that the verdict is about, then the others; who cannot run it."""
    places = {id(each): number for number, each in enumerate(one.candidates)}
    able = [each for each in one.candidates if each.refused is None]
    first = [each for each in able if each.instance in {one.today.instance, one.best}]
    shown = [*first, *(each for each in able if each not in first)]
    rows = [
        _candidate(one, each, found, ("workloads", at, "candidates", places[id(each)]), sources)
        for each in shown
    ]
    best = {n: "best" for n, each in enumerate(shown) if each.instance == one.best}
    refused = [each for each in one.candidates if each.refused is not None]
    left = len(one.candidates) - min(len(shown), SHOWN)
    more = f"{left} more, refused or dearer: --json"
    cannot = Table(columns(" | ", numbers_from=2), [(e.instance, e.refused or "") for e in refused])
    return (
        Table(_CANDIDATES, rows, indent=2, marked=best, most=SHOWN)
        if shown
        else Note("No instance can run it.", indent=2),
        *([Note(more, indent=2, place="text")] if left else []),
        *([Folded(f"{len(refused)} instances cannot run it", [cannot], "page")] if refused else []),
        *(Note(said, indent=2, place="text") for said in _notes(one, shown[:SHOWN])),
    )


def _candidate(
    one: WorkloadDecision,
    each: Candidate,
    found: Figures,
    place: tuple[str | int, ...],
    sources: Sources,
) -> Sequence[Cell]:
    months, price = each.pays_back_months, each.price
    share = "-" if each.share_paying_back is None else f"{each.share_paying_back:.0%}"
    today = " (today)" if each.instance == one.today.instance else ""
    details = Mark("; ".join(filter(None, (each.layout, *each.notes))), is_below=True)
    even = found.usd(*place, "break_even_usd_per_hour", form=usd_per_hour)
    usd = found.at(*place, "usd_per_month")
    return (
        clipped(_short(each.instance), _NAME),
        f"x {each.instances}",
        (Mark(each.instance, "strong"), f"{today} x {each.instances}", details),
        _hours(each.hours),
        _price(each, found, place, sources),
        "-" if usd is None else found.usd(*place, "usd_per_month", "p50"),
        found.usd_range(*place, "usd_per_month"),
        _saving(each.saving),
        "slo missed" if each.slo == "missed" else share,
        "no price" if price is None else usd_per_hour(price.usd_per_hour),
        even,
        "-" if months is None or months.p50 is None else amount(months.p50),
        share,
        each.slo or "-",
        _error(each),
    )


def _short(name: str) -> str:
    """The name of a type: that in parentheses, of ``Trn2 UltraServer (u-trn2x64)``."""
    return name.partition("(")[2].removesuffix(")") or name


def _hours(hours: Interval | None) -> Cell:
    if hours is None:
        return "-"
    p10, p50, p90 = map(amount, (hours.p10, hours.p50, hours.p90))
    return (p50, Mark(f" ({p10} to {p90})"))


def _price(each: Candidate, found: Figures, place: tuple[str | int, ...], sources: Sources) -> Cell:
    price = each.price
    if price is None:
        return Mark(each.no_price or "no price")
    stale = ", more than 90 days old" if price.is_stale else ""
    said = f"{price.kind}, {price.region}, {price.day}{stale} [{sources.number(price.source)}]"
    usd = found.usd(*place, "price", "usd_per_hour", form=usd_per_hour)
    return (usd, Mark(said, is_below=True))


def _saving(saving: Interval | None) -> str:
    if saving is None:
        return "-"
    return f"{saving.p50:+.0%} ({saving.p10:+.0%} to {saving.p90:+.0%})"


def _error(each: Candidate) -> Cell:
    if not each.error:
        return "-"
    known = "" if each.is_validated else "; this chip has no published times"
    median, p90 = percent(each.error["median"]), percent(each.error["p90"])
    return (f"{median}, {p90}", Mark(each.family + known, is_below=True))


def _notes(one: WorkloadDecision, shown: Sequence[Candidate]) -> list[str]:
    """Remarks on prices and times that are shown, by instance."""
    noted: dict[str, list[str]] = {}
    today = one.today
    bought = today.kind if today.price is None else today.price.kind
    for each in shown:
        said = each.notes
        if each.price is not None and each.kind != bought:
            said = (*said, f"{each.kind}, against {bought} today")
        for note in said:
            noted.setdefault(note, []).append(each.instance)
    return [f"{', '.join(names)}: {note}" for note, names in noted.items()]


def _rules(one: WorkloadDecision) -> Sequence[Block]:
    """The rules of each group below its head."""
    blocks: list[Block] = []
    for group in dict.fromkeys(rule.group for rule in one.rules):
        rows = [
            (_MARKS[rule.applies], f"{rule.name}: {rule.evidence}", rule.effect)
            for rule in one.rules
            if rule.group == group
        ]
        known = (Column(""), Column(""), Column("", place="page"))
        blocks += [
            Note(_HEADS.get(group, group), indent=2, kind="strong"),
            Table(known, rows, indent=4, kind="small"),
        ]
    return blocks


def _findings(one: WorkloadDecision) -> Sequence[Block]:
    """Findings of a scan of the programs."""
    if not one.findings:
        return ()
    rows = [
        (Mark(f"{each.path}:{each.line}", "mono"), each.kind, Mark(each.name, "mono"), each.text)
        for each in one.findings
    ]
    return (
        Note("Found in its programs", kind="strong", place="page"),
        Table(columns("where | kind | name | what", numbers_from=4), rows, place="page"),
    )


def sources_items(sources: Sources) -> Block:
    """All sources, numbered."""
    if not sources.known:
        return Note("No price was found.")
    return Items(list(sources.known), is_numbered=True, kind="small")
