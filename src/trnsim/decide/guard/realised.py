"""What a move has saved so far, month by month, from a bill.

    expected = today's bill x (volume of the month / volume of the decision)
    saving   = 1 - USD billed / expected
    paid back once the sum of (expected - USD billed) reaches the cost of the migration

A bill is a table, CSV or YAML, with the columns month (YYYY-MM), workload and usd, and where it is
known volume, in the unit of the inventory. Lines of one month and workload are summed, so GPUs that
are kept are lines of their own. A month without a volume is taken to have that of the decision.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trnsim.cells import Cells, read_table
from trnsim.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from trnsim.decide.decision import Candidate, Decision, WorkloadDecision

COLUMNS: Final = ("month", "workload", "usd", "volume")
_MOST: Final = 1e12
"""USD or units; above it a number is a slip."""


@dataclass(frozen=True)
class Month:
    """One workload in one month.

    Attributes:
        month: YYYY-MM.
        usd: billed.
        volume: done, or None where the bill does not say.
        expected_usd: what the old instances would have cost for it.
        total_usd: expected less billed, of all months so far.
        is_as_predicted: whether the saving lies in the predicted interval; None without one.
    """

    month: str
    usd: float
    volume: float | None
    expected_usd: float
    total_usd: float
    is_as_predicted: bool | None

    @property
    def saving(self) -> float:
        """Part of the expected cost that was not billed."""
        return 1 - self.usd / self.expected_usd


@dataclass(frozen=True)
class Realised:
    """All months of one workload.

    Attributes:
        missing: months between the first and the last that the bill leaves out.
        paid_back_in: the month in which the migration was paid back, or None: not yet.
    """

    workload: WorkloadDecision
    months: tuple[Month, ...]
    missing: tuple[str, ...]
    paid_back_in: str | None


def realised(path: Path, decision: Decision) -> tuple[Realised, ...]:
    """The realised saving of each workload that the bill at `path` names.

    Raises:
        BadInput: the bill or a line of it cannot be used, or names no workload of the decision.
    """
    names = [one.name for one in decision.workloads]
    lines = read_table(path, COLUMNS, required=COLUMNS[:3])
    billed: dict[str, dict[str, list[Cells]]] = {}
    for line in lines:
        name, month = line.one_of("workload", names), _month(line)
        billed.setdefault(name, {}).setdefault(month, []).append(line)
    if not billed:
        raise BadInput(f"{path}: no line below the header", fix=f"columns: {', '.join(COLUMNS)}")
    return tuple(
        _realised(decision.workload(name), billed[name]) for name in names if name in billed
    )


def _realised(workload: WorkloadDecision, billed: Mapping[str, Sequence[Cells]]) -> Realised:
    months: list[Month] = []
    total = 0.0
    for month in sorted(billed):
        usd = sum(_usd(line) for line in billed[month])
        volume = _volume(billed[month])
        expected = workload.today.usd_per_month * (volume or workload.volume) / workload.volume
        total += expected - usd
        judged = _is_as_predicted(workload, 1 - usd / expected)
        months.append(Month(month, usd, volume, expected, total, judged))
    cost = workload.migration.usd
    paid = next((one.month for one in months if one.total_usd >= cost), None)
    return Realised(workload, tuple(months), _missing(billed), paid)


def _usd(line: Cells) -> float:
    """What a line bills; zero and credits, which are negative, are legal."""
    return line.number_from("usd", -_MOST, at_most=_MOST)


def _volume(lines: Iterable[Cells]) -> float | None:
    given = [line.number("volume", above=0, at_most=1e18) for line in lines if "volume" in line]
    return sum(given) if given else None


def _is_as_predicted(workload: WorkloadDecision, saving: float) -> bool | None:
    candidate = _best(workload)
    if candidate is None or candidate.saving is None:
        return None
    return candidate.saving.p10 <= saving <= candidate.saving.p90


def _best(workload: WorkloadDecision) -> Candidate | None:
    return next((one for one in workload.candidates if one.instance == workload.best), None)


def _month(line: Cells) -> str:
    given = line.text("month")
    if not re.fullmatch(r"2\d{3}-(0[1-9]|1[0-2])", given):
        raise line.refused("month", "legal: a month as YYYY-MM, for example 2026-11")
    return given


def _missing(months: Iterable[str]) -> tuple[str, ...]:
    """Months that lie between the first and the last, and are not there."""
    numbers = sorted(int(month[:4]) * 12 + int(month[5:]) - 1 for month in months)
    absent = sorted(set(range(numbers[0], numbers[-1])) - set(numbers))
    return tuple(f"{number // 12}-{number % 12 + 1:02}" for number in absent)
