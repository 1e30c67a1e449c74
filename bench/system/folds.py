"""Few constants fitted to published rows, each row judged by a fit that saw no row like it.

A family's free constants are chosen on the rows of all architectures but one, and judged on that
one's; its spread is one sigma of the errors of rows left out. Nothing is chosen for a model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np

from trnsim.estimate.few import elements, halves, repeats, returned_elements, scores

PEAK = 95e12
"""BF16 FLOP per second of a NeuronCore-v2: half of 190 TFLOPS."""
LANES = 128
"""Of the Vector Engine; its clock on NeuronCore-v2 is 1.12 GHz."""
STEPS = (0.5, 0.25, 0.125, 0.06, 0.03, 0.015, 0.007)
"""Logarithms by which a constant is changed in search of a better one."""
SQUARES, SIZES = 2, 1
"""Powers of errors: of sizes, where some rows are off by a factor that the form cannot know."""
INSIDE = 0.85
"""Of the errors that a spread is made from: P10 to P90 of so few architectures is too narrow."""


@dataclass(frozen=True)
class Constants:
    """Constants of one family, as `trnsim.estimate.constants` has them."""

    products: float = 0.7
    inf2_products: float = 1.0
    bytes_per_s: float = 294e9
    cache_passes: float = 0.0
    half_s: float = 0.0
    inf2_half_s: float | None = None
    sequence_s: float = 0.0
    score_s: float = 0.0
    element_s: float = 1 / (LANES * 1.12e9)
    host_byte_s: float = 0.0
    call_s: float = 0.0
    kernel_score_s: float = 0.0


class Rows:
    """Cases as arrays, so that thousands of fits take seconds."""

    def __init__(self, cases):
        self.cases = cases
        blocks = [(at, one, case) for at, case in enumerate(cases) for one in case.made]
        self.at = np.array([at for at, _, _ in blocks])
        self.times = np.array([one.times for _, one, _ in blocks], float)
        self.flop = np.array([one.flop for _, one, _ in blocks])
        self.weights = np.array([one.weight_bytes for _, one, _ in blocks])
        self.cache = np.array(
            [one.cache.read_bytes * repeats(one, case.given) for _, one, case in blocks]
        )
        self.written = np.array([one.cache.written_bytes for _, one, _ in blocks])
        self.scores = np.array([scores(one) for _, one, _ in blocks])
        self.elements = np.array([elements(one) for _, one, _ in blocks])
        self.returned = np.array([4 * returned_elements(one) for _, one, _ in blocks])
        is_inf2 = np.array([case.target == "inf2" for _, _, case in blocks])
        count = np.array([halves(one) for _, one, _ in blocks])
        self.halves, self.inf2_halves = np.where(is_inf2, 0, count), np.where(is_inf2, count, 0)
        self.sequence_halves = count * np.array([case.given.batch for _, _, case in blocks])
        self.is_inf2 = is_inf2
        self.exchanges_s = np.array([case.exchanges_s for case in cases])
        self.published_s = np.array([case.published_s for case in cases])

    def seconds(self, found):
        """Estimates of all cases: `FewConstants`' form."""
        share = found.products * np.where(self.is_inf2, found.inf2_products, 1.0)
        products = self.flop / (share * PEAK)
        each = np.maximum(products, self.weights / found.bytes_per_s)
        each = each + (found.cache_passes * self.cache + self.written) / found.bytes_per_s
        each = each + self.scores * found.score_s + self.elements * found.element_s
        inf2_half_s = found.half_s if found.inf2_half_s is None else found.inf2_half_s
        each = each + self.halves * found.half_s + self.inf2_halves * inf2_half_s
        each = each + self.sequence_halves * found.sequence_s
        each = each + self.returned * found.host_byte_s
        return self.exchanges_s + np.bincount(self.at, self.times * each, len(self.cases))

    def errors(self, found):
        """Logarithms of estimate over published."""
        return np.log(self.seconds(found) / self.published_s)


def fit(rows, start, free, power=SQUARES):
    """The constants whose errors, as logarithms to a power, are least.

    One constant is changed at a time; of errors by size, also two: they have valleys that no single
    one descends, and where a search stops in them depends on the machine.
    """
    best, least = start, np.mean(np.abs(rows.errors(start)) ** power)
    moves = [(name,) for name in free]
    if power == SIZES:
        moves += combinations(free, 2)
    for step in STEPS:
        is_better = True
        while is_better:
            is_better = False
            for names, signs in (
                (one, by) for one in moves for by in product((1, -1), repeat=len(one))
            ):
                changed = zip(names, signs, strict=True)
                tried = replace(
                    best, **{name: getattr(best, name) * np.exp(by * step) for name, by in changed}
                )
                loss = np.mean(np.abs(rows.errors(tried)) ** power)
                if loss < least * (1 - 1e-9):
                    best, least, is_better = tried, loss, True
    return best


@dataclass
class Judged:
    """A case with the estimate of a fit that left its architecture out.

    Attributes:
        case: the case.
        estimate_s: the estimate.
        spread: one sigma of the logarithm of the errors of other architectures' rows, each judged
            by a fit that left its own out.
        constants: of that fit.
    """

    case: object
    estimate_s: float
    spread: float
    constants: Constants

    @property
    def error(self):
        """(estimate - published) / published."""
        return self.estimate_s / self.case.published_s - 1

    @property
    def interval_s(self):
        """P10 and P90."""
        factor = float(np.exp(1.2816 * self.spread))
        return self.estimate_s / factor, self.estimate_s * factor

    @property
    def is_inside(self):
        """Whether the published time lies between P10 and P90."""
        low, high = self.interval_s
        return low <= self.case.published_s <= high

    @property
    def width(self):
        """P10 to P90 as a share of the estimate."""
        low, high = self.interval_s
        return (high - low) / self.estimate_s


def left_out(cases, start, free, power):
    """Errors of cases, each judged by a fit without its architecture."""
    found = {}
    for name in sorted({case.architecture for case in cases}):
        others = [case for case in cases if case.architecture != name]
        own = [case for case in cases if case.architecture == name]
        fitted = fit(Rows(others), start, free, power) if others else start
        for case, error in zip(own, Rows(own).errors(fitted), strict=True):
            found[case.id] = float(error), fitted
    return found


def sigma(errors):
    """One sigma whose P10 to P90 holds four fifths of the errors."""
    return float(np.quantile(np.abs(errors), INSIDE)) / 1.2816


def judge(cases, start, free, power=SQUARES):
    """Each case with the estimate and the spread of what did not see its architecture."""
    outer = left_out(cases, start, free, power)
    judged = []
    for case in cases:
        error, fitted = outer[case.id]
        others = [outer[one.id][0] for one in cases if one.architecture != case.architecture]
        seconds = case.published_s * float(np.exp(error))
        judged.append(Judged(case, seconds, sigma(others), fitted))
    return judged
