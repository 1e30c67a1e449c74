"""The text of docs/generated/accuracy.md."""

from __future__ import annotations

from collections import defaultdict
from math import ceil, exp

import kernel_intervals as intervals
import numpy as np
from fit import SWITCHES

HEAD = """# How far the estimates are from published times

Written by `make accuracy UPSTREAM=folder`, from public kernels at the shapes of published times
(`bench/accuracy/rows.json` names the source of each). nkilib's times are the limits of its own
regression tests, which carry about 15 % noise. NKIBench's kernels are for NKI 0.1 and were
rewritten (`bench/accuracy/nkibench.py`). Errors are (estimate - published) / published."""

OUTSIDE = """
**A kernel of your own: half of the estimates are more than 29 % off.** An outside look measured ten
kernels of other people, which nobody here had seen: the median error was 29 %, and 4 of the 10
times lay in the intervals of that day. The figures below are of kernels that are known here: the
list of switches and the parts of the model were decided with all of these rows in sight, also where
constants are chosen without them.
"""

APART = """
A publication is left out with all that was chosen or fitted on its rows, and P10 and P90 are those
that the other publications give: kernels are *far* (`trnsim.timing.interval` says what that is),
and single instructions have intervals of their own. Not left out is what a publication taught about
the structure of the model. What that is worth shows where the part of the model that was made for
one is taken away; the growth of intervals with novelty comes from these:
"""

UNSEEN = """
Each figure of this section leaves a kernel out: one program (`bench/accuracy/fit.py`) chooses
switches and constants on the rows of the other kernels, and the estimate is compared with the rows
of this one. P10 and P90 are those that the other kernels give: for a kernel of nki-library the
errors of its other kernels (*near*), else those of all kernels (*far*).
"""

NOT_MODELLED = """## What is not modelled

`docs/limits.md` lists what estimates leave out, with the size of the possible error. The launch
differs between kernels, and no property of a program explains it: at LNC=2 22 us fit the
token-generation MLP, 25 the RMS norm, 30 attention, 40 the QKV projection and 44 the prefill MLP;
on one core 0, 17 and 23 us fit the first, the third and the last. The mean of kernels is used for
all, and its spread is in the interval.
"""

SIZES = ((100e-6, "under 100 us"), (1e-3, "100 us to 1 ms"), (float("inf"), "over 1 ms"))
"""Upper bounds of size classes in seconds."""


def size_of(held):
    """The size class of a row, by its published time."""
    return next(name for bound, name in SIZES if held.row.published_s < bound)


def error_of(held):
    """(estimate - published) / published."""
    return exp(-held.error) - 1


def up(percent):
    """The next whole number, of one decimal."""
    return ceil(round(percent, 1))


def us(seconds):
    """Microseconds with four figures."""
    return f"{seconds * 1e6:.4g}"


def words(errors):
    """Count, median, P90 and signed median of errors, in per cent."""
    sizes = np.abs(errors)
    return (
        f"{len(sizes)} | {np.median(sizes) * 100:.1f} | {np.percentile(sizes, 90) * 100:.1f} | "
        f"{np.median(errors) * 100:+.1f}"
    )


def held_words(held):
    """The same of rows left out, with the interval's share and width."""
    inside = 100 * np.mean([h.is_inside for h in held])
    width = 100 * np.median([h.width for h in held])
    return f"{words([error_of(h) for h in held])} | {inside:.0f} | {width:.0f}"


def table(title, groups, cells=held_words):
    """A table with a line for each group of results."""
    columns = ["rows", "median %", "P90 %", "signed median %"]
    columns += ["inside P10 to P90 %", "width %"] if cells is held_words else []
    head = f"| {title} | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}"
    return "\n".join([head, *(f"| {name} | {cells(found)} |" for name, found in groups), ""])


def grouped(results, name_of, order=()):
    """(name, results) of each group, in the order given or met."""
    groups = defaultdict(list, {name: [] for name in order})
    for result in results:
        groups[name_of(result)].append(result)
    return [(name, found) for name, found in groups.items() if found]


def family_of(result):
    """The family of a result."""
    return result.case.row["family"]


def kernels_of(held):
    """Those of kernels, not of single instructions."""
    return [h for h in held if not h.row.is_single]


def apart(rows):
    """What to expect of a kernel of one's own, and each publication left out."""
    held = intervals.held_by_publication(rows)
    parts = intervals.by((row for row in rows if row.without_s), lambda row: row.publication)
    told = [
        f"- {name}: {_median_error(own, lambda row: row.without_s)} % off in the median without "
        f"it, {_median_error(own, lambda row: row.estimate_s)} % with it"
        for name, own in parts.items()
    ]
    every = [
        ("**all kernels**", kernels_of(held)),
        ("**all single instructions and transfers**", [h for h in held if h.row.is_single]),
    ]
    return [
        "\n## What to expect",
        OUTSIDE,
        "## Each publication left out",
        APART,
        *told,
        "",
        table("publication left out", grouped(held, lambda h: h.row.publication) + every),
    ]


def _median_error(rows, estimate_of):
    """The median of |error| of some estimate of rows, in per cent."""
    return f"{100 * np.median([abs(estimate_of(row) / row.published_s - 1) for row in rows]):.1f}"


def unseen(rows):
    """What to expect of another kernel of a library whose kernels the model has seen."""
    held = intervals.held_by_kernel(rows)
    of_kernels = kernels_of(held)
    sizes = np.abs([error_of(h) for h in of_kernels])
    inside = np.mean([h.is_inside for h in of_kernels])
    medians = [
        np.median(np.abs([error_of(h) for h in own]))
        for _, own in grouped(of_kernels, lambda h: h.row.kernel)
    ]
    median, p90 = np.median(sizes) * 100, np.percentile(sizes, 90) * 100
    sizes_in_order = [name for _, name in SIZES]
    single = [("instructions", [h for h in held if h.row.is_single])]
    every = [("**all kernels**", of_kernels)]
    return [
        "## Each kernel left out\n",
        (
            f"**Half of the estimates are within {up(median)} % of the published time, nine of ten "
            f"within {up(p90)} %; {inside * 100:.0f} % of the published times lie in P10 to P90** ("
            f"{len(of_kernels)} times of {len(medians)} kernels). If each kernel counts once, "
            f"half of them have a median error of at most {up(np.median(medians) * 100)} %."
        ),
        UNSEEN,
        table("size", grouped(of_kernels, size_of, sizes_in_order) + every + single),
        table("bound by", grouped(of_kernels, lambda h: h.row.bound_by) + every),
        table("kernel left out", grouped(held, lambda h: h.row.kernel)),
        table("family", grouped(held, lambda h: h.row.family)),
    ]


def spreads(rows):
    """The figures behind intervals."""
    found = intervals.calibrate(rows)
    near = [
        f"- near, {name} on {core}: {spread * 100:.1f} % of all but the launch"
        for name, of_core in found.errors.near.items()
        for core, spread in of_core.items()
    ]
    return [
        "## The figures of intervals\n",
        "From all rows; the launch has the spread of its fact (`docs/generated/how-true.md`).\n",
        *near,
        f"- far: {found.errors.far * 100:.1f} % of all but the launch",
        f"- growth with novelty: {found.errors.growth:.2f}",
        (
            f"- a single instruction or transfer: P10 and P90 are the time over and times exp(h), "
            f"h = {found.single:.2f} * (1 + fixed / time), where fixed is access to operands and a "
            "semaphore, which a reading may contain or not\n"
        ),
    ]


def setting_words(setting):
    """A setting in words."""
    return ", ".join(f"{name} {option.words}" for name, option in setting.items())


def choices(best, settings):
    """The switches, and what was chosen with and without each kernel."""
    options = [
        f"- {switch.name}: {', '.join(option.words for option in switch.options)}"
        for switch in SWITCHES
    ]
    return [
        "## What is chosen\n",
        (
            "Method: coordinate descent over these options, starting from the first of each, which "
            "is shipped; the best has the least mean of |log(estimate / published)| over the rows "
            "of kernels with short programs, in which each kernel has its own launch. The launch "
            "of a setting is the mean of those that fit the rows of each kernel below 300 us best. "
            "The order of instructions is no option: AWS documents that its compiler schedules "
            "them. As one it was decided by attention alone, and cost attention, left out, 12 "
            "points at P90. All other constants are documented, measured or assumed: "
            "`docs/generated/how-true.md`.\n"
        ),
        *options,
        f"\nBest on all rows: {setting_words(best)}\n",
        *(f"- without {name}: {setting_words(setting)}" for name, setting in settings.items()),
        "",
    ]


def ablation_lines(found):
    """The table of what each part of the model does."""
    lines = []
    for words_of_it, cases, errors in found:
        by_kernel = defaultdict(list)
        for case, error in zip(cases, errors, strict=True):
            by_kernel[case.kernel].append(error)
        if not lines:
            lines = [
                "## Ablation\n",
                (
                    f"In sample, on the {len(errors)} rows of kernels with short programs and of "
                    "the tutorials for Trn1: the median and P90 of |error| with one part of the "
                    "model left out, then the signed median of each kernel, in per cent.\n"
                ),
                f"| without | median | P90 | {' | '.join(by_kernel)} |",
                f"|{'---|' * (len(by_kernel) + 3)}",
            ]
        sizes = np.abs(errors) * 100
        signed = " | ".join(f"{np.median(own) * 100:+.1f}" for own in by_kernel.values())
        both = f"{np.median(sizes):.1f} | {np.percentile(sizes, 90):.1f}"
        lines.append(f"| {words_of_it} | {both} | {signed} |")
    return [*lines, ""]


def counter_lines(counters):
    """The table of published figures that are no times."""
    lines = [
        "## Counters\n",
        (
            "Published figures that are no times: busy shares in per cent, HBM bytes, counts of "
            "instructions. The HFU of NKIBench counts float32 twice.\n"
        ),
        "| row | figure | published | estimate | ratio |",
        "|---|---|---|---|---|",
    ]
    for row, figure, value in counters:
        told = "not run" if value is None else f"{_in_units(row, value):.6g}"
        ratio = "" if value is None or not row["value"] else _ratio(row, value)
        lines.append(f"| {row['id']} | {figure} | {row['value']:.6g} | {told} | {ratio} |")
    return [*lines, ""]


def _in_units(row, value):
    """A figure in the unit of its row; the summary has seconds, per cent, bytes and counts."""
    return value * 1e3 if row["unit"].startswith("ms") else value


def _ratio(row, value):
    return f"{_in_units(row, value) / row['value']:.2f}"


def rows_left(left):
    """The rows that are not run, by reason."""
    by_reason = defaultdict(list)
    for name, reason in left.items():
        by_reason[reason].append(name)
    lines = [f"- {reason}: {', '.join(names)}" for reason, names in by_reason.items()]
    return ["## Rows that are not run\n", *lines, ""]


def row_lines(results, rows):
    """One line for each row."""
    lines = [
        "## Row by row\n",
        "| row | LNC | bound by | published us | estimate us | P10 | P90 | error % | left out % |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    found = intervals.calibrate(rows)
    for r in results:
        width = exp(found.half_width(r.error_row, r.error_row.publication))
        estimate_s = r.shipped.estimate_s
        times = (r.case.published_s, estimate_s, estimate_s / width, estimate_s * width)
        figures = f"{100 * r.error:+.1f} | {100 * r.unseen_error:+.1f}"
        lines.append(
            f"| {r.case.row['id']} | {r.case.cores} | {r.shipped.bound_by} | "
            f"{' | '.join(map(us, times))} | {figures} |"
        )
    return lines


def page(results, counters, left, chosen, ablation, rows):
    """The whole page; `chosen` is the best setting and those by kernel, `rows` those of errors."""
    groups = [*grouped(results, family_of), ("**all**", results)]
    parts = [
        HEAD,
        *apart(rows),
        *unseen(rows),
        *spreads(rows),
        *counter_lines(counters),
        "## In sample, with the shipped constants\n",
        table("family", groups, lambda found: words([r.error for r in found])),
        *choices(*chosen),
        *ablation_lines(ablation),
        NOT_MODELLED,
        *rows_left(left),
        *row_lines(results, rows),
    ]
    return "\n".join(parts) + "\n"
