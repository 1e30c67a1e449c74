"""The program's time as an answer: as it is, or times a residual fitted to published rows.

estimate = exchanges + factor x (device + launches) + halves x a time + calls x a time, each form
with some of these constants. Exchanges have the latency of other architectures' rows. Like the few
constants, each form is judged on an architecture that its fit did not see; a network with several
rows counts once.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import cases as published
import numpy as np
from folds import SQUARES, STEPS, Judged, Rows, sigma

sys.path.insert(0, str(Path(__file__).parents[1] / "accuracy" / "models"))
import model_fit
import programs

AS_IS = "program"
FACTOR = "program x a factor"
BY_CHIP = "program x a factor of each chip"
HALVES = "program x a factor + a time of a half"
CALLS = "program x a factor + a time of a call"
FORMS = (AS_IS, FACTOR, BY_CHIP, HALVES, CALLS)
LAUNCH_S = 15e-6
"""Of a program: how many calls a row has follows from its launches."""


@dataclass(frozen=True)
class Programs:
    """Rows of a family whose programs are known, as arrays.

    Attributes:
        cases: the rows.
        alone_s: what a program takes without exchanges.
        exchanges_s: exchanges, with the latency of other architectures' rows.
    """

    cases: list
    alone_s: np.ndarray
    exchanges_s: np.ndarray

    @property
    def published_s(self):
        """Published times."""
        return np.array([case.published_s for case in self.cases])

    @property
    def architectures(self):
        """What is left out together."""
        return np.array([case.architecture for case in self.cases])

    def terms(self, form):
        """What each constant of a form is multiplied with, and where a fit of it starts."""
        if form == BY_CHIP:
            is_inf2 = np.array([case.target == "inf2" for case in self.cases])
            return np.array([self.alone_s * is_inf2, self.alone_s * ~is_inf2]).T, (1.0, 1.0)
        if form == HALVES:
            return np.array([self.alone_s, self._halves()]).T, (1.0, 10e-6)
        if form == CALLS:
            return np.array([self.alone_s, self._calls()]).T, (1.0, 100e-6)
        return self.alone_s[:, None], (1.0,)

    def _halves(self):
        rows = Rows(self.cases)
        return np.bincount(rows.at, rows.times * (rows.halves + rows.inf2_halves), len(self.cases))

    def _calls(self):
        known = {one.case.row["id"]: one.found.launch_s for one in programs.programs()}
        return np.array([round(known[case.id] / LAUNCH_S) for case in self.cases])


def known(cases):
    """The rows among `cases` whose programs are known."""
    results = {one.row.case.row["id"]: one for one in judged_programs()}
    found = [case for case in cases if case.id in results]
    rows = [results[case.id] for case in found]
    alone_s = np.array([one.row.alone_s for one in rows])
    exchanges_s = np.array([one.row.exchanges_s(one.latency_s) for one in rows])
    return Programs(found, alone_s, exchanges_s)


@cache
def judged_programs():
    """All rows with the latency of other architectures' rows."""
    return model_fit.leave_one_out(programs.programs())


def forms_of(family):
    """The forms that a family's rows can be judged by."""
    if family in published.IMAGES:
        return AS_IS, FACTOR, CALLS
    if family == published.CLIP:
        return AS_IS, FACTOR
    return AS_IS, FACTOR, BY_CHIP, HALVES


def judge(rows, form, power=SQUARES):
    """(each row judged by a fit without its architecture, constants of all rows)."""
    terms, start = rows.terms(form)
    names = rows.architectures
    share = np.array([1 / np.sum(names == name) for name in names])
    if all(case.family not in published.IMAGES for case in rows.cases):
        share = np.ones(len(names))
    estimates = np.zeros(len(names))
    for name in set(names):
        seen = np.where(names == name, 0.0, share)
        found = start if form == AS_IS else _fit(rows, terms, start, seen, power)
        estimates[names == name] = (rows.exchanges_s + terms @ np.array(found))[names == name]
    errors = np.log(estimates / rows.published_s)
    judged = []
    for at, case in enumerate(rows.cases):
        others = errors[names != case.architecture]
        spread = sigma(others) if others.size else float("nan")
        judged.append(Judged(case, float(estimates[at]), spread, None))
    whole = start if form == AS_IS else _fit(rows, terms, start, share, power)
    return judged, whole


def _fit(rows, terms, start, share, power):
    """Constants of the least errors, as logarithms to a power: one is changed at a time."""
    if not share.any():
        return start

    def loss(given):
        errors = np.log((rows.exchanges_s + terms @ np.array(given)) / rows.published_s)
        return float(share @ np.abs(errors) ** power)

    best, least = tuple(start), loss(start)
    for step in STEPS:
        is_better = True
        while is_better:
            is_better = False
            for at in range(len(best)):
                for factor in (np.exp(step), np.exp(-step)):
                    tried = (*best[:at], best[at] * float(factor), *best[at + 1 :])
                    if (found := loss(tried)) < least * (1 - 1e-9):
                        best, least, is_better = tried, found, True
    return best


def times_a_factor(few):
    """(the few constants times one factor, which other architectures' rows have; all rows')."""
    errors = np.log([1 + one.error for one in few])
    names = np.array([one.case.architecture for one in few])
    own = np.array([errors[names != name].mean() for name in names])
    left = errors - own
    judged = [
        Judged(
            one.case,
            one.estimate_s / float(np.exp(own[at])),
            sigma(left[names != names[at]]),
            one.constants,
        )
        for at, one in enumerate(few)
    ]
    return judged, float(np.exp(-errors.mean()))
