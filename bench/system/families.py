"""Families of published rows: which constants are fitted to which, and which answer is chosen.

Encoders are fitted first: the part of the peak that their products reach is that of prompts, steps
and training as well. Constants of a family are never chosen on its own rows left out. A family has
one answer: of all that answer each of its rows, that of the least squared error.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import cases as published
import graph_fit
import numpy as np
import residuals
from folds import SIZES, SQUARES, Constants, Judged, Rows, fit, judge, sigma

ENCODE = Constants(half_s=6e-6, inf2_products=0.8, host_byte_s=1 / 6e9)
ENCODE_FREE = ("products", "inf2_products", "half_s")
DECODE = Constants(half_s=30e-6, cache_passes=1.2)
DECODE_FREE = ("half_s", "cache_passes")
PREFILL = Constants(half_s=100e-6, inf2_half_s=200e-6, sequence_s=30e-6, score_s=150e-12)
PREFILL_FREE = ("half_s", "inf2_half_s", "sequence_s", "score_s")
FEW = "few constants"
SCALED = "few constants x a factor"
GAIN = 0.1
"""Part of the few constants' error that a program has to spare."""


@dataclass
class Family:
    """A family's cases with their answers.

    Attributes:
        name: the family.
        constants: fitted to all its rows.
        judged: by each answer, its judged cases.
        fitted: by each answer but the few constants, what was fitted to all rows.
        unanswered: cases without an answer.
    """

    name: str
    constants: Constants | None
    judged: dict[str, list[Judged]]
    fitted: dict[str, tuple[float, ...]]
    unanswered: list

    @property
    def common(self):
        """Rows that every answer has and that a fit saw, by id."""
        ids = ({one.case.id for one in found if is_fitted(one.case)} for found in self.of.values())
        return set.intersection(*ids)

    @property
    def of(self):
        """The answers that have any row."""
        return {name: found for name, found in self.judged.items() if found}

    def error(self, answer):
        """Root of the mean squared error of the rows that all answers have, as a logarithm."""
        common = self.common
        errors = [np.log(1 + one.error) for one in self.judged[answer] if one.case.id in common]
        return float(np.sqrt(np.mean(np.square(errors))))

    @property
    def answer(self):
        """The family's: it has as many rows as any, and the least error.

        A program is compiled for each question, so it has to err less by `GAIN` at least.
        """
        most = max(map(len, self.judged.values()))
        whole = [name for name, found in self.of.items() if len(found) == most]
        best = min(whole, key=self.error)
        few = min((one for one in whole if one in (FEW, SCALED)), key=self.error, default=best)
        return best if self.error(best) < (1 - GAIN) * self.error(few) else few

    @property
    def chosen(self):
        """Judged cases of the family's answer."""
        return self.judged[self.answer]


def families():
    """All families of inference."""
    found = published.cases()
    answered = [case for case in found if case.model is not None and not case.why]
    table = {case.id: case for case in answered}
    by_name = {name: [] for name in (published.DECODE, published.PREFILL, published.ENCODERS)}
    for case in answered:
        by_name.setdefault(case.family, []).append(case)
    encode = fit(Rows(by_name[published.ENCODERS]), ENCODE, ENCODE_FREE)
    shared = {"products": encode.products, "inf2_products": encode.inf2_products}
    starts = {
        published.ENCODERS: (ENCODE, ENCODE_FREE, SQUARES),
        published.CLIP: (encode, (), SQUARES),
        published.DECODE: (replace(DECODE, **shared), DECODE_FREE, SQUARES),
        published.PREFILL: (replace(PREFILL, **shared), PREFILL_FREE, SIZES),
    }
    made, fitted = [], {}
    for name, given in starts.items():
        own = [case for case in by_name[name] if is_fitted(case)]
        others = [case for case in by_name[name] if not is_fitted(case)]
        constants = fitted[name] = fit(Rows(own), *given)
        few = judge(own, *given)
        few += [_unfitted(case, constants, few) for case in others]
        unanswered = [one for one in found if one.family == name and one.id not in table]
        made.append(_family(name, constants, few, unanswered, given[-1]))
    read = graph_fit.networks()
    denoisers = [graph_fit.of_denoisers(encode, fitted[published.PREFILL])]
    for name, tried in ((published.NETWORKS, graph_fit.TRIED), (published.DIFFUSION, denoisers)):
        images = [case for case in found if case.family == name]
        few, constants = graph_fit.judge([case for case in images if case.id in read], tried)
        others = [case for case in images if case.id not in read]
        made.append(_family(name, constants, few, others, SQUARES))
    return made


def _family(name, constants, few, unanswered, power):
    """The family with its other answers: a factor of CLIP, and programs with their residuals."""
    judged, fitted = {FEW: few}, {}
    if name == published.CLIP:
        judged[SCALED], factor = residuals.times_a_factor(few)
        fitted[SCALED] = (factor,)
    seen = residuals.known([one.case for one in few if is_fitted(one.case)])
    unseen = residuals.known([one.case for one in few if not is_fitted(one.case)])
    for form in residuals.forms_of(name):
        judged[form], fitted[form] = residuals.judge(seen, form, power)
        if form == residuals.AS_IS and unseen.cases:
            spread = sigma([np.log(1 + one.error) for one in judged[form]])
            others, _ = residuals.judge(unseen, form)
            judged[form] += [replace(one, spread=spread) for one in others]
    return Family(name, constants, judged, fitted, unanswered)


def is_fitted(case):
    """Whether a row is one of the tables that constants are fitted to."""
    return not case.id.startswith("neuronmm-")


def _unfitted(case, constants, others):
    """A row that no fit sees, with the constants of all that are seen."""
    spread = sigma([np.log(1 + one.error) for one in others])
    return Judged(case, float(Rows([case]).seconds(constants)[0]), spread, constants)
