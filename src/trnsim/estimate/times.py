"""The time of a layer on one rank, and its source.

A source is named "measured", for a user's table of times, or "few constants", for formulas whose
few constants are fitted to published times.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from trnsim.estimate.estimate import EXCHANGES
from trnsim.fabric.constants import BANDWIDTHS
from trnsim.workload.operators import Pass
from trnsim.workload.summary import PartSummary


@dataclass(frozen=True)
class LayerTime:
    """The time of one layer, embedding or head on one rank, without its exchanges.

    Attributes:
        time_s: median seconds.
        parts_s: seconds by cause, which add up to `time_s`: "products", "weights" (time that
            reading the products' operands takes beyond "products"), "KV", "elements", "scores",
            "fixed".
        spread: one sigma of the logarithm of (true / `time_s`).
        source: "measured" or "few constants", with the file or the published rows.
        has_exchanges: whether `spread` covers the exchanges of the layer too.
    """

    time_s: float
    parts_s: Mapping[str, float]
    spread: float
    source: str
    has_exchanges: bool = False


class LayerTimes(Protocol):
    """A source of times of layers."""

    def forward(self, summary: PartSummary, model_pass: Pass) -> LayerTime:
        """The forward time in a pass of one of the equal layers that `summary` describes."""
        ...

    def backward(self, summary: PartSummary, model_pass: Pass) -> LayerTime:
        """The time of both gradients of one of the equal layers that `summary` describes."""
        ...


class SumErrors:
    """One sigma in seconds of a sum of times of layers and exchanges, by source."""

    def __init__(self) -> None:
        self._errors_s: dict[str, float] = {}

    def add(
        self, layer: LayerTime, time_s: float, exchanged_s: float, more_spread: float = 0.0
    ) -> None:
        """Add `time_s` of a layer, and exchanges between its ranks.

        If the spread of the layer covers its exchanges, they have no error of their own.
        """
        spread = math.hypot(layer.spread, more_spread)
        if layer.has_exchanges:
            self._add(layer.source, spread * (time_s + exchanged_s))
            return
        self._add(layer.source, spread * time_s)
        self._add(EXCHANGES, BANDWIDTHS.provenance.spread * exchanged_s)

    def by_source(self) -> dict[str, float]:
        """The errors."""
        return dict(self._errors_s)

    def _add(self, source: str, error_s: float) -> None:
        if error_s:
            self._errors_s[source] = self._errors_s.get(source, 0.0) + error_s


def summed_errors(sums: Iterable[tuple[LayerTime, float, float]]) -> dict[str, float]:
    """The errors of a sum of layers, each with its seconds and those of its exchanges."""
    errors = SumErrors()
    for layer, time_s, exchanged_s in sums:
        errors.add(layer, time_s, exchanged_s)
    return errors.by_source()


class Sources:
    """The sources of the times of a plan, by phase."""

    def __init__(self) -> None:
        # The shapes that a source answered, by phase, source and part.
        self._shapes_by_source: dict[str, dict[str, dict[str, set[object]]]] = {}

    def add(self, phase: str, part: str, source: str, shape: object = None) -> None:
        """Note that a part's time in a phase came from a source.

        Args:
            phase: "prefill", or "forward".
            part: the part's name.
            source: the source of its `LayerTime`.
            shape: batch and lengths of the pass.
        """
        parts = self._shapes_by_source.setdefault(phase, {}).setdefault(source, {})
        parts.setdefault(part, set()).add(shape)

    def words(self) -> dict[str, str]:
        """The sources of each phase; if there are several, each with its parts."""
        return {phase: _words(by_source) for phase, by_source in self._shapes_by_source.items()}


def _words(by_source: Mapping[str, Mapping[str, set[object]]]) -> str:
    if len(by_source) == 1:
        return next(iter(by_source))
    totals: dict[str, int] = {}
    for parts in by_source.values():
        for part, shapes in parts.items():
            totals[part] = totals.get(part, 0) + len(shapes)
    return "; ".join(
        f"{source} ({_parts(by_source[source], totals)})" for source in sorted(by_source)
    )


def _parts(parts: Mapping[str, set[object]], totals: Mapping[str, int]) -> str:
    """``layer in 3 of 12 shapes, head``: a part with other sources too has a count of shapes."""
    return ", ".join(
        part if len(shapes) == totals[part] else f"{part} in {len(shapes)} of {totals[part]} shapes"
        for part, shapes in parts.items()
    )
