"""Both methods beside each other, by family and by chip."""

from __future__ import annotations

import textwrap
from collections import Counter

import cases as published
import families
import model_why
import numpy as np
import page_text
import programs
import residuals
from folds import sigma
from model_fit import latency
from model_rows import DECODE, SEVERAL, TRAINING

from trnsim.estimate import constants
from trnsim.estimate.reach import PAIRS, ROWS, Reach
from trnsim.fabric.constants import start_s
from trnsim.workload.operators import Phase

UNITS = {
    families.SCALED: ("x {:.2f}",),
    residuals.FACTOR: ("x {:.2f}",),
    residuals.BY_CHIP: ("x {:.2f} on Inf2", "x {:.2f} on Trn1"),
    residuals.HALVES: ("x {:.2f}", "{:.0f} us a half"),
    residuals.CALLS: ("x {:.2f}", "{:.0f} us a call"),
}
"""Of each answer: its constants in words; times in us."""


def line(*cells):
    """A row of a table."""
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def figures(judged):
    """Median / P90, signed, inside, width of judged rows, as words."""
    if not judged:
        return "-", "-", "-", "-"
    errors = 100 * np.array([one.error for one in judged])
    size = np.abs(errors)
    inside = 100 * np.mean([one.is_inside for one in judged])
    width = 100 * np.median([one.width for one in judged])
    both = f"{np.median(size):.1f} / {np.quantile(size, 0.9):.1f}"
    return both, f"{np.median(errors):+.1f}", f"{inside:.0f}", f"{width:.0f}"


def chip_lines(found, trained):
    """A line for each family and chip."""
    for family in found:
        as_is = {one.case.id: one for one in family.judged[residuals.AS_IS]}
        for chip, rows in Counter(one.case.target for one in family.chosen).items():
            mine = [one for one in family.chosen if one.case.target == chip]
            both = [as_is[one.case.id] for one in mine if one.case.id in as_is]
            yield line(family.name, chip, rows, *figures(mine), len(both), *figures(both))
    yield line("training", "trn1", len(trained), *figures(trained), 0, *figures([]))


def way_lines(found):
    """A line for each answer of each family, on the rows that all its answers have."""
    for family in found:
        common = family.common
        for name, judged in family.of.items():
            mine = [one for one in judged if one.case.id in common]
            told = f"**{name}**" if name == family.answer else name
            yield _way(family.name, told, mine, family.error(name), family.fitted.get(name))


def _way(family, name, judged, error, fitted):
    both, *rest = figures(judged)
    plain = name.strip("*")
    scales = [1e6 if " us " in unit else 1 for unit in UNITS.get(plain, ())]
    units = zip(UNITS.get(plain, ()), scales, fitted or (), strict=False)
    told = ", ".join(unit.format(scale * one) for unit, scale, one in units)
    return line(family, name, len(judged), *both.split(" / "), *rest, f"{error:.3f}", told)


def reason_faults(found):
    """Families whose answer is not the one that the page gives reasons for."""
    for family in found:
        if f"- {family.name}: {family.answer}, as " not in page_text.REASONS:
            yield f"page_text.REASONS says another answer for {family.name} than {family.answer}"


REACHES = {
    published.ENCODERS: ROWS[Phase.ENCODE],
    published.PREFILL: ROWS[Phase.PREFILL],
    published.DECODE: ROWS[Phase.DECODE],
    published.CLIP: PAIRS,
}


def reach_faults(found):
    """Families whose rows are of other sizes than the package says."""
    for family in found:
        if family.name not in REACHES:
            continue
        cases = [one.case for one in family.judged[families.FEW] if families.is_fitted(one.case)]
        sizes = (
            [case.model.decoder.hidden for case in cases],
            [case.given.batch for case in cases],
            [
                case.given.tokens + case.given.past
                for case in cases
                if case.given.tokens > 1 or case.given.past
            ],
        )
        mine = Reach(*((min(one), max(one)) for one in sizes))
        if mine != REACHES[family.name]:
            yield f"{family.name}: rows reach {mine}, the package says {REACHES[family.name]}"


def other_faults(found, tolerance):
    """The factor of pairs, its spread and that of programs, where they are not of the rows."""
    pairs = next(one for one in found if one.name == published.CLIP)
    scaled, (fitted,) = pairs.judged[families.SCALED], pairs.fitted[families.SCALED]
    as_is = [
        np.log(1 + one.error)
        for family in found
        for one in family.judged.get(residuals.AS_IS, [])
        if families.is_fitted(one.case)
    ]
    pairs_spread = sigma([np.log(1 + one.error) for one in scaled])
    for name, mine, theirs in (
        ("factor of pairs", constants.PAIRS.factor, fitted),
        ("spread of pairs", constants.PAIRS.spread, pairs_spread),
        ("spread of programs", constants.PROGRAM_SPREAD, sigma(as_is)),
    ):
        if abs(float(mine) / theirs - 1) > tolerance:
            yield f"{name} is {mine:.3g} in the package, that of the rows {theirs:.3g}"


def wrapped(told, indent=""):
    """A paragraph, or an item of a list."""
    return "\n".join(textwrap.wrap(told, 100, subsequent_indent=indent))


def latency_words():
    """The latency of the package and today's fit, with the decode rows' errors at both."""
    known = programs.programs()
    rows = [one for one in known if one.case.kind == DECODE and one.exchanges]
    best_s, own_s = latency(known), float(start_s("trainium1"))
    sizes = [
        100 * np.median([abs(row.seconds(at) / row.case.published_s - 1) for row in rows])
        for at in (own_s, best_s)
    ]
    numbers = (1e6 * best_s, sizes[1], 1e6 * own_s, sizes[0])
    told = (
        "today's programs choose {:.0f} us, with a median error of {:.1f} %; at {:.0f} us {:.1f} %"
    )
    return {"latency": f"{1e6 * own_s:.0f}", "today": wrapped(told.format(*numbers))}


def training_words(trained):
    """The rows of training with a program, and their errors beside those of the answer."""
    kinds = TRAINING, SEVERAL
    programs_judged = [one for one in residuals.judged_programs() if one.row.case.kind in kinds]
    told = ", ".join(
        f"{one.row.case.row['id']} {100 * one.error:+.0f} %" for one in programs_judged
    )
    own, few = (
        np.quantile(np.abs([one.error for one in judged]), (0.5, 0.9))
        for judged in (programs_judged, trained)
    )
    errors = f"{100 * own[0]:.1f} % in the median, {100 * own[1]:.1f} % at P90"
    choice = (
        f"The few constants err less, by {100 * few[0]:.1f} and {100 * few[1]:.1f} %, and answer."
        if (few < own).all()
        else "The few constants answer: programs are not fitted to training yet."
    )
    return wrapped(
        f"Programs are compiled for {len(programs_judged)} rows of `rows.json`, each of one "
        f"release: {told}. They err by {errors}, with nothing fitted. {choice}"
    )


def sources_words(today):
    """How many rows are of programs from other sources than today's."""
    rows, _ = programs.read()
    counts = Counter(one.sources for one in rows.values())
    others = len(rows) - counts.pop(today[: programs.SHORT], 0)
    if not others:
        return ""
    runs = " and ".join(str(count) for _, count in counts.most_common())
    told = (
        f"**Programs are of other sources than today's** in {others} of {len(rows)} rows, by run "
        f"{runs}: statements of the compiler have changed since `make accuracy` priced them."
    )
    return wrapped(told) + "\n\n"


def program_cells(case_id, results):
    """Bound in ms, side, the program's ms, error and latency, and what the row says."""
    result = results.get(case_id)
    if result is None:
        return "", "", "", "", "", ""
    row = result.row
    bound_s, binds = row.bound
    why = model_why.sentence(case_id, bound_s / row.case.published_s)
    says = ". ".join(one for one in (row.case.says, why) if one)
    numbers = f"{1e3 * result.estimate_s:.4g}", f"{100 * result.error:+.1f}"
    return f"{1e3 * bound_s:.4g}", binds, *numbers, f"{100 * result.share:.1f}", says


def refused_lines():
    """A line for each row without a program."""
    _, refused = programs.read()
    return [line(name, why) for name, why in refused.items()]
