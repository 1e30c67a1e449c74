"""Widths of intervals by conformal prediction, from errors of rows that no fit saw.

A score is the size of a row's error over a scale, which is the question's difficulty: the family's
own errors, the part of its time that two ways of attention decide, and its distance from the rows
that were seen. The scale is chosen by quantile regression of the errors of rows that were left out
in each of the ways of `cuts` (Romano, Patterson and Candes, 2019, arXiv:1905.03222). A family's
scores are then divided by their conformal quantile, ``(n + 1) / n`` times the level for n rows, so
that a family of few rows has wide intervals (Papadopoulos et al., 2011, normalized scores; Vovk et
al., 2003, Mondrian groups; Barber et al., 2021, arXiv:1905.02928, cross-conformal residuals).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

LEVEL = 0.8
"""Of the rows between P10 and P90."""
P90 = 1.2815515655446004
"""Sigmas between the median and P90."""
FEATURES = ("core", "chip", "batch", "length", "ranks")
PRIOR = {"core": 0.30, "chip": 0.15, "batch": 0.12, "length": 0.08, "ranks": 0.08}
"""One sigma of each distance where no row teaches it; `core` is never fitted."""
HELD = 6.0
"""Rows' worth of holding the distances to their priors."""
RELEASES = 0.056
"""One sigma of one release's figure about the median of all, of the same question: q80 / P90."""
STEPS = (1.0, 0.5, 0.25, 0.12, 0.06)
LEAST_FACTOR = 1.0
"""Of a family's scale, which has the scatter of releases in it."""
DRAWN = 8
"""Rows' worth of drawing a family's quantile to that of all."""
SHARED = {"CLIP": "images", "CNN and Perceiver": "images", "diffusion": "images"}
"""Families of few rows, all of images and on Inferentia2, which share a scale."""
CORES = {"trn1": "NeuronCore-v2", "inf2": "NeuronCore-v2"}


@dataclass(frozen=True)
class Residual:
    """The error of a row that a fit did not see, and its distance from what it saw.

    Attributes:
        answer: the row's answer.
        cut: the way in which it was left out.
        out: what was left out.
        distance: by feature.
    """

    answer: object
    cut: str
    out: str
    distance: tuple

    @property
    def family(self):
        """Of constants."""
        return self.answer.row.family

    @property
    def group(self):
        """Rows that share a scale."""
        return SHARED.get(self.family, self.family)

    @property
    def size(self):
        """Of the error."""
        return abs(self.answer.error)


def is_fitted(row):
    """Whether fits see a row: those of NeuronMM take several times as long as anything explains."""
    return not row.id.startswith("neuronmm-")


def distance(answer, seen):
    """How far a row is from those that were seen, by feature.

    A core without rows counts 1; a chip without rows, of a core that has some, the part of the time
    that is not read from memory, whose rate was measured; batch, length and ranks their doublings
    beyond the rows of the same chip.
    """
    row = answer.row
    own = [one for one in seen if one.family == row.family and is_fitted(one)]
    core = CORES.get(row.chip, row.chip)
    is_new_core = core not in {CORES.get(one.chip, one.chip) for one in own}
    same = [one for one in own if one.chip == row.chip]
    found = [float(is_new_core), 0.0 if same or is_new_core else (1 - answer.read) ** 2]
    for name in ("batch", "length", "ranks"):
        value = max(getattr(row, name), 1)
        sizes = [max(getattr(one, name), 1) for one in same or own]
        found.append(max(0.0, np.log2(value / max(sizes)), np.log2(min(sizes) / value)))
    return tuple(found)


@dataclass(frozen=True)
class Scales:
    """The scale of errors, in sigmas.

    Attributes:
        own: of each family.
        scores: of the part of a prompt's time that scores take.
        features: of each distance.
        factors: of each family, the conformal quantile of its scores.
    """

    own: dict
    scores: float
    features: dict
    factors: dict

    def sigma(self, residual):
        """One sigma of a residual's interval."""
        features = np.array([self.features[name] for name in FEATURES])
        base = self.own[residual.group] ** 2 + RELEASES**2
        base += np.dot(residual.distance, features**2)
        base += (self.scores * _scores(residual)) ** 2
        return self.factors[residual.family] * float(np.sqrt(base))


def _scores(residual):
    return residual.answer.scores if residual.family == "TTFT" else 0.0


def scales(residuals):
    """The scales that hold `LEVEL` of the residuals at the least width."""
    kept = [one for one in residuals if is_fitted(one.answer.row)]
    names = sorted({one.group for one in kept})
    of = np.array([names.index(one.group) for one in kept])
    sizes = np.array([one.size for one in kept])
    far = np.array([one.distance for one in kept])
    scored = np.array([_scores(one) for one in kept])
    prior = np.log([0.12] * len(names) + [PRIOR[name] for name in FEATURES] + [0.4])
    free = [at for at in range(len(prior)) if at != len(names)]
    held = slice(len(names), len(names) + len(FEATURES))

    def widths(found):
        squares = np.exp(2 * found)
        base = squares[: len(names)][of] + RELEASES**2 + far @ squares[held]
        return P90 * np.sqrt(base + squares[-1] * scored**2)

    def loss(found):
        width = widths(found)
        missed = 2 / (1 - LEVEL) * np.maximum(sizes - width, 0)
        held_back = HELD * np.sum((found - prior)[held] ** 2) + 0.01 * np.sum((found - prior) ** 2)
        return np.mean(2 * width + missed) + held_back / len(sizes)

    best = _least(loss, prior, free)
    factors = _factors(sizes / widths(best), kept)
    figures = np.exp(best)
    return Scales(
        dict(zip(names, figures, strict=False)),
        float(figures[-1]),
        dict(zip(FEATURES, figures[held], strict=True)),
        factors,
    )


def _least(loss, start, free):
    """Where a loss is least: one figure is changed at a time."""
    best, least = start, loss(start)
    for step in STEPS:
        is_better = True
        while is_better:
            is_better = False
            for at in free:
                for change in (step, -step):
                    tried = best.copy()
                    tried[at] += change
                    lost = loss(tried)
                    if lost < least - 1e-7:
                        best, least, is_better = tried, lost, True
    return best


def _factors(scores, residuals):
    """The conformal quantile of each family's scores, drawn to that of all for few rows.

    The level is raised by the number of rows, and no family is surer than its scale.
    """
    families = np.array([one.family for one in residuals])
    ids = {(one.family, one.answer.row.id) for one in residuals}
    rows = Counter(family for family, _ in ids)
    whole = _quantile(scores, len(ids))
    found = {}
    for family, count in sorted(rows.items()):
        own = _quantile(scores[families == family], count)
        found[family] = max(LEAST_FACTOR, (count * own + DRAWN * whole) / (count + DRAWN))
    return found


def _quantile(scores, rows):
    return float(np.quantile(scores, min(1.0, LEVEL * (1 + 1 / rows))))
