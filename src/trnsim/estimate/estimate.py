"""An estimated time: its median, its interval, its parts and its sources.

P10 and P90 are those of a lognormal whose sigma is the errors' sum over the time. Errors of one
source are fully correlated, so they add up; those of several sources add up in squares.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from trnsim.facts import P90_SIGMAS, Interval
from trnsim.formatting import durations

QUANTILES: Final = {"p10": -P90_SIGMAS, "p50": 0.0, "p90": P90_SIGMAS}
"""Quantiles of the standard normal distribution, by name."""
EXCHANGES: Final = "exchanges"
"""Cause in `Estimate.parts_s`: exchanges between ranks."""
HOST: Final = "host"
"""Cause in `Estimate.parts_s`: work of the host that the device waits for."""


@dataclass(frozen=True)
class Estimate:
    """An estimated time.

    Attributes:
        parts_s: median seconds by cause, which add up to `time_s`.
        errors_s: one sigma of the error in seconds, by source.
        sources: sources of its parts, by phase; of a pipeline of several models, by model.
        conditions: assumptions that it depends on.
        extrapolations: ways in which what is estimated differs from the published rows, such as a
            larger batch than theirs.
        evidence: published rows that validate it; without such rows, those that share its
            constants.
        is_validated: True if each of its passes lies among published rows of the same kind of
            model, phase and chip (`trnsim.estimate.cells`).
    """

    parts_s: Mapping[str, float]
    errors_s: Mapping[str, float]
    sources: Mapping[str, str] = field(default_factory=dict)
    conditions: tuple[str, ...] = ()
    extrapolations: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    is_validated: bool = False

    def __str__(self) -> str:
        return durations(self.interval)

    def _repr_html_(self) -> str:
        """HTML of the parts, errors and evidence, for a notebook."""
        from trnsim.estimate.estimate_page import estimate_page  # noqa: PLC0415  in notebooks alone

        return estimate_page(self)

    @property
    def time_s(self) -> float:
        """Median seconds."""
        return sum(self.parts_s.values())

    @property
    def sigma(self) -> float:
        """One sigma of the logarithm of (true / `time_s`)."""
        if not self.time_s:
            return 0.0
        return math.sqrt(sum(error_s**2 for error_s in self.errors_s.values())) / self.time_s

    @property
    def interval(self) -> Interval:
        """P10, P50 and P90, in seconds."""
        return Interval(self.quantile_s("p10"), self.time_s, self.quantile_s("p90"))

    def quantile_s(self, name: str) -> float:
        """Seconds at a quantile, "p10", "p50" or "p90"."""
        return self.time_s * math.exp(QUANTILES[name] * self.sigma)

    def scaled(self, count: float) -> Estimate:
        """The time of `count` repetitions in succession."""
        return replace(
            self,
            parts_s={name: count * time_s for name, time_s in self.parts_s.items()},
            errors_s={name: count * error_s for name, error_s in self.errors_s.items()},
        )

    def plus(self, part: str, time_s: float, *, source: str = "", spread: float = 0.0) -> Estimate:
        """This time and that of a further part in succession.

        Args:
            part: the cause.
            time_s: median seconds of the part.
            source: the source of the part's error.
            spread: one sigma of the part's error, as a share of `time_s`.
        """
        errors_s = dict(self.errors_s)
        if spread:
            errors_s[source] = errors_s.get(source, 0.0) + spread * time_s
        parts_s = {**self.parts_s, part: self.parts_s.get(part, 0.0) + time_s}
        return replace(self, parts_s=parts_s, errors_s=errors_s)

    def with_parts_in_proportion(self, parts_s: Mapping[str, float]) -> Estimate:
        """This time and further parts in succession, all with this time's relative errors."""
        added_s = sum(parts_s.values())
        factor = 1 + added_s / self.time_s if self.time_s else 1.0
        return replace(
            self,
            parts_s=_sum(self.parts_s, parts_s),
            errors_s={source: factor * error_s for source, error_s in self.errors_s.items()},
        )

    def as_dict(self) -> dict[str, object]:
        """The estimate as JSON: seconds at P10, P50 and P90, parts that are not 0, and the rest."""
        return {
            "p10_s": self.quantile_s("p10"),
            "p50_s": self.time_s,
            "p90_s": self.quantile_s("p90"),
            "parts_s": {name: time_s for name, time_s in self.parts_s.items() if time_s},
            "sources": dict(self.sources),
            "conditions": list(self.conditions),
            "extrapolations": list(self.extrapolations),
            "evidence": list(self.evidence),
        }

    def __add__(self, other: Estimate) -> Estimate:
        """The time of both in succession."""
        return Estimate(
            _sum(self.parts_s, other.parts_s),
            _sum(self.errors_s, other.errors_s),
            _join_sources(self.sources, other.sources),
            tuple(dict.fromkeys((*self.conditions, *other.conditions))),
            tuple(dict.fromkeys((*self.extrapolations, *other.extrapolations))),
            tuple(dict.fromkeys((*self.evidence, *other.evidence))),
            self.is_validated and other.is_validated,
        )


def _sum(a: Mapping[str, float], b: Mapping[str, float]) -> dict[str, float]:
    return {name: a.get(name, 0.0) + b.get(name, 0.0) for name in dict.fromkeys((*a, *b))}


def _join_sources(first: Mapping[str, str], later: Mapping[str, str]) -> dict[str, str]:
    """The sources of both, joined by phase or model."""
    sources = dict(first)
    for name, source in later.items():
        earlier = sources.get(name, source)
        sources[name] = earlier if source in earlier else f"{earlier}; {source}"
    return sources
