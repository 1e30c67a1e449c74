"""Coverage and interval score of P10 to P90 by seven cuts: ``python bench/system/coverage.py``.

Each cut leaves rows out; constants *and* intervals are fitted to the others, and judged on what was
left out. The interval score is ``width + 2 / 0.2 x miss`` of logarithms (Gneiting and Raftery,
2007). Two other intervals stand beside: the one factor of each family that the package had before,
and one relative width for all. Writes coverage.json, from which page.py makes its tables, and
prints what in `trnsim.estimate.certainty` and `.cells` is not as fitted. With ``--loads`` servers
alone are judged anew. With ``--check`` nothing is written: rows that differ from coverage.json by
more than a thousandth are printed, and fail.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import cuts
import load_rows
import numpy as np
import refits
import serving_rows
from intervals import LEVEL, P90, SHARED, is_fitted, scales

from trnsim.estimate import certainty
from trnsim.estimate.cells import CELLS, Cell, Family
from trnsim.workload.kinds import ModelKind
from trnsim.workload.operators import Phase

FILE = Path(__file__).parent / "coverage.json"
FIGURES = ("error", "half", "before", "constant")
NEAR = 1e-3
BEFORE = 0.85
"""Of the errors of other architectures that the one factor of a family held before."""
BEFORE_ON_OTHER_CHIP = 0.30
"""One sigma that it added, in squares, on a chip without rows."""


@dataclass(frozen=True)
class Judged:
    """A row that was left out, and its intervals as half widths of a logarithm.

    Attributes:
        id: the row's.
        family: of constants.
        cut: the way in which it was left out.
        group: what was left out with it.
        error: logarithm of (estimate / published).
        half: that of the package's intervals.
        before: one factor of its family.
        constant: one relative width for all.
    """

    id: str
    family: str
    cut: str
    group: str
    error: float
    half: float
    before: float
    constant: float


def judge():
    """Every row in every cut, judged by what was fitted without it."""
    rows = refits.rows()
    found = []
    for cut, group, out in cuts.groups(rows):
        ids = {row.id for row in out}
        inner = cuts.residuals([row for row in rows if row.id not in ids])
        fitted = scales(inner)
        constant = float(np.quantile([one.size for one in inner], LEVEL))
        found += [
            Judged(
                *(one.answer.row.id, one.family, cut, group, one.answer.error),
                *(P90 * fitted.sigma(one), _before(one, inner), constant),
            )
            for one in cuts.left_out(rows, cut, group, out)
            if one.group in fitted.own
        ]
        print(cut, group, len(out), file=sys.stderr, flush=True)
    return found


def _before(residual, inner):
    own = [one for one in inner if one.family == residual.family]
    sizes = [one.size for one in own if one.cut == "architecture"] or [one.size for one in own]
    half = float(np.quantile(sizes, BEFORE))
    is_apart = residual.distance[0] or residual.distance[1]
    return float(np.hypot(half, P90 * BEFORE_ON_OTHER_CHIP)) if is_apart else half


def score(sizes, halves):
    """The mean interval score."""
    missed = np.maximum(np.array(sizes) - np.array(halves), 0)
    return float(np.mean(2 * np.array(halves) + 2 / (1 - LEVEL) * missed))


def inside(sizes, halves):
    """The part of errors within their half widths."""
    return float(np.mean(np.array(sizes) <= np.array(halves)))


def kept():
    """What the last run judged."""
    return [Judged(**one) for one in json.loads(FILE.read_text(encoding="utf-8"))["judged"]]


def key(case):
    """Family and id of the row of a case of inference or of training."""
    if hasattr(case, "config"):
        return refits.TRAINING, f"{case.id}, {case.row['dtype']}"
    return case.family, case.id


def unjudged_words(judged):
    """Rows that a cut leaves without any row of their family, and the cut without rows."""
    asked = [(cut, row.id) for cut, _, out in cuts.groups(refits.rows()) for row in out]
    found = {(one.cut, one.id) for one in judged}
    missing = Counter(cut for cut, name in asked if (cut, name) not in found)
    told = [f"{count} rows in the cut by {cut}" for cut, count in missing.items()]
    return f"{', '.join(told)}, whose family then has no row"


def line(name, judged):
    """A name's line of a table: rows, then inside, width and score of the three intervals."""
    sizes = [abs(one.error) for one in judged]
    cells = [name, len({one.id for one in judged}), len(judged)]
    for kind in ("half", "before", "constant"):
        halves = [getattr(one, kind) for one in judged]
        width = np.median([np.exp(one) - np.exp(-one) for one in halves])
        cells += [f"{100 * inside(sizes, halves):.0f}", f"{100 * width:.0f}"]
        cells += [f"{100 * score(sizes, halves):.0f}"]
    return "| " + " | ".join(map(str, cells)) + " |"


def table(judged):
    """Lines by cut, by family, and of all."""
    lines = [line(cut, [one for one in judged if one.cut == cut]) for cut in (*cuts.CUTS, "load")]
    families = sorted({one.family for one in judged})
    lines += [line(name, [one for one in judged if one.family == name]) for name in families]
    return [*lines, line("all", judged)]


def worse_words(judged):
    """Cuts and families whose intervals score worse than those before or than one width."""
    groups = {name: [one for one in judged if one.cut == name] for name in (*cuts.CUTS, "load")}
    groups |= {
        name: [one for one in judged if one.family == name]
        for name in sorted({one.family for one in judged})
    }
    told = []
    for name, own in groups.items():
        sizes = [abs(one.error) for one in own]
        half, *others = (
            round(100 * score(sizes, [getattr(one, kind) for one in own]))
            for kind in ("half", "before", "constant")
        )
        lower = [
            f"{other} {words}"
            for other, words in zip(others, ("before", "of one width"), strict=True)
            if other < half
        ]
        if lower:
            told.append(f"{name} ({half} beside {' and '.join(lower)})")
    if not told:
        return "**No cut and no family has a worse score** than with either of the others."
    return f"**The score is worse** than with one of the others in {', '.join(told)}."


BEFORE_ON_GPUS, BEFORE_ON_PORTS = 0.30, 0.31
"""One sigma of a step of GPUs, and of a step of decode on Trainium2, before."""
TOLERANCE = 0.005
"""By which a weight of the package may differ from its fit."""
CHIPS = {"trn1": "trainium1", "inf2": "inferentia2", "A100": "a100-80", "B200": "b200"}
"""Names of chips in the catalogue."""


def cells(residuals):
    """Published rows by cell, each judged without its architecture, as the package has them."""
    found = {}
    for one in residuals:
        row = one.answer.row
        if one.cut == "architecture":
            found.setdefault((row.kind, row.phase, row.chip), []).append(one)
    return tuple(
        Cell(
            *(ModelKind(kind), Phase(phase), CHIPS[chip], len(own)),
            *(round(float(one), 3) for one in np.quantile(_sizes(own), (0.5, 0.9))),
            *(_range(own, name) for name in ("batch", "length", "ranks")),
        )
        for (kind, phase, chip), own in found.items()
    )


def _sizes(residuals):
    return [abs(np.expm1(one.answer.error)) for one in residuals]


def _range(residuals, name):
    sizes = [getattr(one.answer.row, name) for one in residuals if is_fitted(one.answer.row)]
    return min(sizes), max(sizes)


def faults():
    """What in the package is not as the last run fitted it."""
    found = json.loads(FILE.read_text(encoding="utf-8"))
    for name, fitted, package in weights(found["scales"]):
        if abs(package - fitted) > TOLERANCE:
            yield f"certainty: {name} is {package:.3f}, its fit {fitted:.3f}"
    if sorted(repr(one) for one in CELLS) != found["cells"]:
        yield "cells: CELLS is not what coverage.py printed"


def weights(found):
    """(name, fitted, the package's) of every weight."""
    for family, scale in certainty.SCALES.items():
        if family in found["factors"]:
            own = found["own"][SHARED.get(family, family)]
            yield f"sigma, {family}", own, float(scale.sigma)
            yield f"factor, {family}", found["factors"][family], float(scale.factor)
    yield "scores", found["scores"], float(certainty.SCALES[Family.PREFILL].scores)
    package = {
        "core": certainty.CORE,
        "chip": certainty.CHIP,
        "batch": certainty.BATCH,
        "length": certainty.LENGTH,
        "ranks": certainty.RANKS,
    }
    for name, fitted in found["features"].items():
        yield name, fitted, float(package[name])


def judge_loads(judged):
    """The rows of more than eight users, whose constants are of rows with fewer."""
    constant = float(np.median([one.constant for one in judged]))
    for row, name, error, half in load_rows.loaded():
        family = load_rows.family(row, load_rows.NAMES[name])
        before = P90 * (BEFORE_ON_PORTS if row["state"] == serving_rows.PORTED else BEFORE_ON_GPUS)
        ids = f"{row['id']}-{name[:4]}", str(family)
        yield Judged(*ids, "load", "above 8 users", error, half, before, constant)


def main():
    """Judge, keep and print; fails where the package is not as fitted."""
    if "--loads" in sys.argv:
        kept_before = json.loads(FILE.read_text(encoding="utf-8"))
        judged = [one for one in kept() if one.cut != "load"]
        made = [one for one in kept_before["cells"] if one not in kept_before["served"]]
        fitted = kept_before["scales"]
    else:
        residuals = cuts.residuals(refits.rows())
        judged, made = judge(), list(map(repr, cells(residuals)))
        fitted = vars(scales(residuals))
    judged += judge_loads(judged)
    served = sorted(map(repr, load_rows.cells()))
    if "--check" in sys.argv:
        return _compared(judged)
    lines = {
        "scales": json.dumps(_rounded(fitted)),
        "served": json.dumps(served, indent=1),
        "cells": json.dumps(sorted([*made, *served]), indent=1),
        "judged": "[\n" + ",\n".join(json.dumps(_rounded(vars(one))) for one in judged) + "\n]",
    }
    text = ",\n".join(f'"{name}": {one}' for name, one in lines.items())
    FILE.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")
    print("\n".join(table(judged)))
    wrong = list(faults())
    for one in wrong:
        print(one, file=sys.stderr)
    if wrong:
        print(lines["scales"], *made, *served, sep="\n", file=sys.stderr)
    return 1 if wrong else 0


def _compared(judged):
    """Print the rows that coverage.json has otherwise, or lacks; 1 if there are any."""
    rows = json.loads(FILE.read_text(encoding="utf-8"))["judged"]
    known = {(row["id"], row["cut"], row["group"]): row for row in rows}
    wrong = []
    for row in map(vars, judged):
        old = known.pop((row["id"], row["cut"], row["group"]), None)
        names = () if old is None else [name for name in FIGURES if not _is_near(row, old, name)]
        if old is None or names:
            wrong.append(f"{row['id']} ({row['cut']} {row['group']}): {', '.join(names) or 'new'}")
    wrong += [f"{' '.join(map(str, key))}: judged no more" for key in known]
    print(*wrong, f"{len(judged)} rows, {len(wrong)} differ from {FILE.name}", sep="\n")
    return 1 if wrong else 0


def _is_near(row, old, name):
    return abs(row[name] - old[name]) <= NEAR


def _rounded(values):
    """Values with numbers of five decimals."""
    if isinstance(values, dict):
        return {name: _rounded(one) for name, one in values.items()}
    return round(float(values), 5) if isinstance(values, float) else values


if __name__ == "__main__":
    sys.exit(main())
