"""Times of layers and programs as a user's own measurements correct them.

    corrected = sum over causes of (factor of the cause x seconds)

Factors are those of the site (`trnsim.site`) for the chip and the family: the phase of a pass,
"pairs", "networks" or "diffusion", "programs", and for exchanges between ranks "exchanges". Those
of GPUs are families of their own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from trnsim.arch.catalogue import Accelerator
from trnsim.estimate.estimate import QUANTILES, Estimate
from trnsim.estimate.times import LayerTime, LayerTimes
from trnsim.fabric.floors import Floor
from trnsim.facts import Interval
from trnsim.site import Correction, SiteCorrections, current, note_family, note_used
from trnsim.workload.operators import Pass
from trnsim.workload.summary import PartSummary

EXCHANGES_FAMILY: Final = "exchanges"
PROGRAMS_FAMILY: Final = "programs"
ALONE_START: Final = "start of a collective alone"
"""Cause of the time of a collective that is timed alone and whose start outlasts its bytes."""
_GPU: Final = "GPU "


def family_of(chip: Accelerator, name: str) -> str:
    """The family of times on a chip, by its name on AWS's chips."""
    return name if chip.is_neuron else f"{_GPU}{name}"


@dataclass(frozen=True)
class SiteTimes:
    """Times of layers with the factors of a site.

    Attributes:
        modelled: times without them.
        kind: the family; "" for that of the phase of each pass.
        site: the corrections; None for none.
    """

    modelled: LayerTimes
    chip: Accelerator
    kind: str = ""
    site: SiteCorrections | None = None

    def forward(self, summary: PartSummary, model_pass: Pass) -> LayerTime:
        """The forward time of one layer of a summary."""
        return self._corrected(self.modelled.forward(summary, model_pass), model_pass)

    def backward(self, summary: PartSummary, model_pass: Pass) -> LayerTime:
        """The time of both gradients of one layer of a summary."""
        return self._corrected(self.modelled.backward(summary, model_pass), model_pass)

    def _corrected(self, layer_time: LayerTime, model_pass: Pass) -> LayerTime:
        family = family_of(self.chip, self.kind or str(model_pass.phase))
        note_family(self.chip.name, family)
        if self.site is None:
            return layer_time
        correction = self.site.correction(self.chip.name, family)
        parts = _scaled(layer_time.parts_s, correction)
        return replace(
            layer_time,
            time_s=sum(parts.values()),
            parts_s=parts,
            spread=_spread(correction, layer_time.spread),
            source=f"{layer_time.source}; {_noted_provenance(self.site, correction)}",
        )


def site_times(modelled: LayerTimes, chip: Accelerator, kind: str = "") -> LayerTimes:
    """Times of layers with the factors of the current site, if there is one."""
    return SiteTimes(modelled, chip, kind, current())


def site_correction(chip: Accelerator, name: str) -> Correction | None:
    """The correction of a family of times by the current site; None without a site."""
    site = current()
    return None if site is None else site.correction(chip.name, family_of(chip, name))


def exchange_factor(chip: Accelerator) -> float:
    """The factor on seconds of exchanges within a pass."""
    site = current()
    if site is None:
        return 1.0
    correction = site.correction(chip.name, family_of(chip, EXCHANGES_FAMILY))
    _noted_provenance(site, correction)
    return correction.factor("")


def collective_cause(floor: str) -> str:
    """The cause of the time of a collective alone, by the floor that it pays, in words."""
    return ALONE_START if floor == Floor.HOST.value else ""


def site_collective(chip: Accelerator, time_s: Interval, cause: str) -> tuple[Interval, str]:
    """The time of a collective with the factor of the current site, and its provenance or ""."""
    site = current()
    if site is None or not time_s.p50:
        return time_s, ""
    correction = site.correction(chip.name, family_of(chip, EXCHANGES_FAMILY))
    p90 = QUANTILES["p90"]
    width = math.exp(p90 * _spread(correction, math.log(time_s.p90 / time_s.p10) / (2 * p90)))
    median_s = correction.factor(cause) * time_s.p50
    return Interval(median_s / width, median_s, median_s * width), _noted_provenance(
        site, correction
    )


def site_program(estimate: Estimate, chip: str) -> Estimate:
    """The estimate of a program with the factors of the current site, if there is one."""
    note_family(chip, PROGRAMS_FAMILY)
    site = current()
    if site is None:
        return estimate
    correction = site.correction(chip, PROGRAMS_FAMILY)
    parts, provenance = _scaled(estimate.parts_s, correction), _noted_provenance(site, correction)
    sigma = _spread(correction, estimate.sigma)
    sources = {name: f"{source}; {provenance}" for name, source in estimate.sources.items()}
    errors = {provenance: sigma * sum(parts.values())}
    return replace(estimate, parts_s=parts, errors_s=errors, sources=sources)


def _scaled(parts_s: Mapping[str, float], correction: Correction) -> dict[str, float]:
    return {name: correction.factor(name) * time_s for name, time_s in parts_s.items()}


def _spread(correction: Correction, estimate_sigma: float) -> float:
    """The sigma of measured rows; without rows, the larger one of correction and estimate."""
    return correction.sigma if correction.rows else max(correction.sigma, estimate_sigma)


def _noted_provenance(site: SiteCorrections, correction: Correction) -> str:
    text = site.provenance(correction)
    note_used(text)
    return text
