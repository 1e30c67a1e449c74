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
    shown = [each for each in one.candidates if each.refused is None][:SHOWN]
    header = ("  instance", "", "USD a month", "saving (P10 to P90)", "in time", "USD/h", "even at")
    lines.append(text_table(header, [_row(each) for each in shown]))
    left = len(one.candidates) - len(shown)
    if left:
        lines.append(f"  {left} more, refused or dearer: --json")
    for rule in one.rules:
        lines += _wrapped(f"{_MARKS[rule.applies]:4}{rule.name}: {rule.evidence}", "  ")
    return "\n".join(lines)


def _wrapped(said: str, indent: str) -> list[str]:
    return textwrap.wrap(
        said, WIDTH, initial_indent=indent, subsequent_indent=f"{indent}    ", break_long_words=True
    )


def _row(one: Candidate) -> tuple[str, ...]:
    usd = "-" if one.usd_per_month is None else amount(one.usd_per_month.p50)
    share = "-" if one.share_paying_back is None else f"{one.share_paying_back:.0%}"
    even = one.break_even_usd_per_hour
    price = "needs a quote" if one.price is None else f"{one.price.usd_per_hour:.2f}"
    if one.slo == "missed":
        share = "slo missed"
    return (
        f"  {clipped(one.instance, 28)}",
        f"x {one.instances}",
        usd,
        _saving(one.saving),
        share,
        price,
        "-" if even is None else f"{even:.2f}",
    )


def _saving(saving: Interval | None) -> str:
    if saving is None:
        return "-"
    return f"{saving.p50:+.0%} ({saving.p10:+.0%} to {saving.p90:+.0%})"
