"""A user's measured times of layers, from a CSV file, which override every estimate.

The columns are the fields of `MeasuredRow`, in any order.

Times between rows are interpolated (`trnsim.estimate.curve`); beyond them the file has none.
`trnsim.estimate.matching` checks a file against a plan's model and units.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from trnsim.estimate.curve import MeasuredPoint, TimeCurve, length_of, signature
from trnsim.estimate.times import LayerTime
from trnsim.facts import Evidence
from trnsim.reader import FileRecord, declared, fault, read_rows
from trnsim.workload.operators import Pass, Phase
from trnsim.workload.summary import PartSummary

COLUMNS_REMEDY: Final = (
    "write the first line phase,batch,tokens,past,time_us and rows such as decode,4,1,511,210; "
    "docs/generated/accuracy-models.md, Measured times, has all columns"
)
_S_PER_US: Final = 1e-6


@dataclass(frozen=True, kw_only=True)
class MeasuredRow(FileRecord):
    """A line of the file: the time of one part of a model."""

    phase: Phase = declared(help="what the pass is for")
    batch: int = declared(help="sequences", minimum=1)
    tokens: int = declared(help="new tokens of each", minimum=1)
    past: int = declared(0, help="tokens before them", minimum=0)
    time_us: float = declared(
        help="time of one layer on one rank, without exchanges between ranks",
        unit="microseconds",
        exclusive_minimum=0,
    )
    backward_us: float | None = declared(
        None, help="time of both its gradients", unit="microseconds", exclusive_minimum=0
    )
    part: Literal["layer", "embedding", "head"] = declared("layer", help="which part of the model")
    layer: str = declared(
        "",
        help="which layers, by their sizes on a rank as `trnsim plan layer --json` prints them; "
        "every layer if empty",
    )

    @property
    def forward_s(self) -> float:
        """Seconds forward."""
        return self.time_us * _S_PER_US

    @property
    def backward_s(self) -> float | None:
        """Seconds of both gradients, or None."""
        return None if self.backward_us is None else self.backward_us * _S_PER_US


@dataclass(frozen=True)
class MeasuredTimes:
    """Measured times.

    Attributes:
        file: the file that states them.
        curves: the times as curves, by direction ("forward", "backward"), phase, part and layer.
    """

    file: str
    rows: tuple[MeasuredRow, ...]
    curves: Mapping[tuple[str, str, str, str], TimeCurve] = field(hash=False, repr=False)

    def forward(self, summary: PartSummary, model_pass: Pass) -> LayerTime | None:
        """The forward time of one layer of a summary; None if the file has none."""
        return self._layer_time("forward", summary, model_pass)

    def backward(self, summary: PartSummary, model_pass: Pass) -> LayerTime | None:
        """The time of both gradients of one layer of a summary; None if the file has none."""
        return self._layer_time("backward", summary, model_pass)

    def _layer_time(
        self, direction: str, summary: PartSummary, model_pass: Pass
    ) -> LayerTime | None:
        for layer in (signature(summary, model_pass), ""):
            curve = self.curves.get((direction, str(model_pass.phase), summary.name, layer))
            time_s = curve.interpolate(model_pass.batch, length_of(model_pass)) if curve else None
            if time_s is not None:
                spread = Evidence.MEASURED.spread
                return LayerTime(time_s, {"measured": time_s}, spread, f"measured: {self.file}")
        return None


def read(path: str | Path) -> MeasuredTimes:
    """The measured times in a CSV file.

    Raises:
        BadInput: the file cannot be read, or has an illegal value, with its line.
    """
    rows = tuple(read_rows(MeasuredRow, path, COLUMNS_REMEDY))
    if not rows:
        raise fault(path, "no rows of times", COLUMNS_REMEDY)
    _check_once(rows)
    points: dict[tuple[str, str, str, str], list[MeasuredPoint]] = {}
    for row in rows:
        for direction, time_s in (("forward", row.forward_s), ("backward", row.backward_s)):
            if time_s is not None:
                point = MeasuredPoint(row.batch, row.tokens + row.past, time_s)
                points.setdefault((direction, row.phase, row.part, row.layer), []).append(point)
    curves = {key: TimeCurve(tuple(curve_points)) for key, curve_points in points.items()}
    return MeasuredTimes(str(path), rows, curves)


def _check_once(rows: Iterable[MeasuredRow]) -> None:
    """Refuse a row of the same pass and part as another."""
    lines: dict[tuple[object, ...], int] = {}
    for row in rows:
        key = (row.phase, row.part, row.layer, row.batch, row.tokens + row.past)
        if key in lines:
            raise row.record_error(
                f"phase, part, layer, batch and length of line {lines[key]}",
                "keep one of them, as the median of your runs",
            )
        lines[key] = row.line.line
