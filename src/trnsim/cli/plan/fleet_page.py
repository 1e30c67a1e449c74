"""A fleet as one HTML file: its day by service and job, policies side by side, misses, dollars.

All figures are those of `trnsim.system.fleet.report`, and dollars say from where there.
"""

from __future__ import annotations

from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Any, Final

from trnsim.cli.plan.fleet_charts import day, dollars, misses, names, worth
from trnsim.document.builder import page, panel
from trnsim.document.drawing import STYLE, charts, legend
from trnsim.document.figure import Figures
from trnsim.facts import Interval
from trnsim.formatting import amount, amounts, enumerated, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_STYLE: Final = (
    STYLE
    + """
/* A fleet: tables are as wide as their figures, and scroll by themselves. */
.wide { overflow-x: auto } .wide table { width: auto } p { margin: 4px 0 }
.wide td, .wide th { padding-right: 22px } td .soft { font-size: 11.5px } td { font-size: 13px }
td.basis { min-width: 220px } h3 { font-size: 12.5px; margin: 12px 0 2px }
details summary { cursor: pointer; font-size: 12px; color: var(--accent); margin: 4px 0 }
"""
)
_Q: Final = ("p10", "p50", "p90")
_DAYS: Final = 7
"""Days that are drawn; figures.json has all."""
_HOURS: Final = 24
_BILLIONTH: Final = 1e-9


def fleet_page(made: dict[str, Any]) -> str:
    """The page of `made`, which `trnsim plan fleet --json` prints."""
    found = Figures(made)
    last = list(made["policies"])[-1]
    body = [
        f"<header><h1>{escape(made['name'])}</h1>",
        f'<span class="soft">{_said(made)}</span></header>\n',
        panel("Policies", _policies(made, found) + _sums(made, found)),
        panel("The fleet's day", _days(made, last)),
        panel("Requests outside their SLO", _missed(made)),
        panel("Training", _trained(made) + _splits(made)),
        panel("Assumed", _assumed(made, found)),
    ]
    return page(made["name"], "".join(body), _STYLE)


def table_of(made: dict[str, Any]) -> list[list[str]]:
    """A header, then a row for each policy, hour, and service or job."""
    kinds = dict.fromkeys(made["demand"], "service")
    header = ["policy", "hour", "name", "is", "chips"]
    for figure in ("requests_per_s", "requests_missed", "tokens"):
        header += [f"{figure}_{at}" for at in ("p10", "p50", "p90")]
    rows = [header]
    for policy, one in made["policies"].items():
        for name, chips in one["chips"].items():
            found = (made["demand"], one["requests_missed"], one["tokens"])
            series = [each.get(name) for each in found]
            for hour, when in enumerate(made["hours"]):
                figures = [
                    "" if each is None else str(each[at][hour]) for each in series for at in _Q
                ]
                first = [policy, when, name, kinds.get(name, "job"), str(chips[hour])]
                rows.append([*first, *figures])
    return rows


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of markup."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="wide"><table><tr>{head}</tr>{lines}</table></div>'


def _said(made: dict[str, Any]) -> str:
    days = f"{made['days']} day{'s' * (made['days'] > 1)}"
    return escape(
        f"{made['chips']:,} chips, {made['spare_chips']:,} of them spare; {days} from "
        f"{made['start']}; planned for {made['planned_for'].upper()} of demand; "
        f"{made['draws']} draws, seed {made['seed']}"
    )


def _range(found: dict[str, float], scale: float = 1.0, digits: int | None = None) -> str:
    if digits is None:
        return amounts(Interval(*(scale * found[at] for at in _Q)))
    p10, p50, p90 = (f"{scale * found[at]:.{digits}f}" for at in _Q)
    return f"{p50} ({p10} to {p90})"


def _policies(made: dict[str, Any], found: Figures) -> str:
    header = [
        "policy",
        "chips used, %",
        "SLO missed, %",
        "billion tokens a day",
        "USD a day",
        "MWh a day",
    ]
    rows = [
        [
            f"<b>{escape(name)}</b>" + ("" if one["own_plan"] else ": the threshold policy's plan"),
            _range(one["utilisation"], 100, 0),
            _range(one["missed_part"], 100, 2),
            _range(one["tokens_per_day"], _BILLIONTH),
            found.usd_range("policies", name, "usd_per_day"),
            "-" if one["energy_kwh_per_day"] is None else amount(one["energy_kwh_per_day"] / 1e3),
        ]
        for name, one in made["policies"].items()
    ]
    below = (
        '<p class="soft">P50 (P10 to P90) of draws of demand and failures. USD: chips, energy and '
        "missed requests, less the worth of trained tokens.</p>"
    )
    return _table(header, rows) + below


def _sums(made: dict[str, Any], found: Figures) -> str:
    """Dollars a day by cause, at the demand that is planned for."""
    causes = ("chips", "energy", "missed", "worth", "sum")
    header = ["USD a day at the planned demand", "chips", "energy", "missed requests"]
    rows = [
        [
            escape(name),
            *(found.usd("policies", name, "expected", "usd_per_day", cause) for cause in causes),
        ]
        for name in made["policies"]
    ]
    table = _table([*header, "worth of tokens, less", "sum"], rows)
    return table + charts(dollars(made), worth(made))


def _days(made: dict[str, Any], last: str) -> str:
    first = datetime.fromisoformat(made["hours"][0]).strftime("%A")
    shown = charts(*(day(made, name, 0, f"{name}, {first}") for name in made["policies"]))
    marks = [*names(made), ("idle", "idle")]
    lines = (
        '<p class="soft">Lines: chips that the services\' demand needs, P50, and dashed P10 and '
        "P90.</p>"
        if made["demand"]
        else ""
    )
    others = range(1, min(made["days"], _DAYS))
    if not others:
        return legend(marks) + shown + lines
    more = charts(*(day(made, last, at, _date(made, at)) for at in others))
    return (
        f"{legend(marks)}{shown}{lines}<details><summary>{escape(last)}: the next {len(others)} "
        f"days</summary>{more}</details>"
    )


def _date(made: dict[str, Any], at: int) -> str:
    return datetime.fromisoformat(made["hours"][at * _HOURS]).strftime("%A, %d %B")


def _missed(made: dict[str, Any]) -> str:
    if not made["services"]:
        return "<p>There are no services.</p>"
    rows = [
        [
            escape(policy),
            escape(name),
            amounts(_quantiles(drawn, made["days"])),
        ]
        for policy, one in made["policies"].items()
        for name, drawn in one["draws"]["requests_missed"].items()
    ]
    shown = charts(*(misses(made, policy) for policy in made["policies"]))
    return shown + _table(["policy", "service", "requests missed a day"], rows)


def _trained(made: dict[str, Any]) -> str:
    rows = [
        [escape(policy), escape(name), amounts(_quantiles(drawn, made["days"] / _BILLIONTH))]
        for policy, one in made["policies"].items()
        for name, drawn in one["draws"]["tokens"].items()
    ]
    if not rows:
        return "<p>There are no jobs.</p>"
    most = made["perfect_sharing_training_usd"]
    said = "".join(
        f"<p>{escape(policy)}: training reaches "
        f"{one['expected']['training_usd'] / most:.1%} of perfect sharing.</p>"
        for policy, one in made["policies"].items()
        if most
    )
    return _table(["policy", "job", "billion tokens a day"], rows) + said


def _quantiles(drawn: Sequence[float], days: float) -> Interval:
    ordered = sorted(one / days for one in drawn)
    return Interval(*(_quantile(ordered, at) for at in (0.1, 0.5, 0.9)))


def _quantile(ordered: Sequence[float], at: float) -> float:
    place = at * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def _splits(made: dict[str, Any]) -> str:
    rows = [
        [
            f"{one['jobs']:,}",
            f"{one['chips']:,}",
            seconds(one["mtbf_s"]),
            f"{one['goodput']:.1%}",
            f"{one['jobs'] * one['chips'] * one['goodput']:,.0f}",
        ]
        for one in made["splits"]
    ]
    header = ["jobs on all chips", "chips each", "a failure every", "goodput", "chips' worth"]
    return "<h3>One job on all chips, or many</h3>" + _table(header, rows)


def _assumed(made: dict[str, Any], found: Figures) -> str:
    rows = [
        ["an hour of a chip", f"{found.usd('usd_per_chip_hour')} USD", escape(made["price"])],
        ["a kWh", f"{found.usd('usd_per_kwh')} USD", "the scenario"],
        ["a chip fails every", seconds(made["chip_mtbf_s"]), "the scenario, or its default"],
        ["change hands together", f"{made['block_chips']:,} chips", "what all widths divide"],
    ]
    rows += [
        [
            escape(one["name"]),
            (
                f"{amount(one['requests_per_s'])} requests/s on {one['replica_chips']} chips; "
                f"{seconds(one['ready_s'])} to start; "
                f"{found.usd('services', at, 'usd_per_missed_request')} USD a missed request"
            ),
            escape(one["basis"]),
        ]
        for at, one in enumerate(made["services"])
    ]
    rows += [
        [
            escape(one["name"]),
            (
                f"{one['count']} x {_widths(one)} chips; {seconds(one['stop_s'])} to change; "
                f"{found.usd('jobs', at, 'usd_per_million_tokens')} USD a million tokens"
            ),
            escape(one["basis"]),
        ]
        for at, one in enumerate(made["jobs"])
    ]
    below = '<p class="soft">figures.json has every number of this page, table.csv each hour.</p>'
    return _table(["what", "value", "source"], rows) + below


def _widths(job: dict[str, Any]) -> str:
    chips = [f"{level['chips']:,}" for level in job["levels"][1:]]
    few = 4
    shown = chips if len(chips) <= few else [*chips[:2], "...", chips[-1]]
    return enumerated(shown, "or")
