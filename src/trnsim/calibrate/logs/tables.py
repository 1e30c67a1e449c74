"""CSV logs of any program: one row per step, or one row per request.

| rows | columns |
|---|---|
| steps | step, loss, and step_s or tokens_per_s (of one accelerator); sequences if known |
| requests | sent_s, ttft_s, e2e_s, output_tokens; a request without them failed |

Times are in seconds, as their names say: a column in milliseconds has another name and is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Final, NamedTuple

from trnsim.calibrate.logs.measured import (
    LEAST_REQUESTS,
    Load,
    LoggedStep,
    RunLog,
    Training,
    checked_load,
    training,
)
from trnsim.calibrate.logs.numbers import with_numbers
from trnsim.reader import FileRecord, between, declared, fault, load, rows

_NUMBERS: Final = ("loss", "step_s", "tokens_per_s", "sent_s", "ttft_s", "e2e_s")
"""Fields whose numbers have fractions."""
_MOST_PER_ROW: Final = 1e6
"""Maximum seconds or tokens of a step or a request; a greater number is a slip of the unit."""


@dataclass(frozen=True, kw_only=True)
class StepRow(FileRecord):
    """A step of a training run."""

    step: int = between("its number", 0, 1e12)
    loss: float = declared(help="its loss", minimum=-_MOST_PER_ROW)
    step_s: float | None = declared(
        None,
        help="its time; this or tokens_per_s",
        unit="s",
        exclusive_minimum=0,
        maximum=_MOST_PER_ROW,
    )
    tokens_per_s: float | None = declared(
        None,
        help="its rate of one accelerator; this or step_s",
        unit="tokens/s",
        exclusive_minimum=0,
    )
    sequences: int | None = declared(
        None, help="sequences of a step", exclusive_minimum=0, maximum=1e9
    )
    model: str | None = declared(None, help="name of the model")


@dataclass(frozen=True, kw_only=True)
class RequestRow(FileRecord):
    """A request of a load test; one without e2e_s failed."""

    sent_s: float | None = between("when it was sent", 0, 1e12, None, unit="s")
    ttft_s: float | None = declared(
        None, help="time to its first token", unit="s", exclusive_minimum=0, maximum=_MOST_PER_ROW
    )
    e2e_s: float | None = declared(
        None, help="time of the whole request", unit="s", exclusive_minimum=0, maximum=_MOST_PER_ROW
    )
    output_tokens: int | None = declared(
        None, help="tokens of its answer", exclusive_minimum=0, maximum=_MOST_PER_ROW
    )
    model: str | None = declared(None, help="name of the model")


def table(path: Path) -> RunLog:
    """The run in the CSV file at `path`.

    Raises:
        BadInput: a column or cell is not legal, or there are too few rows.
    """
    document = with_numbers(load(path, is_table=True), _NUMBERS)
    if "step" in (document.parsed.columns or ()):
        steps = rows(StepRow, document)
        return RunLog(str(path), "csv", _training(path, steps), _model(path, steps))
    requests = rows(RequestRow, document)
    return RunLog(str(path), "csv", _load(path, requests), _model(path, requests))


def _model(path: Path, rows: Sequence[StepRow] | Sequence[RequestRow]) -> str | None:
    """The model that the rows name, or None."""
    names = {row.model for row in rows if row.model}
    if len(names) > 1:
        raise fault(path, f"of several models: {', '.join(sorted(names))}; legal: one")
    return next(iter(names), None)


def _training(path: Path, rows: Sequence[StepRow]) -> Training:
    for row in rows:
        if ("step_s" in row) == ("tokens_per_s" in row):
            raise row.refused("step_s", "legal: either step_s or tokens_per_s")
        if ("step_s" in row) != ("step_s" in rows[0]):
            raise row.refused("step_s", "legal: the same of step_s and tokens_per_s in all rows")
    steps = [
        LoggedStep(row.step, row.loss, time_s=row.step_s, tokens_per_s=row.tokens_per_s)
        for row in rows
    ]
    batches = {row.sequences for row in rows if row.sequences}
    if len(batches) > 1:
        raise fault(path, f"sequences of a step are {sorted(batches)}; legal: one of a run")
    return training(str(path), steps, next(iter(batches), None))


def _load(path: Path, rows: Sequence[RequestRow]) -> Load:
    requests = [_request(row) for row in rows if row.e2e_s is not None]
    if len(requests) < LEAST_REQUESTS:
        raise fault(
            path,
            f"{len(requests)} requests were finished; legal: {LEAST_REQUESTS} or more",
            fix="send more requests; a row without e2e_s is one that failed",
        )
    first_s = min(entry.sent_s for entry in requests)
    duration_s = max(entry.sent_s - first_s + entry.e2e_s for entry in requests)
    # The tokens of a batch of items are returned at once, with no time between them.
    token_requests = [
        entry for entry in requests if entry.tokens > 1 and entry.e2e_s > entry.ttft_s
    ]
    tpot_s = [(entry.e2e_s - entry.ttft_s) / (entry.tokens - 1) for entry in token_requests]
    figures = Load(
        requests=len(requests),
        failed=len(rows) - len(requests),
        duration_s=duration_s,
        output_tokens_per_s=sum(entry.tokens for entry in requests) / duration_s,
        ttft_s=_percentiles([entry.ttft_s for entry in requests]),
        tpot_s=_percentiles(tpot_s) if len(tpot_s) > 1 else {},
    )
    return checked_load(str(path), figures)


class _Request(NamedTuple):
    """A finished request."""

    sent_s: float
    ttft_s: float
    e2e_s: float
    tokens: int


def _request(row: RequestRow) -> _Request:
    for name in ("sent_s", "ttft_s", "output_tokens"):
        if name not in row:
            raise row.refused(name, "a request that has e2e_s has this field too")
    entry = _Request(row.sent_s or 0.0, row.ttft_s or 0.0, row.e2e_s or 0.0, row.output_tokens or 0)
    if entry.e2e_s < entry.ttft_s:
        raise row.refused("e2e_s", "legal: no less than ttft_s")
    return entry


def _percentiles(values: Sequence[float]) -> dict[int, float]:
    """P50, P90 and P99, interpolated between the two nearest values."""
    cuts = quantiles(values, n=100, method="inclusive")
    return {rank: cuts[rank - 1] for rank in (50, 90, 99)}
