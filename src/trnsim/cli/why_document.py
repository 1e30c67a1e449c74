"""The answer of ``trnsim why``: times term by term, inputs, figures and cost that differ."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

from trnsim.decide.difference import AnswerChange
from trnsim.decide.why import AnswerComparison, AnswerDifference, TimeDifference
from trnsim.decide.why.explain import TimeTerm
from trnsim.decide.why.times import Time
from trnsim.document.answer import Block, Column, Document, Items, Note, Section, Table, columns
from trnsim.document.values import json_line, picked
from trnsim.formatting import amount, clipped, seconds

_MOST_VALUE_CHARS: Final = 36
_LEAST_SHOWN_CHANGE: Final = 0.0005
"""The least relative change of a figure that has a line."""
_TIME_DIGITS: Final = 4
"""Digits of the largest time of a table; the other times have the same number of decimals."""
_MOST_DECIMALS: Final = 9
_MS_PER_S: Final = 1e3
_TERM_COLUMNS: Final = (
    Column("term"),
    *(Column(name, is_number=True, is_right=True) for name in ("A ms", "B ms", "change")),
)
_FIGURE_COLUMNS: Final = columns("figure | A | B | change | P10 to P90 of A")


def why_document(answers: AnswerComparison, names: tuple[str, str]) -> Document:
    """The differences between the answers A and B, which `names` describe."""
    is_one_command = answers.kinds[0] == answers.kinds[1]
    sides: list[Block] = [Note(f"{side}  {name}") for side, name in zip("AB", names, strict=True)]
    blocks = [sides]
    for answer in answers.differences:
        blocks += _difference_blocks(answer, is_one_command=is_one_command)
    names_by_side = (("A", answers.only_old), ("B", answers.only_new))
    for side, platforms in names_by_side:
        if platforms:
            blocks.append([Note(f"only {side} answers for: {', '.join(platforms)}")])
    values = {
        **picked(answers, "kinds", whys=[_values(answer) for answer in answers.differences]),
        **picked(answers, "only_a=only_old only_b=only_new"),
    }
    return Document(
        "Why two answers differ", values, [Section("", group) for group in blocks], schema="why/1"
    )


def _values(answer: AnswerDifference) -> dict[str, Any]:
    return picked(
        answer,
        "name",
        times=[_time_values(time) for time in answer.times],
        inputs=[_change_values(change) for change in answer.inputs],
        figures=[picked(change, "within") | _change_values(change) for change in answer.figures],
        cost=answer.cost,
    )


def _change_values(change: AnswerChange) -> dict[str, Any]:
    return picked(change, "path a=old b=new ratio")


def _time_values(difference: TimeDifference) -> dict[str, Any]:
    return {
        "a": _side_values(difference.old),
        "b": _side_values(difference.new),
        **picked(
            difference, "ratio b_within_a=is_new_in_old_interval a_within_b=is_old_in_new_interval"
        ),
        "terms": [picked(term, "name a_s=old_s b_s=new_s change_s") for term in difference.terms],
        **picked(difference, "only_a=only_old only_b=only_new"),
        "sources": [picked(source, "of=path a=old b=new") for source in difference.sources],
        "conditions": dict(zip(("only_a", "only_b"), difference.conditions, strict=True)),
    }


def _side_values(time: Time) -> dict[str, Any]:
    low, high = time.interval_s or (None, None)
    return {
        **picked(time, "name", p10_s=low),
        **picked(time, "p50_s", p90_s=high),
        **picked(time, "is_measured", **time.sizes),
    }


def _difference_blocks(difference: AnswerDifference, *, is_one_command: bool) -> list[list[Block]]:
    """The groups of blocks of a platform or workload: times, then inputs, figures and cost."""
    if difference.is_equal and is_one_command:
        return [[Note(f"{difference.name}: nothing changed")]]
    blocks = _time_blocks(difference)
    causes = [*_source_blocks(difference.times), *_condition_blocks(difference.times)]
    if difference.inputs:
        causes += _headed_items("inputs:", map(_change_text, difference.inputs))
    elif is_one_command:
        causes.append(Note("inputs: none differs, so trnsim itself does: compare the versions"))
    if not difference.times:
        causes.insert(0, Note(f"{difference.name}:"))
    if difference.figures:
        blocks += [causes, _figure_blocks(difference)] if causes else [_figure_blocks(difference)]
    elif causes:
        blocks.append(causes)
    factors = [f"{name} {_percent_text(ratio)}" for name, ratio in difference.cost.items()]
    if factors:
        blocks.append([Note(f"cost: {', '.join(factors)}")])
    return blocks


def _headed_items(head: str, lines: Iterable[str]) -> list[Block]:
    """A heading with lines below it; [] without lines."""
    items = list(lines)
    return [Note(head), Items(items, indent=2)] if items else []


def _time_blocks(answer: AnswerDifference) -> list[list[Block]]:
    """A table for each time; a line for a time with another's terms, one for all equal times."""
    blocks: list[list[Block]] = []
    equal_times: list[str] = []
    first_names: dict[tuple[TimeTerm, ...], str] = {}
    for difference in answer.times:
        time_name = difference.old.name
        if difference.new.name != time_name:
            time_name = f"{difference.old.name} of A, {difference.new.name} of B"
        first_name = first_names.setdefault(difference.terms, time_name)
        if difference.is_equal:
            equal_times.append(f"{time_name} {seconds(difference.old.p50_s)}")
        elif first_name != time_name:
            blocks.append([Note(f"{answer.name}: {time_name}: as {first_name}")])
        else:
            blocks.append([Note(f"{answer.name}: {time_name}"), *_blocks_of_time(difference)])
    if equal_times:
        blocks.append([Note(f"{answer.name}: equal in both: {', '.join(equal_times)}")])
    return blocks


def _blocks_of_time(difference: TimeDifference) -> list[Block]:
    """A time of both sides: its medians and intervals, then a table of its terms."""
    names_by_side = (("A", difference.only_old), ("B", difference.only_new))
    lines = [
        f"A {_side_text(difference.old)}, B {_side_text(difference.new)}{_ratio_text(difference)}",
        *_interval_sentences(difference),
        *(
            f"{', '.join(map(_clipped_text, names))}: only in {side}"
            for side, names in names_by_side
            if names
        ),
    ]
    return [*map(Note, lines), _term_table(difference)]


def _term_table(difference: TimeDifference) -> Table:
    """The terms in ms, with as many decimals for all as the largest time needs."""
    decimals = _decimals(difference.old.p50_s * _MS_PER_S, difference.new.p50_s * _MS_PER_S)
    is_logged = difference.old.is_measured or difference.new.is_measured
    rows = []
    for term in difference.terms:
        change_s = None if is_logged and not term.change_s else term.change_s
        rows.append(
            (_clipped_text(term.name), *_ms_cells(term.old_s, term.new_s, change_s, decimals))
        )
    total = _ms_cells(
        difference.old.p50_s,
        difference.new.p50_s,
        difference.new.p50_s - difference.old.p50_s,
        decimals,
    )
    return Table(_TERM_COLUMNS, [*rows, ("sum", *total)])


def _decimals(*medians: float) -> int:
    """The decimals that show four digits of the larger median and three of the smaller."""
    finite = sorted(median for median in medians if 0 < median < math.inf)
    digits = zip((finite[:1], finite[-1:]), (_TIME_DIGITS - 1, _TIME_DIGITS), strict=True)
    decimals = [
        count - math.floor(math.log10(median)) - 1 for group, count in digits for median in group
    ]
    return min(max([0, *decimals]), _MOST_DECIMALS)


def _ms_cells(
    old_s: float | None, new_s: float | None, change_s: float | None, decimals: int
) -> tuple[str, str, str]:
    return (
        "-" if old_s is None else f"{old_s * _MS_PER_S:,.{decimals}f}",
        "-" if new_s is None else f"{new_s * _MS_PER_S:,.{decimals}f}",
        "-" if change_s is None else f"{change_s * _MS_PER_S:+z,.{decimals}f}",
    )


def _side_text(time: Time) -> str:
    """The time of one side as text: its median, with the interval or "measured"."""
    if time.interval_s is None:
        return f"{seconds(time.p50_s)}{' measured' if time.is_measured else ''}"
    low, high = map(seconds, time.interval_s)
    return f"{seconds(time.p50_s)} ({low} to {high})"


def _ratio_text(difference: TimeDifference) -> str:
    return "" if difference.ratio is None else f"; B is {amount(difference.ratio)} times A"


def _interval_sentences(difference: TimeDifference) -> list[str]:
    """A sentence on which median lies in the other side's interval; none without intervals."""
    sentences = [
        f"{side}'s median lies {'within' if is_within else 'outside'} {other}'s P10 to P90"
        for side, other, is_within in (
            ("B", "A", difference.is_new_in_old_interval),
            ("A", "B", difference.is_old_in_new_interval),
        )
        if is_within is not None
    ]
    return ["; ".join(sentences)] if sentences else []


def _source_blocks(times: Sequence[TimeDifference]) -> list[Block]:
    """The differing sources of terms, each once."""
    sources = dict.fromkeys(
        (source.path, source.old, source.new) for time in times for source in time.sources
    )
    return _headed_items(
        "sources:",
        (
            f"{_clipped_text(path)}, {side}: {'-' if source is None else source}"
            for path, *side_sources in sources
            for side, source in zip("AB", side_sources, strict=True)
        ),
    )


def _condition_blocks(times: Sequence[TimeDifference]) -> list[Block]:
    sentences = (
        f"only in {side}: {condition}"
        for index, side in enumerate("AB")
        for condition in dict.fromkeys(text for time in times for text in time.conditions[index])
    )
    return _headed_items("conditions:", sentences)


def _change_text(change: AnswerChange) -> str:
    return f"{change.path}: {_value_text(change.old)} -> {_value_text(change.new)}"


def _figure_blocks(answer: AnswerDifference) -> list[Block]:
    """Figures besides the times."""
    changes = [
        change
        for change in answer.figures
        if change.ratio is None or abs(change.ratio - 1) >= _LEAST_SHOWN_CHANGE
    ]
    rows = [
        (
            change.path,
            _value_text(change.old),
            _value_text(change.new),
            _percent_text(change.ratio),
            _interval_word(change),
        )
        for change in changes
    ]
    blocks: list[Block] = [Table(_FIGURE_COLUMNS, rows)] if rows else []
    hidden_count = len(answer.figures) - len(changes)
    if hidden_count:
        words = "1 figure changes" if hidden_count == 1 else f"{hidden_count} figures change"
        blocks.append(Note(f"{words} by less than {_LEAST_SHOWN_CHANGE:.2%}"))
    return blocks


def _value_text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return amount(value)
    return _clipped_text(value if isinstance(value, str) else json_line(value))


def _clipped_text(value: str) -> str:
    return clipped(value, _MOST_VALUE_CHARS)


def _percent_text(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio - 1:+z.1%}"


def _interval_word(change: AnswerChange) -> str:
    if change.within is None:
        return ""
    return "within" if change.within else "outside"
