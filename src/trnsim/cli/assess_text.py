"""A decision in 100 columns."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from trnsim.formatting import amount, clipped, text_table

if TYPE_CHECKING:
    from trnsim.decide.decision import Candidate, Decision, WorkloadDecision
    from trnsim.facts import Interval

WIDTH: Final = 100
SHOWN: Final = 8
"""Candidates of a workload that are shown; the JSON has all."""
_NAME: Final = 20
_HEADS: Final = {
    "ideal": "ideal for Trainium",
    "considerations": "to consider before a move",
    "not-recommended": "not recommended for",
    "inferentia": "ideal for Inferentia",
}
_MARKS: Final = {True: "yes", False: "no", None: "?"}


def text(found: Decision) -> str:
    """All workloads, then what was assumed."""
    parts = [_workload(one) for one in found.workloads]
    said = [f"  {one.name}: {amount(one.value or 0.0)} {one.unit}" for one in found.assumptions]
    last = [f"prices of {found.as_of}, seed {found.seed}, {found.draws} draws", *found.caveats]
    return "\n\n".join([*parts, "\n".join(["assumed:", *said, *last])])


def _workload(one: WorkloadDecision) -> str:
    today = one.today
    verdict = one.verdict.value.upper() + (" (close call)" if one.is_close_call else "")
    count = "" if today.count is None else f"{today.count} x "
    unit = one.volume_unit.replace("_per_month", "").replace("_", " ")
    lines = [
        *_wrapped(f"{one.name}: {verdict}. {one.reason}", ""),
        *_wrapped(
            f"{one.kind} {one.model}, {amount(one.volume)} {unit} a month, today {count}"
            f"{today.instance} {today.kind}, {amount(today.usd_per_month)} USD a month",
            "  ",
        ),
    ]
    lines += _basis(one)
    shown = _shown(one)
    header = ("  instance", "", "USD a month", "saving (P10 to P90)", "in time", "USD/h", "even at")
    lines.append(text_table(header, [_row(each) for each in shown]))
    left = len(one.candidates) - len(shown)
    if left:
        lines.append(f"  {left} more, refused or dearer: --json")
    lines += _notes(one, shown) + _rules(one)
    return "\n".join(lines)


def _basis(one: WorkloadDecision) -> list[str]:
    """What today's bill is compared with, and what was taken for granted."""
    today, lines = one.today, list[str]()
    if today.paid_hours is not None and today.price is not None:
        usd = today.paid_hours * today.price.usd_per_hour
        lines += _wrapped(
            f"predicted here: {amount(today.paid_hours)} instance-hours x "
            f"{today.price.usd_per_hour:.2f} USD ({today.price.kind}) = {amount(usd)} USD; the "
            f"bill is {today.usd_per_month / usd:.3g} times that, and all sums below are scaled "
            "by it",
            "  ",
        )
    for said in one.assumptions:
        lines += _wrapped(f"assumed: {said}", "  ")
    return lines


def _shown(one: WorkloadDecision) -> list[Candidate]:
    """Today's instance, the one that the verdict is about, then those that save most."""
    places = [each for each in one.candidates if each.refused is None]
    first = [each for each in places if each.instance in {one.today.instance, one.best}]
    others = [each for each in places if each not in first]
    return (first + others)[:SHOWN]


def _notes(one: WorkloadDecision, shown: list[Candidate]) -> list[str]:
    """What must be known of prices and times that are shown, by instance."""
    noted: dict[str, list[str]] = {}
    today = one.today
    bought = today.kind if today.price is None else today.price.kind
    for each in shown:
        said = each.notes
        if each.price is not None and each.kind != bought:
            said = (*said, f"{each.kind}, against {bought} today")
        for note in said:
            noted.setdefault(note, []).append(each.instance)
    return [
        line
        for note, names in noted.items()
        for line in _wrapped(f"{', '.join(names)}: {note}", "  ")
    ]


def _rules(one: WorkloadDecision) -> list[str]:
    """The rules of each group below its head."""
    lines: list[str] = []
    group = ""
    for rule in one.rules:
        if rule.group != group:
            group = rule.group
            lines.append(f"  {_HEADS.get(group, group)}")
        lines += _wrapped(f"{_MARKS[rule.applies]:4}{rule.name}: {rule.evidence}", "    ")
    return lines


def _wrapped(said: str, indent: str) -> list[str]:
    return textwrap.wrap(
        said, WIDTH, initial_indent=indent, subsequent_indent=f"{indent}    ", break_long_words=True
    )


def _row(one: Candidate) -> tuple[str, ...]:
    usd = "-" if one.usd_per_month is None else amount(one.usd_per_month.p50)
    share = "-" if one.share_paying_back is None else f"{one.share_paying_back:.0%}"
    even = one.break_even_usd_per_hour
    price = "no price" if one.price is None else f"{one.price.usd_per_hour:.2f}"
    if one.slo == "missed":
        share = "slo missed"
    return (
        f"  {clipped(_short(one.instance), _NAME)}",
        f"x {one.instances}",
        usd,
        _saving(one.saving),
        share,
        price,
        "-" if even is None else f"{even:.2f}",
    )


def _short(name: str) -> str:
    """The name of a type: that in parentheses, of ``Trn2 UltraServer (u-trn2x64)``."""
    return name.partition("(")[2].removesuffix(")") or name


def _saving(saving: Interval | None) -> str:
    if saving is None:
        return "-"
    return f"{saving.p50:+.0%} ({saving.p10:+.0%} to {saving.p90:+.0%})"
