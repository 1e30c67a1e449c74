"""A fleet as a document: policies side by side, its day, misses, training, what it rests on.

All figures are those of `trnsim.system.fleet.report`, and dollars say from where there.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from trnsim.cli.plan.fleet_charts import day, dollars, misses, names, worth
from trnsim.document.answer import (
    Block,
    Cell,
    Column,
    Document,
    Drawing,
    Folded,
    Items,
    Mark,
    Note,
    Section,
    Table,
    columns,
    records,
)
from trnsim.document.drawing import legend
from trnsim.document.figure import Figures
from trnsim.facts import Interval
from trnsim.formatting import amount, amounts, clipped, enumerated, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence


SCHEMA: Final = "plan-fleet/1"
_QUANTILES: Final = ("p10", "p50", "p90")
_HOURLY: Final = ("requests_per_s", "requests_missed", "tokens")
_UNITS: Final = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"), (1e3, "thousand"))
_MWH: Final = 1e3
_DAYS: Final = 7
"""Days that are drawn; the JSON has all."""
_HOURS: Final = 24
_COLUMNS: Final = 6
"""Services and jobs of the day that the text shows."""
_WIDTHS: Final = 4
_BILLIONTH: Final = 1e-9
_CAUSES: Final = ("chips", "energy", "missed", "worth", "sum")
_SUMS: Final = columns(
    "USD a day at the planned demand | chips | energy | missed requests | "
    "worth of tokens, less | sum"
)
_SPLITS: Final = columns(
    "jobs on all chips | chips each | a failure every | goodput | chips' worth"
)


def fleet_document(made: dict[str, Any]) -> Document:
    """The document of `made`, the values of `trnsim plan fleet`."""
    found = Figures(made)
    last = list(made["policies"])[-1]
    days = f"{made['days']} day{'s' * (made['days'] > 1)}"
    buildings = f"{len(made['buildings'])} building{'s' * (len(made['buildings']) > 1)}"
    size = f"{made['chips']:,} chips in {buildings}, {made['spare_chips']:,} of them spare"
    head = [
        Note(made["name"], place="text"),
        Note(f"{size}; {made['block_chips']:,} change hands together"),
        Note(f"{days} from {made['start']}, planned for {made['planned_for'].upper()} of demand"),
    ]
    sections = [
        Section("", head),
        Section("Policies", [_policies(made, found)], heading_place="page"),
        Section("", [*_worth(made, last), *_sums(made, found)]),
        Section("The fleet's day", _day(made, last), heading_place="page"),
        Section("Requests outside their SLO", _missed(made), place="page"),
        Section("Training", _trained(made), place="page"),
        Section("One job on all chips, or many", [_splits(made)], heading_place="page"),
        Section("Assumed", _assumed(made, found), heading_place="page"),
    ]
    subtitle = f"{made['draws']} draws, seed {made['seed']}"
    return Document(made["name"], made, sections, subtitle, _rows(made), SCHEMA)


def _interval(found: dict[str, float], scale: float = 1.0) -> Interval:
    return Interval(*(scale * found[at] for at in _QUANTILES))


def _percents(found: dict[str, float], digits: int) -> str:
    p10, p50, p90 = (f"{100 * found[at]:.{digits}f}" for at in _QUANTILES)
    return f"{p50} ({p10} to {p90})"


def _unit(policies: dict[str, Any], name: str) -> tuple[float, str]:
    """A unit in which all medians are readable, and its name."""
    most = max(abs(one[name]["p50"]) for one in policies.values())
    return next((unit for unit in _UNITS if most >= 10 * unit[0]), (1.0, ""))


def _policies(made: dict[str, Any], found: Figures) -> Table:
    policies = made["policies"]
    token, tokens = _unit(policies, "tokens_per_day")
    dollar, in_dollars = _unit(policies, "usd_per_day")
    has_energy = any(one["energy_kwh_per_day"] is not None for one in policies.values())
    known = [
        *columns(f"policy | used, % | SLO missed, % | {tokens} tokens/day"),
        Column(f"{in_dollars} USD/day", is_number=True, place="text"),
        Column("USD/day", is_number=True, place="page"),
        *([Column("MWh/day", is_number=True)] if has_energy else []),
    ]
    rows: list[Sequence[Cell]] = []
    for name, one in policies.items():
        row: list[Cell] = [
            Mark(name, "strong"),
            _percents(one["utilisation"], 0),
            _percents(one["missed_part"], 2),
            amounts(_interval(one["tokens_per_day"], 1 / token)),
            amounts(_interval(one["usd_per_day"], 1 / dollar)),
            found.usd_range("policies", name, "usd_per_day"),
        ]
        if has_energy:
            kwh = one["energy_kwh_per_day"]
            row.append("-" if kwh is None else amount(kwh / _MWH))
        rows.append(row)
    return Table(known, rows)


def _worth(made: dict[str, Any], last: str) -> list[Note]:
    """How to read the policies, and how near training comes to sharing without any cost."""
    policy = made["policies"][last]
    most = made["perfect_sharing_training_usd"]
    said = [
        "P50 (P10 to P90). USD: chips, energy, missed requests, less the worth of trained tokens."
    ]
    if most:
        part = policy["expected"]["training_net_usd"] / most
        said.append(f"Training by the {last} plan reaches {part:.1%} of perfect sharing.")
    if not policy["own_plan"]:
        said.append("The solver found nothing better than the threshold policy's plan.")
    return [Note(one) for one in said]


def _sums(made: dict[str, Any], found: Figures) -> list[Block]:
    """Dollars a day by cause, at the demand that is planned for."""
    rows = [
        (
            name,
            *(found.usd("policies", name, "expected", "usd_per_day", cause) for cause in _CAUSES),
        )
        for name in made["policies"]
    ]
    return [Table(_SUMS, rows, place="page"), Drawing(dollars(made)), Drawing(worth(made))]


def _day(made: dict[str, Any], last: str) -> list[Block]:
    """Chips by service and job in each hour of the first day, drawn for up to a week."""
    weekday = datetime.fromisoformat(made["hours"][0]).strftime("%A")
    marks = [*names(made), ("idle", "idle")]
    blocks: list[Block] = [_hours(made, last), Drawing(legend(marks), is_wide=True)]
    blocks += [Drawing(day(made, name, 0, f"{name}, {weekday}")) for name in made["policies"]]
    if made["demand"]:
        said = "Lines: chips that the services' demand needs, P50, and dashed P10 and P90."
        blocks.append(Note(said, kind="soft", place="page"))
    others = range(1, min(made["days"], _DAYS))
    if others:
        drawn = [Drawing(day(made, last, at, _date(made, at))) for at in others]
        blocks.append(Folded(f"{last}: the next {len(others)} days", drawn, "page"))
    return blocks


def _hours(made: dict[str, Any], last: str) -> Table:
    chips = made["policies"][last]["chips"]
    shown = list(chips)[:_COLUMNS]
    header = [f"first day, {last}", *(clipped(name, 12) for name in shown), "idle"]
    rows = [
        (
            datetime.fromisoformat(made["hours"][hour]).strftime("%a %H:%M"),
            *(f"{chips[name][hour]:,}" for name in shown),
            f"{made['usable_chips'] - sum(every[hour] for every in chips.values()):,}",
        )
        for hour in range(_HOURS)
    ]
    return Table([Column(name) for name in header], rows, place="text")


def _date(made: dict[str, Any], at: int) -> str:
    return datetime.fromisoformat(made["hours"][at * _HOURS]).strftime("%A, %d %B")


def _missed(made: dict[str, Any]) -> list[Block]:
    if not made["services"]:
        return [Note("There are no services.")]
    rows = [
        (policy, name, amounts(_quantiles(drawn, made["days"])))
        for policy, one in made["policies"].items()
        for name, drawn in one["draws"]["requests_missed"].items()
    ]
    known = columns("policy | service | requests missed a day", numbers_from=2)
    return [*(Drawing(misses(made, policy)) for policy in made["policies"]), Table(known, rows)]


def _trained(made: dict[str, Any]) -> list[Block]:
    rows = [
        (policy, name, amounts(_quantiles(drawn, made["days"] / _BILLIONTH)))
        for policy, one in made["policies"].items()
        for name, drawn in one["draws"]["tokens"].items()
    ]
    if not rows:
        return [Note("There are no jobs.")]
    most = made["perfect_sharing_training_usd"]
    said = [
        f"{policy}: training reaches {one['expected']['training_usd'] / most:.1%} of perfect "
        "sharing."
        for policy, one in made["policies"].items()
        if most
    ]
    known = columns("policy | job | billion tokens a day", numbers_from=2)
    return [Table(known, rows), *map(Note, said)]


def _quantiles(drawn: Sequence[float], days: float) -> Interval:
    ordered = sorted(one / days for one in drawn)
    return Interval(*(_quantile(ordered, at) for at in (0.1, 0.5, 0.9)))


def _quantile(ordered: Sequence[float], at: float) -> float:
    place = at * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def _splits(made: dict[str, Any]) -> Table:
    rows = [
        (
            f"{one['jobs']:,}",
            f"{one['chips']:,}",
            seconds(one["mtbf_s"]),
            f"{one['goodput']:.1%}",
            f"{one['jobs'] * one['chips'] * one['goodput']:,.0f}",
        )
        for one in made["splits"]
    ]
    return Table(_SPLITS, rows)


def _assumed(made: dict[str, Any], found: Figures) -> list[Block]:
    """Where prices and rates are from."""
    lines: list[Cell] = [("chips: ", found.usd("usd_per_chip_hour"), f" USD/h, {made['price']}")]
    lines += [
        f"{one['name']}: {one['requests_per_s']:.3g} requests/s on {one['replica_chips']} chips, "
        f"{one['basis']}; {seconds(one['ready_s'])} to start"
        for one in made["services"]
    ]
    for at, one in enumerate(made["jobs"]):
        many = f"{one['count']} x " if one["count"] > 1 else ""
        said = (
            f"{one['name']}: {many}{_widths(one)} chips, {one['basis']}; "
            f"{seconds(one['stop_s'])} to change, "
        )
        lines.append((said, found.usd("jobs", at, "usd_per_million_tokens"), " USD/M tokens"))
    more: list[Cell] = [
        (f"a missed request of {one['name']}: ",
         found.usd("services", at, "usd_per_missed_request"), " USD")
        for at, one in enumerate(made["services"])
    ]  # fmt: skip
    more += [
        ("a kWh: ", found.usd("usd_per_kwh"), " USD, by the scenario"),
        f"a chip fails every {seconds(made['chip_mtbf_s'])}, by the scenario or its default",
        f"{made['block_chips']:,} chips change hands together, which divides all widths",
    ]
    last = "figures.json has every number of this page, table.csv each hour."
    return [Items(lines), Items(more, place="page"), Note(last, kind="soft", place="page")]


def _widths(job: dict[str, Any]) -> str:
    chips = [str(level["chips"]) for level in job["levels"][1:]]
    return enumerated(chips if len(chips) <= _WIDTHS else [*chips[:2], "...", chips[-1]], "or")


def _rows(made: dict[str, Any]) -> Table:
    """A row for each policy, hour, and service or job."""
    rows = [
        [policy, when, name, "service" if name in made["demand"] else "job", chips[hour]]
        + [
            series[name][at][hour] if name in series else None
            for series in (made["demand"], one["requests_missed"], one["tokens"])
            for at in _QUANTILES
        ]
        for policy, one in made["policies"].items()
        for name, chips in one["chips"].items()
        for hour, when in enumerate(made["hours"])
    ]
    names = ["policy", "hour", "name", "is", "chips"]
    names += [f"{one}_{at}" for one in _HOURLY for at in _QUANTILES]
    return records([dict(zip(names, row, strict=True)) for row in rows], names)
