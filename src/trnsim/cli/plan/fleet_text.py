"""What `trnsim plan fleet` prints, from the JSON that it gives as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trnsim.facts import Interval
from trnsim.formatting import amount, amounts, clipped, enumerated, seconds, text_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnsim.system.fleet.scenario import Scenario

_WIDTH: Final = 100
_UNITS: Final = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"), (1e3, "thousand"))
_MWH: Final = 1e3
_DAY_HOURS: Final = 24
_COLUMNS: Final = 6
"""Services and jobs that the day shows."""


def text(scenario: Scenario, made: dict[str, Any]) -> str:
    """The fleet, policies side by side, a day of the last one, and jobs of other sizes."""
    policies = made["policies"]
    last = list(policies)[-1]
    parts = [
        _title(made),
        _table(policies),
        _worth(made, last),
        _day(scenario, made, last),
        _splits(made),
        _basis(made),
    ]
    return "\n\n".join(parts)


def _title(made: dict[str, Any]) -> str:
    spares = f"{made['spare_chips']:,} of them spare"
    buildings = f"{len(made['buildings'])} building{'s' * (len(made['buildings']) > 1)}"
    hands = (
        f"{made['chips']:,} chips in {buildings}, {spares}; {made['block_chips']:,} change hands"
    )
    asked = f"planned for {made['planned_for'].upper()} of demand"
    days = f"{made['days']} day{'s' * (made['days'] > 1)}"
    when = f"{days} from {made['start']}, {asked}"
    return "\n".join([clipped(made["name"], _WIDTH), f"{hands} together", when])


def _interval(found: dict[str, float], scale: float = 1.0) -> Interval:
    return Interval(found["p10"] * scale, found["p50"] * scale, found["p90"] * scale)


def _percents(found: dict[str, float], digits: int) -> str:
    p50, p10, p90 = (f"{100 * found[name]:.{digits}f}" for name in ("p50", "p10", "p90"))
    return f"{p50} ({p10} to {p90})"


def _unit(policies: dict[str, Any], name: str) -> tuple[float, str]:
    """A unit in which all medians are readable, and its name."""
    most = max(abs(one[name]["p50"]) for one in policies.values())
    return next((unit for unit in _UNITS if most >= 10 * unit[0]), (1.0, ""))


def _table(policies: dict[str, Any]) -> str:
    token, tokens = _unit(policies, "tokens_per_day")
    dollar, dollars = _unit(policies, "usd_per_day")
    header = ["policy", "used, %", "SLO missed, %"]
    header += [f"{tokens} tokens/day", f"{dollars} USD/day"]
    has_energy = any(one["energy_kwh_per_day"] is not None for one in policies.values())
    header += ["MWh/day"] * has_energy
    rows: list[Sequence[str]] = []
    for name, one in policies.items():
        row = [
            name,
            _percents(one["utilisation"], 0),
            _percents(one["missed_part"], 2),
            amounts(_interval(one["tokens_per_day"], 1 / token)),
            amounts(_interval(one["usd_per_day"], 1 / dollar)),
        ]
        if has_energy:
            row.append(amount(one["energy_kwh_per_day"] / _MWH))
        rows.append(row)
    return text_table(header, rows)


def _worth(made: dict[str, Any], last: str) -> str:
    """How near training comes to sharing without any cost."""
    one = made["policies"][last]
    most = made["perfect_sharing_training_usd"]
    lines = [
        "P50 (P10 to P90). USD: chips, energy, missed requests, less the worth of trained tokens."
    ]
    if most:
        part = one["expected"]["training_net_usd"] / most
        lines.append(f"Training by the {last} plan reaches {part:.1%} of perfect sharing.")
    if not one["own_plan"]:
        lines.append("The solver found nothing better than the threshold policy's plan.")
    return "\n".join(lines)


def _day(scenario: Scenario, made: dict[str, Any], last: str) -> str:
    """Chips by service and job in each hour of the first day."""
    chips = made["policies"][last]["chips"]
    names = list(chips)[:_COLUMNS]
    header = [f"first day, {last}", *(clipped(name, 12) for name in names), "idle"]
    usable = scenario.blocks * scenario.block_chips
    rows = [
        [
            scenario.local(hour).strftime("%a %H:%M"),
            *(f"{chips[name][hour]:,}" for name in names),
            f"{usable - sum(every[hour] for every in chips.values()):,}",
        ]
        for hour in range(_DAY_HOURS)
    ]
    return text_table(header, rows)


def _splits(made: dict[str, Any]) -> str:
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
    header = ("jobs on all chips", "chips each", "a failure every", "goodput", "chips' worth")
    return text_table(header, rows)


def _basis(made: dict[str, Any]) -> str:
    """Where prices and rates are from."""
    lines = [f"chips: {made['usd_per_chip_hour']:.3g} USD/h, {made['price']}"]
    lines += [
        f"{one['name']}: {one['requests_per_s']:.3g} requests/s on {one['replica_chips']} chips, "
        f"{one['basis']}; {seconds(one['ready_s'])} to start"
        for one in made["services"]
    ]
    for one in made["jobs"]:
        many = f"{one['count']} x " if one["count"] > 1 else ""
        widths = [str(level["chips"]) for level in one["levels"][1:]]
        shown = [*widths[:2], "...", widths[-1]] if len(widths) > 4 else widths  # noqa: PLR2004
        lines.append(
            f"{one['name']}: {many}{enumerated(shown, 'or')} chips, {one['basis']}; "
            f"{seconds(one['stop_s'])} to change, {one['usd_per_million_tokens']:.3g} USD/M tokens"
        )
    return "\n".join(clipped(line, _WIDTH) for line in lines)
