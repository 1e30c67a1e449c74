"""The interval of a kernel's time: P10 to P90, from leave-one-out errors of published times.

P10 and P90 are the estimate divided and multiplied by exp(h), with

    h = 1.28 * (launch share * spread of the launch + other share * spread of the rest).

The launch's spread is a fact of the core. That of the rest is conformal: the score of a published
time is the spread that would bring it to the edge of its interval, and the spread of a kernel is
the quantile of the scores with which such intervals hold 80 % of the published times. A kernel is
in one of two classes:

- *near*: a kernel of a library whose other kernels have published times on this generation. The
  scores are those of the library, each kernel left out in turn.
- *far*: any other. The scores are those of all kernels, each with its publication left out; each
  kernel has the same weight.

The spread of a class is multiplied by 1 + growth * novelty. The novelty of a kernel is the share of
its time in kinds of work beyond the largest share that any published kernel of the generation has
of that kind; near kernels are compared by engine. On a generation without published times the
novelty is 1. The growth comes from kernels of publications for which the model has terms of their
own, estimated without these terms.

Sources: Papadopoulos, Gammerman and Vovk, Normalized nonconformity measures for regression
conformal prediction (2008); Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World
(2005), for classes; Lee, Barber and Willett, Distribution-free inference with hierarchical data
(2023), for kernels of equal weight. `bench/accuracy/kernel_intervals.py` finds the figures of
errors.json; docs/generated/accuracy.md says what they hold.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from math import exp, inf
from pathlib import PurePath
from statistics import NormalDist
from typing import TYPE_CHECKING, Final, NamedTuple

from trnsim.arch import NeuronCore
from trnsim.facts import Interval
from trnsim.timing.work import LAUNCH, Shares, by_engine, work_shares

if TYPE_CHECKING:
    from trnsim.program import Program
    from trnsim.timing.timeline import Timeline

P90_DEVIATIONS: Final = NormalDist().inv_cdf(0.9)
"""P90 of a normal distribution in standard deviations: 1.28."""
_FOLDERS: Final = {"nkilib": "nki-library"}
"""Folder in the path of a source file -> the publication that has times of its kernels."""


class UnseenError(NamedTuple):
    """Errors for kernels of a size class that were not used to choose constants.

    Attributes:
        words: the class as text.
        below_s: upper limit of the size, launch included.
        median_percent: median of |estimate - published| / published.
        p90_percent: ninetieth percentile of the same, where it is known.
    """

    words: str
    below_s: float
    rows: int
    median_percent: float
    p90_percent: float = inf


@dataclass(frozen=True)
class Errors:
    """The errors of published times from which intervals are computed.

    Attributes:
        near: publication -> core -> spread of its kernels.
        far: spread of other kernels.
        growth: the part of a spread that a novelty of 1 adds to it.
        largest: core -> kind of work, or engine -> the largest share of a published kernel's time.
        unseen: the errors of known kernels by size, each kernel left out.
    """

    near: Mapping[str, Mapping[str, float]]
    far: float
    growth: float
    largest: Mapping[str, Shares]
    unseen: Sequence[UnseenError] = ()

    def is_near(self, core: NeuronCore, publication: str) -> bool:
        """True if a kernel is near: its library has published times on `core`."""
        return core.name in self.near.get(publication, {})

    def half_width(self, core: NeuronCore, shares: Shares, publication: str = "") -> float:
        """The exponent h of a kernel on `core`, whose kinds of work have these `shares` of time.

        `publication` names the publication with times of its library, or is "".
        """
        largest_shares = self.largest.get(core.name, {})
        spread = self.near.get(publication, {}).get(core.name)
        new_share = novelty(shares if spread is None else by_engine(shares), largest_shares)
        rest_spread = (self.far if spread is None else spread) * (1 + self.growth * new_share)
        launch, launch_spread = launch_share(shares), core.launch_s.provenance.spread
        return P90_DEVIATIONS * (launch * launch_spread + (1 - launch) * rest_spread)


def launch_share(shares: Shares) -> float:
    """The launch's share of the time."""
    return by_engine(shares).get(LAUNCH, 0.0)


def novelty(shares: Shares, largest: Shares) -> float:
    """sum(max(share - largest share, 0)): the share of the time that no published kernel has."""
    return sum(max(share - largest.get(kind, 0.0), 0.0) for kind, share in shares.items())


def interval(timeline: Timeline) -> Interval:
    """P10, P50 and P90 of the total time of `timeline`; P50 is the estimate."""
    program, time_s = timeline.program, timeline.total_time_s
    half_width = errors().half_width(program.core, work_shares(timeline), publication_of(program))
    return Interval(time_s / exp(half_width), time_s, time_s * exp(half_width))


def publication_of(program: Program) -> str:
    """The publication with times of the library that most instructions are from, or ""."""
    counts = Counter(program.line_of)
    publications: Counter[str] = Counter()
    for line, instructions in counts.items():
        publications[_publication(program.lines[line].file) if line >= 0 else ""] += instructions
    return max(publications, key=publications.__getitem__, default="")


@cache
def errors() -> Errors:
    """The stored errors of published times."""
    text = (resources.files("trnsim.timing") / "errors.json").read_text(encoding="utf-8")
    values = json.loads(text)
    unseen = tuple(UnseenError(**sizes) for sizes in values.pop("unseen"))
    return Errors(**values, unseen=unseen)


@cache
def _publication(file: str) -> str:
    folders = PurePath(file).parts
    return next((name for folder, name in _FOLDERS.items() if folder in folders), "")
