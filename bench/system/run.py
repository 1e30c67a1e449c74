"""Plans beside published figures: ``python bench/system/run.py --rows FILE``.

FILE is a JSON list of rows: `id`, `group`, `command` (a list: what follows ``trnsim``, without
``--json``), `path` (keys with dots between them in what it prints; `.max` and `.min` of a list),
`value` and `unit` of the published figure, and its `source`. For each group it prints how many rows
were answered, the median, the 90th percentile and the sign of their errors, and how many published
figures lie between P10 and P90. ``--keep FILE`` writes each group's coverage, median and P90;
``--against FILE`` fails where one of them is worse by more than 5 %.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trnsim.cli import app
from trnsim.errors import EmulatorError

SCALES = {
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "ns": 1e-9,
    "B": 1.0,
    "GB": 1e9,
    "GiB": 2.0**30,
}
"""Units of published figures in SI; any other is the command's own."""
ALL = "all"
_SHOWN = 160
"""Letters of a refusal."""
WORSE = 1.05
"""By what an error may exceed the kept one."""


@dataclass(frozen=True)
class Answer:
    """A row and what the command said.

    Attributes:
        row: the row.
        interval: P10, P50 and P90 in SI units; the same number three times where the command gives
            one; empty where it refused.
        why: the refusal.
    """

    row: dict
    interval: tuple[float, ...]
    why: str = ""

    @property
    def published(self):
        """The published figure in SI units."""
        return self.row["value"] * SCALES.get(self.row["unit"], 1.0)

    @property
    def error(self):
        """(answer - published) / published."""
        return self.interval[1] / self.published - 1

    @property
    def is_inside(self):
        """Whether the published figure lies between P10 and P90."""
        return self.interval[0] <= self.published <= self.interval[2]

    @property
    def width(self):
        """P10 to P90 as a share of the median."""
        return (self.interval[2] - self.interval[0]) / self.interval[1]


def answer(row):
    """What the command of a row says."""
    printed, said = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
            app([*row["command"], "--json"], standalone_mode=False)
        return Answer(row, interval_at(json.loads(printed.getvalue()), row["path"]))
    except EmulatorError as error:
        return Answer(row, (), str(error).splitlines()[0][:_SHOWN])
    except Exception as error:  # noqa: BLE001  one row must not end the others
        return Answer(row, (), f"{type(error).__name__}: {error}"[:_SHOWN])


def interval_at(found, path):
    """P10, P50 and P90 of what lies at a path."""
    for key in path.split("."):
        if key in ("max", "min") and isinstance(found, list):
            found = {"max": max, "min": min}[key](found, key=median)
        else:
            found = found[int(key)] if isinstance(found, list) else found[key]
    if isinstance(found, dict):
        return tuple(float(found[name]) for name in ("p10", "p50", "p90"))
    return (float(found),) * 3


def median(figure):
    """The median of a figure: a number, or P10, P50 and P90."""
    return figure["p50"] if isinstance(figure, dict) else figure


def summary(name, answers):
    """One line of the table: a group's coverage, errors and intervals."""
    said = [one for one in answers if one.interval]
    if not said:
        return f"{name:32} {0:4}/{len(answers):<4}"
    errors = np.array([one.error for one in said])
    inside = 100 * np.mean([one.is_inside for one in said])
    width = 100 * np.median([one.width for one in said])
    size = np.abs(errors)
    return (
        f"{name:32} {len(said):4}/{len(answers):<4} {100 * np.median(size):7.1f} "
        f"{100 * np.quantile(size, 0.9):7.1f} {100 * np.median(errors):+8.1f} {inside:9.0f} "
        f"{width:8.0f}"
    )


def grouped(answers):
    """Answers by group."""
    groups = {}
    for one in answers:
        groups.setdefault(one.row.get("group", ""), []).append(one)
    return groups


def table(answers):
    """All groups, and all rows together."""
    groups = grouped(answers)
    head = f"{'group':32} {'rows':>9} {'median%':>7} {'P90%':>7} {'signed%':>8} {'inside%':>9}"
    lines = [f"{head} {'width%':>8}"]
    lines += [summary(name, found) for name, found in sorted(groups.items())]
    return "\n".join([*lines, summary(ALL, answers)])


def figures(answers):
    """By group, how many rows are answered, and the median and P90 of their errors in percent."""
    found = {}
    for name, ones in grouped(answers).items():
        size = [abs(100 * one.error) for one in ones if one.interval]
        found[name] = {"answered": len(size)}
        if size:
            found[name]["median"] = round(float(np.median(size)), 2)
            found[name]["P90"] = round(float(np.quantile(size, 0.9)), 2)
    return found


def worsened(found, kept):
    """What is worse than it was kept, in words."""
    said = []
    for name, old in kept.items():
        new = found.get(name, {"answered": 0})
        if new["answered"] < old["answered"]:
            said.append(f"{name}: {new['answered']} rows answered, {old['answered']} before")
        said += [
            f"{name}: {what} of {new[what]} %, {old[what]} % before"
            for what in ("median", "P90")
            if what in new and what in old and new[what] > WORSE * old[what]
        ]
    return said


def main():
    """Answer every row of a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, required=True, help="the file of rows")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--each", action="store_true", help="print every row")
    parser.add_argument("--keep", type=Path, help="write coverage and errors of groups")
    parser.add_argument("--against", type=Path, help="fail where they are worse than these")
    asked = parser.parse_args()
    rows = json.loads(asked.rows.read_text(encoding="utf-8"))
    with ProcessPoolExecutor(asked.jobs) as pool:
        answers = []
        for one in pool.map(answer, rows):
            answers.append(one)
            if sys.stderr.isatty():
                sys.stderr.write(f"\r{len(answers)} of {len(rows)}")
    print(table(answers))
    for one in answers:
        if not one.interval:
            print(f"{one.row['id']}: no answer: {one.why}")
        elif asked.each:
            low, middle, high = one.interval
            print(
                f"{one.row['id']}: {middle:.4g} ({low:.4g} to {high:.4g}), published "
                f"{one.published:.4g}, {100 * one.error:+.1f} %"
            )
    found = figures(answers)
    if asked.keep:
        asked.keep.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    kept = json.loads(asked.against.read_text(encoding="utf-8")) if asked.against else {}
    worse = worsened(found, kept)
    for one in worse:
        print(f"worse: {one}", file=sys.stderr)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
