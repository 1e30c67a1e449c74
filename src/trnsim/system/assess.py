"""An inventory of workloads: time and cost of each on Trainium, and whether to move it.

The inventory is a CSV file, one workload a line. A training line pays for the instance-hours that
its tokens need; a serving line keeps whole instances on all month. The decision compares the
predicted bill with the one in the inventory; it does not check whether the model's operators are
supported.
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from trnsim import files
from trnsim.errors import BadInput, EmulatorError, SourceLine
from trnsim.formatting import parse_number
from trnsim.price import payback_months
from trnsim.price.payback import HOURS_PER_MONTH, MIGRATION_USD, PAYBACK_LIMIT_MONTHS
from trnsim.system.machine import compared, machine, trainiums
from trnsim.system.serve import report
from trnsim.system.serve.demand import kept_busy
from trnsim.system.serve.options import Options
from trnsim.system.serve.plan import Plan, plan
from trnsim.system.train.best import Effort
from trnsim.system.train.estimate import BATCH_TOKENS
from trnsim.system.train.estimate import estimate as train
from trnsim.system.workload import config

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from trnsim.arch.catalogue import Catalogue
    from trnsim.facts import Interval
    from trnsim.system.workload.architecture import Architecture

COLUMNS: Final = ("workload", "model_config", "kind", "current_instance", "usd_per_month")
VOLUMES: Final = ("tokens_per_month", "gpu_hours")
KINDS: Final = ("train", "serve")
_EFFORT: Final = Effort(budget=8)
"""What the search of a layout takes for each workload and platform."""


@dataclass(frozen=True)
class Workload:
    """One line of the inventory.

    Attributes:
        architecture: the model.
        volume: value of `volume_unit`, per month: tokens (of output, when serving) or GPU hours.
        line: its line in the file, for errors.
    """

    name: str
    architecture: Architecture
    kind: str
    volume: float
    volume_unit: str
    current_instance: str
    usd_per_month: float
    line: SourceLine


class Decision(Enum):
    """The decision about a workload."""

    GO = "go"
    PILOT = "pilot"
    NO_GO = "no-go"


@dataclass(frozen=True)
class Option:
    """One workload on one platform for a month.

    Attributes:
        hours: instance-hours per month.
        usd: USD per month, or None without a public price.
        saving: ``1 - usd / today's``, P50, or None.
    """

    platform: str
    instance: str
    hours: Interval
    usd: Interval | None
    saving: float | None
    price: str
    validated: bool
    basis: str


@dataclass(frozen=True)
class Assessment:
    """A workload, its options, and the decision with its reason."""

    workload: Workload
    tokens_per_month: float
    options: tuple[Option, ...]
    decision: Decision
    reason: str


def assess(
    path: str | Path,
    *,
    on: tuple[str, ...] = (),
    kind: str = "capacity_block",
    as_of: date | None = None,
    rows: Catalogue | None = None,
) -> list[Assessment]:
    """Each workload of the inventory at `path`, on the platforms `on`, or on all compared ones.

    Raises:
        BadInput: the file, a line of it, a platform or a purchase kind cannot be used.
    """
    return [
        _assess_one(workload, on or compared(), kind, as_of, rows)
        for workload in read_inventory(path, rows)
    ]


def read_inventory(path: str | Path, rows: Catalogue | None = None) -> list[Workload]:
    """The workloads of a CSV file; paths of models are relative to it.

    Raises:
        BadInput: names file and line, what was given, and what is legal.
    """
    path = Path(path)
    text = files.read_text(
        path, fix=f"give a CSV file with the columns {', '.join(COLUMNS)} and {VOLUMES[0]}"
    )
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        return _workloads(path, reader, rows)
    except csv.Error as error:
        raise BadInput(
            f"{path}:{reader.line_num}: no CSV: {error}",
            fix="quote cells with double quotes, and double the quotes within",
            line=SourceLine(str(path), reader.line_num),
        ) from error


def _workloads(path: Path, reader: csv.DictReader[str], rows: Catalogue | None) -> list[Workload]:
    """A workload for each line below the header, which has to name every column."""
    columns = reader.fieldnames or ()
    missing = [name for name in COLUMNS if name not in columns]
    if not any(name in columns for name in VOLUMES):
        missing.append(" or ".join(VOLUMES))
    if missing:
        raise BadInput(
            f"{path}:1: columns missing: {', '.join(missing)}; "
            f"found: {', '.join(columns) or 'none'}",
            fix=f"the first line names {', '.join(COLUMNS)} and {' or '.join(VOLUMES)}",
            line=SourceLine(str(path), 1),
        )
    workloads = [_Line(path, reader.line_num, row).workload(rows) for row in reader]
    if not workloads:
        raise BadInput(f"{path}: no workloads", fix="add a line per workload below the header")
    return workloads


class _Line:
    """One line of the inventory; its errors name the line."""

    def __init__(self, path: Path, number: int, row: Mapping[str | None, Any]) -> None:
        self.path = path
        self.at = SourceLine(str(path), number)
        self.row = row

    def workload(self, rows: Catalogue | None) -> Workload:
        """The line as a workload."""
        extra = cast("list[str]", self.row.get(None, []))  # csv puts cells without a column there
        if extra:
            raise self.fault(
                f"{len(extra)} more cells than columns, the last of them {extra[-1]!r}",
                "write numbers without separators (8000, not 8,000); quote text that has a comma",
            )
        units = [unit for unit in VOLUMES if self.cell(unit)]
        if len(units) != 1:
            given = " and ".join(units) or "neither"
            raise self.fault(f"{given} given; legal: exactly one of {' and '.join(VOLUMES)}")
        kind = self.cell("kind")
        if kind not in KINDS:
            raise self.fault(f"kind is {kind!r}; legal: {', '.join(KINDS)}")
        try:
            architecture = config.read(self.path.parent / self.text("model_config"))
            machine(self.text("current_instance"), rows=rows)
        except EmulatorError as error:
            raise self.fault(error.reason, error.fix) from error
        return Workload(
            name=self.text("workload"),
            architecture=architecture,
            kind=kind,
            volume=self.positive(units[0]),
            volume_unit=units[0],
            current_instance=self.text("current_instance"),
            usd_per_month=self.positive("usd_per_month"),
            line=self.at,
        )

    def cell(self, column: str) -> str:
        """The text of a cell, "" where it is empty or absent."""
        return str(self.row.get(column) or "").strip()

    def text(self, column: str) -> str:
        """The text of a cell that must not be empty."""
        value = self.cell(column)
        if not value:
            raise self.fault(f"{column} is empty")
        return value

    def positive(self, column: str) -> float:
        """The positive number in a cell."""
        try:
            value = parse_number(self.cell(column))
        except ValueError as error:
            raise self.fault(f"{column}: {error}") from None
        if not (value > 0 and math.isfinite(value)):
            raise self.fault(f"{column} is {self.cell(column)!r}; legal: a positive number")
        return value

    def fault(self, what: str, fix: str = "") -> BadInput:
        """The error for this line."""
        return BadInput(f"{self.at}: {what}", fix=fix, line=self.at)


def _assess_one(
    workload: Workload,
    on: tuple[str, ...],
    kind: str,
    as_of: date | None,
    rows: Catalogue | None,
) -> Assessment:
    tokens = _tokens_per_month(workload, rows)
    options = tuple(_option(workload, tokens, name, kind, as_of, rows) for name in on)
    decision, reason = decide(workload.usd_per_month, options)
    return Assessment(workload, tokens, options, decision, reason)


def _tokens_per_month(workload: Workload, rows: Catalogue | None) -> float:
    """Tokens as given, or as predicted for `current_instance` in the GPU hours given."""
    if workload.volume_unit == "tokens_per_month":
        return workload.volume
    here = machine(workload.current_instance, rows=rows)
    if workload.kind == "train":
        run = train(workload.architecture, here.name, BATCH_TOKENS, effort=_EFFORT, rows=rows)
        tokens_per_chip_s = run.tokens_per_s / run.chips
    else:
        served = _served(workload, here.name, "capacity_block", None, rows)
        chips = served.deployment.instances * here.instance.count
        tokens_per_chip_s = served.served.figures["output_tokens_per_s"].p50 / chips
    return tokens_per_chip_s * workload.volume * 3600


def _option(
    workload: Workload,
    tokens: float,
    name: str,
    kind: str,
    as_of: date | None,
    rows: Catalogue | None,
) -> Option:
    """Instance-hours and USD of a month of `tokens` on platform `name`."""
    if workload.kind == "train":
        run = train(
            workload.architecture,
            name,
            tokens,
            effort=_EFFORT,
            kind=kind,
            as_of=as_of,
            rows=rows,
        )
        hours = run.time_s.scaled(run.instances / 3600)
        price, instance, validated, basis = run.quote, run.instance, run.validated, str(run.basis)
    else:
        found = _served(workload, name, kind, as_of, rows)
        hours = _serving_hours(found, tokens)
        price, instance = found.quote, found.deployment.machine.instance.name
        validated = report.is_validated(found.deployment)
        basis = report.times_source(found.deployment)
    usd = None if price.usd_per_hour is None else hours.scaled(price.usd_per_hour)
    return Option(
        platform=name,
        instance=instance,
        hours=hours,
        usd=usd,
        saving=None if usd is None else 1 - usd.p50 / workload.usd_per_month,
        price=str(price),
        validated=validated,
        basis=basis,
    )


def _served(
    workload: Workload, name: str, kind: str, as_of: date | None, rows: Catalogue | None
) -> Plan:
    """The layout of platform `name` that serves the usual requests for the least, kept busy."""
    where = machine(name, rows=rows)
    return plan(
        workload.architecture, where, Options(), kept_busy(), kind=kind, as_of=as_of, rows=rows
    )


def _serving_hours(found: Plan, tokens: float) -> Interval:
    """``ceil(needed / offered tokens per second) instances 730``: whole instances, all month."""
    needed_per_s = tokens / (HOURS_PER_MONTH * 3600)
    offered, instances = found.served.figures["output_tokens_per_s"], found.deployment.instances
    fleets = (math.ceil(needed_per_s / rate) for rate in (offered.p90, offered.p50, offered.p10))
    p10, p50, p90 = (float(fleet * instances * HOURS_PER_MONTH) for fleet in fleets)
    return type(offered)(p10, p50, p90)


def decide(usd_per_month: float, options: tuple[Option, ...]) -> tuple[Decision, str]:
    """Go, pilot or no-go, from the cheapest Trainium option with a public price.

    go: the migration pays back within the limit even at P90, and the estimate is validated;
    pilot: it does at P50; no-go: it does not.
    """
    priced = [(o.usd, o) for o in options if o.platform in trainiums() and o.usd is not None]
    if not priced:
        return Decision.NO_GO, "no Trainium option has a public price"
    usd, best = min(priced, key=lambda pair: pair[0].p50)
    likely = payback_months(MIGRATION_USD, usd_per_month, 1 - usd.p50 / usd_per_month)
    careful = payback_months(MIGRATION_USD, usd_per_month, 1 - usd.p90 / usd_per_month)
    limit = PAYBACK_LIMIT_MONTHS
    terms = f"{best.platform}: a migration of {MIGRATION_USD:,.0f} USD (assumed)"
    if likely > limit:
        if math.isinf(likely):
            return Decision.NO_GO, f"{best.platform} saves nothing at P50"
        return Decision.NO_GO, f"{terms} pays back in {likely:.1f} months at P50, over {limit:.0f}"
    if careful <= limit and best.validated:
        return Decision.GO, f"{terms} pays back in {careful:.1f} months even at P90"
    doubt = "the estimate is not validated" if careful <= limit else "not so at P90"
    return Decision.PILOT, f"{terms} pays back in {likely:.1f} months at P50; {doubt}"
