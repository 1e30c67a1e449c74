"""docs/generated/compiled-models.md: every architecture of models.md as programs of the compiler.

What is known already is kept in build/compiled-models.jsonl, so that a stopped run goes on where it
stopped: delete it to begin anew, or ask for some rows again, by how they end or by architecture
(`--again fails`).
"""

import argparse
import logging
import re
import subprocess
import time
import warnings
from collections import Counter
from functools import cache
from pathlib import Path

import captured
import numpy as np
import tiny
import torch
import torch._inductor.lowering  # what PyTorch imports when it splits the first graph
import transformers
from each import AT_ONCE, line, rows_of, stored

from trnsim import compiler
from trnsim.compiler import program
from trnsim.compiler.flags import Flags
from trnsim.errors import EmulatorError, NotModelled
from trnsim.formatting import enumerated
from trnsim.torch.compile.fx_import import import_graph
from trnsim.torch.compile.refused import refusals_of_graph

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "generated" / "compiled-models.md"
TRIED, KNOWN = ROOT / "docs" / "generated" / "models.md", ROOT / "build" / "compiled-models.jsonl"
CHIP = "trn2"
VALUES_EVERY = 7  # architectures, of which the values of one are computed
LEVEL = 1  # of optimization: no other schedule is tried, which changes large programs alone
MOST = 30_000  # instructions of a program whose values are computed
FLAGS = Flags(optlevel=LEVEL)
NEAR = 1e-3  # of the largest number: what float32 leaves after thousands of operations
HALF = 0.5
NOTHING = 1e-6  # below this the largest number of a graph counts as zero
ROW = re.compile(r"\| (?P<kind>[^|]+) \| `\w+` \|.*\| (?P<untimed>[^|]*) \|$")


def outcome(kind):
    """What became of an architecture, as a row of the page."""
    try:
        name, built = tiny.build(kind)
    except tiny.CannotBuild as error:
        return {"kind": kind, "end": "not built", "why": line(error)}
    row = {"kind": kind, "class": name, "commit": commit(), "level": LEVEL}
    start = time.process_time()
    graphs, why = captured.whole(built)
    if why is not None:  # values decide what runs: in pieces then
        row["in pieces"] = f"{type(why).__name__}: {line(why)}"
        graphs, why = captured.pieces(built)
    if why is not None:
        row["why"] = f"{type(why).__name__}: {line(why)}"
    if not graphs:
        return row | {"end": "not traced"}
    row["traced_s"] = time.process_time() - start
    has_values = kinds().index(kind) % VALUES_EVERY == 0
    parts = [compiled(one, has_values=has_values) for one in graphs]
    return row | {"end": end_of(row, parts), "graphs": parts}


@cache
def commit():
    """The commit that is checked out, in short."""
    asked = ["git", "-C", str(ROOT), "rev-parse", "--short=10", "HEAD"]
    return subprocess.run(asked, capture_output=True, check=True, text=True).stdout.strip()


def end_of(row, parts):
    """How an architecture ends: by its worst graph."""
    ends = {part["end"] for part in parts}
    for one in ("fails", "refused", "kernels", "split"):
        if one in ends:
            return one
    return "split" if "in pieces" in row else "one program"


def compiled(one, *, has_values):
    """What became of a graph."""
    start = time.process_time()
    imported = import_graph(one.module)
    weights = frozenset(list(imported.names)[: one.weights])
    codes = sorted(
        {f"{r.code} {r.subject}"[:120] for r in refusals_of_graph(imported, CHIP, FLAGS)}
    )
    row = {"graph": one.kind, "operations": len(imported.graph.nodes), "codes": codes}
    row["missing"] = list(imported.missing)
    try:
        made = compiler.compile(imported.graph, CHIP, weights=weights, flags=FLAGS)
    except NotModelled as error:
        return row | {"end": "refused", "why": line(error)}
    except EmulatorError as error:
        return row | {"end": "refused", "why": f"{type(error).__name__}: {line(error.reason)}"}
    except Exception as error:  # noqa: BLE001  a defect, which stands on the page
        return row | {"end": "fails", "why": f"{type(error).__name__}: {line(error)}"}
    if has_values:
        row |= values_of(one, imported, weights, made)
    end = "kernels" if made.notes else "split" if made.programs > 1 else "one program"
    return row | {
        "end": "split" if imported.missing and end == "one program" else end,
        "said": [line(said) for said in made.notes],
        "programs": made.programs,
        "instructions": made.instructions,
        "device_time_s": made.device_time_s,
        "over_bound": made.bound_ratio if np.isfinite(made.bound_ratio) else 0,
        "seconds": time.process_time() - start,
    }


def values_of(one, imported, weights, made):
    """The difference of a program's values from the reference's, where it is short and whole."""
    arrays = one.arrays(imported)
    is_short = made.instructions <= MOST and made.programs <= 1 and not made.notes
    if not is_short or imported.missing or arrays is None:
        return {}
    if any(node.operation.name == "rng" for node in imported.graph.nodes):
        return {}
    start = time.process_time()
    try:
        found = program.evaluate_program(imported.graph, arrays, CHIP, weights)
    except Exception as error:  # noqa: BLE001  a defect, which stands on the page
        return {"no values": f"{type(error).__name__}: {line(error)}"}
    with np.errstate(all="ignore"):
        wanted = imported.graph.reference(arrays)
    off = difference(found, wanted)
    row = {"difference": off, "values_s": time.process_time() - start}
    if off > NEAR:
        row["one unit off"] = difference(imported.graph.reference(moved(arrays)), wanted)
    return row


def moved(arrays):
    """The arrays with each number of float32 one unit in its last place up or down."""
    chance = np.random.default_rng(0)
    return [
        np.nextafter(one, np.where(chance.random(one.shape) < HALF, -np.inf, np.inf).astype("f"))
        if one.dtype == np.float32
        else one
        for one in arrays
    ]


def difference(found, wanted):
    """The largest difference, relative to the largest number of the tensor that it is in.

    A tensor that is zero but for rounding is measured by a thousandth of the graph's largest.
    """
    wide = [np.nan_to_num(one.astype(np.float64), posinf=0, neginf=0) for one in wanted]
    sizes = [np.abs(one).max(initial=0) for one in wide]
    least = max(max(sizes, default=0) / 1000, NOTHING)
    worst = 0.0
    for ours, theirs, size in zip(found, wanted, sizes, strict=True):
        mine, other = ours.astype(np.float64), theirs.astype(np.float64)
        if not np.array_equal(np.isfinite(mine), np.isfinite(other)):
            return float("inf")
        apart = np.abs(np.nan_to_num(mine) - np.nan_to_num(other)).max(initial=0)
        worst = max(worst, apart / max(size, least))
    return worst


def kinds():
    """The architectures that run on the device, in the order of their page."""
    return [one["kind"] for one in rows_tried()]


def timed_kinds():
    """Those of them with a time for every operator."""
    return {one["kind"] for one in rows_tried() if not one["untimed"].strip()}


def rows_tried():
    found = (ROW.match(one) for one in TRIED.read_text(encoding="utf-8").splitlines())
    return [one for one in found if one]


def page(rows, tried):
    """The page: counts, each architecture, and why the others are no one program each."""
    ends = Counter(row["end"] for row in rows)
    whole = [row for row in rows if row["end"] == "one program"]
    values = {row["kind"]: off for row in rows if (off := difference_of(row)) is not None}
    others = [row for row in rows if row["end"] != "one program"]
    reasons = Counter(why for row in others for why in dict.fromkeys(reasons_of(row)))
    timed = timed_kinds()
    commits = Counter(made_at(row) for row in rows)
    return "\n".join(
        [
            HEAD.format(
                version=transformers.__version__,
                tried=tried,
                known=len(rows),
                whole=len(whole),
                split=ends["split"],
                kernels=ends["kernels"],
                refused=ends["refused"] + ends["not traced"],
                fails=ends["fails"] + ends["not built"],
                values=len(values),
                near=sum(off <= NEAR for off in values.values()),
                limit=NEAR,
                beyond=beyond(rows, values),
                every=VALUES_EVERY,
                level=LEVEL,
                commits=enumerated(
                    [f"{one} ({count})" for one, count in commits.most_common()], "and"
                ),
                timed=len(timed),
                timed_known=sum(row["kind"] in timed for row in rows),
                timed_whole=sum(row["kind"] in timed for row in whole),
                chip=CHIP,
            ),
            "| architecture | forward: operations, instructions, us | backward | difference |",
            "|---|---|---|---|",
            *(line_of(row, values.get(row["kind"])) for row in whole),
            "",
            "## What splits the others",
            "",
            "| code or cause | operator | architectures |",
            "|---|---|---|",
            *(f"| {code} | {name} | {count} |" for (code, name), count in reasons.most_common()),
            "",
            "| architecture | | programs | difference | why |",
            "|---|---|---|---|---|",
            *(other_of(row, values.get(row["kind"])) for row in others),
            "",
        ]
    )


HEAD = """# Compiled models

This page has the architectures of [Models](models.md) as programs for {chip}. A tiny model of each,
of transformers {version}, is traced as torch.compile traces it, and its forward and its backward
graph are each compiled with -O{level}, which tries one schedule alone, or with the level that the
list of commits names. `tests/clients/compiled_models.py` writes this page. Rows by commit:
{commits}.

Of {tried} architectures, {known} were compiled so far. {whole} of these are one program for each
pass. {split} are split into several programs, because values decide what runs or the host computes
an operator. {kernels} have a part that is kernels one after another; {refused} are refused; {fails}
fail or take too long.

Of the {timed} architectures with a time for every operator, {timed_known} were compiled so far, and
{timed_whole} of them are one program for each pass.

For {values}, one in {every} architectures, the programs also computed values, instruction by
instruction, which are compared with the reference of each operation at full precision. The
difference is the largest of all outputs, gradients and tensors kept for them, relative to the
largest number of its tensor, or to a thousandth of the graph's largest, if that is more. For {near}
it is at most {limit:.0e}.{beyond} An operand outside the chip's defined range, such as the
logarithm of a 0 that is not chosen afterwards, stops the computation, as it does in `exact`.
"""


def made_at(row):
    """The commit of a row, and its level where that is the default."""
    level = "" if row.get("level") == LEVEL else ", -O2"
    return row.get("commit", "an earlier one") + level


def beyond(rows, values):
    """A sentence on the larger differences, each with the effect of one unit of the inputs."""
    found = []
    for row in rows:
        if values.get(row["kind"], 0) > NEAR:
            moves = max(part.get("one unit off", 0) for part in row["graphs"])
            found.append(f"{row['kind']} ({values[row['kind']]:.1e}; {moves:.1e})")
    if not found:
        return ""
    return (
        " The others, each with the change of the reference itself if its inputs change by one "
        f"unit in the last place: {', '.join(found)}."
    )


def parts_of(row, kind):
    return [part for part in row.get("graphs", ()) if part["graph"] == kind]


def difference_of(row):
    """The largest of a row's graphs; None where none was computed."""
    return max((p["difference"] for p in row.get("graphs", ()) if "difference" in p), default=None)


def pass_of(row, kind):
    """Operations, instructions and time of a pass."""
    made = [part for part in parts_of(row, kind) if "instructions" in part]
    sums = [sum(part[key] for part in made) for key in ("operations", "instructions")]
    time_us = sum(part["device_time_s"] for part in made) * 1e6
    return f"{sums[0]:,}, {sums[1]:,}, {time_us:,.0f}" if made else ""


def shown_of(row, off):
    """A difference; what stopped the values where there are none."""
    stopped = [part["no values"] for part in row.get("graphs", ()) if "no values" in part]
    return stopped[0].partition(";")[0].replace("|", "/") if stopped else format_of(off)


def format_of(off):
    return "" if off is None else f"{off:.0e}"


def line_of(row, off):
    passes = pass_of(row, "forward"), pass_of(row, "backward")
    return f"| {row['kind']} | {passes[0]} | {passes[1]} | {shown_of(row, off)} |"


def other_of(row, off):
    programs = sum(part.get("programs", 0) for part in row.get("graphs", ()))
    why = "; ".join(f"{code} {name}".strip() for code, name in dict.fromkeys(reasons_of(row)))
    return f"| {row['kind']} | {row['end']} | {programs} | {shown_of(row, off)} | {why} |"


def reasons_of(row):
    """What splits an architecture or stands in its way: code or cause, and operator."""
    found = []
    if "in pieces" in row:
        operator = re.search(r"aten[.:]+(\w+)", row["in pieces"])
        named = f"`{operator[1]}`" if operator else ""
        found.append(("a value decides what runs", named))
    for part in row.get("graphs", ()):
        found += [(code.split()[0], f"`{code.split()[1]}`") for code in part["codes"]]
        found += [(said, "") for said in part.get("said", ())]
        if part["end"] in ("fails", "refused"):
            found.append((part["why"].replace("|", "/"), ""))
    if not found:
        found.append((row.get("why", row["end"]).replace("|", "/"), ""))
    return found


def arguments():
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--again", nargs="+", default=[], help="make anew rows that end so")
    parser.add_argument("--only", nargs="+", default=[], help="these architectures alone")
    parser.add_argument("--every", type=int, default=1, help="one of so many architectures")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="processes")
    return parser.parse_args()


if __name__ == "__main__":
    asked = arguments()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    commit()  # that of the sources which are read now
    with torch.no_grad():  # the modules that all need, before the processes part
        compiled(captured.whole(tiny.build("llama")[1])[0][0], has_values=False)
    chosen = asked.only or kinds()[:: asked.every]
    rows_of(chosen, outcome, KNOWN, asked.again, asked.at_once, late="fails")
    known = stored(KNOWN)
    rows = [known[kind] for kind in kinds() if kind in known]
    PAGE.write_text(page(rows, len(kinds())), encoding="utf-8")
    print(f"wrote {PAGE.name}")
