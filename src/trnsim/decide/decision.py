"""Decisions as values, and as the JSON file that pages, pilots and guards read.

Every dollar of a workload follows from figures in the same file:

    usd_per_month    = bill x (paid hours x USD/h of the candidate) / (paid hours x USD/h of today's
                       instance), at P50
    saving           = 1 - usd_per_month / bill
    pays_back_months = migration USD / (bill x saving)
    bill             = today's USD a month

P50 is the figure at the medians of all inputs; P10 and P90 are quantiles of the draws.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Final

from trnsim import files
from trnsim.decide.inventory.workload import Kind, VolumeUnit
from trnsim.document.values import SCHEMA, json_text, with_schema
from trnsim.errors import BadInput
from trnsim.facts import Interval
from trnsim.reader import SourcePlace, load, record

SCHEMA_NAME: Final = "assess/1"
FORMAT: Final = 1
"""Version of the file; files of other versions are refused."""
_FIX: Final = "give a file that `trnsim assess INVENTORY --output DECISION.json` wrote"
MOST_DRAWS: Final = 1_000_000
_MOST_FIGURE: Final = 1e18
"""Maximum of a figure in a file, beyond all that trnsim writes."""


class Verdict(StrEnum):
    """Recommendation for a workload."""

    GO = "go"
    """Move: it pays back in nearly all draws, on a family with published times."""
    PILOT = "pilot"
    """Try it first: it pays back in most draws, or the times of its family are extrapolated."""
    NO_GO = "no-go"
    """Leave it on GPUs: it does not pay back, or something forbids it."""
    NEEDS_QUOTE = "needs-quote"
    """Ask for a price: it pays back at some price, and is not on sale at today's kind."""
    STAY = "stay"
    """It runs on AWS's chips, and no other instance pays back."""


@dataclass(frozen=True)
class Assumption:
    """A number that the user did not state; `value` is None if the assumption is not a number."""

    name: str
    value: float | None
    unit: str
    source: str


@dataclass(frozen=True)
class Ruling:
    """A rule of the source document, and its outcome for a workload.

    Attributes:
        group: "ideal", "considerations", "not-recommended" or "inferentia".
        applies: True if the rule holds; None if the inventory does not say.
        evidence: figures on which the outcome rests.
    """

    name: str
    group: str
    applies: bool | None
    effect: str
    evidence: str


@dataclass(frozen=True)
class DatedPrice:
    """A dated price of an instance.

    Attributes:
        kind: purchase kind, one of `trnsim.price.quotes.KINDS`.
        region: code of the AWS region.
        day: day of the price, YYYY-MM-DD; "" if unknown.
        is_stale: True if the price is more than 90 days old.
    """

    usd_per_hour: float
    kind: str
    region: str
    day: str
    source: str
    is_stale: bool = False


@dataclass(frozen=True)
class Months:
    """Quantiles of the months until a migration is paid back; None where it never is."""

    p10: float | None
    p50: float | None
    p90: float | None


@dataclass(frozen=True)
class Today:
    """Today's instances and bill of a workload.

    Attributes:
        count: number of instances; None if the inventory does not state it.
        kind: purchase kind of the bill.
        hours: instance-hours a month that the model predicts, as it does for candidates.
        paid_hours: hours that are paid for, at P50.
        price: price of this kind, from the catalogue or the bill; None if neither has it.
        refused: reason why the instance cannot be predicted.
    """

    instance: str
    count: int | None
    kind: str
    usd_per_month: float
    hours: Interval | None
    paid_hours: float | None
    price: DatedPrice | None
    refused: str | None = None


@dataclass(frozen=True)
class Candidate:
    """A workload on another instance, or on today's as the choice to stay.

    Attributes:
        is_neuron: True if its chips are AWS's.
        instances: instances in use at one time.
        kind: purchase kind of `price`; "" without a price.
        hours: instance-hours a month.
        paid_hours: hours paid for, at P50; not rounded up to the whole days of a block.
        price: price of the same kind as today's; None if the instance is not on sale so.
        no_price: reason for the lack of a price.
        usd_per_month: today's bill x predicted cost of this candidate / that of today's instance.
        saving: part of today's bill.
        break_even_usd_per_hour: highest price at which the move pays back in time, at P50.
        pays_back_months: months until the migration is paid back.
        share_paying_back: share of the draws in which the move pays back within the limit.
        family: family of published times whose errors the prediction is assumed to have.
        is_validated: True if times of such a model and phase on this chip were published.
        error: relative errors of the family's predictions: {"median": 0.05, "p90": 0.10}.
        refused: reason why the workload cannot run on this instance.
        layout: parallel layout or deployment that the planner chose.
        slo: state of the promised latency: "met", "missed", or None without one.
        ms: milliseconds by cause, of a training step, a token or an item.
        usd: USD a month by the same causes.
        notes: remarks on the prediction and the price, for readers.
    """

    instance: str
    is_neuron: bool
    instances: int | None = None
    kind: str = ""
    hours: Interval | None = None
    paid_hours: float | None = None
    price: DatedPrice | None = None
    no_price: str | None = None
    usd_per_month: Interval | None = None
    saving: Interval | None = None
    break_even_usd_per_hour: float | None = None
    pays_back_months: Months | None = None
    share_paying_back: float | None = None
    family: str = ""
    is_validated: bool = False
    error: dict[str, float] = field(default_factory=dict[str, float])
    refused: str | None = None
    slo: str | None = None
    layout: str = ""
    ms: dict[str, float] = field(default_factory=dict[str, float])
    usd: dict[str, float] = field(default_factory=dict[str, float])
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Swing:
    """Net saving at P10 and at P90 of one input, the other inputs at their medians.

    Attributes:
        low: share of the bills at P10 of the input, net of the cost of the migration.
        high: share of the bills at P90 of the input, net of the cost of the migration.
    """

    input: str
    low: float
    high: float


@dataclass(frozen=True)
class ProgramFinding:
    """Code that other chips do not run unchanged, found by a scan of a program.

    Attributes:
        path: file, relative to the folder of the inventory.
        line: line number from 1.
        kind: kind of finding, one of `trnsim.decide.scan.findings.KINDS`.
        name: name in the code, such as "flash_attn".
        text: remedy.
    """

    path: str
    line: int
    kind: str
    name: str
    text: str = ""


@dataclass(frozen=True)
class Migration:
    """One-time cost of a move.

    Attributes:
        weeks: engineer-weeks.
        usd_per_week: cost of an engineer-week.
        usd: cost of all weeks.
    """

    weeks: float
    usd_per_week: float
    usd: float


@dataclass(frozen=True)
class WorkloadDecision:
    """The decision about one workload.

    Attributes:
        volume: work of a month, in `volume_unit`.
        is_close_call: True if the share of draws that pay back is too near a threshold to tell the
            side, or if the move pays back at the medians of all inputs but not in most draws.
        reason: reason for the verdict, with its figures.
        best: instance that the verdict is about, or None.
        migration: cost of a move to AWS's chips, or from one of them to another.
        tornado: net saving of a move to `best` by input, the widest range first.
        split: operators in the programs that AWS's chips do not run.
    """

    name: str
    kind: Kind
    model: str
    volume: float
    volume_unit: VolumeUnit
    verdict: Verdict
    is_close_call: bool
    reason: str
    best: str | None
    today: Today
    migration: Migration
    rules: tuple[Ruling, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    tornado: tuple[Swing, ...] = ()
    findings: tuple[ProgramFinding, ...] = ()
    split: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()

    def candidate(self, instance: str | None) -> Candidate | None:
        """The candidate of an instance type; None if there is none."""
        return next((option for option in self.candidates if option.instance == instance), None)


@dataclass(frozen=True)
class Decision:
    """All decisions about an inventory.

    Attributes:
        as_of: day of the prices, YYYY-MM-DD.
        kind: purchase kind of all prices; "" for today's kind of each workload.
        assumptions: numbers of the model that no user stated.
        caveats: warnings about all decisions, such as old prices.
        format: version of the file.
    """

    version: str
    as_of: str
    seed: int
    draws: int
    kind: str
    inventory: str
    workloads: tuple[WorkloadDecision, ...]
    assumptions: tuple[Assumption, ...] = ()
    caveats: tuple[str, ...] = ()
    format: int = FORMAT

    def workload(self, name: str) -> WorkloadDecision:
        """The decision about the workload called `name`.

        Raises:
            BadInput: no workload has this name.
        """
        for workload in self.workloads:
            if workload.name == name:
                return workload
        legal = ", ".join(workload.name for workload in self.workloads)
        raise BadInput(f"no workload is called {name!r}; legal: {legal}")

    def text(self) -> str:
        """The decision as JSON."""
        return json_text(with_schema(self, SCHEMA_NAME)) + "\n"

    def write(self, path: Path | str) -> Path:
        """Write the decision to `path`.

        Raises:
            BadInput: it cannot be written.
        """
        return files.write(path, self.text())


def read(path: Path | str) -> Decision:
    """The decision that `Decision.write` wrote to `path`.

    Raises:
        BadInput: it cannot be read, is of another version, or a field is not legal; named.
    """
    place = load(path, _FIX).root
    if not isinstance(place.value, dict) or "format" not in place.value:
        raise place.document.refused(1, "no decision: it has no format")
    if str(place.value["format"]) != str(FORMAT):
        fix = "write it again with this version of trnsim"
        raise place.inner("format").refused(f"legal: {FORMAT}", fix)
    values = {name: value for name, value in place.value.items() if name != SCHEMA}
    decision = record(Decision, place._replace(value=values))
    check_decision(decision, place)
    return decision


def check_decision(decision: Decision, place: SourcePlace) -> None:
    """Refuse a decision from a file, if figures cannot follow from its values.

    Raises:
        BadInput: a value is not legal; named.
    """
    try:
        date.fromisoformat(decision.as_of)
    except ValueError:
        raise place.inner("as_of").refused("legal: a day as 2026-11-21") from None
    if not 1 <= decision.draws <= MOST_DRAWS:
        raise place.inner("draws").refused(f"legal: from 1 to {MOST_DRAWS:,}")
    if decision.seed < 0:
        raise place.inner("seed").refused("legal: whole numbers from 0 on")
    for index, workload in enumerate(decision.workloads):
        entry = place.inner("workloads").inner(index)
        check_positive(entry, workload, "volume")
        today = entry.inner("today")
        check_positive(today, workload.today, "usd_per_month", "count", "paid_hours", "hours")
        check_positive(today.inner("price"), workload.today.price, "usd_per_hour")
        for number, candidate in enumerate(workload.candidates):
            option = entry.inner("candidates").inner(number)
            check_positive(option, candidate, "paid_hours", "hours")
            if candidate.error and not {"median", "p90"} <= candidate.error.keys():
                raise option.inner("error").refused("legal: median and p90, or nothing")


def check_positive(place: SourcePlace, values: object, *names: str) -> None:
    """Refuse numbers and intervals that are not above 0.

    Args:
        place: place of the object in its file.
        values: the object, or None.
        names: attributes of the object, whose values may be None.

    Raises:
        BadInput: a value is not above 0, or beyond all that trnsim writes; named.
    """
    for name in names:
        value = getattr(values, name, None)
        if isinstance(value, Interval):
            if not 0 < value.p10 <= value.p50 <= value.p90 <= _MOST_FIGURE:
                legal = f"legal: p10, p50 and p90 above 0 and at most {_MOST_FIGURE:g}, in order"
                raise place.inner(name).refused(legal)
        elif value is not None and not 0 < value <= _MOST_FIGURE:
            raise place.inner(name).refused(f"legal: above 0 and at most {_MOST_FIGURE:g}")
