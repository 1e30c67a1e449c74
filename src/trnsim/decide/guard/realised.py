"""Realised saving of a move, month by month, from a bill.

    expected = today's bill x (volume of the month / volume of the decision)
    saving   = 1 - USD billed / expected
    paid back once the sum of (expected - USD billed) reaches the cost of the migration

The expected cost is the cost of the month's work on the instances that the decision replaces.

A bill is a table, CSV or YAML, with the columns month (YYYY-MM), workload, usd and optionally
volume, in the unit of the inventory. Lines of one month and workload are summed: GPUs that are kept
may have lines of their own. A month without a volume is assumed to have the decision's volume.

A cost and usage report of AWS is a bill too: a tag names the workload of each usage.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trnsim.decide.decision import Decision, WorkloadDecision
from trnsim.decide.inventory.bill import read_bill
from trnsim.decide.inventory.bill_rows import is_bill, tag_key
from trnsim.reader import FileRecord, between, declared, fault, read_rows

_MOST_AMOUNT: Final = 1e12
"""Maximum amount in USD; a larger number is treated as a typing error."""
_COLUMNS: Final = "month, workload, usd, volume"


def _month(text: str) -> str:
    if not re.fullmatch(r"2\d{3}-(0[1-9]|1[0-2])", text, re.ASCII):
        raise ValueError(text)
    return text


@dataclass(frozen=True, kw_only=True)
class BillLine(FileRecord):
    """The cost of a workload in a month; several lines are summed."""

    month: str = declared(
        help="the month", parse=_month, legal="a month as YYYY-MM, for example 2026-11"
    )
    workload: str = declared(help="name of the workload in the decision", example="chat")
    usd: float = between(
        "what is billed; credits are negative", -_MOST_AMOUNT, _MOST_AMOUNT, unit="USD"
    )
    volume: float | None = declared(
        None,
        help="what was done, in the unit of the inventory; that of the decision if empty",
        exclusive_minimum=0,
        maximum=1e18,
    )


@dataclass(frozen=True)
class Month:
    """Costs of a workload in a month.

    Attributes:
        month: YYYY-MM.
        volume: work of the month in the unit of the inventory; None if the bill does not state it.
        expected_usd: cost of the same work on the old instances.
        total_usd: expected less billed cost, summed over all months up to this one.
        is_as_predicted: True if the saving lies in the predicted P10 to P90; None if the decision
            has no predicted saving.
    """

    month: str
    usd: float
    volume: float | None
    expected_usd: float
    total_usd: float
    is_as_predicted: bool | None

    @property
    def saving(self) -> float:
        """Share of the expected cost that was saved."""
        return 1 - self.usd / self.expected_usd


@dataclass(frozen=True)
class RealisedSaving:
    """Costs of a workload in all months.

    Attributes:
        months: months of the bill, in order.
        missing: months between the first and the last that the bill lacks, YYYY-MM.
        paid_back_in: month in which the migration was paid back; None if it is not yet.
    """

    workload: WorkloadDecision
    months: tuple[Month, ...]
    missing: tuple[str, ...]
    paid_back_in: str | None


def realised_savings(
    path: Path, decision: Decision, tag: str = "workload"
) -> tuple[RealisedSaving, ...]:
    """Realised saving of each workload on the bill at `path`.

    Args:
        path: a table, or a cost and usage report.
        decision: decision with its predictions.
        tag: key of the tag that names the workload of a report's usage.

    Raises:
        BadInput: the bill or a line of it cannot be used, or names no workload of the decision.
    """
    names = [workload.name for workload in decision.workloads]
    lines = _report_lines(path, names, tag) if is_bill(path) else _table_lines(path, names)
    ledger: dict[str, dict[str, list[_MonthlyCost]]] = {}
    for line in lines:
        ledger.setdefault(line.workload, {}).setdefault(line.month, []).append(line)
    return tuple(
        _realised_saving(decision.workload(name), ledger[name]) for name in names if name in ledger
    )


@dataclass(frozen=True)
class _MonthlyCost:
    """Cost of a workload in a month on a bill."""

    workload: str
    month: str
    usd: float
    volume: float | None = None


def _table_lines(path: Path, names: Sequence[str]) -> list[_MonthlyCost]:
    """Costs in a table of months and workloads."""
    lines = [
        _MonthlyCost(row.choice("workload", names), row.month, row.usd, row.volume)
        for row in read_rows(BillLine, path)
    ]
    if not lines:
        raise fault(path, "no line below the header", fix=f"columns: {_COLUMNS}")
    return lines


def _report_lines(path: Path, names: Sequence[str], tag: str) -> list[_MonthlyCost]:
    """Costs of the usage, in a cost and usage report, whose tag names a workload."""
    usage = read_bill(path).usage
    lines: list[_MonthlyCost] = []
    for use in usage:
        name = dict(use.tags).get(tag_key(tag))
        if name in names:
            if not use.usd:
                raise fault(
                    path,
                    f"{use.hours:g} hours of {use.instance} ({use.kind}) for "
                    f"{name} cost nothing: a block is paid in advance",
                    fix=f"give a table with {_COLUMNS} that has what the block cost",
                    line=use.line,
                )
            lines.append(_MonthlyCost(str(name), use.month, use.usd))
    if not lines:
        values = sorted({value for use in usage for key, value in use.tags if key == tag_key(tag)})
        raise fault(
            path,
            f"no usage has the tag {tag} of a workload ({', '.join(names)}); "
            f"it has {', '.join(values) or 'none'}",
            fix="tag the instances of each workload, or name another tag with --tag",
        )
    return lines


def _realised_saving(
    workload: WorkloadDecision, ledger: Mapping[str, Sequence[_MonthlyCost]]
) -> RealisedSaving:
    """Realised saving of a workload, from its costs by month."""
    months: list[Month] = []
    total_usd = 0.0
    for month in sorted(ledger):
        usd = sum(line.usd for line in ledger[month])
        volumes = [line.volume for line in ledger[month] if line.volume is not None]
        volume = sum(volumes) if volumes else None
        expected_usd = workload.today.usd_per_month * (volume or workload.volume) / workload.volume
        total_usd += expected_usd - usd
        is_as_predicted = _is_as_predicted(workload, 1 - usd / expected_usd)
        months.append(Month(month, usd, volume, expected_usd, total_usd, is_as_predicted))
    cost = workload.migration.usd
    payback_month = next((month.month for month in months if month.total_usd >= cost), None)
    return RealisedSaving(workload, tuple(months), _missing_months(ledger), payback_month)


def _is_as_predicted(workload: WorkloadDecision, saving: float) -> bool | None:
    candidate = workload.candidate(workload.best)
    if candidate is None or candidate.saving is None:
        return None
    return candidate.saving.p10 <= saving <= candidate.saving.p90


def _missing_months(months: Iterable[str]) -> tuple[str, ...]:
    """Months between the first and the last that are missing."""
    numbers = sorted(int(month[:4]) * 12 + int(month[5:]) - 1 for month in months)
    missing_numbers = sorted(set(range(numbers[0], numbers[-1])) - set(numbers))
    return tuple(f"{number // 12}-{number % 12 + 1:02}" for number in missing_numbers)
