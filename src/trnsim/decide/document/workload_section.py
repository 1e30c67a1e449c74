"""Section of a workload: verdict, bill, charts, candidates, rules, findings, assumptions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trnsim.decide.decision import Candidate, WorkloadDecision
from trnsim.decide.document.workload_charts import workload_charts
from trnsim.document.answer import (
    Block,
    Cell,
    Column,
    FoldedBlocks,
    Items,
    Mark,
    Note,
    Section,
    Table,
    Words,
    columns,
)
from trnsim.document.figure import Figures, percent, usd_per_hour
from trnsim.facts import Interval
from trnsim.formatting import amount, clipped, counted

MOST_TEXT_CANDIDATES: Final = 8
"""Candidates of a workload that the text shows at most; page and JSON have all."""
_NAME_CHARS: Final = 20
_MARK_BY_RULING: Final = {True: "yes", False: "no", None: "?"}
_HEADING_BY_GROUP: Final = {
    "ideal": "ideal for Trainium",
    "considerations": "to consider before a move",
    "not-recommended": "not recommended for",
    "inferentia": "ideal for Inferentia",
}
_CANDIDATE_COLUMNS: Final = (
    Column("instance", place="text"),
    Column("", place="text"),
    Column("instance", help="how many; how they are laid out", place="page"),
    Column("hours a month", help="instance-hours: P50 (P10 to P90)", place="page"),
    Column("USD/h", help="price, of today's kind of purchase, and its source", place="page"),
    Column("USD a month", place="text"),
    Column(
        "USD a month",
        help="today's bill x predicted cost of the candidate / predicted cost of today's instance",
        place="page",
    ),
    Column("saving (P10 to P90)", help="part of today's bill"),
    Column("pays back", help="share of draws that pay back within the limit", place="text"),
    Column("USD/h", place="text"),
    Column("even at USD/h", help="USD/h at which the move is paid back at the limit"),
    Column("months", help="until the move is paid back", place="page"),
    Column("pays back", help="share of draws that pay back within the limit", place="page"),
    Column("promise", help="whether latency or deadline is kept", place="page"),
    Column("times off by", help="error of the family of plans: median, P90", place="page"),
)


class PriceSources:
    """Sources of prices, numbered in the order in which a document names them."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, source: str) -> int:
        """The number of a source."""
        return self.numbers.setdefault(source, len(self.numbers) + 1)


def workload_section(
    workload: WorkloadDecision,
    figures: Figures,
    index: int,
    limit_months: float,
    sources: PriceSources,
) -> Section:
    """Section of a workload.

    Args:
        workload: decision about the workload.
        figures: figures of the decision, to which the section refers by their paths.
        index: position of the workload in the decision, from 0.
        limit_months: months within which a move must pay back.
        sources: sources of prices, to which the section adds its own.
    """
    close = " (close call)" if workload.is_close_call else ""
    blocks: list[Block] = [
        Note(
            f"{workload.name}: {workload.verdict.value.upper()}{close}. {workload.reason}",
            place="text",
        ),
        Note((verdict_mark(workload), f" {workload.reason}"), place="page"),
        _today(workload, figures, index),
        Note(_cost_of_move(workload, figures, index, sources), kind="soft", place="page"),
        *_bill_notes(workload, figures, index),
        *workload_charts(workload, figures, index, limit_months),
        *_candidates(workload, figures, index, sources),
        *_rules(workload),
        *_findings(workload),
    ]
    return Section(workload.name, blocks, f"workload-{index}", heading_place="page")


def verdict_mark(workload: WorkloadDecision) -> Mark:
    """Mark with the verdict."""
    close = ", close call" if workload.is_close_call else ""
    return Mark(workload.verdict.value + close, f"verdict {workload.verdict.value}")


def _today(workload: WorkloadDecision, figures: Figures, index: int) -> Note:
    today = workload.today
    count = "" if today.count is None else f"{today.count} x "
    unit = workload.volume_unit.replace("_per_month", "").replace("_", " ")
    text = (
        f"{workload.kind} {workload.model}, {amount(workload.volume)} {unit} a month, today {count}"
        f"{today.instance} {today.kind}, "
    )
    usd = figures.usd("workloads", index, "today", "usd_per_month")
    return Note((text, usd, " USD a month"), indent=2)


def _cost_of_move(
    workload: WorkloadDecision, figures: Figures, index: int, sources: PriceSources
) -> Words:
    """Words on the source of today's price, a missing prediction, and the cost of a move."""
    today, move = workload.today, workload.migration
    parts: list[Words] = []
    if today.price is not None:
        usd = figures.usd("workloads", index, "today", "price", "usd_per_hour", form=usd_per_hour)
        parts.append(("Today's price: ", usd, f" USD/h [{sources.number(today.price.source)}]. "))
    if today.refused is not None:
        parts.append(f"Today is not predicted: {today.refused}. ")
    week = figures.usd("workloads", index, "migration", "usd_per_week")
    cost = figures.usd("workloads", index, "migration", "usd")
    current_candidate = workload.candidate(today.instance)
    chips = (
        "other AWS chips"
        if current_candidate is not None and current_candidate.is_neuron
        else "AWS's chips"
    )
    parts.append((f"A move to {chips}: {amount(move.weeks)} weeks x ", week, " USD = "))
    return (*parts, cost, " USD.")


def _bill_notes(workload: WorkloadDecision, figures: Figures, index: int) -> list[Note]:
    """Notes on the predicted cost of today's instance beside the bill, and on assumptions."""
    today, notes = workload.today, list[Note]()
    if today.paid_hours is not None and today.price is not None:
        usd = today.paid_hours * today.price.usd_per_hour
        path = ("workloads", index, "today", "price", "usd_per_hour")
        price = figures.usd(*path, form=usd_per_hour)
        text = (
            f"predicted here: {amount(today.paid_hours)} instance-hours x ",
            price,
            (
                f" USD ({today.price.kind}) = {amount(usd)} USD; the bill is "
                f"{today.usd_per_month / usd:.3g} times that, and all sums below are scaled by it"
            ),
        )
        notes.append(Note(text, indent=2))
    return [*notes, *(Note(f"assumed: {text}", indent=2) for text in workload.assumptions)]


def _candidates(
    workload: WorkloadDecision, figures: Figures, index: int, sources: PriceSources
) -> Sequence[Block]:
    """Table of candidates, today's instance and the verdict's first, and table of refusals."""
    positions = {id(option): number for number, option in enumerate(workload.candidates)}
    runnable = [option for option in workload.candidates if option.refused is None]
    first_options = [
        option for option in runnable if option.instance in {workload.today.instance, workload.best}
    ]
    ordered_options = [
        *first_options,
        *(option for option in runnable if option not in first_options),
    ]
    rows = [
        _candidate(
            workload,
            option,
            figures,
            ("workloads", index, "candidates", positions[id(option)]),
            sources,
        )
        for option in ordered_options
    ]
    best = {
        row: "best"
        for row, option in enumerate(ordered_options)
        if option.instance == workload.best
    }
    refused_options = [option for option in workload.candidates if option.refused is not None]
    hidden_count = len(workload.candidates) - min(len(ordered_options), MOST_TEXT_CANDIDATES)
    hidden_note = f"{hidden_count} more, refused or dearer: --json lists them"
    refusals = Table(
        columns(" | ", numbers_from=2),
        [(option.instance, option.refused or "") for option in refused_options],
    )
    return (
        Table(_CANDIDATE_COLUMNS, rows, indent=2, marked=best, row_limit=MOST_TEXT_CANDIDATES)
        if ordered_options
        else Note("No instance can run it.", indent=2),
        *([Note(hidden_note, indent=2, place="text")] if hidden_count else []),
        *(
            [
                FoldedBlocks(
                    f"{counted(len(refused_options), 'instance')} cannot run it", [refusals], "page"
                )
            ]
            if refused_options
            else []
        ),
        *(
            Note(note, indent=2, place="text")
            for note in _notes(workload, ordered_options[:MOST_TEXT_CANDIDATES])
        ),
    )


def _candidate(
    workload: WorkloadDecision,
    option: Candidate,
    figures: Figures,
    path: tuple[str | int, ...],
    sources: PriceSources,
) -> Sequence[Cell]:
    """Row of a candidate, whose figures lie at `path` in the JSON."""
    months, price = option.pays_back_months, option.price
    share = "-" if option.share_paying_back is None else f"{option.share_paying_back:.0%}"
    today = " (today)" if option.instance == workload.today.instance else ""
    details = Mark("; ".join(filter(None, (option.layout, *option.notes))), is_below=True)
    break_even = figures.usd(*path, "break_even_usd_per_hour", form=usd_per_hour)
    usd = figures.at(*path, "usd_per_month")
    return (
        clipped(_short_name(option.instance), _NAME_CHARS),
        f"x {option.instances}",
        (Mark(option.instance, "strong"), f"{today} x {option.instances}", details),
        _hours(option.hours),
        _price(option, figures, path, sources),
        "-" if usd is None else figures.usd(*path, "usd_per_month", "p50"),
        figures.usd_range(*path, "usd_per_month"),
        _saving(option.saving),
        "slo missed" if option.slo == "missed" else share,
        "no price" if price is None else usd_per_hour(price.usd_per_hour),
        break_even,
        "-" if months is None or months.p50 is None else amount(months.p50),
        share,
        option.slo or "-",
        _error(option),
    )


def _short_name(name: str) -> str:
    """Short name of a type: the text in parentheses of ``Trn2 UltraServer (u-trn2x64)``."""
    return name.partition("(")[2].removesuffix(")") or name


def _hours(hours: Interval | None) -> Cell:
    if hours is None:
        return "-"
    p10, p50, p90 = map(amount, (hours.p10, hours.p50, hours.p90))
    return (p50, Mark(f" ({p10} to {p90})"))


def _price(
    option: Candidate, figures: Figures, path: tuple[str | int, ...], sources: PriceSources
) -> Cell:
    price = option.price
    if price is None:
        return Mark(option.no_price or "no price")
    stale = ", more than 90 days old" if price.is_stale else ""
    text = f"{price.kind}, {price.region}, {price.day}{stale} [{sources.number(price.source)}]"
    usd = figures.usd(*path, "price", "usd_per_hour", form=usd_per_hour)
    return (usd, Mark(text, is_below=True))


def _saving(saving: Interval | None) -> str:
    if saving is None:
        return "-"
    return f"{saving.p50:+.0%} ({saving.p10:+.0%} to {saving.p90:+.0%})"


def _error(option: Candidate) -> Cell:
    if not option.error:
        return "-"
    remark = "" if option.is_validated else "; not validated here"
    median, p90 = percent(option.error["median"]), percent(option.error["p90"])
    return (f"{median}, {p90}", Mark(option.family + remark, is_below=True))


def _notes(workload: WorkloadDecision, shown_candidates: Sequence[Candidate]) -> list[str]:
    """Lines of remarks on prices and times, each after the names of its instances."""
    names_by_note: dict[str, list[str]] = {}
    today = workload.today
    todays_kind = today.kind if today.price is None else today.price.kind
    for option in shown_candidates:
        notes = option.notes
        if option.price is not None and option.kind != todays_kind:
            notes = (*notes, f"{option.kind}, against {todays_kind} today")
        for note in notes:
            names_by_note.setdefault(note, []).append(option.instance)
    return [f"{', '.join(names)}: {note}" for note, names in names_by_note.items()]


def _rules(workload: WorkloadDecision) -> Sequence[Block]:
    """Rules by group, each group below its heading."""
    blocks: list[Block] = []
    for group in dict.fromkeys(rule.group for rule in workload.rules):
        rows = [
            (_MARK_BY_RULING[rule.applies], f"{rule.name}: {rule.evidence}", rule.effect)
            for rule in workload.rules
            if rule.group == group
        ]
        headings = (Column(""), Column(""), Column("", place="page"))
        blocks += [
            Note(_HEADING_BY_GROUP.get(group, group), indent=2, kind="strong"),
            Table(headings, rows, indent=4, kind="small"),
        ]
    return blocks


def _findings(workload: WorkloadDecision) -> Sequence[Block]:
    """Findings of a scan of the programs."""
    if not workload.findings:
        return ()
    rows = [
        (Mark(f"{item.path}:{item.line}", "mono"), item.kind, Mark(item.name, "mono"), item.text)
        for item in workload.findings
    ]
    return (
        Note("Found in its programs", kind="strong", place="page"),
        Table(columns("where | kind | name | what", numbers_from=4), rows, place="page"),
    )


def sources_items(sources: PriceSources) -> Block:
    """Numbered list of all sources."""
    if not sources.numbers:
        return Note("No price was found.")
    return Items(list(sources.numbers), is_numbered=True, kind="small")
