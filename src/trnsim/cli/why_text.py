"""The text of ``trnsim why``, and the same numbers as plain values."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from trnsim.formatting import amount, clipped, seconds, text_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trnsim.decide.difference import Change
    from trnsim.decide.why import Comparison, Explained, Why
    from trnsim.decide.why.explain import Term
    from trnsim.decide.why.times import Time

_WIDTH: Final = 36
_LONG: Final = 90
_LONGEST: Final = 240
_SHOWN: Final = 0.0005
"""The least relative change of a figure that has a line."""
_DIGITS: Final = 4
"""Of the largest time of a table, whose others have as many decimals."""
_MOST_DECIMALS: Final = 9
_MS: Final = 1e3


def text(found: Comparison, names: tuple[str, str]) -> str:
    """All of it, with what A and B are."""
    is_one = found.kinds[0] == found.kinds[1]
    parts = [f"A  {names[0]}\nB  {names[1]}"]
    parts += [_why(one, is_one_command=is_one) for one in found.whys]
    alone = (("A", found.only_old), ("B", found.only_new))
    parts += [f"only {side} answers for: {', '.join(each)}" for side, each in alone if each]
    return "\n\n".join(parts)


def plain(found: Comparison) -> dict[str, Any]:
    """All of it as plain values."""
    return {
        "kinds": list(found.kinds),
        "whys": [_plain(one) for one in found.whys],
        "only_a": list(found.only_old),
        "only_b": list(found.only_new),
    }


def _plain(found: Why) -> dict[str, Any]:
    return {
        "name": found.name,
        "times": [_plain_time(one) for one in found.times],
        "inputs": [_change(one) for one in found.inputs],
        "figures": [{**_change(one), "within": one.within} for one in found.figures],
        "cost": dict(found.cost),
    }


def _change(one: Change) -> dict[str, Any]:
    return {"path": one.path, "a": one.old, "b": one.new, "ratio": one.ratio}


def _plain_time(one: Explained) -> dict[str, Any]:
    return {
        "a": _plain_side(one.old),
        "b": _plain_side(one.new),
        "ratio": one.ratio,
        "b_within_a": one.new_within,
        "a_within_b": one.old_within,
        "terms": [
            {"name": term.name, "a_s": term.old_s, "b_s": term.new_s, "change_s": term.change_s}
            for term in one.terms
        ],
        "only_a": list(one.only_old),
        "only_b": list(one.only_new),
        "sources": [{"of": each.path, "a": each.old, "b": each.new} for each in one.sources],
        "conditions": dict(zip(("only_a", "only_b"), map(list, one.conditions), strict=True)),
    }


def _plain_side(one: Time) -> dict[str, Any]:
    made = asdict(one)
    low, high = one.interval_s or (None, None)
    return {
        "name": one.name,
        "p10_s": low,
        "p50_s": one.p50_s,
        "p90_s": high,
        "is_measured": one.is_measured,
        **made["sizes"],
    }


def _why(found: Why, *, is_one_command: bool) -> str:
    """One platform or workload: its times, then what explains them."""
    if found.is_equal and is_one_command:
        return f"{found.name}: nothing changed"
    blocks = _times(found)
    rest = [*_sources(found.times), *_conditions(found.times)]
    if found.inputs:
        rest += ["inputs:", *_changed(found.inputs)]
    elif is_one_command:
        rest.append("inputs: none differs, so trnsim itself does: compare the versions")
    if not found.times:
        rest.insert(0, f"{found.name}:")
    if rest:
        blocks.append("\n".join(rest))
    if found.figures:
        blocks.append("\n".join(_figures(found)))
    factors = [f"{name} {_percent(ratio)}" for name, ratio in found.cost.items()]
    if factors:
        blocks.append(f"cost: {', '.join(factors)}")
    return "\n\n".join(blocks)


def _times(found: Why) -> list[str]:
    """A table for each time; a line where an earlier one has the same terms, one for all equal."""
    blocks: list[str] = []
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
            blocks.append(f"{found.name}: {what}: as {like}")
        else:
            blocks.append("\n".join([f"{found.name}: {what}", *_time(one)]))
    if equal:
        blocks.append(f"{found.name}: equal in both: {', '.join(equal)}")
    return blocks


def _time(one: Explained) -> list[str]:
    """One time of both sides, as a table of its terms."""
    lines = [_terms(one), f"A {_side(one.old)}, B {_side(one.new)}{_ratio(one)}", *_within(one)]
    alone = (("A", one.only_old), ("B", one.only_new))
    return lines + [
        f"{', '.join(map(_short, each))}: only in {side}" for side, each in alone if each
    ]


def _terms(one: Explained) -> str:
    """The terms in ms, with as many decimals for all as the largest time needs."""
    decimals = _decimals(one.old.p50_s * _MS, one.new.p50_s * _MS)
    is_logged = one.old.is_measured or one.new.is_measured
    rows = []
    for term in one.terms:
        change_s = None if is_logged and not term.change_s else term.change_s
        rows.append((_short(term.name), *_row(term.old_s, term.new_s, change_s, decimals)))
    total = _row(one.old.p50_s, one.new.p50_s, one.new.p50_s - one.old.p50_s, decimals)
    rows.append(("sum", *total))
    header = ("term", "A ms", "B ms", "change")
    widths = [max(len(row[at]) for row in (header, *rows)) for at in range(len(header))]
    head, *cells = [
        (row[0], *(cell.rjust(widths[at]) for at, cell in enumerate(row) if at))
        for row in (header, *rows)
    ]
    return text_table(head, cells)


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


def _ratio(one: Explained) -> str:
    return "" if one.ratio is None else f"; B is {amount(one.ratio)} times A"


def _within(one: Explained) -> list[str]:
    """Whether each median lies in the other's interval."""
    said = [
        f"{side}'s median lies {'within' if is_within else 'outside'} {other}'s P10 to P90"
        for side, other, is_within in (("B", "A", one.new_within), ("A", "B", one.old_within))
        if is_within is not None
    ]
    return ["; ".join(said)] if said else []


def _sources(times: Sequence[Explained]) -> list[str]:
    """What the terms rest on, where that differs; a source of several times once."""
    found = dict.fromkeys((one.path, one.old, one.new) for each in times for one in each.sources)
    lines: list[str] = []
    for path, old, new in found:
        lines += [f"  {_short(path)}, A: {_whole(old)}", f"  {_short(path)}, B: {_whole(new)}"]
    return ["sources:", *lines] if lines else []


def _conditions(times: Sequence[Explained]) -> list[str]:
    lines: list[str] = []
    for at, side in enumerate("AB"):
        said = dict.fromkeys(one for each in times for one in each.conditions[at])
        lines += [f"  only in {side}: {_whole(one)}" for one in said]
    return ["conditions:", *lines] if lines else []


def _changed(changes: Iterable[Change]) -> list[str]:
    return [f"  {_long(one.path)}: {_value(one.old)} -> {_value(one.new)}" for one in changes]


def _figures(found: Why) -> list[str]:
    """Figures besides the times."""
    shown = [one for one in found.figures if one.ratio is None or abs(one.ratio - 1) >= _SHOWN]
    rows = [
        (_long(one.path), _value(one.old), _value(one.new), _percent(one.ratio), _doubt(one))
        for one in shown
    ]
    lines = [text_table(("figure", "A", "B", "change", "P10 to P90 of A"), rows)] if rows else []
    small = len(found.figures) - len(shown)
    if small:
        noun = "1 figure changes" if small == 1 else f"{small} figures change"
        lines.append(f"{noun} by less than {_SHOWN:.2%}")
    return lines


def _value(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return amount(value)
    return _short(value if isinstance(value, str) else json.dumps(value))


def _short(value: str) -> str:
    return clipped(value, _WIDTH)


def _long(value: str) -> str:
    return clipped(value, _LONG)


def _whole(value: str | None) -> str:
    return "-" if value is None else clipped(value, _LONGEST)


def _percent(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio - 1:+.1%}"


def _doubt(change: Change) -> str:
    if change.within is None:
        return ""
    return "within" if change.within else "outside"
