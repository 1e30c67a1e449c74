"""Plan of a pilot, with its result once it has run, and its file `pilot.json`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trnsim import files
from trnsim.decide.decision import (
    Assumption,
    Decision,
    WorkloadDecision,
    check_decision,
    check_positive,
)
from trnsim.decide.inventory.workload import Workload
from trnsim.decide.pilot.checks import PilotResult
from trnsim.decide.pilot.pilot_value import PilotValue
from trnsim.decide.pilot.sides import THERE, TODAY, PilotRun, Side
from trnsim.decide.pilot.thresholds import DTYPES, Threshold
from trnsim.document.values import json_text
from trnsim.errors import BadInput
from trnsim.reader import load, record

PILOT_FILE: Final = "pilot.json"
FORMAT: Final = 1
_FIX: Final = "name a folder that `trnsim pilot write INVENTORY --folder DIR` wrote"


@dataclass(frozen=True)
class Pilot:
    """Plan of a pilot, with its result once it has run.

    Attributes:
        inventory: path of the inventory, relative to the pilot's folder if possible.
        prices: path of the user's own prices, relative to the pilot's folder if possible; None
            without them.
        digests: SHA-256 of every file on which the decision rests, by path.
        is_mixed: True if the price of another public kind may be used for an instance that is not
            on sale at today's kind.
        workload: name of the workload that runs.
        why: reason for the choice of this workload.
        told: value of a pilot for each workload, the most valuable first.
        run: work that both sides do.
        today: side of today's instances.
        there: side of the candidate's instances.
        migration_usd: cost of the move to `there`.
        limit_months: months within which the move must pay back.
        thresholds: limits that the measurements must keep.
        decision: decision on the whole inventory before the pilot.
        assumptions: numbers of the pilot that no user stated.
        result: result of the pilot; None before it has run.
    """

    version: str
    inventory: str
    prices: str | None
    digests: dict[str, str]
    is_mixed: bool
    workload: str
    why: str
    told: tuple[PilotValue, ...]
    run: PilotRun
    today: Side
    there: Side
    migration_usd: float
    limit_months: float
    thresholds: tuple[Threshold, ...]
    decision: Decision
    assumptions: tuple[Assumption, ...] = ()
    result: PilotResult | None = None
    format: int = FORMAT

    @property
    def sides(self) -> dict[str, Side]:
        """Both sides by name."""
        return {TODAY: self.today, THERE: self.there}

    @property
    def workload_decision(self) -> WorkloadDecision:
        """Decision about the pilot's workload before the pilot."""
        return self.decision.workload(self.workload)

    def text(self) -> str:
        """The pilot as JSON."""
        return json_text(self) + "\n"


def read(folder: Path) -> Pilot:
    """The pilot in `folder`.

    Raises:
        BadInput: it is missing, unreadable or of another version, or a field is not legal.
    """
    path = folder / PILOT_FILE
    if not path.exists():
        raise BadInput(f"{folder} has no {PILOT_FILE}", fix=_FIX)
    place = load(path, _FIX).root
    if not isinstance(place.value, dict) or place.value.get("format") != FORMAT:
        raise place.inner("format").refused(f"legal: {FORMAT}")
    pilot = record(Pilot, place)
    check_decision(pilot.decision, place.inner("decision"))
    check_positive(place.inner("run"), pilot.run, "count", "sequences", "sequence")
    if pilot.run.dtype not in DTYPES:
        raise place.inner("run").inner("dtype").refused(f"legal: {', '.join(DTYPES)}")
    for name, side in pilot.sides.items():
        check_positive(place.inner(name), side, "instances", "ranks", "rate_per_s")
        if side.name != name:
            raise place.inner(name).inner("name").refused(f"legal: {name}")
    workloads = [workload.name for workload in pilot.decision.workloads]
    if pilot.workload not in workloads:
        legal = ", ".join(workloads) or "none, as the decision has no workload"
        raise place.inner("workload").refused(f"legal: a workload of the decision: {legal}")
    candidates = [candidate.instance for candidate in pilot.workload_decision.candidates]
    if pilot.there.instance not in candidates:
        instance = place.inner(THERE).inner("instance")
        raise instance.refused(f"legal: a candidate of the decision: {', '.join(candidates)}")
    return pilot


def relative(path: Path, folder: Path) -> str:
    """`path` relative to `folder`, so that both can be moved together."""
    try:
        return os.path.relpath(path.resolve(), folder.resolve())
    except ValueError:  # on another drive
        return str(path.resolve())


def digests(paths: Iterable[Path], folder: Path) -> dict[str, str]:
    """SHA-256 of files by their paths relative to `folder`.

    Raises:
        BadInput: a file cannot be read.
    """
    resolved_paths = dict.fromkeys(path.resolve() for path in paths)
    return {
        relative(path, folder): hashlib.sha256(files.read_bytes(path)).hexdigest()
        for path in resolved_paths
    }


def decision_files(workload: Workload, inventory: Path, prices: Path | None) -> list[Path]:
    """Files on which the decision about a workload rests."""
    price_files = [] if prices is None else [prices]
    return [inventory, Path(workload.line.file), workload.model_path, *price_files]


def check_unchanged(pilot: Pilot, folder: Path, version: str) -> None:
    """Refuse a pilot whose files have changed, or that another version of trnsim wrote.

    Args:
        pilot: the pilot.
        folder: folder of the pilot.
        version: version of trnsim that runs now.

    Raises:
        BadInput: a file has changed or is missing, or the version is another.
    """
    if pilot.version != version:
        raise BadInput(
            f"{folder / PILOT_FILE} is of trnsim {pilot.version}, and this is {version}, which may "
            "predict other times",
            fix=f"read it with trnsim {pilot.version}",
        )
    for name, old_digest in pilot.digests.items():
        path = folder / name
        if digests([path], folder)[relative(path, folder)] != old_digest:
            raise BadInput(
                f"{path} has changed since the pilot was written",
                fix="restore it, or write the pilot again with --force and run both sides again",
            )
