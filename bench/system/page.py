"""docs/generated/accuracy-models.md, and whether the package has the constants of the fits."""

from __future__ import annotations

import json
import sys
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path

import cases as published
import coverage
import families
import model_run
import numpy as np
import page_methods
import page_text
import residuals
from folds import sigma
from page_methods import line
from rows import reason
from training import trainings
from training_fit import judge as judge_training

from trnsim.arch.catalogue import catalogue
from trnsim.estimate import constants
from trnsim.estimate.cells import CELLS
from trnsim.estimate.choice import layer_times
from trnsim.workload.operators import Phase

PAGE = Path(__file__).parents[2] / "docs" / "generated" / "accuracy-models.md"
TARGETS = {
    published.DECODE: "5 / 15",
    published.PREFILL: "20 / 45",
    published.ENCODERS: "7 / 20",
    published.CLIP: "-",
    published.NETWORKS: "20 / 50",
    published.DIFFUSION: "20 / 50",
    "training": "12 / 25",
}
P90 = 1.2816
"""Sigmas between the median and P90."""
TOLERANCE = 0.02
"""By which a constant of the package may differ from its fit."""


def quantiles(judged):
    """Median and P90 of the size of errors, in percent."""
    size = 100 * np.abs([one.error for one in judged])
    return float(np.median(size)), float(np.quantile(size, 0.9))


def summary(name, count, judged, by):
    """A family's line of the first table."""
    if not judged:
        return line(name, f"0 of {count}", "-", "-", "-", TARGETS.get(name, ""), "-", "-", "-")
    median, high = quantiles(judged)
    signed = 100 * np.median([one.error for one in judged])
    inside = 100 * np.mean([one.is_inside for one in judged])
    width = 100 * np.median([one.width for one in judged])
    measured = f"{median:.1f}", f"{high:.1f}", TARGETS.get(name, ""), f"{signed:+.1f}"
    return line(name, f"{len(judged)} of {count}", by, *measured, f"{inside:.0f}", f"{width:.0f}")


def missed(summaries):
    """Which targets are missed, in words."""
    said = []
    for name, judged in summaries.items():
        if TARGETS.get(name, "-") == "-" or not judged:
            continue
        goals = [float(goal) for goal in TARGETS[name].split("/")]
        found = quantiles(judged)
        for what, goal, value in zip(("median", "P90"), goals, found, strict=True):
            if round(value, 1) > goal:
                said.append(f"{name}: {what} of {value:.1f} % for {goal:.0f} %")
    if not said:
        return "No target is missed."
    whole = f"**Targets missed:** {'; '.join(said)}."
    return "\n".join(textwrap.wrap(whole, 100))


def fold_lines(family):
    """A line for each architecture left out."""
    judged = family.judged[families.FEW]
    for name in sorted({one.case.architecture for one in judged}):
        own = [one for one in judged if one.case.architecture == name]
        median, _ = quantiles(own)
        signed = 100 * np.median([one.error for one in own])
        told = words(own[0].constants, family.name)
        yield line(family.name, name, len(own), f"{median:.1f}", f"{signed:+.1f}", told)


UNITS = {
    "products": (1, ".3f", "of the peak"),
    "inf2_products": (1, ".3f", "of that on Inferentia2"),
    "half_s": (1e6, ".1f", "us a half"),
    "inf2_half_s": (1e6, ".0f", "us a half on Inferentia2"),
    "sequence_s": (1e6, ".1f", "us a half for each sequence"),
    "cache_passes": (1, ".2f", "KV passes"),
    "score_s": (1e12, ".0f", "ps a score"),
    "call_s": (1e3, ".2f", "ms a call"),
}
FREE = {
    published.ENCODERS: (constants.NEURON[Phase.ENCODE], families.ENCODE_FREE),
    published.DECODE: (constants.NEURON[Phase.DECODE], families.DECODE_FREE),
    published.PREFILL: (constants.NEURON[Phase.PREFILL], families.PREFILL_FREE),
    published.NETWORKS: (constants.NETWORKS, ("products", "call_s")),
    published.DIFFUSION: (constants.DIFFUSION, ()),
}
"""Of each family: the package's constants, and which of them are fitted."""


def words(found, family):
    """The free constants of a family."""
    names = FREE[family][1] if family in FREE else ()
    told = []
    for name in names:
        scale, digits, unit = UNITS[name]
        told.append(f"{getattr(found, name) * scale:{digits}} {unit}")
    others = (
        "those of encoders and prompts" if family == published.DIFFUSION else "those of encoders"
    )
    return ", ".join(told) or others


def constant_lines(found, passes):
    """Fitted constants beside the package's, and those that differ."""
    lines, wrong = [], []
    for family in found:
        package, names = FREE.get(family.name, (None, ()))
        for name in names:
            scale, digits, unit = UNITS[name]
            mine, theirs = getattr(package, name), getattr(family.constants, name)
            lines.append(
                line(unit, family.name, f"{theirs * scale:{digits}}", f"{mine * scale:{digits}}")
            )
            if abs(mine / theirs - 1) > TOLERANCE:
                wrong.append(f"{family.name}: {name} is {mine:.4g}, its fit {theirs:.4g}")
    mine = constants.NEURON[Phase.TRAIN].element_passes
    lines.append(line("passes of elements", "training", f"{passes:.2f}", f"{mine:.2f}"))
    if abs(mine / passes - 1) > TOLERANCE:
        wrong.append(f"train.element_passes is {mine:.4g}, its fit {passes:.4g}")
    return lines, wrong


def spread_faults(spreads):
    """Spreads of the package that are not those of the errors."""
    return [
        f"{name}: spread is {package.spread}, its errors' {found:.3f}"
        for name, (package, found) in spreads.items()
        if abs(package.spread - found) > 0.01
    ]


def row_lines(found):
    """A line for each answered row."""
    results = {one.row.case.row["id"]: one for one in residuals.judged_programs()}
    for family in found:
        for one in family.chosen:
            low, high = one.interval_s
            figures = (one.case.published_s, one.estimate_s, low, high)
            bound_ms, binds, *program = page_methods.program_cells(one.case.id, results)
            yield line(
                one.case.id,
                one.case.row["kernel_or_model"],
                family.name,
                one.case.target,
                bound_ms,
                binds,
                *(f"{1e3 * figure:.4g}" for figure in figures),
                f"{100 * one.error:+.1f}",
                *program,
            )


def training_lines(judged):
    """A line for each configuration."""
    for one in judged:
        low, high = one.interval_s
        row = one.case.row
        figures = (one.case.published_s, one.estimate_s, low, high)
        apart = f"{len(row['releases'])}, {100 * row['spread']:.0f} % apart"
        flags = "; ".join(one.case.flags)
        error = f"{100 * one.error:+.1f}"
        yield line(one.case.id, *(f"{each:.4g}" for each in figures), error, apart, flags)


@dataclass(frozen=True)
class _Rank:
    """A rank of a chip."""

    chip: object
    lnc: int = 1

    @property
    def ranks_per_chip(self):
        """Ranks of its chip."""
        return self.chip.cores // self.lnc


CHIPS = {"trn1": "trainium1", "inf2": "inferentia2", "trn2": "trainium2"}


def rank_of(case):
    """The rank on which a case ran."""
    return _Rank(catalogue().accelerator(CHIPS[case.target]), case.lnc)


def trn2_lines():
    """A line for each row of Trainium2, which is extrapolated."""
    results = {one.row.case.row["id"]: one for one in residuals.judged_programs()}
    for case, told in published.extrapolated():
        times = layer_times(rank_of(case))
        estimate_s = case.seconds(times)
        factor = np.exp(P90 * times.forward(case.made[1], case.given).spread)
        figures = (case.published_s, estimate_s, estimate_s / factor, estimate_s * factor)
        error = 100 * (estimate_s / case.published_s - 1)
        program = results.get(case.id)
        errors = f"{error:+.1f}", "-" if program is None else f"{100 * program.error:+.1f}"
        yield line(case.id, *(f"{1e3 * each:.4g}" for each in figures), *errors, told)


def why(case):
    """Why a case has no answer here."""
    return reason(case) if case.family in published.IMAGES else case.why


def factor_line(found):
    """The factor of CLIP, beside the package's."""
    scaled = next(one for one in found if one.name == published.CLIP).fitted[families.SCALED]
    return line(
        "times as long as both towers",
        published.CLIP,
        f"{scaled[0]:.2f}",
        f"{constants.PAIRS.factor:.2f}",
    )


def with_intervals(judged):
    """Judged rows with the intervals of a fit that saw no row of their architecture."""
    half = {(one.family, one.id): one.half for one in coverage.kept() if one.cut == "architecture"}
    return [replace(one, spread=half[coverage.key(one.case)] / P90) for one in judged]


def coverage_words():
    """The tables of coverage, of weights and of cells."""
    judged = coverage.kept()
    weights = coverage.weights(json.loads(coverage.FILE.read_text(encoding="utf-8"))["scales"])
    return {
        "coverage": "\n".join(coverage.table(judged)),
        "worse": "\n".join(textwrap.wrap(coverage.worse_words(judged), 100)),
        "unjudged": coverage.unjudged_words(judged),
        "scales": "\n".join(line(name, f"{a:.3f}", f"{b:.3f}") for name, a, b in weights),
        "cells": "\n".join(
            line(
                *(one.kind, one.phase, one.chip, one.rows),
                *(f"{100 * one.median:.1f}", f"{100 * one.p90:.1f}"),
                *(span(one.batch), span(one.length), span(one.ranks)),
            )
            for one in CELLS
        ),
    }


def span(sizes):
    """A range in words."""
    low, high = sizes
    return "-" if not high else f"{low:,}" if low == high else f"{low:,} to {high:,}"


def text_of(found, trained, judged, passes):
    """The page, and what in the package is not as fitted."""
    for one in found:
        one.judged[one.answer] = with_intervals(one.chosen)
    judged = with_intervals(judged)
    summaries = {one.name: one.chosen for one in found} | {"training": judged}
    head, unanswered, folds = [], [], []
    for one in found:
        count = len(one.chosen) + len(one.unanswered)
        head.append(summary(one.name, count, one.chosen, one.answer))
        unanswered += [line(case.id, why(case)) for case in one.unanswered]
        folds += list(fold_lines(one))
    head.append(summary("training", len(trained), judged, families.FEW))
    every = [one for each in summaries.values() for one in each]
    asked = len(trained) + sum(len(one.chosen) + len(one.unanswered) for one in found)
    head.append(summary("all", asked, every, ""))
    unanswered += [line(f"{one.id}, {one.row['dtype']}", one.why) for one in trained if one.why]
    fitted, wrong = constant_lines(found, passes)
    few = {one.name: one.judged[families.FEW] for one in found} | {"training": judged}
    packages = {name: package for name, (package, _) in FREE.items()}
    packages["training"] = constants.NEURON[Phase.TRAIN]
    logs = {name: sigma([np.log(1 + one.error) for one in few[name]]) for name in packages}
    wrong += spread_faults({name: (packages[name], logs[name]) for name in packages})
    wrong += coverage.faults()
    refused = page_methods.refused_lines()
    wrong += page_methods.reason_faults(found)
    wrong += page_methods.reach_faults(found)
    wrong += page_methods.other_faults(found, 2 * TOLERANCE)
    return page_text.HEAD + "\n".join(head) + "\n" + page_text.TEXT.format(
        missed=missed(summaries),
        sources=page_methods.sources_words(model_run.Known().times),
        chips="\n".join(page_methods.chip_lines(found, judged)),
        ways="\n".join(page_methods.way_lines(found)),
        reasons=page_text.REASONS,
        constants="\n".join([*fitted, factor_line(found)]),
        folds="\n".join(folds),
        trained_programs=page_methods.training_words(judged),
        training="\n".join(training_lines(judged)),
        trn2_count=len(published.TRN2),
        trn2="\n".join(trn2_lines()),
        rows="\n".join(row_lines(found)),
        unanswered="\n".join(unanswered),
        refused_count=len(refused),
        refused="\n".join(refused),
        **page_methods.latency_words(),
        **coverage_words(),
    ), wrong


def main():
    """Write the page; fails where a constant of the package is not that of its fit."""
    found = families.families()
    encode = next(one.constants for one in found if one.name == published.ENCODERS)
    trained = trainings()
    judged, passes = judge_training([one for one in trained if not one.why], encode)
    text, wrong = text_of(found, trained, judged, passes)
    PAGE.write_text(text, encoding="utf-8")
    for one in wrong:
        print(one, file=sys.stderr)
    print(text[text.index("| family") : text.index("\n\n", text.index("| all"))])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
