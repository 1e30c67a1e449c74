"""Charts of a fleet: chips hour by hour, requests missed, dollars by cause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from trnsim.document.drawing import Bar, BarPart, ColumnBar, bars, chart, colour, columns, legend
from trnsim.document.figure import pointer
from trnsim.formatting import amount

_HOURS_OF_DAY: Final = 24
_CLOCK_CHARS: Final = slice(11, 16)
_NAMES_BY_CAUSE: Final = (("chips", "chips"), ("energy", "energy"), ("missed", "missed requests"))


def coloured_names(fleet: dict[str, Any]) -> list[tuple[str, str]]:
    """The colour and the name of each service, then of each job."""
    names = [member["name"] for member in (*fleet["services"], *fleet["jobs"])]
    return [(colour(number), name) for number, name in enumerate(names)]


def day(fleet: dict[str, Any], policy: str, day_number: int, caption: str) -> str:
    """Chips by service and job in each hour of day `day_number`."""
    chips = fleet["policies"][policy]["chips"]
    usable = fleet["usable_chips"]
    bars_by_hour: list[ColumnBar] = []
    for hour in range(day_number * _HOURS_OF_DAY, (day_number + 1) * _HOURS_OF_DAY):
        parts = [
            BarPart(
                name,
                chips[name][hour],
                part_colour,
                pointer("policies", policy, "chips", name, hour),
            )
            for part_colour, name in coloured_names(fleet)
        ]
        idle = usable - sum(part.value for part in parts)
        clock = fleet["hours"][hour][_CLOCK_CHARS]
        bars_by_hour.append(ColumnBar(clock, (*parts, BarPart("idle", idle, "idle", ""))))
    hours = slice(day_number * _HOURS_OF_DAY, (day_number + 1) * _HOURS_OF_DAY)
    lines = [
        (line_class, needed_chips(fleet, quantile)[hours])
        for line_class, quantile in (("", "p50"), ("outer", "p10"), ("outer", "p90"))
        if fleet["services"]
    ]
    return chart(caption, columns(bars_by_hour, "chips", amount, lines, usable))


def needed_chips(fleet: dict[str, Any], quantile: str) -> list[float]:
    """Chips that all services' demand needs in each hour, with fractions of replicas."""
    totals = [0.0] * len(fleet["hours"])
    for service in fleet["services"]:
        chips_per_rate = service["replica_chips"] / service["requests_per_s"]
        demand: Sequence[float] = fleet["demand"][service["name"]][quantile]
        totals = [
            chips + chips_per_rate * requests_per_s
            for chips, requests_per_s in zip(totals, demand, strict=True)
        ]
    return totals


def misses(fleet: dict[str, Any], policy: str) -> str:
    """Requests outside their SLO in each hour of the first day."""
    series_by_name = fleet["policies"][policy]["requests_missed"]
    colours = {name: part_colour for part_colour, name in coloured_names(fleet)}
    bars_by_hour = [
        ColumnBar(
            fleet["hours"][hour][_CLOCK_CHARS],
            tuple(
                BarPart(
                    name,
                    series["p90"][hour],
                    colours[name],
                    pointer("policies", policy, "requests_missed", name, "p90", hour),
                )
                for name, series in series_by_name.items()
            ),
        )
        for hour in range(_HOURS_OF_DAY)
    ]
    marks = [(colours[name], name) for name in series_by_name]
    caption = f"{policy}: requests missed by hour of the first day, P90"
    return chart(caption, columns(bars_by_hour, "requests", amount), legend(marks))


def dollars(fleet: dict[str, Any]) -> str:
    """The cost of a day by cause."""
    rows = [
        Bar(
            policy,
            tuple(
                BarPart(name, usd[cause], colour(number), _usd_pointer(policy, cause))
                for number, (cause, name) in enumerate(_NAMES_BY_CAUSE)
            ),
            f"{amount(sum(usd[cause] for cause, _ in _NAMES_BY_CAUSE))} USD a day",
        )
        for policy, usd in _usd(fleet)
    ]
    marks = [(colour(number), name) for number, (_, name) in enumerate(_NAMES_BY_CAUSE)]
    return chart("What it costs, by cause", bars(rows), legend(marks))


def worth(fleet: dict[str, Any]) -> str:
    """The worth of a day's training."""
    rows = [
        Bar(
            policy,
            (BarPart("trained tokens", usd["worth"], colour(2), _usd_pointer(policy, "worth")),),
            f"{amount(usd['worth'])} USD a day",
        )
        for policy, usd in _usd(fleet)
    ]
    return chart("What is trained is worth", bars(rows))


def _usd(fleet: dict[str, Any]) -> list[tuple[str, dict[str, float]]]:
    return [
        (name, outcome["expected"]["usd_per_day"]) for name, outcome in fleet["policies"].items()
    ]


def _usd_pointer(policy: str, cause: str) -> str:
    """The JSON pointer of a policy's USD a day of one cause."""
    return pointer("policies", policy, "expected", "usd_per_day", cause)
