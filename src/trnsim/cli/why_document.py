"""The answer of ``trnsim why``: times term by term, inputs, figures and cost that differ."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from trnsim.document.answer import Block, Column, Document, Items, Note, Section, Table, columns
from trnsim.document.values import json_line, picked
from trnsim.formatting import amount, clipped, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trnsim.decide.difference import AnswerChange
    from trnsim.decide.why import AnswerComparison, AnswerDifference, TimeDifference
    from trnsim.decide.why.explain import Term
    from trnsim.decide.why.times import Time

_WIDTH: Final = 36
_SHOWN: Final = 0.0005
"""The least relative change of a figure that has a line."""
_DIGITS: Final = 4
"""Of the largest time of a table, whose others have as many decimals."""
_MOST_DECIMALS: Final = 9
_MS: Final = 1e3
_TERMS: Final = (
    Column("term"),
    *(Column(name, is_number=True, is_right=True) for name in ("A ms", "B ms", "change")),
)
_FIGURES: Final = columns("figure | A | B | change | P10 to P90 of A")


def why_document(found: AnswerComparison, names: tuple[str, str]) -> Document:
    """The differences between the answers A and B, which `names` describe."""
    is_one = found.kinds[0] == found.kinds[1]
    sides: list[Block] = [Note(f"{side}  {name}") for side, name in zip("AB", names, strict=True)]
    blocks = [sides]
    for one in found.differences:
        blocks += _why(one, is_one_command=is_one)
    alone = (("A", found.only_old), ("B", found.only_new))
    for side, commands in alone:
        if commands:
            blocks.append([Note(f"only {side} answers for: {', '.join(commands)}")])
    values = {
        **picked(found, "kinds", whys=[_values(one) for one in found.differences]),
        **picked(found, "only_a=only_old only_b=only_new"),
    }
    return Document(
        "Why two answers differ", values, [Section("", each) for each in blocks], schema="why/1"
    )


def _values(found: AnswerDifference) -> dict[str, Any]:
    return picked(
        found,
        "name",
        times=[_time_values(one) for one in found.times],
        inputs=[_change_values(one) for one in found.inputs],
        figures=[picked(one, "within") | _change_values(one) for one in found.figures],
        cost=found.cost,
    )


def _change_values(one: AnswerChange) -> dict[str, Any]:
    return picked(one, "path a=old b=new ratio")


def _time_values(one: TimeDifference) -> dict[str, Any]:
    return {
        "a": _side_values(one.old),
        "b": _side_values(one.new),
        **picked(one, "ratio b_within_a=new_within a_within_b=old_within"),
        "terms": [picked(term, "name a_s=old_s b_s=new_s change_s") for term in one.terms],
        **picked(one, "only_a=only_old only_b=only_new"),
        "sources": [picked(each, "of=path a=old b=new") for each in one.sources],
        "conditions": dict(zip(("only_a", "only_b"), one.conditions, strict=True)),
    }


def _side_values(one: Time) -> dict[str, Any]:
    low, high = one.interval_s or (None, None)
    return {
        **picked(one, "name", p10_s=low),
        **picked(one, "p50_s", p90_s=high),
        **picked(one, "is_measured", **one.sizes),
    }


def _why(found: AnswerDifference, *, is_one_command: bool) -> list[list[Block]]:
    """One platform or workload: its times, then what explains them."""
    if found.is_equal and is_one_command:
        return [[Note(f"{found.name}: nothing changed")]]
    blocks = _times(found)
    rest = [*_sources(found.times), *_conditions(found.times)]
    if found.inputs:
        rest += _list("inputs:", map(_changed, found.inputs))
    elif is_one_command:
        rest.append(Note("inputs: none differs, so trnsim itself does: compare the versions"))
    if not found.times:
        rest.insert(0, Note(f"{found.name}:"))
    if found.figures:
        blocks += [rest, _figures(found)] if rest else [_figures(found)]
    elif rest:
        blocks.append(rest)
    factors = [f"{name} {_percent(ratio)}" for name, ratio in found.cost.items()]
    if factors:
        blocks.append([Note(f"cost: {', '.join(factors)}")])
    return blocks


def _list(head: str, lines: Iterable[str]) -> list[Block]:
    """Lines below their head; nothing where there are none."""
    items = list(lines)
    return [Note(head), Items(items, indent=2)] if items else []


def _times(found: AnswerDifference) -> list[list[Block]]:
    """A table for each time; a line where an earlier one has the same terms, one for all equal."""
    blocks: list[list[Block]] = []
    equal: list[str] = []
    seen: dict[tuple[Term, ...], str] = {}
    for one in found.times:
        what = one.old.name
        if one.new.name != what:
            what = f"{one.old.name} of A, {one.new.name} of B"
        like = seen.setdefault(one.terms, what)
        if one.is_equal:
            equal.append(f"{what} {seconds(one.old.p50_s)}")
        elif like != what:
            blocks.append([Note(f"{found.name}: {what}: as {like}")])
        else:
            blocks.append([Note(f"{found.name}: {what}"), *_time(one)])
    if equal:
        blocks.append([Note(f"{found.name}: equal in both: {', '.join(equal)}")])
    return blocks


def _time(one: TimeDifference) -> list[Block]:
    """One time of both sides, as a table of its terms."""
    alone = (("A", one.only_old), ("B", one.only_new))
    lines = [
        f"A {_side(one.old)}, B {_side(one.new)}{_ratio(one)}",
        *_within(one),
        *(f"{', '.join(map(_short, each))}: only in {side}" for side, each in alone if each),
    ]
    return [_terms(one), *map(Note, lines)]


def _terms(one: TimeDifference) -> Table:
    """The terms in ms, with as many decimals for all as the largest time needs."""
    decimals = _decimals(one.old.p50_s * _MS, one.new.p50_s * _MS)
    is_logged = one.old.is_measured or one.new.is_measured
    rows = []
    for term in one.terms:
        change_s = None if is_logged and not term.change_s else term.change_s
        rows.append((_short(term.name), *_row(term.old_s, term.new_s, change_s, decimals)))
    total = _row(one.old.p50_s, one.new.p50_s, one.new.p50_s - one.old.p50_s, decimals)
    return Table(_TERMS, [*rows, ("sum", *total)])


def _decimals(*medians: float) -> int:
    """As many as show four digits of the larger median and three of the smaller."""
    found = sorted(one for one in medians if 0 < one < math.inf)
    digits = zip((found[:1], found[-1:]), (_DIGITS - 1, _DIGITS), strict=True)
    needed = [count - math.floor(math.log10(one)) - 1 for each, count in digits for one in each]
    return min(max([0, *needed]), _MOST_DECIMALS)


def _row(
    old_s: float | None, new_s: float | None, change_s: float | None, decimals: int
) -> tuple[str, str, str]:
    return (
        "-" if old_s is None else f"{old_s * _MS:,.{decimals}f}",
        "-" if new_s is None else f"{new_s * _MS:,.{decimals}f}",
        "-" if change_s is None else f"{change_s * _MS:+,.{decimals}f}",
    )


def _side(one: Time) -> str:
    """The median with its interval."""
    if one.interval_s is None:
        return f"{seconds(one.p50_s)}{' measured' if one.is_measured else ''}"
    low, high = map(seconds, one.interval_s)
    return f"{seconds(one.p50_s)} ({low} to {high})"


def _ratio(one: TimeDifference) -> str:
    return "" if one.ratio is None else f"; B is {amount(one.ratio)} times A"


def _within(one: TimeDifference) -> list[str]:
    """Whether each median lies in the other's interval."""
    said = [
        f"{side}'s median lies {'within' if is_within else 'outside'} {other}'s P10 to P90"
        for side, other, is_within in (("B", "A", one.new_within), ("A", "B", one.old_within))
        if is_within is not None
    ]
    return ["; ".join(said)] if said else []


def _sources(times: Sequence[TimeDifference]) -> list[Block]:
    """Sources of the terms, where they differ; a source of several times once."""
    found = dict.fromkeys((one.path, one.old, one.new) for each in times for one in each.sources)
    return _list(
        "sources:",
        (
            f"{_short(path)}, {side}: {'-' if said is None else said}"
            for path, *both in found
            for side, said in zip("AB", both, strict=True)
        ),
    )


def _conditions(times: Sequence[TimeDifference]) -> list[Block]:
    said = (
        f"only in {side}: {one}"
        for at, side in enumerate("AB")
        for one in dict.fromkeys(each for time in times for each in time.conditions[at])
    )
    return _list("conditions:", said)


def _changed(one: AnswerChange) -> str:
    return f"{one.path}: {_value(one.old)} -> {_value(one.new)}"


def _figures(found: AnswerDifference) -> list[Block]:
    """Figures besides the times."""
    shown = [one for one in found.figures if one.ratio is None or abs(one.ratio - 1) >= _SHOWN]
    rows = [
        (one.path, _value(one.old), _value(one.new), _percent(one.ratio), _doubt(one))
        for one in shown
    ]
    blocks: list[Block] = [Table(_FIGURES, rows)] if rows else []
    small = len(found.figures) - len(shown)
    if small:
        noun = "1 figure changes" if small == 1 else f"{small} figures change"
        blocks.append(Note(f"{noun} by less than {_SHOWN:.2%}"))
    return blocks


def _value(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return amount(value)
    return _short(value if isinstance(value, str) else json_line(value))


def _short(value: str) -> str:
    return clipped(value, _WIDTH)


def _percent(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio - 1:+.1%}"


def _doubt(change: AnswerChange) -> str:
    if change.within is None:
        return ""
    return "within" if change.within else "outside"
