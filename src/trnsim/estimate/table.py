"""Times of compiled layers: points that were compiled, and what lies between them.

A layer is known by the sizes of its products and heads on one rank, so that equal layers of two
models, or of two splits, are one. Its points are batches and lengths; between two of them the
logarithm of the time is a straight line of the logarithms of batch and length, and never falls.
Beyond the points there is no answer.

Points lie in a table of the package, made by ``make layers``, and in the user's cache folder, under
the version of the sources that decide a time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trnsim import files
from trnsim.arch import TARGETS
from trnsim.lower import cache as disk
from trnsim.workload.operators import Phase

if TYPE_CHECKING:
    from trnsim.workload.operators import Block, Pass

PACKAGED: Final = Path(__file__).with_name("table.json")
_KIND: Final = "times of a layer"


@dataclass(frozen=True, order=True)
class Point:
    """A compiled shape.

    Attributes:
        batch: sequences.
        length: tokens that a query meets: new ones, and in a step those before.
        time_s: seconds of one layer on one rank, without exchanges.
    """

    batch: int
    length: int
    time_s: float


@dataclass(frozen=True)
class Curve:
    """The points of one layer in one phase on one kind of rank.

    Attributes:
        points: in any order.
        version: of the sources that compiled them.
    """

    points: tuple[Point, ...]
    version: str = ""
    _rows: dict[int, list[tuple[float, float]]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rows: dict[int, dict[int, float]] = {}
        for one in self.points:
            rows.setdefault(one.batch, {})[one.length] = one.time_s
        made = {batch: _rising(found.items()) for batch, found in sorted(rows.items())}
        object.__setattr__(self, "_rows", made)

    def at(self, batch: float, length: float) -> float | None:
        """Seconds at a batch and a length; None beyond the points."""
        reached = [(each, _between(row, length)) for each, row in self._rows.items()]
        found = [(each, time_s) for each, time_s in reached if time_s is not None]
        return _between(_rising(found), batch)


def _rising(found: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """(size, seconds) in the order of sizes; no larger size is faster."""
    rows: list[tuple[float, float]] = []
    for size, time_s in sorted(found):
        rows.append((size, max(time_s, rows[-1][1] if rows else 0.0)))
    return rows


def _between(rows: list[tuple[float, float]], size: float) -> float | None:
    """The seconds at a size on the straight lines between logarithms."""
    for one, time_s in rows:
        if one == size:
            return time_s
    for (low, low_s), (high, high_s) in pairwise(rows):
        if low < size < high:
            share = math.log(size / low) / math.log(high / low)
            found = math.exp((1 - share) * math.log(low_s) + share * math.log(high_s))
            return min(max(found, low_s), high_s)  # against rounding
    return None


def signature(block: Block, given: Pass) -> str:
    """The sizes of a layer on a rank that do not depend on how much passes through it."""
    parts = [
        f"{one.name} {one.k:g} x {one.n:g}" + (f" x {one.times:g}" if one.times != 1 else "")
        for one in block.products
        if one.weight_bits
    ]
    for one in block.products:
        if one.name == "scores":
            heads = one.m * one.times / (given.batch * given.tokens)
            parts.append(f"{heads:g} heads of {one.k:g}")
    return ", ".join(parts)


def rank_of(target: str, lnc: int) -> str:
    """What computes on a rank of a target: equal cores of two chips are one."""
    name = TARGETS[target].core.name
    return name if lnc == 1 else f"{lnc} x {name}"


def told(version: str) -> str:
    """The source of a compiled time: whether the sources that decide a time are still those."""
    if version == disk.version():
        return "compiled layer"
    return f"compiled layer, by other sources than today's: {version}; `make layers` makes it anew"


def length_of(given: Pass) -> int:
    """Tokens that a query meets."""
    return given.tokens + given.past


@dataclass(frozen=True)
class Table:
    """Curves of a kind of rank.

    Attributes:
        rank: what computes, "NeuronCore-v2".
        curves: by signature and phase.
    """

    rank: str
    curves: Mapping[tuple[str, str], Curve]

    def at(self, block: Block, given: Pass) -> tuple[float, str] | None:
        """Seconds of one of the block's layers and the version that compiled it, or None."""
        key = (signature(block, given), str(given.phase))
        for curve in (_of_user(self.rank, *key), self.curves.get(key)):
            time_s = curve.at(given.batch, length_of(given)) if curve else None
            if curve and time_s is not None:
                return time_s, curve.version
        return None


@cache
def packaged(rank: str) -> Table:
    """The package's table of a kind of rank."""
    return read(PACKAGED, rank)


def read(file: Path, rank: str) -> Table:
    """The table of a kind of rank in a file that `write` made; empty where there is no file."""
    if not file.exists():
        return Table(rank, {})
    found = json.loads(file.read_text(encoding="utf-8"))
    rows = [one for one in found["layers"] if one["rank"] == rank]
    curves = {
        (one["layer"], one["phase"]): Curve(
            tuple(Point(*point) for point in one["points"]), found["version"]
        )
        for one in rows
    }
    return Table(rank, curves)


def write(file: Path, rows: list[dict[str, Any]]) -> None:
    """Put rows of layers, with the version of the sources, into a file."""
    lines = ",\n".join(f"  {json.dumps(one)}" for one in rows)
    text = f'{{"version": {json.dumps(disk.version())}, "layers": [\n{lines}\n]}}\n'
    files.write(file, text)


def keep(rank: str, layer: str, phase: Phase, point: Point) -> None:
    """Add a point to the user's cache folder."""
    known = _of_user(rank, layer, str(phase))
    others = [one for one in known.points if (one.batch, one.length) != (point.batch, point.length)]
    made = [[one.batch, one.length, one.time_s] for one in sorted([*others, point])]
    disk.write((_KIND, rank, layer, str(phase)), {"points": made})
    _of_user.cache_clear()


@cache
def _of_user(rank: str, layer: str, phase: str) -> Curve:
    """What today's sources compiled before, on this computer."""
    found = disk.read((_KIND, rank, layer, phase)) or {"points": []}
    return Curve(tuple(Point(*one) for one in found["points"]), disk.version())
