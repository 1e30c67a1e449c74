"""Intervals of kernels and of single instructions, from the errors of published times left out.

`trnsim.timing.interval` says what near, far and novelty are, and names the papers. Here are the
quantiles: `calibrate` finds them, and `held` asks of rows that it has not seen whether their
published times lie in P10 to P90.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np

from trnsim.arch import NeuronCore, target
from trnsim.timing.interval import P90_DEVIATIONS, Errors, UnseenError, launch_share, novelty
from trnsim.timing.work import LAUNCH, by_engine

COVERAGE = 0.8
"""The share of published times that P10 to P90 shall hold."""
SIZES = (("under 100 us", 100e-6), ("of 100 us to 1 ms", 1e-3), ("over 1 ms", 3600.0))
"""Size classes, and their upper limits in seconds."""
LEAST_SHARE = 1e-4
"""Shares of the time below this are left out of files."""


@dataclass(frozen=True)
class ErrorRow:
    """A published time with its estimates.

    Attributes:
        id, family, kernel, publication: of the row.
        target: the chip.
        is_single: whether it is of a single instruction or transfer.
        published_s: the published time.
        estimate_s: with the shipped constants.
        unseen_s: with what was chosen without its kernel.
        apart_s: with what was chosen without its publication.
        without_s: without the part of the model that was made for its publication; 0 for none.
        bound_by: what bounds the kernel.
        shares: kind of work -> its share of the time; of a single instruction none.
    """

    id: str
    family: str
    kernel: str
    publication: str
    target: str
    is_single: bool
    published_s: float
    estimate_s: float
    unseen_s: float
    apart_s: float
    without_s: float = 0.0
    bound_by: str = ""
    shares: dict[str, float] = field(default_factory=dict)

    @property
    def core(self) -> NeuronCore:
        """The core that it was timed on, or one of the two."""
        core = target(self.target).core
        return core.paired() if f"{LAUNCH} LNC=2" in self.shares else core

    @property
    def fixed(self) -> float:
        """Of an instruction: what a reading of its time may contain or not, over the estimate.

        That is access to its operands, and a semaphore.
        """
        access_s = self.core.access_latency_cycles / self.core.vector_clock_hz
        return (access_s + self.core.engine_semaphore_s) / self.estimate_s

    def score(self, estimate_s: float) -> float:
        """What brings the published time to the edge of the interval of an estimate.

        Of a kernel the spread of all but its launch; of an instruction the width by 1 + `fixed`.
        """
        error = abs(log(self.published_s / estimate_s))
        if self.is_single:
            return error / (1 + self.fixed)
        launch = launch_share(self.shares)
        by_launch = launch * self.core.launch_s.provenance.spread
        return max(error / P90_DEVIATIONS - by_launch, 0.0) / (1 - launch)


@dataclass(frozen=True)
class Held:
    """A row that was left out, with its interval.

    Attributes:
        row: the row.
        error: log(published / estimate).
        half_width: P10 and P90 are the estimate over and times exp of it.
    """

    row: ErrorRow
    error: float
    half_width: float

    @property
    def is_inside(self) -> bool:
        """Whether the published time lies in P10 to P90."""
        return abs(self.error) <= self.half_width

    @property
    def width(self) -> float:
        """(P90 - P10) / estimate."""
        return exp(self.half_width) - exp(-self.half_width)


@dataclass(frozen=True)
class Calibration:
    """What the rows say: the errors that are shipped, and the quantile of single instructions."""

    errors: Errors
    single: float

    def half_width(self, row: ErrorRow, publication: str = "") -> float:
        """The h of a row; `publication` is the one whose other kernels it may be compared with."""
        if row.is_single:
            return self.single * (1 + row.fixed)
        return self.errors.half_width(row.core, row.shares, publication)


def calibrate(rows: Iterable[ErrorRow]) -> Calibration:
    """The quantiles of all `rows`."""
    by_class = by(rows, lambda row: row.is_single)
    kernels, single = by_class.get(False, []), by_class.get(True, [])
    far = grouped_quantile(_scores(kernels, lambda row: row.kernel))
    growth = _growth(kernels, far)
    return Calibration(
        Errors(_near(kernels, growth), far, growth, largest(kernels)),
        grouped_quantile(_scores(single, lambda row: row.publication)),
    )


def lines_of(rows: Iterable[ErrorRow]) -> str:
    """`rows` as JSON, a line each; shares in ten-thousandths."""
    lines = (json.dumps({**asdict(row), "shares": _rounded(row.shares)}) for row in rows)
    return "[\n" + ",\n".join(lines) + "\n]\n"


def stored(path: Path) -> list[ErrorRow]:
    """The rows of a file that `lines_of` made."""
    return [ErrorRow(**row) for row in json.loads(path.read_text(encoding="utf-8"))]


def shipped_text(rows: Sequence[ErrorRow]) -> str:
    """What intervals need of `rows`, as JSON."""
    errors = calibrate(rows).errors
    shown = asdict(errors)
    shown["largest"] = {core: _rounded(shares) for core, shares in errors.largest.items()}
    shown["unseen"] = [sizes._asdict() for sizes in unseen_by_size(rows)]
    return json.dumps(shown, indent=1, sort_keys=True) + "\n"


def unseen_by_size(rows: Iterable[ErrorRow]) -> list[UnseenError]:
    """The errors of kernels by published time, each kernel left out; figures with one decimal."""
    kernels = [row for row in rows if not row.is_single]
    found, above_s = [], 0.0
    for words, below_s in SIZES:
        errors = [
            100 * abs(row.unseen_s / row.published_s - 1)
            for row in kernels
            if above_s <= row.published_s < below_s
        ]
        if errors:
            median, p90 = np.percentile(errors, [50, 90]).round(1).tolist()
            found.append(UnseenError(words, below_s, len(errors), median, p90))
        above_s = below_s
    return found


def _rounded(shares: Mapping[str, float]) -> dict[str, float]:
    """Shares of at least a ten-thousandth, rounded to it."""
    return {kind: round(share, 4) for kind, share in shares.items() if share >= LEAST_SHARE}


def held_by_kernel(rows: Sequence[ErrorRow]) -> list[Held]:
    """Each row, judged by the rows of all other kernels."""
    found = []
    for kernel, own in by(rows, lambda row: row.kernel).items():
        others = calibrate(row for row in rows if row.kernel != kernel)
        found += [
            Held(row, log(row.published_s / row.unseen_s), others.half_width(row, row.publication))
            for row in own
        ]
    return found


def held_by_publication(rows: Sequence[ErrorRow]) -> list[Held]:
    """Each row, judged by the rows of all other publications."""
    found = []
    for publication, own in by(rows, lambda row: row.publication).items():
        others = calibrate(row for row in rows if row.publication != publication)
        found += [
            Held(row, log(row.published_s / row.apart_s), others.half_width(row)) for row in own
        ]
    return found


def quantile(scores: Iterable[float]) -> float:
    """The ceil((n + 1) * COVERAGE)-th of n scores, or the largest."""
    ordered = sorted(scores)
    place = -int(-(len(ordered) + 1) * COVERAGE // 1)
    return ordered[min(place, len(ordered)) - 1]


def grouped_quantile(groups: dict[str, list[float]]) -> float:
    """The least score with a weight of COVERAGE at and below it, or the largest.

    Of K groups each weighs 1 / (K + 1), and so does what is not known of the next one: below four
    groups nothing is promised, and the largest score is taken.

    Source: Lee, Barber and Willett (2023), HCP.
    """
    weighted = sorted(
        (score, 1 / (len(groups) + 1) / len(scores))
        for scores in groups.values()
        for score in scores
    )
    reached = 0.0
    for score, weight in weighted:
        reached += weight
        if reached >= COVERAGE - 1e-9:
            return score
    return weighted[-1][0] if weighted else 0.0


def largest(kernels: Iterable[ErrorRow]) -> dict[str, dict[str, float]]:
    """Core -> kind of work, or engine -> the largest share of the time of a kernel."""
    shares: dict[str, dict[str, float]] = defaultdict(dict)
    for row in kernels:
        known = shares[row.core.name]
        for kind, share in [*row.shares.items(), *by_engine(row.shares).items()]:
            known[kind] = max(known.get(kind, 0.0), share)
    return dict(shares)


def by(rows: Iterable[ErrorRow], name_of: Callable[[ErrorRow], Any]) -> dict[Any, list[ErrorRow]]:
    """Name -> its rows, in the order met."""
    groups: dict[Any, list[ErrorRow]] = defaultdict(list)
    for row in rows:
        groups[name_of(row)].append(row)
    return dict(groups)


def _near(kernels: Sequence[ErrorRow], growth: float) -> dict[str, dict[str, float]]:
    """Publication -> core -> h, where it has several kernels there, each left out in turn."""
    known = _without(kernels, lambda row: row.kernel)
    near: dict[str, dict[str, float]] = defaultdict(dict)
    for publication, of_all in by(kernels, lambda row: row.publication).items():
        for core, own in by(of_all, lambda row: row.core.name).items():
            if len({row.kernel for row in own}) > 1:
                near[publication][core] = quantile(
                    row.score(row.unseen_s)
                    / (1 + growth * novelty(by_engine(row.shares), known[row.kernel].get(core, {})))
                    for row in own
                )
    return dict(near)


def _without(
    kernels: Sequence[ErrorRow], name_of: Callable[[ErrorRow], str]
) -> dict[str, dict[str, dict[str, float]]]:
    """Name -> the largest shares in kernels of other names."""
    names = dict.fromkeys(map(name_of, kernels))
    return {name: largest(row for row in kernels if name_of(row) != name) for name in names}


def _growth(kernels: Sequence[ErrorRow], far: float) -> float:
    """The growth that makes far intervals hold kernels without the part made for them.

    Each publication with such a part has the same weight.
    """
    known = _without(kernels, lambda row: row.publication)
    growths: dict[str, list[float]] = defaultdict(list)
    for row in kernels:
        new = novelty(row.shares, known[row.publication].get(row.core.name, {}))
        if row.without_s and far and new:
            widened = row.score(row.without_s) / far
            growths[row.publication].append(max(widened - 1, 0.0) / new)
    return grouped_quantile(growths)


def _scores(rows: Iterable[ErrorRow], name_of: Callable[[ErrorRow], str]) -> dict[str, list[float]]:
    """Name -> scores of its rows, their publication left out."""
    return {
        name: [row.score(row.apart_s) for row in own] for name, own in by(rows, name_of).items()
    }
