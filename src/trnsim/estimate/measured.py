"""A user's measured times of layers, from a CSV file, which override every estimate.

Columns, in any order, in the first line:

- ``phase``: encode, prefill, decode or train
- ``batch``: sequences
- ``tokens``: new tokens of each
- ``past``: tokens before them; empty for 0
- ``time_us``: microseconds of one layer on one rank, without exchanges between ranks
- ``backward_us``: of both its gradients; may be left out, or empty
- ``part``: layer, embedding or head; may be left out, and is layer then
- ``layer``: sizes of the layers on a rank, as `trnsim.estimate.curve.signature` writes them;
  may be left out, or empty for every layer

Times between rows are interpolated (`trnsim.estimate.curve`); beyond them the file has none.
`trnsim.estimate.matching` checks a file against a plan's model and units.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trnsim import files
from trnsim.errors import BadInput
from trnsim.estimate.curve import MeasuredPoint, TimeCurve, length_of, signature
from trnsim.estimate.times import LayerTime
from trnsim.facts import Evidence
from trnsim.workload.operators import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnsim.workload.operators import Pass
    from trnsim.workload.summary import Summary

NEEDED: Final = ("phase", "batch", "tokens", "time_us")
COLUMNS: Final = (*NEEDED, "past", "backward_us", "part", "layer")
PARTS: Final = ("layer", "embedding", "head")
_FIX: Final = "columns are told in docs/accuracy-models.md, Measured times"
_MICRO: Final = 1e-6


@dataclass(frozen=True)
class Row:
    """A line of the file.

    Attributes:
        line: its number.
        phase: encode, prefill, decode or train.
        part: layer, embedding or head.
        layer: sizes on a rank; "" for every layer.
        batch: sequences.
        tokens: new tokens of each.
        past: tokens before them.
        forward_s: seconds forward.
        backward_s: seconds of both gradients, or None.
    """

    line: int
    phase: Phase
    part: str
    layer: str
    batch: int
    tokens: int
    past: int
    forward_s: float
    backward_s: float | None


@dataclass(frozen=True)
class Measured:
    """Measured times.

    Attributes:
        file: their file.
        rows: its lines.
        curves: by pass ("forward", "backward"), phase, part and layer.
    """

    file: str
    rows: tuple[Row, ...]
    curves: Mapping[tuple[str, str, str, str], TimeCurve] = field(hash=False, repr=False)

    def of(self, summary: Summary, model_pass: Pass) -> LayerTime | None:
        """The forward time of one layer of a summary; None if the file has none."""
        return self._at("forward", summary, model_pass)

    def backward(self, summary: Summary, model_pass: Pass) -> LayerTime | None:
        """The time of both gradients of one layer of a summary; None if the file has none."""
        return self._at("backward", summary, model_pass)

    def _at(self, direction: str, summary: Summary, model_pass: Pass) -> LayerTime | None:
        for layer in (signature(summary, model_pass), ""):
            curve = self.curves.get((direction, str(model_pass.phase), summary.name, layer))
            time_s = curve.at(model_pass.batch, length_of(model_pass)) if curve else None
            if time_s is not None:
                spread = Evidence.MEASURED.spread
                return LayerTime(time_s, {"measured": time_s}, spread, f"measured: {self.file}")
        return None


def read(path: str | Path) -> Measured:
    """The measured times in a CSV file.

    Raises:
        BadInput: the file cannot be read, or has an illegal value, with its line.
    """
    lines = csv.reader(StringIO(files.read_text(path, fix=_FIX)))
    try:
        rows = tuple(_rows(str(path), lines))
    except csv.Error as error:
        raise BadInput(f"{path}, line {lines.line_num}: no CSV: {error}", fix=_FIX) from error
    if not rows:
        raise BadInput(f"{path} has no rows of times", fix=_FIX)
    points: dict[tuple[str, str, str, str], list[MeasuredPoint]] = {}
    for row in rows:
        for direction, time_s in (("forward", row.forward_s), ("backward", row.backward_s)):
            if time_s is not None:
                point = MeasuredPoint(row.batch, row.tokens + row.past, time_s)
                points.setdefault((direction, row.phase, row.part, row.layer), []).append(point)
    return Measured(
        str(path),
        rows,
        {key: TimeCurve(tuple(curve_points)) for key, curve_points in points.items()},
    )


def _rows(path: str, lines: Iterator[list[str]]) -> Iterator[Row]:
    names = [name.strip() for name in next(lines, [])]
    _check_names(path, names)
    first: dict[tuple[object, ...], int] = {}
    for number, cells in enumerate(lines, 2):
        if not any(cell.strip() for cell in cells):
            continue
        row = _Line(path, number, names, cells).row(number)
        key = (row.phase, row.part, row.layer, row.batch, row.tokens + row.past)
        if key in first:
            raise BadInput(
                f"{path}, line {number}: phase, part, layer, batch and length of line {first[key]}",
                fix="keep one of them, as the median of your runs",
            )
        first[key] = number
        yield row


def _check_names(path: str, names: list[str]) -> None:
    missing = [name for name in NEEDED if name not in names]
    if missing:
        columns = ", ".join(name for name in names if name) or "none"
        raise BadInput(
            f"{path}, line 1: no column {missing[0]!r}; columns found: {columns}", fix=_FIX
        )
    for name in names:
        if name not in COLUMNS or names.count(name) > 1:
            fault = "twice" if name in COLUMNS else "unknown"
            legal = ", ".join(COLUMNS)
            raise BadInput(f"{path}, line 1: column {name!r} is {fault}; legal: {legal}", fix=_FIX)


class _Line:
    """A line of the file, by column."""

    def __init__(self, path: str, line: int, names: list[str], cells: list[str]) -> None:
        self.where = f"{path}, line {line}"
        if len(cells) != len(names):
            raise BadInput(f"{self.where}: {len(cells)} cells for {len(names)} columns", fix=_FIX)
        self.cells = {name: cell.strip() for name, cell in zip(names, cells, strict=True)}

    def row(self, number: int) -> Row:
        """The line as a row."""
        return Row(
            number,
            Phase(self.one_of("phase", tuple(Phase))),
            self.one_of("part", PARTS),
            self.text("layer"),
            self.whole_number("batch", least=1),
            self.whole_number("tokens", least=1),
            self.whole_number("past", least=0),
            self.positive("time_us") * _MICRO,
            self.positive("backward_us") * _MICRO if self.text("backward_us") else None,
        )

    def text(self, name: str) -> str:
        """The cell of a column; empty where the file has no such column."""
        return self.cells.get(name, "")

    def one_of(self, name: str, legal: tuple[str, ...]) -> str:
        """One of the legal names; the first, where an optional column is empty."""
        choice = self.text(name) or ("" if name in NEEDED else legal[0])
        if choice not in legal:
            raise self._refused(name, ", ".join(legal))
        return choice

    def whole_number(self, name: str, *, least: int) -> int:
        """A whole number; the least, where an optional column is empty."""
        text = self.text(name) or ("" if name in NEEDED else str(least))
        if not (text.isascii() and text.isdigit()) or int(text) < least:
            raise self._refused(name, f"whole numbers from {least}")
        return int(text)

    def positive(self, name: str) -> float:
        """A number above zero."""
        try:
            number = float(self.text(name))
        except ValueError:
            number = math.nan
        if not (math.isfinite(number) and number > 0):
            raise self._refused(name, "numbers above 0, in microseconds and without a unit")
        return number

    def _refused(self, name: str, legal: str) -> BadInput:
        return BadInput(
            f"{self.where}, column {name!r}: {self.text(name)!r}; legal: {legal}", fix=_FIX
        )
