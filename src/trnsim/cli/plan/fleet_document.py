"""A fleet as a document: policies side by side, a day, misses, training, assumptions.

All figures are values of `trnsim.system.fleet.report`; each amount of USD names its value there.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import numpy as np

from trnsim.cli.plan.fleet_charts import coloured_names, day, dollars, misses, worth
from trnsim.document.answer import (
    Block,
    Cell,
    Column,
    Document,
    Drawing,
    FoldedBlocks,
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
from trnsim.uncertainty import interval

SCHEMA: Final = "plan-fleet/1"
_QUANTILES: Final = ("p10", "p50", "p90")
_HOURLY_SERIES: Final = ("requests_per_s", "requests_missed", "tokens")
_TOKEN_UNITS: Final = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"), (1e3, "thousand"))
_KWH_PER_MWH: Final = 1e3
_MOST_DRAWN_DAYS: Final = 7
"""Days that are drawn, at most; the JSON has all."""
_HOURS_OF_DAY: Final = 24
_MOST_SHOWN_COLUMNS: Final = 6
"""Services and jobs that the text's table of a day shows, at most."""
_MOST_SHOWN_WIDTHS: Final = 4
_BILLIONTH: Final = 1e-9
_CAUSES: Final = ("chips", "energy", "missed", "worth", "sum")
_SUM_COLUMNS: Final = columns(
    "USD a day at the planned demand | chips | energy | missed requests | "
    "worth of tokens, less | sum"
)
_SPLIT_COLUMNS: Final = columns(
    "jobs on all chips | chips each | a failure every | goodput | chips x goodput"
)


def fleet_document(fleet: dict[str, Any]) -> Document:
    """The document of `fleet`, the values of `trnsim plan fleet`."""
    figures = Figures(fleet)
    last_policy = list(fleet["policies"])[-1]
    days = f"{fleet['days']} day{'s' * (fleet['days'] > 1)}"
    buildings = f"{len(fleet['buildings'])} building{'s' * (len(fleet['buildings']) > 1)}"
    size = f"{fleet['chips']:,} chips in {buildings}, {fleet['spare_chips']:,} of them spare"
    head = [
        Note(fleet["name"], place="text"),
        Note(f"{size}; {fleet['block_chips']:,} change hands together"),
        Note(f"{days} from {fleet['start']}, planned for {fleet['planned_for'].upper()} of demand"),
    ]
    sections = [
        Section("", head),
        Section("Policies", [_policies(fleet, figures)], heading_place="page"),
        Section("", [*_worth(fleet, last_policy), *_sums(fleet, figures)]),
        Section("The fleet's day", _day(fleet, last_policy), heading_place="page"),
        Section("Requests outside their SLO", _missed_blocks(fleet), place="page"),
        Section("Training", _training_blocks(fleet), place="page"),
        Section("One job on all chips, or many", [_splits(fleet)], heading_place="page"),
        Section("Assumed", _assumption_blocks(fleet, figures), heading_place="page"),
    ]
    subtitle = f"{fleet['draws']} draws, seed {fleet['seed']}"
    return Document(fleet["name"], fleet, sections, subtitle, _rows(fleet), SCHEMA)


def _interval(quantiles: dict[str, float], scale: float = 1.0) -> Interval:
    return Interval(*(scale * quantiles[name] for name in _QUANTILES))


def _percents(quantiles: dict[str, float], digits: int) -> str:
    p10, p50, p90 = (f"{100 * quantiles[name]:.{digits}f}" for name in _QUANTILES)
    return f"{p50} ({p10} to {p90})"


def _unit(policies: dict[str, Any], name: str) -> tuple[float, str]:
    """The largest unit of which the largest median has ten, and its name; (1.0, "") for none."""
    largest = max(abs(outcome[name]["p50"]) for outcome in policies.values())
    return next((unit for unit in _TOKEN_UNITS if largest >= 10 * unit[0]), (1.0, ""))


def _policies(fleet: dict[str, Any], figures: Figures) -> Table:
    policies = fleet["policies"]
    token_scale, token_unit = _unit(policies, "tokens_per_day")
    usd_scale, usd_unit = _unit(policies, "usd_per_day")
    has_energy = any(outcome["energy_kwh_per_day"] is not None for outcome in policies.values())
    table_columns = [
        *columns(f"policy | used, % | SLO missed, % | {token_unit} tokens/day"),
        Column(f"{usd_unit} USD/day", is_number=True, place="text"),
        Column("USD/day", is_number=True, place="page"),
        *([Column("MWh/day", is_number=True)] if has_energy else []),
    ]
    rows: list[Sequence[Cell]] = []
    for name, outcome in policies.items():
        row: list[Cell] = [
            Mark(name, "strong"),
            _percents(outcome["utilisation"], 0),
            _percents(outcome["missed_part"], 2),
            amounts(_interval(outcome["tokens_per_day"], 1 / token_scale)),
            amounts(_interval(outcome["usd_per_day"], 1 / usd_scale)),
            figures.usd_range("policies", name, "usd_per_day"),
        ]
        if has_energy:
            kwh = outcome["energy_kwh_per_day"]
            row.append("-" if kwh is None else amount(kwh / _KWH_PER_MWH))
        rows.append(row)
    return Table(table_columns, rows)


def _worth(fleet: dict[str, Any], last_policy: str) -> list[Note]:
    """Notes on the policies, and on training as a part of sharing without any cost."""
    policy = fleet["policies"][last_policy]
    perfect_usd = fleet["perfect_sharing_training_usd"]
    remarks = [
        "P50 (P10 to P90). USD: chips, energy, missed requests, less the worth of trained tokens."
    ]
    if perfect_usd:
        part = policy["expected"]["training_net_usd"] / perfect_usd
        remarks.append(f"Training by the {last_policy} plan reaches {part:.1%} of perfect sharing.")
    if not policy["own_plan"]:
        remarks.append("The solver found nothing better than the threshold policy's plan.")
    return [Note(text) for text in remarks]


def _sums(fleet: dict[str, Any], figures: Figures) -> list[Block]:
    """Dollars a day by cause, at the demand that is planned for."""
    rows = [
        (
            name,
            *(figures.usd("policies", name, "expected", "usd_per_day", cause) for cause in _CAUSES),
        )
        for name in fleet["policies"]
    ]
    return [Table(_SUM_COLUMNS, rows, place="page"), Drawing(dollars(fleet)), Drawing(worth(fleet))]


def _day(fleet: dict[str, Any], last_policy: str) -> list[Block]:
    """Chips by service and job in each hour of the first day, drawn for up to a week."""
    weekday = datetime.fromisoformat(fleet["hours"][0]).strftime("%A")
    marks = [*coloured_names(fleet), ("idle", "idle")]
    blocks: list[Block] = [_hours(fleet, last_policy), Drawing(legend(marks), is_wide=True)]
    blocks += [Drawing(day(fleet, name, 0, f"{name}, {weekday}")) for name in fleet["policies"]]
    if fleet["demand"]:
        caption = "Lines: chips that the services' demand needs, P50, and dashed P10 and P90."
        blocks.append(Note(caption, kind="soft", place="page"))
    later_days = range(1, min(fleet["days"], _MOST_DRAWN_DAYS))
    if later_days:
        drawings = []
        for number in later_days:
            date = datetime.fromisoformat(fleet["hours"][number * _HOURS_OF_DAY])
            drawings.append(Drawing(day(fleet, last_policy, number, date.strftime("%A, %d %B"))))
        blocks.append(
            FoldedBlocks(f"{last_policy}: the next {len(later_days)} days", drawings, "page")
        )
    return blocks


def _hours(fleet: dict[str, Any], last_policy: str) -> Table:
    chips = fleet["policies"][last_policy]["chips"]
    names = list(chips)[:_MOST_SHOWN_COLUMNS]
    header = [f"chips, first day, {last_policy}", *(clipped(name, 12) for name in names), "idle"]
    rows = [
        (
            datetime.fromisoformat(fleet["hours"][hour]).strftime("%a %H:%M"),
            *(f"{chips[name][hour]:,}" for name in names),
            f"{fleet['usable_chips'] - sum(by_hour[hour] for by_hour in chips.values()):,}",
        )
        for hour in range(_HOURS_OF_DAY)
    ]
    return Table([Column(name) for name in header], rows, place="text")


def _missed_blocks(fleet: dict[str, Any]) -> list[Block]:
    if not fleet["services"]:
        return [Note("There are no services.")]
    rows = [
        (policy, name, amounts(interval(np.array(draws) / fleet["days"])))
        for policy, outcome in fleet["policies"].items()
        for name, draws in outcome["draws"]["requests_missed"].items()
    ]
    table_columns = columns("policy | service | requests missed a day", numbers_from=2)
    return [
        *(Drawing(misses(fleet, policy)) for policy in fleet["policies"]),
        Table(table_columns, rows),
    ]


def _training_blocks(fleet: dict[str, Any]) -> list[Block]:
    rows = [
        (policy, name, amounts(interval(np.array(draws) * _BILLIONTH / fleet["days"])))
        for policy, outcome in fleet["policies"].items()
        for name, draws in outcome["draws"]["tokens"].items()
    ]
    if not rows:
        return [Note("There are no jobs.")]
    perfect_usd = fleet["perfect_sharing_training_usd"]
    remarks = [
        f"{policy}: training reaches {outcome['expected']['training_usd'] / perfect_usd:.1%} of "
        "perfect sharing."
        for policy, outcome in fleet["policies"].items()
        if perfect_usd
    ]
    table_columns = columns("policy | job | billion tokens a day", numbers_from=2)
    return [Table(table_columns, rows), *map(Note, remarks)]


def _splits(fleet: dict[str, Any]) -> Table:
    rows = [
        (
            f"{split['jobs']:,}",
            f"{split['chips']:,}",
            seconds(split["mtbf_s"]),
            f"{split['goodput']:.1%}",
            f"{split['jobs'] * split['chips'] * split['goodput']:,.0f}",
        )
        for split in fleet["splits"]
    ]
    return Table(_SPLIT_COLUMNS, rows)


def _assumption_blocks(fleet: dict[str, Any], figures: Figures) -> list[Block]:
    """Sources of prices and rates."""
    lines: list[Cell] = [("chips: ", figures.usd("usd_per_chip_hour"), f" USD/h, {fleet['price']}")]
    lines += [
        f"{service['name']}: {service['requests_per_s']:.3g} requests/s on "
        f"{service['replica_chips']} chips, {service['basis']}; "
        f"{seconds(service['ready_s'])} to start"
        for service in fleet["services"]
    ]
    for number, job in enumerate(fleet["jobs"]):
        count = f"{job['count']} x " if job["count"] > 1 else ""
        label = (
            f"{job['name']}: {count}{_widths(job)} chips, {job['basis']}; "
            f"{seconds(job['stop_s'])} to change, "
        )
        lines.append(
            (label, figures.usd("jobs", number, "usd_per_million_tokens"), " USD/M tokens")
        )
    page_lines: list[Cell] = [
        (f"a missed request of {service['name']}: ",
         figures.usd("services", number, "usd_per_missed_request"), " USD")
        for number, service in enumerate(fleet["services"])
    ]  # fmt: skip
    page_lines += [
        ("a kWh: ", figures.usd("usd_per_kwh"), " USD, by the scenario"),
        f"a chip fails every {seconds(fleet['chip_mtbf_s'])}, by the scenario or its default",
        f"{fleet['block_chips']:,} chips change hands together, which divides all widths",
    ]
    files = "figures.json has every number of this page, table.csv each hour."
    return [Items(lines), Items(page_lines, place="page"), Note(files, kind="soft", place="page")]


def _widths(job: dict[str, Any]) -> str:
    chips = [str(level["chips"]) for level in job["levels"][1:]]
    return enumerated(
        chips if len(chips) <= _MOST_SHOWN_WIDTHS else [*chips[:2], "...", chips[-1]], "or"
    )


def _rows(fleet: dict[str, Any]) -> Table:
    """A row for each policy, hour, and service or job."""
    rows = [
        [policy, when, name, "service" if name in fleet["demand"] else "job", chips[hour]]
        + [
            series[name][quantile][hour] if name in series else None
            for series in (fleet["demand"], outcome["requests_missed"], outcome["tokens"])
            for quantile in _QUANTILES
        ]
        for policy, outcome in fleet["policies"].items()
        for name, chips in outcome["chips"].items()
        for hour, when in enumerate(fleet["hours"])
    ]
    names = ["policy", "hour", "name", "is", "chips"]
    names += [f"{series}_{quantile}" for series in _HOURLY_SERIES for quantile in _QUANTILES]
    return records([dict(zip(names, row, strict=True)) for row in rows], names)
