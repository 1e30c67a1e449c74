"""The bounds of published times beside an oracle that cuts nothing.

usage: model_bounds.py [--only WORD] [--kept]

It goes over every published row and prints what the oracle counts, what the bound counts, the
bound, the published time, and the share that the bound is of it. It fails where

- a published time, or the time of its program (programs.json), is below its bound;
- the bound is less than a third of the published time, and bounds.json does not say why, or what
  it says is left out (`model_gaps`) does not make up a third together with the bound, or the row
  that it is compared with is no nearer to its bound;
- the bound counts more than the oracle (tests/lower/bound_oracle.py), or half of it or less;
- the oracle of a transformer is not what its configuration says by a formula (closed_flop).

`--only` takes rows whose id, class or model has the word, `--kept` those whose graphs are made.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from functools import cache

import model_run
import programs
from closed_flop import closed_flop
from graphs import FACTS
from model_estimate import Estimate, exchange_s, least
from model_fit import Row
from model_gaps import gaps
from model_rows import cases
from model_why import LEAST, WHY, pattern_of, sentence

from trnsim.fabric.constants import start_s

sys.path.append(str(model_run.ROOT / "tests" / "lower"))
import bound_oracle

LATENCY_S = float(start_s("trainium1"))
"""Of a small exchange inside an instance: the constant that is fitted to published rows."""
CUT = 0.5
"""What no published model's outputs leave out of what its operations compute."""


@dataclass(frozen=True)
class Figures:
    """What a part computes and moves.

    Attributes:
        flop: by the oracle.
        nbytes: by the oracle.
        closed: by the configuration; None where there is no formula.
        least: the bound.
        gaps: what the bound leaves out, in seconds.
    """

    flop: float
    nbytes: int
    closed: float | None
    least: Estimate
    gaps: dict[str, float]


@dataclass(frozen=True)
class Line:
    """A row's figures.

    Attributes:
        case: the row.
        parts: what its parts compute, each once.
        estimate_s: of the program; None where there is none.
    """

    case: object
    parts: list
    estimate_s: float | None

    def total(self, of):
        """A figure of all parts, as often as they run."""
        pairs = zip(self.case.parts, self.parts, strict=True)
        return sum(part.times * of(found) for part, found in pairs)

    @property
    def row(self):
        """The row with the bounds of its parts."""
        return Row(self.case, [found.least for found in self.parts])

    @property
    def bound_s(self):
        """The row's bound."""
        return self.row.bound[0]

    @property
    def share(self):
        """Of the published time."""
        return self.bound_s / self.case.published_s

    def gap(self, name):
        """An account of what the bound leaves out, as a share of the published time."""
        if name == "update":
            return self.row.update_s(LATENCY_S) / self.case.published_s
        total_s = self.total(lambda part: part.gaps[name])
        if name == "array":
            total_s -= self.total(lambda part: part.least.products_s)
        return max(total_s, 0.0) / self.case.published_s

    @property
    def explained(self):
        """The share of the published time that the bound and the sentence's accounts are."""
        return self.share + sum(map(self.gap, WHY[self.why]["by"]))

    @property
    def why(self):
        """The pattern of the sentence that says why the share is small; "" if there is none."""
        return pattern_of(self.case.row["id"])

    def faults(self):
        """What must not be."""
        bound_s, published_s = self.bound_s, self.case.published_s
        if published_s < bound_s:
            yield f"published {published_s:.4g} s is below its bound of {bound_s:.4g} s"
        if self.estimate_s is not None and self.estimate_s < bound_s:
            yield f"the estimate of {self.estimate_s:.4g} s is below its bound of {bound_s:.4g} s"
        if self.share < LEAST and not self.why:
            yield f"the bound is {self.share:.1%} of the time, and bounds.json does not say why"
        elif self.share < LEAST and WHY[self.why]["by"] and self.explained < LEAST:
            yield f"with {', '.join(WHY[self.why]['by'])} it is {self.explained:.1%} of the time"
        for part, found in zip(self.case.parts, self.parts, strict=True):
            yield from (f"{part.words}: {fault}" for fault in _faults_of(found))


def _faults_of(found):
    """Of a part beside the oracle."""
    least_flop, least_bytes = found.least.flop, found.least.hbm_bytes
    if not CUT * found.flop < least_flop <= found.flop:
        yield f"the bound counts {least_flop:.4g} FLOP of {found.flop:.4g}"
    if not CUT * found.nbytes < least_bytes <= found.nbytes:
        yield f"the bound counts {least_bytes:.4g} bytes of {found.nbytes:.4g}"
    if found.closed is not None and found.closed != found.flop:
        yield f"{found.flop:.6g} FLOP; by the configuration {found.closed:.6g}"


def _alone(line, shares):
    """Of a row without accounts, which is compared with another."""
    beside = WHY[line.why].get("beside") if line.why else None
    if beside in shares and shares[beside] <= line.share:
        yield f"{line.case.row['id']}: {beside} is no nearer to its bound"


def estimates():
    """Times of programs in seconds, by row id."""
    return {one.case.row["id"]: one.seconds(LATENCY_S) for one in programs.programs()}


class Counted:
    """Figures of parts, each counted once."""

    def __init__(self):
        self.known = model_run.Known()

    def is_kept(self, case):
        """Whether all graphs of a row are made."""
        return all(self.known.graph_path(part.spec).exists() for part in case.parts)

    def of(self, case):
        """Figures of a row's parts."""
        options = case.target, case.lnc, case.cast
        return [self.figures(json.dumps(part.spec), *options) for part in case.parts]

    @cache  # noqa: B019  one object, as long as the program
    def figures(self, spec, target, lnc, cast):
        """Figures of a part."""
        given = json.loads(spec)
        made = self.known.graph(given)
        is_cast = cast != "none"
        short = made.weights if is_cast else ()
        found = least(made, target, lnc, cast)
        exchanges_s = sum(exchange_s(one, target, LATENCY_S) for one in found.exchanges)
        config = FACTS[given["name"]].get("config", {})
        return Figures(
            bound_oracle.flop(made.graph),
            bound_oracle.nbytes(made.graph, short),
            closed_flop(config, given),
            found,
            {"exchanges": exchanges_s, **gaps(made.graph, target, lnc, is_cast)},
        )


HEADS = (
    *("row", "oracle GFLOP", "bound GFLOP", "oracle MB", "bound MB"),
    *("bound ms", "published ms", "estimate ms", "share %"),
)


GAPS = ("exchanges", "array", "elements", "scores", "update")
"""Accounts of what a bound leaves out: those of `model_gaps`, and a training step's update."""


def cells(line):
    """A row of the table."""
    estimate = "" if line.estimate_s is None else f"{line.estimate_s * 1e3:.4g}"
    return (
        line.case.row["id"],
        f"{line.total(lambda part: part.flop) / 1e9:.4g}",
        f"{line.total(lambda part: part.least.flop) / 1e9:.4g}",
        f"{line.total(lambda part: part.nbytes) / 1e6:.4g}",
        f"{line.total(lambda part: part.least.hbm_bytes) / 1e6:.4g}",
        f"{line.bound_s * 1e3:.4g}",
        f"{line.case.published_s * 1e3:.4g}",
        estimate,
        f"{line.share * 100:.1f}{' *' if line.share < LEAST else ''}",
    )


def asked():
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--kept", action="store_true")
    return parser.parse_args()


def main():
    """Print every row, and what is wrong."""
    given, counted, known = asked(), Counted(), estimates()
    chosen = [case for case in cases() if not case.left_out and given.only in model_run.words(case)]
    lines, faults = [], []
    print(f"| {' | '.join(HEADS)} |\n{'|---' * len(HEADS)}|")
    for case in chosen:
        if given.kept and not counted.is_kept(case):
            continue
        lines.append(Line(case, counted.of(case), known.get(case.row["id"])))
        print(f"| {' | '.join(cells(lines[-1]))} |", flush=True)
        faults += [f"{case.row['id']}: {fault}" for fault in lines[-1].faults()]
    shares = {line.case.row["id"]: line.share for line in lines}
    low = [line for line in lines if line.share < LEAST]
    print_low(low)
    faults += [fault for line in low for fault in _alone(line, shares)]
    if not (given.only or given.kept):
        used = {line.why for line in low}
        faults += [f"bounds.json: no row needs {one}" for one in WHY if one not in used]
    print(f"{len(lines)} rows, {len(faults)} faults", file=sys.stderr)
    sys.exit("\n".join(faults) if faults else 0)


def print_low(lines):
    """Rows far below their bounds: what the bound leaves out, and the sentences."""
    print("\n* below a third; what the bound leaves out, in per cent of the published time:\n")
    print(f"| row | bound | {' | '.join(GAPS)} | why |\n{'|---' * (len(GAPS) + 3)}|")
    for line in lines:
        figures = " | ".join(f"{100 * one:.1f}" for one in (line.share, *map(line.gap, GAPS)))
        name = line.case.row["id"]
        print(f"| {name} | {figures} | {sentence(name, line.share)} |")


if __name__ == "__main__":
    main()
