"""`make accuracy`: published times against estimates, row by row: docs/generated/accuracy.md.

usage: run.py FOLDER

FOLDER holds clones of nki-library and aws-neuron-sdk. Three steps: each kernel is recorded once
(`recording`), priced with the shipped constants and with those of each fold (`pricing`, `fit`), and
the page is written. What the first two found is kept in build/accuracy, so that an interrupted run
goes on where it was, and a changed constant runs no kernel again.

The errors of all rows go to errors.json beside this file, and what intervals need of them
(`kernel_intervals`) to src/trnsim/timing/errors.json.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import builders
import fit
import kernel_intervals as intervals
import micro
import publications
import published
import recording
import report
from pricing import COUNTERS, Case, Prices, Shipped

from trnsim.files import write

QUICK_BYTES = 2_000_000
"""Largest recording on which choices are made: about 16,000 instructions."""
LONG = ("matmul tutorial (Trn1)", "mamba")
"""Kernels whose long programs are in the ablation too: a part of the model is for them alone."""
GENERATED = Path(__file__).parents[2] / "docs" / "generated"
ERRORS = Path(__file__).with_name("errors.json")
SHIPPED_ERRORS = Path(__file__).parents[2] / "src" / "trnsim" / "timing" / "errors.json"


@dataclass
class Result:
    """A time with what was estimated for it.

    Attributes:
        case: the row.
        shipped: the estimate with the shipped constants.
        unseen_s: the estimate with what was chosen without the row's kernel.
        apart_s: the estimate with what was chosen and fitted without its publication.
        without_s: the estimate without the part of the model made for that; 0 where there is none.
    """

    case: Case
    shipped: Shipped
    unseen_s: float
    apart_s: float = 0.0
    without_s: float = 0.0

    @property
    def error(self):
        """(estimate - published) / published, with the shipped constants."""
        return self.shipped.estimate_s / self.case.published_s - 1

    @property
    def unseen_error(self):
        """The same with what was chosen without the row's kernel."""
        return self.unseen_s / self.case.published_s - 1

    @property
    def error_row(self):
        """The row for intervals."""
        case = self.case
        return intervals.ErrorRow(
            id=case.row["id"],
            family=case.row["family"],
            kernel=case.kernel,
            publication=publications.publication_of(case.row),
            target=case.target,
            is_single=case.is_single,
            published_s=case.published_s,
            estimate_s=self.shipped.estimate_s,
            unseen_s=self.unseen_s,
            apart_s=self.apart_s,
            without_s=self.without_s,
            bound_by=self.shipped.bound_by,
            shares=self.shipped.shares,
        )


def why_not(row):
    """Why a row's time is not run; "" where it is."""
    if published.is_single(row):
        return "" if row["id"] in micro.MEASURES else published.LEFT_OUT["instr"]
    return "" if builders.is_run(row) else published.LEFT_OUT[published.kernel_of(row)]


def cases_of(rows, folder):
    """The cases of the rows that run, and the reasons of the others by row id."""
    left = {row["id"]: why_not(row) for row in rows}
    able = [row for row in rows if not left[row["id"]]]
    recording.record_all(able, folder)
    cases = []
    for row in able:
        found = recording.heading(row, folder)
        left[row["id"]] = found.refusal and f"refused: {found.refusal}"
        if not found.refusal:
            is_quick = recording.size_bytes(row) <= QUICK_BYTES
            key = recording.key(row)
            cases.append(Case(row, key, found.target, found.cores, folder, is_quick))
    return cases, {name: reason for name, reason in left.items() if reason}


def is_constant(case):
    """Whether the estimate of a row is a constant of the core, which is read from that row."""
    return case.is_single and not micro.MEASURES[case.row["id"]].launches


def counters(rows, results):
    """(row, figure, estimated value or None) of every row that is no time."""
    by_id = {r.case.row["id"].removesuffix("-device_latency"): r for r in results}
    for row in rows:
        if not published.is_time(row):
            run = max((i for i in by_id if row["id"].startswith(f"{i}-")), key=len, default="")
            figure = COUNTERS[row["metric"]]
            yield row, figure, by_id[run].shipped.counters.get(figure) if run else None


def ablation(cases, prices):
    """(words, cases, errors of some kernels) with each part of the model left out."""
    some = [case for case in cases if not case.is_single and (case.is_quick or case.kernel in LONG)]
    settings = [{"without": option} for option in fit.WITHOUT]
    prices.prepare(some, settings)
    for option, setting in zip(fit.WITHOUT, settings, strict=True):
        errors = [prices.seconds(case, setting) / case.published_s - 1 for case in some]
        yield option.words, some, errors


def estimates(cases, prices, chosen):
    """The results of all cases; `chosen` has what was chosen without each kernel."""
    names = dict.fromkeys(publications.publication_of(case.row) for case in cases)
    settings = {}
    for name in names:
        others = [case for case in cases if publications.publication_of(case.row) != name]
        settings[name] = publications.apart(name, fit.choose(others, prices))
    for number, case in enumerate(cases, 1):
        publication = publications.publication_of(case.row)
        without = publications.without_part(publication)
        shipped = prices.shipped(case)
        without_s = prices.seconds(case, without) if without and not case.is_single else 0.0
        yield Result(
            case,
            shipped,
            chosen[case.kernel][1][case.row["id"]],
            prices.seconds(case, settings[publication]),
            without_s if without_s != shipped.estimate_s else 0.0,
        )
        told = f"\restimated {number}/{len(cases)} {case.row['id']}\x1b[K"
        print(told, end="", file=sys.stderr)
    print(file=sys.stderr)


def main():
    """Run every row and write the page."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1]).resolve()
    recording.CACHE.mkdir(parents=True, exist_ok=True)
    recording.forget_older(folder)
    os.chdir(folder / "nki-library")  # its tests look for files here
    rows = published.rows()
    times = [row for row in rows if published.is_time(row)]
    cases, left = cases_of(times, folder)
    prices = Prices()
    best = fit.choose(cases, prices)
    chosen = fit.leave_one_out(cases, prices)
    results = list(estimates(cases, prices, chosen))
    settings = {kernel: setting for kernel, (setting, _) in chosen.items()}
    judged = [result.error_row for result in results if not is_constant(result.case)]
    write(ERRORS, intervals.lines_of(judged))
    rows_of_errors = intervals.stored(ERRORS)
    write(SHIPPED_ERRORS, intervals.shipped_text(rows_of_errors))
    text = report.page(
        results,
        list(counters(rows, results)),
        left,
        (best, settings),
        ablation(cases, prices),
        rows_of_errors,
    )
    write(GENERATED / "accuracy.md", text)
    print(text[: text.index("## Row by row")])


if __name__ == "__main__":
    main()
