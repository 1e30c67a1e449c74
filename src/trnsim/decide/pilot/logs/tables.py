"""CSV logs of any program: a row a step, or a row a request.

| rows | columns |
|---|---|
| steps | step, loss, and step_s or tokens_per_s (of one accelerator); sequences if known |
| requests | sent_s, ttft_s, e2e_s, output_tokens; a request without them failed |

Times are in seconds, as their names say: a column in milliseconds has another name and is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import quantiles
from typing import TYPE_CHECKING, Final

from trnsim.cells import Cells, read_table
from trnsim.decide.pilot.logs.measured import (
    LEAST_REQUESTS,
    Load,
    Measured,
    Step,
    Training,
    load,
    training,
)
from trnsim.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

STEPS: Final = ("step", "loss", "step_s", "tokens_per_s", "sequences", "model")
REQUESTS: Final = ("sent_s", "ttft_s", "e2e_s", "output_tokens", "model")
_MOST: Final = 1e6
"""Seconds or tokens of one step or request; above it a number is a slip."""


def table(path: Path) -> Measured:
    """The run in the CSV file at `path`.

    Raises:
        BadInput: a column or cell is not legal, or there are too few rows.
    """
    fields = tuple(dict.fromkeys([*STEPS, *REQUESTS]))
    rows = read_table(path, fields)
    if not rows:
        raise BadInput(f"{path}: no row below the header")
    model = {row.values["model"] for row in rows if "model" in row}
    if len(model) > 1:
        raise BadInput(f"{path}: of several models: {', '.join(sorted(model))}; legal: one")
    run = _steps(path, rows) if "step" in rows[0] else _requests(path, rows)
    return Measured(str(path), "csv", run, next(iter(model), None))


def _steps(path: Path, rows: Sequence[Cells]) -> Training:
    found = [_step(row) for row in rows]
    batches = {row.whole("sequences", above=0, at_most=1e9) for row in rows if "sequences" in row}
    if len(batches) > 1:
        raise BadInput(f"{path}: sequences of a step are {sorted(batches)}; legal: one of a run")
    return training(str(path), found, next(iter(batches), None))


def _step(row: Cells) -> Step:
    if ("step_s" in row) == ("tokens_per_s" in row):
        raise row.refused("step_s", "legal: either step_s or tokens_per_s")
    return Step(
        row.whole("step", above=-1, at_most=1e12),
        row.number_from("loss", -_MOST),
        time_s=row.number("step_s", above=0, at_most=_MOST) if "step_s" in row else None,
        tokens_per_s=row.number("tokens_per_s", above=0) if "tokens_per_s" in row else None,
    )


def _requests(path: Path, rows: Sequence[Cells]) -> Load:
    done = [_request(row) for row in rows if "e2e_s" in row]
    if len(done) < LEAST_REQUESTS:
        raise BadInput(
            f"{path}: {len(done)} requests were finished; legal: {LEAST_REQUESTS} or more",
            fix="send more requests; a row without e2e_s is one that failed",
        )
    ends = [one.sent_s + one.e2e_s for one in done]
    duration_s = max(ends) - min(one.sent_s for one in done)
    # Items of a batch come out together: no time lies between them.
    several = [one for one in done if one.tokens > 1 and one.e2e_s > one.ttft_s]
    between = [(one.e2e_s - one.ttft_s) / (one.tokens - 1) for one in several]
    found = Load(
        requests=len(done),
        failed=len(rows) - len(done),
        duration_s=duration_s,
        output_tokens_per_s=sum(one.tokens for one in done) / duration_s,
        ttft_s=_percentiles([one.ttft_s for one in done]),
        tpot_s=_percentiles(between) if len(between) > 1 else {},
    )
    return load(str(path), found)


@dataclass(frozen=True)
class _Request:
    """A request that was finished."""

    sent_s: float
    ttft_s: float
    e2e_s: float
    tokens: int


def _request(row: Cells) -> _Request:
    found = _Request(
        row.number_from("sent_s", 0, at_most=1e12),
        row.number("ttft_s", above=0, at_most=_MOST),
        row.number("e2e_s", above=0, at_most=_MOST),
        row.whole("output_tokens", above=0, at_most=_MOST),
    )
    if found.e2e_s < found.ttft_s:
        raise row.refused("e2e_s", "legal: no less than ttft_s")
    return found


def _percentiles(values: Sequence[float]) -> dict[int, float]:
    """P50, P90 and P99, interpolated between the two nearest values."""
    cuts = quantiles(values, n=100, method="inclusive")
    return {rank: cuts[rank - 1] for rank in (50, 90, 99)}
