"""Families of published rows: which constants are fitted to which, and which answer is chosen.

Encoders are fitted first: the part of the peak that their products reach is that of prompts, steps
and training as well. Constants of a family are never chosen on its own rows left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import cases as published
import graph_fit
import numpy as np
from folds import SIZES, SQUARES, Constants, Judged, Rows, fit, judge, sigma

ENCODE = Constants(half_s=6e-6, inf2_products=0.8, host_byte_s=1 / 6e9)
ENCODE_FREE = ("products", "inf2_products", "half_s")
DECODE = Constants(half_s=30e-6, cache_passes=1.2)
DECODE_FREE = ("half_s", "cache_passes")
PREFILL = Constants(half_s=100e-6, inf2_half_s=200e-6, sequence_s=30e-6, score_s=150e-12)
PREFILL_FREE = ("half_s", "inf2_half_s", "sequence_s", "score_s")
COMPILED_PAGE = Path(__file__).parents[2] / "docs" / "accuracy-models.md"
ANSWERS = ("few constants", "compiled")


@dataclass
class Family:
    """A family's cases with their answers.

    Attributes:
        name: the family.
        constants: fitted to all its rows.
        judged: by each answer, its judged cases.
        chosen: by case, the answer that the rows of other architectures choose.
        unanswered: cases without an answer.
    """

    name: str
    constants: Constants | None
    judged: dict[str, list[Judged]]
    chosen: list[tuple[str, Judged]]
    unanswered: list


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
    made = []
    for name, given in starts.items():
        own = [case for case in by_name[name] if is_fitted(case)]
        others = [case for case in by_name[name] if not is_fitted(case)]
        constants = fit(Rows(own), *given)
        few = judge(own, *given)
        few += [_unfitted(case, constants, few) for case in others]
        unanswered = [one for one in found if one.family == name and one.id not in table]
        made.append(_chosen(name, constants, few, unanswered))
    images = [case for case in found if case.family == published.IMAGES]
    read = graph_fit.networks()
    few, constants = graph_fit.judge([case for case in images if case.id in read])
    others = [case for case in images if case.id not in read]
    made.append(_chosen(published.IMAGES, constants, few, others))
    return made


def is_fitted(case):
    """Whether a row is one of the tables that constants are fitted to."""
    return not case.id.startswith("neuronmm-")


def _unfitted(case, constants, others):
    """A row that no fit sees, with the constants of all that are seen."""
    spread = sigma([np.log(1 + one.error) for one in others])
    return Judged(case, float(Rows([case]).seconds(constants)[0]), spread, constants)


def compiled():
    """Seconds of whole compiled graphs, by row: docs/accuracy-models.md."""
    found = {}
    for line in COMPILED_PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 12 and re.fullmatch(r"[-\w]+", cells[1]) and cells[1] not in ("row", "---"):
            found[cells[1]] = float(cells[7]) / 1e3
    return found


def _chosen(name, constants, few, cases):
    """The family with the answer that is chosen for each case on other architectures' rows."""
    answers = compiled()
    known = {one.case.id: one for one in few}
    more = [one for one in cases if one.id in answers and not one.is_of_host]
    every = [one.case for one in few] + more
    both = {"few constants": few}
    both["compiled"] = [_answer(case, answers[case.id]) for case in every if case.id in answers]
    _spread(both["compiled"])
    chosen = []
    for case in every:
        which = _best(both, case) if case.id in known and case.id in answers else ANSWERS[0]
        which = which if case.id in known else "compiled"
        chosen.append((which, next(one for one in both[which] if one.case.id == case.id)))
    left = [one for one in cases if one not in more]
    return Family(name, constants, both, chosen, left)


def _answer(case, seconds):
    return Judged(case, seconds, 0.0, Constants())


def _spread(found):
    """One sigma of the errors of other architectures' rows."""
    for one in found:
        others = [
            np.log(1 + other.error)
            for other in found
            if other.case.architecture != one.case.architecture
        ]
        one.spread = sigma(others) if others else float("nan")


def _best(both, case):
    """The answer of least squared errors on rows of other architectures that all can answer."""
    ids = set.intersection(*({one.case.id for one in found} for found in both.values()))
    losses = {}
    for which, found in both.items():
        errors = [
            np.log(1 + one.error)
            for one in found
            if one.case.id in ids and one.case.architecture != case.architecture
        ]
        losses[which] = float(np.mean(np.square(errors))) if errors else float("inf")
    return min(losses, key=losses.get)
